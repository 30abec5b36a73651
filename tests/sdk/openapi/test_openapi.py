"""Schemathesis, which we did not write, holds a whole server to its own OpenAPI document.

It sends what the document allows and what it forbids, to every operation, and judges status, type, headers and body of each
answer. It is seeded and bounded, so that each run does the same in about a minute, and the database goes with its folder.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("SANDBOX_PROGRAM", ROOT / "target" / "debug" / "longhaul"))
SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
FOLDER = Path(__file__).resolve().parent
LENIENT = '"query.lenient" = "false"'
SEED = 20261130
PATIENCE = 60

# What the machine's user has configured is not for tests.
for name in list(os.environ):
    if name.startswith(("LONGHAUL_", "OTEL_", "SCHEMATHESIS_")) or name.lower().endswith("_proxy"):
        del os.environ[name]


def until(what, is_so):
    """Asks until something is so: a file wakes nobody."""
    deadline = time.monotonic() + PATIENCE
    while not (found := is_so()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def server():
    # Postgres does not run as root, and whom it runs as must be able to reach its data.
    with tempfile.TemporaryDirectory(prefix="longhaul-openapi-") as name:
        folder = Path(name)
        os.chmod(folder, 0o755)
        ready = folder / "ready.json"
        command = [PROGRAM, "dev", "--ready-file", ready, "--data-dir", folder / "data"]
        for face in ("grpc", "http", "sandbox"):
            command += [f"--{face}-addr", "127.0.0.1:0"]
        log = open(folder / "server.log", "w")
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        until("the server does not start", lambda: ready.exists() or process.poll() is not None)
        assert process.poll() is None, (folder / "server.log").read_text()
        yield json.loads(ready.read_text())["http"]
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0


def judge(server, folder, *more, config=FOLDER / "schemathesis.toml"):
    """Runs it over the document; all of its output is told if it finds anything."""
    command = [SCHEMATHESIS, "--config-file", config, "run"]
    command += [f"{server}/openapi.json", "--seed", str(SEED), "--workers", "2", *more]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout[-20000:] + run.stderr[-5000:]
    return run.stdout


def test_a_server_is_as_its_document_says(server, tmp_path):
    judge(server, tmp_path, "--phases", "examples,coverage,fuzzing", "--max-examples", "30")


def test_so_it_is_where_mistakes_are_softened(server, tmp_path):
    config = (FOLDER / "schemathesis.toml").read_text()
    assert LENIENT in config
    lenient = tmp_path / "lenient.toml"
    lenient.write_text(config.replace(LENIENT, '"query.lenient" = "true"'))
    judge(server, tmp_path, "--phases", "examples,fuzzing", "--max-examples", "20", "--include-tag", "jobs",
          "--exclude-checks", "negative_data_rejection", config=lenient)


def test_a_server_that_was_judged_still_works(server):
    body = {"job_id": "after", "steps": [{"type": "run", "prompt": "Say something."}]}
    request = urllib.request.Request(
        f"{server}/webhook/durable-job?wait=30", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        assert json.load(response)["status"] == "completed"
