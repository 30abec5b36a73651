#!/usr/bin/env python3
"""Proves the clients against one real server: run.py PROGRAM DATABASE_URL CLIENT...

Each client goes through the scenario, its README's example and its example program; then all of them watch one job
while the server is killed or stopped twenty times, and none may miss an event or see one twice.
A client is a folder beside this one with a program `conform`, which takes `scenario`, `readme`, `example` or
`follow JOB_ID`. LONGHAUL_SERVER, LONGHAUL_API_KEY and LONGHAUL_CA_FILE are set as for every client, and for the scenario
LONGHAUL_CONFORMANCE names whom to ask for it, LONGHAUL_TLS_SERVER the same server behind TLS and
LONGHAUL_SILENT_SERVER one that never answers.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from host import PATIENCE_SECONDS, Relay, Server, certificates, control, surroundings

CLIENTS = Path(__file__).resolve().parent.parent
RESTARTS = 20


class World:
    """Everything that the clients run against."""

    def __init__(self, program, database_url, folder):
        self.folder = folder
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        self.server = Server(program, database_url, folder)
        ca, context = certificates(folder)
        self.relays = [Relay(loop, self.server.port), Relay(loop, self.server.port, context)]
        plain, tls, silent = (relay.address for relay in [*self.relays, Relay(loop, None)])
        self.environment = surroundings() | {
            "LONGHAUL_SERVER": f"http://{plain}",
            "LONGHAUL_API_KEY": self.server.key,
            "LONGHAUL_CA_FILE": str(ca),
            "LONGHAUL_TLS_SERVER": f"https://{tls}",
            "LONGHAUL_SILENT_SERVER": f"http://{silent}",
            "LONGHAUL_CONFORMANCE": control(self.server, self.relays),
        }

    def start(self, client, *arguments, **more):
        """Starts a client."""
        command = [CLIENTS / client / "conform", *arguments]
        return subprocess.Popen(command, env=self.environment, text=True, start_new_session=True, **more)

    def prove(self, client, what):
        """Runs a client to its end and tells how long it took; answers whether it went well."""
        started = time.monotonic()
        process = self.start(client, what, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            said, _ = process.communicate(timeout=5 * PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()[0] + "\nit did not end"
        went_well = process.returncode == 0
        if not went_well:
            print(said)
        took = time.monotonic() - started
        print(f"{client:12} {what:9} {'ok' if went_well else 'FAILED'}, {took:.1f} s", flush=True)
        return went_well

    def call(self, *arguments):
        """Calls the server through the command line."""
        return self.server.command(*arguments, "--server", self.server.addresses["grpc"])


class Follower:
    """A client that watches a job and prints the sequence of each event as it comes."""

    def __init__(self, world, client, job_id):
        self.client, self.seen = client, []
        self.came = threading.Condition()
        self.log = open(world.folder / f"{client}.log", "w+", encoding="utf-8")
        self.process = world.start(client, "follow", job_id, stdout=subprocess.PIPE, stderr=self.log)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.came:
                self.seen.append(int(line))
                self.came.notify_all()

    def reach(self, sequence):
        """Waits until it has seen an event."""
        with self.came:
            if not self.came.wait_for(lambda: self.seen and self.seen[-1] >= sequence, PATIENCE_SECONDS):
                self.log.seek(0)
                raise RuntimeError(f"{self.client} saw {self.seen} and not {sequence}:\n{self.log.read()}")

    def ended(self, last):
        """Whether it ended by itself, with every event once and in order."""
        code = self.process.wait(PATIENCE_SECONDS)
        self.reader.join(PATIENCE_SECONDS)
        if code == 0 and self.seen == list(range(1, last + 1)):
            return True
        self.log.seek(0)
        print(f"{self.client} ended with {code}, saw {self.seen} of {last}:\n{self.log.read()}")
        return False


def storm(world, clients):
    """Restarts the server while everybody watches; answers whether nobody missed or repeated anything."""
    job_id, started = "storm", time.monotonic()
    job = world.folder / "storm.json"
    job.write_text('{"job_id": "storm", "steps": [{"wait": {"duration_seconds": 86400}}]}', encoding="utf-8")
    world.call("submit", str(job))
    followers = [Follower(world, client, job_id) for client in clients]
    last = 2
    try:
        for number in range(RESTARTS):
            for follower in followers:
                follower.reach(last)
            world.server.restart(signal.SIGKILL if number % 2 == 0 else signal.SIGTERM)
            world.call("pause", job_id)
            world.call("resume", job_id)
            last += 2
        for follower in followers:
            follower.reach(last)
        world.call("cancel", job_id)
        went_well = all([follower.ended(last + 1) for follower in followers])
    finally:
        for follower in followers:
            if follower.process.poll() is None:
                os.killpg(follower.process.pid, signal.SIGKILL)
    took = time.monotonic() - started
    print(f"{len(clients)} clients watched {last + 1} events through {RESTARTS} restarts: "
          f"{'none lost, none repeated' if went_well else 'FAILED'}, {took:.1f} s", flush=True)
    return went_well


def main():
    program, database_url, *clients = sys.argv[1:]
    # Whatever is still running ends with this program.
    with tempfile.TemporaryDirectory() as folder:
        world = World(program, database_url, Path(folder))
        try:
            results = [world.prove(client, what) for client in clients for what in ("scenario", "readme", "example")]
            results.append(storm(world, clients))
            if not all(results):
                print(f"the server said last:\n{world.server.said()}")
        finally:
            world.server.stop()
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
