"""What a call comes to that does not go well, as one exception."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status


class Violation(NamedTuple):
    """A field of a request that is wrong, such as `steps[0].run.prompt`, and what is wrong with it."""

    field: str
    description: str


@dataclass(eq=False)
class Error(Exception):
    """A call that was refused or failed. Its `__cause__` is the `grpc.RpcError` beneath it, if there is one.

    Where a wait has reached its timeout, that is the last `Error` before.
    """

    code: str
    """The name of the gRPC code, such as `NOT_FOUND`."""
    message: str
    """What happened, in words."""
    reason: str = ""
    """A word of the closed list in the proto, such as `JOB_NOT_FOUND`. Empty: it was not Longhaul that answered."""
    metadata: dict[str, str] = field(default_factory=dict)
    """What belongs to the reason, such as `status` to `JOB_STATE_CONFLICT`."""
    violations: list[Violation] = field(default_factory=list)
    """The fields that are wrong, with `INVALID_REQUEST`."""
    retry_after: float | None = None
    """How many seconds the server asks to wait before the next try."""

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}" if self.reason else f"{self.code}: {self.message}"


def decoded(cause: grpc.RpcError) -> Error:
    """Makes an Error of what gRPC raised, with the details that the server sent."""
    error = Error(cause.code().name, cause.details() or "")
    error.__cause__ = cause
    trailers: Iterable[Any] = cause.trailing_metadata() or ()
    details = [value for name, value in trailers if name == "grpc-status-details-bin"]
    info, bad_request, retry = ErrorInfo(), BadRequest(), RetryInfo()
    try:
        for detail in Status.FromString(b"".join(details)).details:
            if detail.Unpack(info) and info.domain == "longhaul.dev":
                error.reason, error.metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(bad_request):
                error.violations = [Violation(wrong.field, wrong.description) for wrong in bad_request.field_violations]
            elif detail.Unpack(retry):
                error.retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    except DecodeError:
        pass  # Whoever stands between may have sent anything; the code still counts.
    return error
