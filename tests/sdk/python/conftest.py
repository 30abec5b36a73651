"""A sandbox for each test, and clients that talk to it, unpatched.

The provider's own client comes from its makers; pywa is a client of WhatsApp that others wrote.

Nothing sleeps to let something happen: a fault holds what is to wait, the journal tells what has come.
"""

import json
import os
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import anthropic
import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("SANDBOX_PROGRAM", ROOT / "target" / "debug" / "longhaul"))
PHONE_NUMBER_ID = "106540352242922"
MODEL = "claude-haiku-5-5"
QUESTION = "Name three risks of a Friday deployment."

# What the machine's user has configured is not for tests.
for name in list(os.environ):
    if name.startswith(("LONGHAUL_", "ANTHROPIC_", "OTEL_")) or name.lower().endswith("_proxy"):
        del os.environ[name]


class Sandbox:
    """A running sandbox: its address, its faults and its journal."""

    def __init__(self, folder):
        ready = folder / "ready.json"
        command = [PROGRAM, "sandbox", "--addr", "127.0.0.1:0", "--ready-file", ready]
        with open(folder / "log", "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while not ready.exists():
            assert self.process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, "the sandbox does not start"
            time.sleep(0.005)
        self.url = json.loads(ready.read_text())["sandbox"]

    def break_model(self, *faults):
        """Replaces the faults of the model provider; what was held by the old ones goes on."""
        self._call("POST", "faults", {"model": list(faults)})

    def break_whatsapp(self, *faults):
        """Replaces the faults of WhatsApp."""
        self._call("POST", "faults", {"whatsapp": list(faults)})

    def add_template(self, **template):
        """Has a template approved."""
        self._call("POST", "whatsapp/templates", template)

    def write(self, person, **writing):
        """Has a person write or tap; answers what was written, once the webhook has answered."""
        writing = {"from": person, "phone_number_id": PHONE_NUMBER_ID, **writing}
        return self._call("POST", "whatsapp/inbound", writing)

    def messages(self, at_least=0):
        """The messages that people got, once there are so many."""
        found = self._call("GET", f"whatsapp/messages?at_least={at_least}")["messages"]
        assert len(found) >= at_least, found
        return found

    def open_chat(self, to):
        """Opens a person's chat on the phone."""
        query = urllib.parse.urlencode({"to": to})
        with urllib.request.urlopen(f"{self.url}/phone?{query}", timeout=60) as response:
            assert response.status == 200

    def mend(self):
        """Lets everything go well again."""
        self._call("DELETE", "faults")

    def set(self, **settings):
        """Changes settings."""
        self._call("POST", "settings", settings)

    def requests(self, at_least=0, **wanted):
        """The journaled requests, once there are so many that fit."""
        query = "&".join(f"{name}={value}" for name, value in wanted.items())
        found = self._call("GET", f"model/requests?at_least={at_least}&{query}")["requests"]
        assert len(found) >= at_least, found
        return found

    def close(self):
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.url}/_sandbox/{path}"
        request = urllib.request.Request(url, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)


@pytest.fixture
def sandbox(tmp_path):
    sandbox = Sandbox(tmp_path)
    yield sandbox
    sandbox.close()


@pytest.fixture
def client(sandbox):
    with anthropic.Anthropic(
        base_url=sandbox.url, api_key="sk-test-secret", max_retries=0, timeout=60
    ) as client:
        yield client


def question(**more):
    """The parameters of a request."""
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": MODEL, "max_tokens": 500, "messages": messages, **more}
