"""What the clients are proved against: one real server, reached through a line that can be cut.

The server is the program itself on a Postgres that the caller brings; the provider is the sandbox. Clients reach it
through a relay that knows nothing of what it carries, as it is or with TLS around it; another relay only swallows.
They ask over HTTP for what happens to clients in the world: POST /cut breaks every connection, POST /restart kills the
server with kill -9 and starts it again. GET /scenario?client=NAME answers what is to be done, with names that are that
client's own.
"""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE_SECONDS = 60


def surroundings():
    """The environment without what this machine's user has configured, and without a proxy on the way to this machine."""
    foreign = ("LONGHAUL_", "OTEL_")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(foreign) and not name.lower().endswith("_proxy")
    }


class Server:
    """A server and its sandbox; the server can be killed and comes back at the same addresses."""

    def __init__(self, program, database_url, folder):
        self.program, self.folder = program, folder
        self.lock = threading.Lock()
        self.environment = {**surroundings(), "LONGHAUL_DATABASE_URL": database_url}
        self.processes = []
        sandbox = self._start("sandbox", "--addr", "127.0.0.1:0")["sandbox"]
        self.environment |= {
            "LONGHAUL_MODEL_BASE_URL": sandbox,
            "LONGHAUL_MODEL_API_KEY": "sandbox",
            "LONGHAUL_GRPC_ADDR": "127.0.0.1:0",
            "LONGHAUL_HTTP_ADDR": "127.0.0.1:0",
        }
        self.addresses = self._serve()
        self.environment |= {
            "LONGHAUL_GRPC_ADDR": self.addresses["grpc"],
            "LONGHAUL_HTTP_ADDR": urllib.parse.urlsplit(self.addresses["http"]).netloc,
        }
        self.port = int(self.addresses["grpc"].rpartition(":")[2])
        made = self.command("key", "create", "conformance", "--scope", "admin", "--json")
        self.key = json.loads(made)["key"]
        self.environment["LONGHAUL_API_KEY"] = self.key

    def command(self, *arguments):
        """Runs a command of the program and answers what it printed."""
        done = subprocess.run(
            [self.program, *arguments],
            env=self.environment,
            text=True,
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"longhaul {arguments} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def said(self):
        """The last that the server said."""
        return (self.folder / "serve.log").read_text(encoding="utf-8")[-20_000:]

    def _serve(self):
        addresses = self._start("serve")
        self.serving = self.processes[-1]
        return addresses

    def _start(self, *arguments):
        ready = self.folder / f"{arguments[0]}.json"
        ready.unlink(missing_ok=True)
        with open(self.folder / f"{arguments[0]}.log", "a", encoding="utf-8") as log:
            command = [self.program, *arguments, "--ready-file", ready]
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self.processes.append(process)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                said = (self.folder / f"{arguments[0]}.log").read_text(encoding="utf-8")
                raise RuntimeError(f"longhaul {arguments[0]} does not start:\n{said}")
            time.sleep(0.01)
        return json.loads(ready.read_text(encoding="utf-8"))

    def restart(self, how=signal.SIGKILL):
        """Ends the server and starts it again; answers once it serves."""
        with self.lock:
            self.serving.send_signal(how)
            self.serving.wait(PATIENCE_SECONDS)
            self.processes.remove(self.serving)
            self._serve()

    def stop(self):
        """Ends everything."""
        for process in self.processes:
            process.kill()
            process.wait()


class Relay:
    """Carries bytes between clients and the server until it is cut; without a port, to nobody."""

    def __init__(self, loop, port, context=None):
        self.loop, self.port, self.lines = loop, port, set()
        carry = self._carry if port else self._swallow
        start = asyncio.start_server(carry, "127.0.0.1", 0, ssl=context)
        listening = asyncio.run_coroutine_threadsafe(start, loop).result(PATIENCE_SECONDS)
        self.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"

    async def _carry(self, reader, writer):
        lines = {writer}
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self.port)
            lines.add(there)
            self.lines |= lines
            ways = (self._copy(reader, there), self._copy(there_reader, writer))
            tasks = [asyncio.create_task(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
        except OSError:
            pass
        self.lines -= lines
        for line in lines:
            line.transport.abort()

    async def _swallow(self, reader, writer):
        """What a peer is like that takes everything and answers nothing."""
        try:
            while await reader.read(65536):
                pass
        except OSError:
            pass
        writer.transport.abort()

    async def _copy(self, source, target):
        try:
            while piece := await source.read(65536):
                target.write(piece)
                await target.drain()
        except OSError:
            pass

    def cut(self):
        """Breaks every connection there is."""

        async def abort():
            for line in list(self.lines):
                line.transport.abort()

        asyncio.run_coroutine_threadsafe(abort(), self.loop).result(PATIENCE_SECONDS)


def scenario(client):
    """The scenario with this client's names, and its long texts at their length."""

    def expanded(part):
        match part:
            case {"$repeat": [text, times]}:
                return text * times
            case dict():
                return {name: expanded(value) for name, value in part.items()}
            case list():
                return [expanded(value) for value in part]
            case str():
                return part.replace("$client", client)
            case _:
                return part

    return expanded(json.loads((HERE / "scenario.json").read_text(encoding="utf-8")))


def control(server, relays):
    """Serves what clients ask of the world; answers its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = urllib.parse.urlsplit(self.path)
            client = urllib.parse.parse_qs(path.query)["client"][0]
            self._answer(scenario(client) if path.path == "/scenario" else {})

        def do_POST(self):
            match self.path:
                case "/cut":
                    for relay in relays:
                        relay.cut()
                case "/restart":
                    server.restart()
                case _:
                    self.send_error(404)
                    return
            self._answer({})

        def _answer(self, answer):
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{listening.server_port}"


def certificates(folder):
    """An authority's certificate, and a TLS context with one that it signed for localhost."""
    ca, ca_key, cert, key = (folder / name for name in ("ca.pem", "ca.key", "cert.pem", "cert.key"))
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    openssl("req", "-x509", *new_key, "-subj", "/CN=conformance", "-keyout", ca_key, "-out", ca)
    request, extensions = folder / "request.pem", folder / "extensions"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n", encoding="utf-8")
    openssl("req", *new_key[:-2], "-subj", "/CN=localhost", "-keyout", key, "-out", request)
    signing = ["-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "30", "-extfile", extensions]
    openssl("x509", "-req", "-in", request, *signing, "-out", cert)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.set_alpn_protocols(["h2"])
    return ca, context
