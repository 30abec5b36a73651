"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import grpc
from grpc.aio import UnaryUnaryMultiCallable as Method

from . import _base
from ._base import Base, Selector, Watch, advance, made, moves, named, poll, to_wait
from ._error import Error, decoded
from ._retry import Retry
from .v1 import job_service_pb2 as pb
from .v1.job_pb2 import Job
from .v1.job_service_pb2_grpc import JobServiceStub

if TYPE_CHECKING:
    from .v1.job_service_pb2_grpc import JobServiceAsyncStub

Request = TypeVar("Request")
Response = TypeVar("Response")
Awaited = Coroutine[Any, Any, Response]


class AsyncClient(Base[Awaited[pb.SubmitJobResponse], Awaited[pb.GetJobResponse], Awaited[pb.ControlResponse]]):
    """A client for asyncio, to be made where its loop runs. Its calls end with its `async with`, or with `close`."""

    stub: JobServiceAsyncStub

    def _open(self, target: str, credentials: grpc.ChannelCredentials | None) -> None:
        asyncio.get_running_loop()  # Without one, gRPC would take another loop than the one that runs later.
        if credentials:
            self._channel = grpc.aio.secure_channel(target, credentials, _base.OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(target, _base.OPTIONS)
        self.stub = JobServiceStub(self._channel)
        self._watches: set[grpc.aio.Call] = set()

    async def close(self) -> None:
        """Ends all calls, and the watches with them: those who await them are cancelled."""
        for call in self._watches:  # Older gRPC leaves them open.
            call.cancel()
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout: float | None = None
    ) -> Response:
        """As Client.call: `await client.call(client.stub.GetUsage, GetUsageRequest())`."""
        return await self._call(method, request, self._limit(timeout))

    async def _call(self, method: Method[Request, Response], request: Request, retry: Retry) -> Response:
        request = named(request)
        while True:
            try:
                return await method(request, timeout=retry.seconds_left(), metadata=self.metadata)
            except grpc.RpcError as cause:
                error = decoded(cause)
            await asyncio.sleep(retry.pause(error))

    async def wait(self, job_id: str, *, timeout: float | None = None) -> Job:
        """As Client.wait."""
        retry = to_wait(timeout)
        while moves(job := (await self._call(self.stub.GetJob, poll(job_id, retry), retry)).job):
            retry.begin()
        return job

    async def list(
        self, selector: Selector = None, *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Job]:
        """As Client.list."""
        request = pb.ListJobsRequest(selector=made(pb.JobSelector, selector), page_size=page_size)
        while True:
            page = await self.call(self.stub.ListJobs, request, timeout=timeout)
            for job in page.jobs:
                yield job
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def watch(
        self, job_id: str, *, patience: float = _base.PATIENCE_SECONDS, **watch: Unpack[Watch]
    ) -> AsyncGenerator[pb.WatchJobResponse]:
        """As Client.watch. With `contextlib.aclosing` the call ends as soon as the loop is left, else soon after."""
        request, retry = pb.WatchJobRequest(job_id=job_id, **watch), Retry(patience, reads=True)
        while True:
            call = self.stub.WatchJob(request, metadata=self.metadata)
            self._watches.add(call)
            messages = aiter(call)
            try:
                while True:
                    async with asyncio.timeout(_base.SILENCE_SECONDS):
                        message = await anext(messages, None)
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
                call.cancel()
                self._watches.discard(call)
            await asyncio.sleep(retry.pause(error))
