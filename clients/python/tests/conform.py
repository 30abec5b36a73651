"""Runs what clients/conformance asks of every client: `conform.py scenario`, `conform.py follow JOB_ID`."""

import base64
import json
import os
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from typing import Any

from blocking import Blocking
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message

from longhaul import Client, Error
from longhaul.v1.job_pb2 import STEP_KIND_RUN, Usage

Json = dict[str, Any]
ACTIONS = ("pause", "resume", "cancel", "retry", "approve", "reject", "request_changes")


def ask(path: str, body: bytes | None = None) -> Any:
    """Asks the world for the scenario, or for something to happen."""
    with urllib.request.urlopen(os.environ["LONGHAUL_CONFORMANCE"] + path, body) as answer:
        return json.load(answer)


class Scenario:
    """Goes through the steps with a client that blocks, and counts what is not as expected."""

    def __init__(self, name: str, connect: Callable[..., Any]) -> None:
        self.name, self.connect, self.faults = name, connect, 0

    def run(self) -> None:
        with self.connect() as self.client:
            for number, step in enumerate(ask(f"/scenario?client={self.name}")["steps"], 1):
                self.step(step.get("name", f"step {number}"), step)

    def step(self, title: str, step: Json) -> None:
        """Does a step, and tells what is not as expected."""
        try:
            given = options(step)
            with self.connect(**given) if given else nullcontext(self.client) as client:
                came = {"answer": self.do(client, step)}
        except Error as error:
            wrong = [violation.field for violation in error.violations]
            came = {"refused": {"code": error.code, "codes": error.code, "reason": error.reason, "fields": wrong}}
        vectors = {"vectors": step["vectors"]} if "vectors" in step else {}
        expected = {"refused": step["refused"]} if "refused" in step else {"answer": step.get("expect", vectors)}
        for difference in differences("", expected, came):
            self.faults += 1
            print(f"{self.name}: {title}: {difference}")

    def do(self, client: Any, step: Json) -> Json:
        """Calls what a step names; answers what came, as JSON."""
        timeout = step["deadline_ms"] / 1000 if "deadline_ms" in step else None
        match step:
            case {"do": "submit", "request": request}:
                return as_json(client.submit(request, timeout=timeout))
            case {"do": "get", "request": request}:
                return as_json(client.get(**fields(request), timeout=timeout))
            case {"do": "wait", "job_id": job_id}:
                return as_json(client.wait(job_id, timeout=60))
            case {"do": action, "job_id": job_id} if action in ACTIONS:
                return as_json(getattr(client, action)(job_id, **fields(step.get("with", {})), timeout=timeout))
            case {"do": "list", "selector": selector, "page_size": page_size}:
                jobs = client.list(selector, page_size=page_size, timeout=timeout)
                return {"job_ids": [job.job_id for job in jobs]}
            case {"do": "watch"}:
                return self.watch(client, step)
            case {"do": "vectors", "vectors": vectors}:
                return {"vectors": [turned(vector) for vector in vectors]}
        raise NotImplementedError(step["do"])

    def watch(self, client: Any, step: Json) -> Json:
        """Watches, and does on the way what is to be done."""
        came: Json = {"sequences": [], "kinds": []}
        text = ""
        watch = client.watch(
            step["job_id"],
            after_sequence=step.get("after_sequence"),
            include_output_deltas=step.get("deltas", False),
        )
        with closing(watch):
            for count, message in enumerate(watch, 1):
                match message.WhichOneof("content"):
                    case "snapshot":
                        came["snapshot"] = as_json(message.snapshot)
                    case "output_delta":
                        text = text[: message.output_delta.offset] + message.output_delta.text
                    case "event":
                        event = message.event
                        came["sequences"].append(event.sequence)
                        came["kinds"].append(as_json(event)["kind"])
                        if event.step_finished.kind == STEP_KIND_RUN:
                            came["deltas_are_output"] = text != "" and event.step_finished.output == text
                        for action in step.get("on", {}).get(str(event.sequence), []):
                            self.on_the_way(action)
                if count == step.get("leave_after"):
                    break
        return came

    def on_the_way(self, action: str | Json) -> None:
        if isinstance(action, str):
            ask(f"/{action}", b"")
        else:
            self.step(action["do"], action)


def options(step: Json) -> Json:
    """What the client of a step connects with; the rest is in the environment."""
    given = {"api_key": step["api_key"]} if "api_key" in step else {}
    if step.get("silent"):
        return given | {"address": os.environ["LONGHAUL_SILENT_SERVER"]}
    if "tls" in step:
        given["address"] = os.environ["LONGHAUL_TLS_SERVER"]
        return given if step["tls"] == "trusted" else given | {"ca_file": ""}
    return given


def as_json(message: Message) -> Json:
    return MessageToDict(message)


def fields(message: Json) -> Json:
    """The fields of a message as they are named in the proto."""
    return {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): value for name, value in message.items()}


def turned(vector: Json) -> Json:
    """Turns each form of a vector into the other."""
    usage = Usage.FromString(base64.b64decode(vector["wire"]))
    wire = ParseDict(vector["json"], Usage()).SerializeToString()
    return {"wire": base64.b64encode(wire).decode(), "json": as_json(usage)}


def differences(path: str, expected: Any, came: Any) -> Iterator[str]:
    """Tells what is not as expected: objects may hold more, `false` may be left out, and of `codes` one came."""
    match expected, came:
        case dict(), dict():
            for name in expected.keys() & came.keys():
                yield from differences(f"{path}.{name}", expected[name], came[name])
            if missing := {name: value for name, value in expected.items() if name not in came and value is not False}:
                yield f"{path} is to hold {str(missing)[:300]}, and is {str(came)[:300]}"
        case list(), list() if len(expected) == len(came):
            for index, (value, one) in enumerate(zip(expected, came, strict=True)):
                yield from differences(f"{path}[{index}]", value, one)
        case list(), str() if came in expected:
            pass
        case _ if expected != came:
            yield f"{path} is to be {str(expected)[:300]}, and is {str(came)[:300]}"


def follow(job_id: str) -> None:
    """Prints the sequence of each event as it comes."""
    with Client() as client:
        for message in client.watch(job_id, after_sequence=0):
            if message.HasField("event"):
                print(message.event.sequence, flush=True)


def main() -> int:
    match sys.argv[1:]:
        case ["follow", job_id]:
            follow(job_id)
            return 0
        case ["scenario"]:
            scenarios = [Scenario("python", Client), Scenario("python-aio", Blocking)]
            for scenario in scenarios:
                scenario.run()
            return 1 if any(scenario.faults for scenario in scenarios) else 0
    print("usage: conform.py scenario | follow JOB_ID", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
