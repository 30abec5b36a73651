"""The client that blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Self, TypeVar, Unpack

import grpc
from grpc import UnaryUnaryMultiCallable as Method

from . import _base
from ._base import Base, Selector, Watch, advance, made, moves, named, poll, to_wait
from ._error import Error, decoded
from ._retry import Retry
from .v1 import job_service_pb2 as pb
from .v1.job_pb2 import Job
from .v1.job_service_pb2_grpc import JobServiceStub

Request = TypeVar("Request")
Response = TypeVar("Response")


class Client(Base[pb.SubmitJobResponse, pb.GetJobResponse, pb.ControlResponse]):
    """A client that blocks; threads may share it. Its calls end with its `with`, or with `close`."""

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None) -> None:
        self._closed = threading.Event()
        if credentials:
            self._channel = grpc.secure_channel(target, credentials, _base.OPTIONS)
        else:
            self._channel = grpc.insecure_channel(target, _base.OPTIONS)
        self.stub = JobServiceStub(self._channel)

    def close(self) -> None:
        """Ends all calls, and the watches with them."""
        self._closed.set()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float | None = None) -> Response:
        """Calls what has no method here: `client.call(client.stub.GetUsage, GetUsageRequest())`.

        A job_id of a submit and a request_id of an action are made where there is none, since it is tried again.
        """
        return self._call(method, request, self._limit(timeout))

    def _call(self, method: Method[Request, Response], request: Request, retry: Retry) -> Response:
        request = named(request)
        while True:
            try:
                return method(request, timeout=retry.seconds_left(), metadata=self.metadata)
            except grpc.RpcError as cause:
                error = decoded(cause)
            self._rest(retry, error)

    def _rest(self, retry: Retry, error: Error) -> None:
        if self._closed.wait(retry.pause(error)):
            raise error

    def wait(self, job_id: str, *, timeout: float | None = None) -> Job:
        """Waits until a job awaits approval, is paused or has ended.

        A server that is away meanwhile is asked again. After `timeout` seconds, and not before, it raises an Error with
        the code DEADLINE_EXCEEDED, also if the server is away then; the last error, if there was one, is its cause.
        Without one it waits on, unless the server has been away for five minutes.
        """
        retry = to_wait(timeout)
        while moves(job := self._call(self.stub.GetJob, poll(job_id, retry), retry).job):
            retry.begin()
        return job

    def list(self, selector: Selector = None, *, page_size: int = 0, timeout: float | None = None) -> Iterator[Job]:
        """Yields the jobs that match, newest first, page by page; `timeout` is that of each page."""
        request = pb.ListJobsRequest(selector=made(pb.JobSelector, selector), page_size=page_size)
        while True:
            page = self.call(self.stub.ListJobs, request, timeout=timeout)
            yield from page.jobs
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def watch(
        self, job_id: str, *, patience: float = _base.PATIENCE_SECONDS, **watch: Unpack[Watch]
    ) -> Generator[pb.WatchJobResponse]:
        """Yields what happens to a job until it has ended, each event once.

        Without `after_sequence` it begins with a snapshot, else after that event. When the line breaks, the server is
        away, or nothing comes for 45 seconds, it watches again after the last event that it yielded; a text that is on
        its way then begins anew, with offset 0. When nothing has come for `patience` seconds it raises the last Error.
        Leaving the loop ends the call.
        """
        request, retry = pb.WatchJobRequest(job_id=job_id, **watch), Retry(patience, reads=True)
        while True:
            call = self.stub.WatchJob(request, metadata=self.metadata)
            alarm = _Alarm(call.cancel)
            try:
                while True:
                    with alarm:
                        message = next(call, None)
                    if message is None:
                        return
                    if advance(request, message):
                        yield message
                    retry.begin()
            except TimeoutError:
                error = Error("UNAVAILABLE", _base.SILENT)
            except grpc.RpcError as cause:
                error = decoded(cause)
            finally:
                alarm.end()
            self._rest(retry, error)


class _Alarm(threading.Thread):
    """Cancels a call once its `with` takes too long: who is blocked in a call cannot look at the clock."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._cancel, self._ended, self._rang = cancel, threading.Event(), False
        self._since: float | None = None
        self.start()

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._since = None
        if self._rang:
            raise TimeoutError

    def run(self) -> None:
        pause = _base.SILENCE_SECONDS
        while not self._ended.wait(pause):
            now, since = time.monotonic(), self._since
            pause = (now if since is None else since) + _base.SILENCE_SECONDS - now
            if pause <= 0:
                self._rang = True
                self._cancel()
                return

    def end(self) -> None:
        self._ended.set()
        self._cancel()
