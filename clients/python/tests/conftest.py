"""A server that answers as it is told, and both clients of it."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from blocking import Blocking
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from longhaul import Client
from longhaul.v1.job_service_pb2_grpc import JobServiceServicer, add_JobServiceServicer_to_server

PATIENCE_SECONDS = 30

# What the machine's user has configured is not for tests.
for name in list(os.environ):
    if name.startswith(("LONGHAUL_", "OTEL_")) or name.lower().endswith("_proxy"):
        del os.environ[name]


def status(*details: Message) -> bytes:
    """Packs the details of an error as a server sends them."""
    packed = Status()
    for detail in details:
        packed.details.add().Pack(detail)
    return packed.SerializeToString()


class Refusal:
    """A call that is refused; with a reason, by Longhaul."""

    def __init__(self, code: grpc.StatusCode, reason: str = "") -> None:
        details = [ErrorInfo(reason=reason, domain="longhaul.dev")] if reason else []
        self.code, self.trailers = code, (("grpc-status-details-bin", status(*details)),)


# Nothing, until the client leaves.
SILENCE = object()


class Server(JobServiceServicer):
    """Answers each call with the next of `answers`, or what they make of it, a watch with a list; keeps what was."""

    def __init__(self) -> None:
        self.answers: list[Any] | Callable[[Any], Any] = []
        self.asked: list[Any] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self.left: list[threading.Event] = []
        self.address = ""

    def _next(self, request: Message, context: grpc.ServicerContext) -> Any:
        left = threading.Event()
        if not context.add_callback(left.set):
            left.set()
        self.asked.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        self.left.append(left)
        return self.answers(request) if callable(self.answers) else self.answers.pop(0)

    def _play(self, answer: Any, context: grpc.ServicerContext, left: threading.Event) -> Any:
        if isinstance(answer, Refusal):
            context.set_trailing_metadata(answer.trailers)
            context.abort(answer.code, "as told")
        if answer is SILENCE:
            assert left.wait(PATIENCE_SECONDS)
        return answer

    def _answer(self, request: Message, context: grpc.ServicerContext) -> Any:
        answer = self._next(request, context)
        return self._play(answer, context, self.left[-1])

    SubmitJob = GetJob = Control = RevokeLinks = _answer
    ListJobs = ControlJobs = ListNotices = ResendNotice = GetUsage = _answer

    def WatchJob(self, request: Message, context: grpc.ServicerContext) -> Iterator[Any]:
        answers, left = self._next(request, context), self.left[-1]
        for answer in answers:
            yield self._play(answer, context, left)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server for one test."""
    served = grpc.server(ThreadPoolExecutor(4))
    server = Server()
    add_JobServiceServicer_to_server(server, served)
    server.address = f"127.0.0.1:{served.add_insecure_port('127.0.0.1:0')}"
    served.start()
    yield server
    served.stop(None).wait(PATIENCE_SECONDS)


@pytest.fixture(params=[Client, Blocking])
def client(request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Each client, which does not wait before it tries again."""
    monkeypatch.setattr("random.uniform", lambda *_: 0.0)
    connect: Callable[..., Any] = request.param
    with connect(server.address, api_key="lh_key") as client:
        yield client
