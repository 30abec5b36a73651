import pickle

import grpc
import pytest
from conftest import status
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, ResourceInfo, RetryInfo

from longhaul import Violation
from longhaul._error import decoded


def raised(details: bytes | None) -> grpc.aio.AioRpcError:
    trailers = {} if details is None else {"grpc-status-details-bin": details}
    metadata = grpc.aio.Metadata(("date", "today"), *trailers.items())
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, None, metadata, "told")


def test_all_that_the_server_says_is_in_the_error() -> None:
    cause = raised(
        status(
            ErrorInfo(reason="INVALID_REQUEST", domain="longhaul.dev", metadata={"status": "PAUSED"}),
            ResourceInfo(resource_name="job"),
            BadRequest(field_violations=[BadRequest.FieldViolation(field="a[0].b", description="is empty")]),
            RetryInfo(retry_delay=Duration(seconds=1, nanos=500_000_000)),
        )
    )
    error = decoded(cause)
    assert (error.code, error.message, error.reason) == ("UNAVAILABLE", "told", "INVALID_REQUEST")
    assert (error.metadata, error.retry_after) == ({"status": "PAUSED"}, 1.5)
    assert error.violations == [Violation("a[0].b", "is empty")]
    assert error.__cause__ is cause
    assert str(error) == "UNAVAILABLE INVALID_REQUEST: told"


@pytest.mark.parametrize(
    "details", [None, b"", b"\xff no status", status(ErrorInfo(reason="OTHER", domain="proxy.example"))]
)
def test_what_others_say_is_no_reason(details: bytes | None) -> None:
    error = decoded(raised(details))
    assert (error.reason, error.metadata, error.violations, error.retry_after) == ("", {}, [], None)
    assert str(error) == "UNAVAILABLE: told"


def test_an_error_survives_pickling() -> None:
    error = decoded(raised(status(ErrorInfo(reason="UNAVAILABLE", domain="longhaul.dev"))))
    assert repr(pickle.loads(pickle.dumps(error))) == repr(error)
