"""What a whole server sends to its endpoints, verified by the library of Standard Webhooks, which we did not write.

The server has a Postgres of its own; the endpoints are a small HTTP server here that keeps what came.
"""

import base64
import http.server
import json
import os
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("SANDBOX_PROGRAM", ROOT / "target" / "debug" / "longhaul"))
PATIENCE = 60

# What the machine's user has configured is not for tests.
for name in list(os.environ):
    if name.startswith(("LONGHAUL_", "OTEL_")) or name.lower().endswith("_proxy"):
        del os.environ[name]


def secret(byte):
    return "whsec_" + base64.b64encode(bytes([byte]) * 32).decode()


NEW, OLD, OTHER = secret(1), secret(2), secret(3)


def call(url, body):
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def until(what, is_so):
    """Asks until something is so: a file wakes nobody."""
    deadline = time.monotonic() + PATIENCE
    while not (found := is_so()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


class Receiver(http.server.BaseHTTPRequestHandler):
    heard = []
    answers = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Receiver.heard.append((dict(self.headers), body))
        self.send_response(Receiver.answers.pop(0) if Receiver.answers else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    # Postgres does not run as root, and whom it runs as must be able to reach its data.
    with tempfile.TemporaryDirectory(prefix="longhaul-webhook-") as name:
        folder = Path(name)
        os.chmod(folder, 0o755)
        book = folder / "book.toml"
        url = f"http://127.0.0.1:{receiver.server_port}/hook"
        book.write_text(f"[endpoints.ops]\nurl = '{url}'\nsecret = '{NEW}'\nsecret_old = '{OLD}'\n")
        ready = folder / "ready.json"
        command = [PROGRAM, "dev", "--ready-file", ready, "--data-dir", folder / "data"]
        for face in ("grpc", "http", "sandbox"):
            command += [f"--{face}-addr", "127.0.0.1:0"]
        environment = {**os.environ, "LONGHAUL_ADDRESS_BOOK": str(book)}
        log = open(folder / "server.log", "w")
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        until("the server does not start", lambda: ready.exists() or process.poll() is not None)
        assert process.poll() is None, (folder / "server.log").read_text()
        yield json.loads(ready.read_text())["http"]
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0
    receiver.shutdown()


def told(server, job_id, steps, count):
    Receiver.heard.clear()
    job = {"job_id": job_id, "task": "为一款记账App写推广文案", "steps": steps, "settings": {"webhooks": ["ops"]}}
    call(f"{server}/webhook/durable-job", job)
    until(f"{job_id} is not told", lambda: len(Receiver.heard) >= count)
    return list(Receiver.heard)


@pytest.mark.parametrize("key", [NEW, OLD])
def test_the_library_verifies_what_a_server_sent(server, key):
    steps = [{"type": "approval", "note": "请审核\u2028\u202e😀"}]
    [(headers, body)] = told(server, f"verified-{key[-5]}", steps, 1)
    payload = Webhook(key).verify(body, headers)
    assert payload["type"] == "approval.requested"
    assert payload["data"]["note"] == steps[0]["note"]
    assert payload["data"]["approvers"][0]["approve_url"].startswith("http")


def test_the_library_refuses_what_was_changed_or_is_of_another(server):
    [(headers, body)] = told(server, "changed", [{"type": "wait", "duration_seconds": 0}], 1)
    for key, sent in ((OTHER, body), (NEW, body.replace(b"completed", b"cancelled"))):
        with pytest.raises(WebhookVerificationError):
            Webhook(key).verify(sent, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(NEW).verify(body, {**headers, "Webhook-Id": "another"})


def test_each_try_is_signed_anew_under_the_same_id(server):
    Receiver.answers.append(503)
    heard = told(server, "again", [{"type": "wait", "duration_seconds": 0}], 2)
    ids = {headers["webhook-id"] for headers, _ in heard}
    assert len(ids) == 1
    for headers, body in heard:
        assert Webhook(NEW).verify(body, headers)["data"]["job_id"] == "again"
