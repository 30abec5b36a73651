import time
from typing import Any
from uuid import UUID

import grpc
import pytest
from conftest import SILENCE, Refusal, Server

from longhaul import Error
from longhaul.v1.job_pb2 import JOB_STATUS_COMPLETED, JOB_STATUS_QUEUED, JOB_STATUS_RUNNING, Job
from longhaul.v1.job_service_pb2 import (
    ControlJobsRequest,
    ControlJobsResponse,
    ControlRequest,
    ControlResponse,
    GetJobResponse,
    GetUsageRequest,
    GetUsageResponse,
    ListJobsResponse,
    SubmitJobRequest,
    SubmitJobResponse,
)
from longhaul.v1.submission_pb2 import Step, WaitStep

AWAY = Refusal(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
FULL = Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED)
BROKEN = Refusal(grpc.StatusCode.UNKNOWN)


def test_a_submit_is_repeated_as_the_same_job(client: Any, server: Server) -> None:
    server.answers = [AWAY, FULL, SubmitJobResponse(created=True)]
    request = SubmitJobRequest(steps=[Step(wait=WaitStep(duration_seconds=1))])
    assert client.submit(request).created
    assert server.asked[0] == server.asked[1] == server.asked[2]
    assert UUID(server.asked[0].job_id)
    assert request.job_id == ""
    assert [metadata["authorization"] for metadata in server.metadata] == ["Bearer lh_key"] * 3


def test_a_job_is_given_as_its_json(client: Any, server: Server) -> None:
    server.answers = [SubmitJobResponse()]
    client.submit({"job_id": "j", "steps": [{"wait": {"durationSeconds": 1}}]})
    assert server.asked == [SubmitJobRequest(job_id="j", steps=[Step(wait=WaitStep(duration_seconds=1))])]


def test_an_action_is_repeated_under_the_same_id(client: Any, server: Server) -> None:
    server.answers = [AWAY, ControlResponse(changed=True), ControlResponse(), ControlResponse()]
    assert client.approve("j", comment="Good.").changed
    client.request_changes("j", comment="Shorter.")
    client.cancel("j", request_id="mine")
    first, second, changes, cancel = server.asked
    assert first == second
    assert UUID(first.request_id) != UUID(changes.request_id)
    assert (first.approve.comment, changes.request_changes.comment, cancel.request_id) == ("Good.", "Shorter.", "mine")
    assert not first.approve.HasField("edited_output")


def test_it_gives_up_after_five_attempts(client: Any, server: Server) -> None:
    server.answers = [AWAY] * 6
    with pytest.raises(Error) as raised:
        client.get("j")
    assert (raised.value.reason, len(server.asked)) == ("UNAVAILABLE", 5)
    assert isinstance(raised.value.__cause__, grpc.RpcError)


def test_nothing_else_is_tried_again(client: Any, server: Server) -> None:
    server.answers = [BROKEN]
    with pytest.raises(Error, match="UNKNOWN"):
        client.pause("j")
    assert len(server.asked) == 1


def test_what_has_no_method_is_called_through_the_stub(client: Any, server: Server) -> None:
    server.answers = [AWAY, GetUsageResponse(next_page_token="x")]
    assert client.call(client.stub.GetUsage, GetUsageRequest(page_size=1)).next_page_token == "x"
    assert server.asked == [GetUsageRequest(page_size=1)] * 2


@pytest.mark.parametrize(
    ("method", "kind", "response", "name"),
    [
        ("SubmitJob", SubmitJobRequest, SubmitJobResponse(), "job_id"),
        ("Control", ControlRequest, ControlResponse(), "request_id"),
        ("ControlJobs", ControlJobsRequest, ControlJobsResponse(), "request_id"),
    ],
)
def test_through_the_stub_too_a_lost_reply_is_asked_for_under_the_same_id(
    client: Any, server: Server, method: str, kind: Any, response: Any, name: str
) -> None:
    server.answers = [AWAY, response, response]
    without, with_one = kind(), kind(**{name: "mine"})
    client.call(getattr(client.stub, method), without)
    client.call(getattr(client.stub, method), with_one)
    first, second, third = server.asked
    assert first == second
    assert UUID(getattr(first, name))
    assert without == kind()
    assert third == with_one


def test_a_wait_asks_until_the_job_stands_still(client: Any, server: Server) -> None:
    moving = [GetJobResponse(job=Job(status=status)) for status in (JOB_STATUS_QUEUED, JOB_STATUS_RUNNING)]
    server.answers = [*moving, *[AWAY, BROKEN, FULL] * 3, GetJobResponse(job=Job(status=JOB_STATUS_COMPLETED))]
    assert client.wait("j").status == JOB_STATUS_COMPLETED
    assert {request.wait_seconds for request in server.asked} == {60}


def test_a_wait_has_a_deadline_of_its_own(client: Any, server: Server) -> None:
    server.answers = [GetJobResponse(job=Job(status=JOB_STATUS_COMPLETED)), SILENCE]
    client.wait("j", timeout=8.5)
    with pytest.raises(Error, match="DEADLINE_EXCEEDED"):
        client.wait("j", timeout=0.2)
    assert [request.wait_seconds for request in server.asked] == [9, 1]


def test_a_wait_has_its_time_also_if_the_server_is_away(client: Any, server: Server) -> None:
    server.answers = lambda _: AWAY
    began = time.monotonic()
    with pytest.raises(Error, match="DEADLINE_EXCEEDED") as raised:
        client.wait("j", timeout=0.2)
    assert time.monotonic() - began >= 0.2
    assert isinstance(raised.value.__cause__, Error)
    assert raised.value.__cause__.reason == "UNAVAILABLE"


def test_a_call_has_a_deadline(client: Any, server: Server) -> None:
    server.answers = [AWAY, SILENCE]
    with pytest.raises(Error, match="DEADLINE_EXCEEDED"):
        client.get("j", timeout=0.2)


def test_a_list_goes_through_all_pages(client: Any, server: Server) -> None:
    server.answers = [
        ListJobsResponse(jobs=[Job(job_id="3"), Job(job_id="2")], next_page_token="more"),
        AWAY,
        ListJobsResponse(jobs=[Job(job_id="1")]),
    ]
    jobs = client.list({"statuses": ["JOB_STATUS_QUEUED"], "labels": {"team": "growth"}}, page_size=2)
    assert [job.job_id for job in jobs] == ["3", "2", "1"]
    assert [request.page_token for request in server.asked] == ["", "more", "more"]
    assert server.asked[0].selector == server.asked[2].selector
    assert server.asked[0].selector.statuses == [JOB_STATUS_QUEUED]
