"""What both clients share: what they connect with, what they ask, and how far a watch has come."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast
from urllib.parse import urlsplit
from uuid import uuid4

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from ._retry import Retry
from .v1 import job_service_pb2 as pb
from .v1.job_pb2 import JOB_STATUS_QUEUED, JOB_STATUS_RUNNING, Job
from .v1.job_service_pb2_grpc import JobServiceStub

File = str | os.PathLike[str]
Submission = pb.SubmitJobRequest | Mapping[str, Any]
Selector = pb.JobSelector | Mapping[str, Any] | None
M = TypeVar("M", bound=Message)
Request = TypeVar("Request")
# What a call answers: the message, or a coroutine of it.
Submitted = TypeVar("Submitted")
Got = TypeVar("Got")
Controlled = TypeVar("Controlled")

PORTS = {"http": 80, "https": 443}
PATIENCE_SECONDS = 300.0
# A watch brings a heartbeat every 15 s; a line that is silent for so long is dead.
SILENCE_SECONDS = 45.0
SILENT = f"nothing came for {SILENCE_SECONDS:g} seconds, not even a heartbeat"
OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # Those who count pings let one pass in 30 s; without the last, gRPC sends no more than two of them.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Until gRPC connects again, in its own time, every call fails; so that is not later than they are tried again.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


class Options(TypedDict, total=False):
    """What every action takes. A `request_id` is made where there is none, so that the action can be repeated."""

    request_id: str
    timeout: float | None


class Watch(TypedDict, total=False):
    """What a watch takes: the last event that is known, and what to send beside events."""

    after_sequence: int | None
    include_output_deltas: bool
    include_notices: bool


class Base(ABC, Generic[Submitted, Got, Controlled]):
    """The methods that are one call each; `timeout` is its deadline in seconds, in place of the client's."""

    stub: JobServiceStub
    """The generated stub, for `call`. What is called on it directly has to be given `metadata`."""
    metadata: tuple[tuple[str, str], ...]
    """What goes with each call: the key."""

    def __init__(
        self,
        address: str | None = None,
        *,
        api_key: str | None = None,
        ca_file: File | None = None,
        cert_file: File | None = None,
        key_file: File | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Takes where the server is and what to show to it; the first call connects.

        `address` is `host:port`, `http://host:port` or `https://host:port`; the last two without a port are 80 and 443.
        With https, `ca_file` holds the authorities to trust in place of those that gRPC brings, `cert_file` and
        `key_file` a certificate to show, all as PEM. What is not given is what LONGHAUL_SERVER, LONGHAUL_API_KEY and
        LONGHAUL_CA_FILE say, then `http://127.0.0.1:50051`; an empty `api_key` or `ca_file` is none. `timeout` is each
        call's deadline in seconds.
        """
        target, speaks_tls = parsed(address or os.environ.get("LONGHAUL_SERVER") or "http://127.0.0.1:50051")
        api_key = os.environ.get("LONGHAUL_API_KEY") if api_key is None else api_key
        self.metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self.timeout = timeout
        if bool(cert_file) != bool(key_file) or (not speaks_tls and (ca_file or cert_file)):
            raise ValueError("cert_file and key_file go together, and they and ca_file with an https:// address")
        credentials = None
        if speaks_tls:
            ca_file = os.environ.get("LONGHAUL_CA_FILE") if ca_file is None else ca_file
            ca, key, cert = (Path(file).read_bytes() if file else None for file in (ca_file, key_file, cert_file))
            credentials = grpc.ssl_channel_credentials(ca, key, cert)
        self._open(target, credentials)

    @abstractmethod
    def _open(self, target: str, credentials: grpc.ChannelCredentials | None) -> None: ...

    @abstractmethod
    def _call(self, method: Any, request: Any, retry: Retry) -> Any: ...

    def _limit(self, timeout: float | None) -> Retry:
        return Retry(self.timeout if timeout is None else timeout, attempts=5)

    def submit(self, job: Submission, *, timeout: float | None = None) -> Submitted:
        """Stores a job: a message, or the dict that is its JSON.

        A job_id is made where there is none, so that it can be repeated: a reply that is lost costs nothing.
        """
        request = made(pb.SubmitJobRequest, job)
        return cast(Submitted, self._call(self.stub.SubmitJob, request, self._limit(timeout)))

    def get(
        self,
        job_id: str,
        *,
        step: int = 0,
        include_spec: bool = False,
        include_links: bool = False,
        timeout: float | None = None,
    ) -> Got:
        """Shows a job as it is now; with `step`, the whole output of that step and no other."""
        request = pb.GetJobRequest(job_id=job_id, step=step, include_spec=include_spec, include_links=include_links)
        return cast(Got, self._call(self.stub.GetJob, request, self._limit(timeout)))

    def _act(self, request: pb.ControlRequest, options: Options) -> Controlled:
        request.request_id = options.get("request_id") or ""
        return cast(Controlled, self._call(self.stub.Control, request, self._limit(options.get("timeout"))))

    def pause(self, job_id: str, *, now: bool = False, **options: Unpack[Options]) -> Controlled:
        """Holds a job where it is; with `now` the attempt in hand is aborted."""
        return self._act(pb.ControlRequest(job_id=job_id, pause=pb.PauseAction(now=now)), options)

    def resume(self, job_id: str, *, budget_usd: str = "", **options: Unpack[Options]) -> Controlled:
        """Lets a paused job go on; `budget_usd`, an exact decimal, is what it may cost in all from now on."""
        return self._act(pb.ControlRequest(job_id=job_id, resume=pb.ResumeAction(budget_usd=budget_usd)), options)

    def cancel(self, job_id: str, *, comment: str = "", **options: Unpack[Options]) -> Controlled:
        """Ends a job."""
        return self._act(pb.ControlRequest(job_id=job_id, cancel=pb.CancelAction(comment=comment)), options)

    def retry(self, job_id: str, *, from_step: int = 0, **options: Unpack[Options]) -> Controlled:
        """Begins a job again that failed or was cancelled, where it ended or at an earlier step."""
        return self._act(pb.ControlRequest(job_id=job_id, retry=pb.RetryAction(from_step=from_step)), options)

    def approve(
        self,
        job_id: str,
        *,
        comment: str = "",
        approval_id: str = "",
        on_behalf_of: str = "",
        edited_output: str | None = None,
        **options: Unpack[Options],
    ) -> Controlled:
        """Votes for going on, with `edited_output` in place of the output that is shown."""
        vote = pb.ApproveAction(
            comment=comment, approval_id=approval_id, on_behalf_of=on_behalf_of, edited_output=edited_output
        )
        return self._act(pb.ControlRequest(job_id=job_id, approve=vote), options)

    def reject(
        self,
        job_id: str,
        *,
        comment: str = "",
        approval_id: str = "",
        on_behalf_of: str = "",
        **options: Unpack[Options],
    ) -> Controlled:
        """Votes for ending the job."""
        vote = pb.RejectAction(comment=comment, approval_id=approval_id, on_behalf_of=on_behalf_of)
        return self._act(pb.ControlRequest(job_id=job_id, reject=vote), options)

    def request_changes(
        self, job_id: str, *, comment: str, approval_id: str = "", on_behalf_of: str = "", **options: Unpack[Options]
    ) -> Controlled:
        """Has the step that the approval shows done again, as `comment` says."""
        vote = pb.RequestChangesAction(comment=comment, approval_id=approval_id, on_behalf_of=on_behalf_of)
        return self._act(pb.ControlRequest(job_id=job_id, request_changes=vote), options)


def parsed(address: str) -> tuple[str, bool]:
    """Answers what an address is for gRPC, and whether TLS is spoken there."""
    parts = urlsplit(address if "://" in address else f"http://{address}")
    bare = f"{parts.scheme}://{parts.netloc}"
    port = PORTS.get(parts.scheme) if parts.port is None and "://" in address else parts.port
    is_bare = parts.hostname and port and "@" not in bare and parts.geturl().rstrip("/") == bare
    if parts.scheme not in PORTS or not is_bare:
        raise ValueError(f"an address is host:port, http://host:port or https://host:port, and not {address!r}")
    target = parts.netloc if parts.port else f"{parts.netloc.removesuffix(':')}:{port}"
    return f"dns:///{target}", parts.scheme == "https"


def made(kind: type[M], given: M | Mapping[str, Any] | None) -> M:
    """Makes a message of the dict that is its JSON, or a copy."""
    message = kind()
    if isinstance(given, Mapping):
        ParseDict(dict(given), message)
    elif given is not None:
        message.CopyFrom(given)
    return message


def named(request: Request) -> Request:
    """Answers a copy of a request that has the id without which it could not be repeated."""
    copy = deepcopy(request)
    match copy:
        case pb.SubmitJobRequest(job_id=""):
            copy.job_id = str(uuid4())
        case pb.ControlRequest(request_id="") | pb.ControlJobsRequest(request_id=""):
            copy.request_id = str(uuid4())
    return copy


def to_wait(timeout: float | None) -> Retry:
    """For how long a wait tries: its own time, else for as long as the server may be away."""
    return Retry(PATIENCE_SECONDS if timeout is None else timeout, reads=True, to_the_end=timeout is not None)


def poll(job_id: str, retry: Retry) -> pb.GetJobRequest:
    """Asks for a job once it stands still; never for less than the time left, so that the deadline is what ends it."""
    return pb.GetJobRequest(job_id=job_id, wait_seconds=math.ceil(min(60, retry.seconds_left())))


def moves(job: Job) -> bool:
    """Whether a job neither stands still nor has ended."""
    return job.status in (JOB_STATUS_QUEUED, JOB_STATUS_RUNNING)


def advance(request: pb.WatchJobRequest, message: pb.WatchJobResponse) -> bool:
    """Moves the request for a watch past a message; answers whether that is to be delivered."""
    match message.WhichOneof("content"):
        case "event":
            if request.HasField("after_sequence") and message.event.sequence <= request.after_sequence:
                return False
            request.after_sequence = message.event.sequence
        case "snapshot":
            request.after_sequence = message.snapshot.last_sequence
        case "heartbeat" | None:
            return False
    return True
