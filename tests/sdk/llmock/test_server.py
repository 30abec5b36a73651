"""A whole server against a provider that we did not write: llmock breaks its answers and judges how its client bears it.

What is judged is what a provider sees of us: that retry-after is waited out, that half an answer is no answer, that
what cannot be mended is not asked again, and that nobody is stormed. Each scenario ends as our users would want it.
"""

import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("SANDBOX_PROGRAM", ROOT / "target" / "debug" / "longhaul"))
LLMOCK = Path(os.environ.get("LLMOCK_PROGRAM", ROOT / "target" / "sdk" / "llmock" / "bin" / "llmock"))
PATIENCE = 60

# What the machine's user has configured is not for tests.
for name in list(os.environ):
    if name.startswith(("LONGHAUL_", "LLMOCK_", "OTEL_")) or name.lower().endswith("_proxy"):
        del os.environ[name]


def call(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        return json.load(response)


def until(what, is_so):
    """Asks until something is so: neither program wakes those who wait for it."""
    deadline = time.monotonic() + PATIENCE
    while not (found := is_so()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


class Provider:
    """llmock, on a port that was free a moment ago."""

    def __init__(self, folder):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [LLMOCK, "serve", "--port", str(port), "--response-style", "varied"]
        self.process = subprocess.Popen(command, stdout=open(folder / "llmock.log", "w"), stderr=subprocess.STDOUT)
        until("llmock does not start", self._answers)

    def _answers(self):
        try:
            return call("GET", f"{self.url}/_llmock/scenario") is not None
        except OSError:
            return False

    def script(self, *behaviors):
        call("POST", f"{self.url}/_llmock/scenario", {"behaviors": list(behaviors)})

    def verdict(self):
        return call("GET", f"{self.url}/_llmock/verdict")


class Server:
    """A server with a Postgres of its own."""

    def __init__(self, folder, provider):
        ready = folder / "ready.json"
        command = [PROGRAM, "dev", "--ready-file", ready, "--data-dir", folder / "data"]
        for face in ("grpc", "http", "sandbox"):
            command += [f"--{face}-addr", "127.0.0.1:0"]
        settings = {
            "LONGHAUL_MODEL_BASE_URL": f"{provider.url}/anthropic",
            "LONGHAUL_MODEL_API_KEY": "any",
            # Its list of models is not the provider's.
            "LONGHAUL_MODEL_LIST_SECONDS": "0",
        }
        self.process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=open(folder / "server.log", "w"), stderr=subprocess.STDOUT)
        until("the server does not start", lambda: ready.exists() or self.process.poll() is not None)
        assert self.process.poll() is None, (folder / "server.log").read_text()
        self.url = json.loads(ready.read_text())["http"]

    def run(self, job_id, **step):
        """A job of one step, once it has ended; what it asks is its own, or the judge takes it for another try."""
        steps = [{"type": "run", "prompt": f"Write a line about {job_id}.", **step}]
        call("POST", f"{self.url}/webhook/durable-job", {"job_id": job_id, "task": job_id, "steps": steps})
        def ended():
            job = call("POST", f"{self.url}/webhook/durable-job-control", {"job_id": job_id, "action": "status"})["job"]
            return job if job["status"] in ("completed", "failed") else None
        return until(f"{job_id} does not end", ended)


@pytest.fixture(scope="module")
def world():
    # Postgres does not run as root, and whom it runs as must be able to reach its data.
    with tempfile.TemporaryDirectory(prefix="longhaul-llmock-") as folder:
        os.chmod(folder, 0o755)
        provider = Provider(Path(folder))
        server = Server(Path(folder), provider)
        yield provider, server
        for process in (server.process, provider.process):
            process.terminate()
        assert server.process.wait(timeout=PATIENCE) == 0
        provider.process.wait(timeout=PATIENCE)


SCENARIOS = {
    "a busy provider that says when": [{"type": "fail", "status": 429, "retry_after": 2}],
    "an overloaded provider": [{"type": "fail", "status": 529, "times": 2}],
    "a provider with a fault": [{"type": "fail", "status": 500}],
    "a stream without its end": [{"type": "stream_fault", "kind": "truncate", "after_chunks": 3}],
    "a connection that breaks": [{"type": "stream_fault", "kind": "disconnect", "after_chunks": 2}],
    "a piece that is no JSON": [{"type": "stream_fault", "kind": "malformed", "after_chunks": 3}],
    "a stream that stands still": [{"type": "stream_fault", "kind": "stall", "stall_seconds": 20}],
    "a slow beginning": [{"type": "slow_first_token", "seconds": 0.5}],
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_job_outlasts(world, scenario):
    provider, server = world
    provider.script(*SCENARIOS[scenario])
    job = server.run(scenario.replace(" ", "-"), idle_timeout_seconds=1)
    assert job["status"] == "completed", job["status_message"]
    assert job["output"]


def test_what_cannot_be_mended_is_asked_once(world):
    provider, server = world
    for status in (400, 401, 403, 404):
        provider.script({"type": "fail", "status": status})
        job = server.run(f"refused-{status}")
        assert (job["status"], job["reason"]) == ("failed", "PROVIDER_REJECTED"), job


def test_the_judge_has_nothing_to_say(world):
    provider, _ = world
    verdict = provider.verdict()
    assert verdict["calls"] >= len(SCENARIOS) + 4 and verdict["faults_injected"] > 0, verdict
    # A ping or an end that is broken holds nothing of the answer, and the judge does not know which event it broke;
    # and two pauses with their jitter can look alike.
    chance = ("malformed_chunk_ignored", "no_backoff")
    findings = [one for one in verdict["findings"] if one["code"] not in chance]
    assert (verdict["passed"], findings) == (True, []), findings
