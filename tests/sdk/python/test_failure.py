"""Every error of the provider, as the client raises it, and what it tries again."""

import asyncio

import anthropic
import httpx2
import pytest

from conftest import question


@pytest.mark.parametrize(
    ("status", "error_class", "error_type"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (402, anthropic.PaymentRequiredError, "billing_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (408, anthropic.RequestTimeoutError, "invalid_request_error"),
        (409, anthropic.ConflictError, "conflict_error"),
        (412, anthropic.PreconditionFailedError, "invalid_request_error"),
        (413, anthropic.ContentTooLargeError, "request_too_large"),
        (422, anthropic.UnprocessableEntityError, "invalid_request_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (431, anthropic.RequestHeaderFieldsTooLargeError, "invalid_request_error"),
        (499, anthropic.ClientClosedRequestError, "invalid_request_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (501, anthropic.HTTPNotImplementedError, "api_error"),
        (503, anthropic.ServiceUnavailableError, "api_error"),
        (504, anthropic.GatewayTimeoutError, "timeout_error"),
        (529, anthropic.OverloadedError, "overloaded_error"),
    ],
)
def test_a_status_is_raised_as_its_own_class(sandbox, client, status, error_class, error_type):
    headers = {"anthropic-ratelimit-requests-remaining": "7"}
    sandbox.break_model({"status": status, "retry_after_seconds": 3, "headers": headers})
    with pytest.raises(error_class) as raised:
        client.messages.create(**question())
    error = raised.value
    assert type(error) is error_class
    assert (error.status_code, error.type) == (status, error_type)
    assert error.response.headers["retry-after"] == "3"
    assert error.response.headers["anthropic-ratelimit-requests-remaining"] == "7"
    [entry] = sandbox.requests(at_least=1, outcome="failed")
    assert (entry["request_id"], entry["status"]) == (error.request_id, status)


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        ("enforced_spend_limit_reached", anthropic.EnforcedSpendLimitReachedError),
        ("contract_spend_limit_reached", anthropic.ContractSpendLimitReachedError),
        ("ramp_limit_exceeded", anthropic.RampLimitExceededError),
    ],
)
def test_the_kind_of_limit_is_told_by_its_code(sandbox, client, code, error_class):
    sandbox.break_model({"status": 429, "error_code": code})
    with pytest.raises(anthropic.RateLimitError) as raised:
        client.messages.create(**question())
    assert type(raised.value) is error_class
    assert raised.value.error_code == raised.value.details.error_code == code
    assert "retry-after" not in raised.value.response.headers


def test_the_own_spend_limit_is_told_by_its_message(sandbox, client):
    message = "You have reached your specified API usage limits."
    sandbox.break_model({"status": 400, "error_message": message})
    with pytest.raises(anthropic.BadRequestError) as raised:
        client.messages.create(**question())
    assert raised.value.api_message == message


def test_what_is_wrong_in_itself_is_refused(client):
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(**question(extra_body={"temperature": 1.0}))
    with pytest.raises(anthropic.BadRequestError, match="prefill"):
        turns = [*question()["messages"], {"role": "assistant", "content": "Well,"}]
        client.messages.create(**question(messages=turns))
    with pytest.raises(anthropic.BadRequestError, match="budget: Extra inputs"):
        client.messages.create(**question(extra_body={"budget": 1}))
    with pytest.raises(anthropic.NotFoundError, match="claude-9"):
        client.messages.create(**question(model="claude-9"))


@pytest.mark.parametrize(
    "wait",
    [
        {"retry_after_ms": 1},
        {"retry_after_seconds": 60, "retry_after_ms": 1},
    ],
)
def test_what_passes_is_tried_again(sandbox, client, wait):
    sandbox.break_model({"status": 529, "times": 2, **wait})
    message = client.with_options(max_retries=2).messages.create(**question())
    assert message.stop_reason == "end_turn"
    entries = sandbox.requests(at_least=3)
    assert [entry["status"] for entry in entries] == [529, 529, 200]
    counts = [entry["headers"]["x-stainless-retry-count"] for entry in entries]
    assert counts == ["0", "1", "2"]


def test_a_date_to_come_back_at_is_waited_for(sandbox, client):
    sandbox.break_model({"status": 429, "times": 1, "retry_after_date_seconds": 1})
    raw = client.messages.with_raw_response.create
    with pytest.raises(anthropic.RateLimitError) as raised:
        raw(**question())
    assert raised.value.response.headers["retry-after"].endswith("GMT")
    sandbox.break_model({"status": 429, "times": 1, "retry_after_date_seconds": 1})
    assert client.with_options(max_retries=1).messages.create(**question()).content


def test_the_provider_decides_whether_to_try_again(sandbox, client):
    eager = client.with_options(max_retries=2)
    sandbox.break_model({"status": 529, "should_retry": False})
    with pytest.raises(anthropic.OverloadedError):
        eager.messages.create(**question())
    assert len(sandbox.requests()) == 1
    sandbox.break_model({"status": 400, "should_retry": True, "retry_after_ms": 1, "times": 1})
    assert eager.messages.create(**question()).stop_reason == "end_turn"
    assert len(sandbox.requests()) == 3


def test_a_limit_refuses_what_is_beyond_it(sandbox, client):
    sandbox.break_model({"per_second": 0})
    with pytest.raises(anthropic.RateLimitError) as raised:
        client.messages.create(**question())
    headers = raised.value.response.headers
    assert headers["anthropic-ratelimit-requests-limit"] == "0"
    assert headers["retry-after"] == "1"
    sandbox.break_model({"per_second": 1000})
    raw = client.messages.with_raw_response.create(**question())
    assert raw.headers["anthropic-ratelimit-requests-remaining"] == "999"
    assert raw.headers["anthropic-ratelimit-requests-reset"].endswith("Z")
    sandbox.break_model({"until_per_second": 0})
    with pytest.raises(anthropic.OverloadedError):
        client.messages.create(**question())


def test_many_at_once_are_held_and_let_go_together(sandbox):
    async def ask_all():
        options = {"base_url": sandbox.url, "api_key": "sk-test-secret", "max_retries": 0}
        async with anthropic.AsyncAnthropic(**options) as client:
            asking = [asyncio.create_task(client.messages.create(**question())) for _ in range(20)]
            await asyncio.to_thread(sandbox.requests, 20, outcome="held")
            assert not any(task.done() for task in asking)
            await asyncio.to_thread(sandbox.mend)
            return await asyncio.gather(*asking)

    sandbox.break_model({"hold": True})
    answers = asyncio.run(ask_all())
    assert len({answer.id for answer in answers}) == 20
    assert len({answer.content[0].text for answer in answers}) == 1


def test_a_lost_answer_and_a_late_one_are_connection_errors(sandbox, client):
    sandbox.break_model({"lose_reply": True})
    with pytest.raises(anthropic.APIConnectionError):
        client.messages.create(**question())
    sandbox.break_model({"hold": True})
    with pytest.raises(anthropic.APITimeoutError):
        client.with_options(timeout=httpx2.Timeout(60, read=0.2)).messages.create(**question())
    [gone] = sandbox.requests(at_least=1, outcome="disconnected")
    assert gone["status"] is None
