"""Message batches from their creation to their deletion."""

import anthropic
import pytest

from conftest import question

PATH = "/v1/messages/batches"


def requests(*ids, **more):
    return [{"custom_id": custom_id, "params": question(**more)} for custom_id in ids]


def test_a_batch_is_answered_when_it_has_ended(sandbox, client):
    sandbox.break_model({"on": "batch_create", "batch_hold": True})
    batch = client.messages.batches.create(requests=requests("a", "b", "c"))
    assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 3)
    assert (batch.expires_at - batch.created_at).total_seconds() == 24 * 3600
    with pytest.raises(anthropic.AnthropicError, match="in_progress"):
        client.messages.batches.results(batch.id)
    assert client.messages.batches.retrieve(batch.id).results_url is None
    sandbox.mend()
    ended = client.messages.batches.retrieve(batch.id)
    assert (ended.processing_status, ended.request_counts.succeeded) == ("ended", 3)
    assert ended.ended_at >= ended.created_at
    assert ended.results_url == f"{sandbox.url}{PATH}/{batch.id}/results"
    results = list(client.messages.batches.results(batch.id))
    assert [result.custom_id for result in results] == ["b", "a", "c"]
    now = client.messages.create(**question())
    for result in results:
        assert result.result.message.content == now.content
        assert result.result.message.usage.service_tier == "batch"
    [entry] = sandbox.requests(path=PATH, matching="b")
    assert [one["custom_id"] for one in entry["body"]["requests"]] == ["a", "b", "c"]


def test_each_request_has_its_own_result(sandbox, client):
    sandbox.break_model(
        {"on": "batch_create", "batch_ms": 0},
        {"on": "batch_request", "matching": "busy", "status": 529},
        {"on": "batch_request", "matching": "late", "expire": True},
    )
    wrong = requests("wrong", max_tokens=0)
    batch = client.messages.batches.create(requests=requests("good", "busy", "late") + wrong)
    counts = client.messages.batches.retrieve(batch.id).request_counts
    assert (counts.succeeded, counts.errored, counts.expired) == (1, 2, 1)
    results = {one.custom_id: one.result for one in client.messages.batches.results(batch.id)}
    assert results["good"].type == "succeeded"
    assert results["busy"].error.error.type == "overloaded_error"
    assert results["wrong"].error.error.type == "invalid_request_error"
    assert results["late"].type == "expired"


def test_a_batch_that_cannot_be_read_is_refused_at_once(client):
    for ids in (["a", "a"], ["no spaces"], []):
        with pytest.raises(anthropic.BadRequestError):
            client.messages.batches.create(requests=requests(*ids))
    assert list(client.messages.batches.list()) == []


def test_a_canceled_batch_keeps_what_was_done(sandbox, client):
    sandbox.break_model(
        {"on": "batch_create", "batch_hold": True, "batch_done": 1},
        {"on": "batch_cancel", "batch_hold": True},
    )
    batch = client.messages.batches.create(requests=requests("a", "b", "c"))
    canceling = client.messages.batches.cancel(batch.id)
    assert canceling.processing_status == "canceling"
    assert canceling.cancel_initiated_at >= batch.created_at
    with pytest.raises(anthropic.BadRequestError, match="deleted"):
        client.messages.batches.delete(batch.id)
    assert client.messages.batches.retrieve(batch.id).processing_status == "canceling"
    sandbox.mend()
    counts = client.messages.batches.retrieve(batch.id).request_counts
    assert (counts.succeeded, counts.canceled) == (1, 2)
    kinds = {one.custom_id: one.result.type for one in client.messages.batches.results(batch.id)}
    assert kinds == {"a": "succeeded", "b": "canceled", "c": "canceled"}
    assert client.messages.batches.delete(batch.id).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError):
        client.messages.batches.retrieve(batch.id)


def test_batches_are_listed_newest_first_and_in_pages(client):
    made = [client.messages.batches.create(requests=requests("a")).id for _ in range(5)]
    newest_first = made[::-1]
    assert [batch.id for batch in client.messages.batches.list(limit=2)] == newest_first
    page = client.messages.batches.list(limit=2, before_id=newest_first[3])
    assert ([batch.id for batch in page.data], page.has_more) == (newest_first[1:3], True)
    page = client.messages.batches.list(after_id=newest_first[3])
    assert ([batch.id for batch in page.data], page.has_more) == (newest_first[4:], False)


def test_a_batch_may_be_found_late_or_made_without_its_sender_being_told(sandbox, client):
    sandbox.break_model({"on": "batch_create", "batch_unseen": 2})
    batch = client.messages.batches.create(requests=requests("a"))
    for _ in range(2):
        with pytest.raises(anthropic.NotFoundError):
            client.messages.batches.retrieve(batch.id)
    assert client.messages.batches.retrieve(batch.id).id == batch.id
    sandbox.break_model({"on": "batch_create", "lose_reply": True, "times": 1})
    with pytest.raises(anthropic.APIConnectionError):
        client.messages.batches.create(requests=requests("b"))
    assert len(client.messages.batches.list().data) == 2
    # Nothing tells the two apart for the provider: who tries again blindly pays twice.
    sandbox.break_model({"on": "batch_create", "lose_reply": True, "times": 1})
    client.with_options(max_retries=1).messages.batches.create(requests=requests("c"))
    assert len(client.messages.batches.list().data) == 4


def test_a_batch_expires_after_a_day(sandbox, client):
    sandbox.break_model({"on": "batch_create", "batch_hold": True})
    batch = client.messages.batches.create(requests=requests("a", "b"))
    sandbox.set(clock_ahead_seconds=25 * 3600)
    ended = client.messages.batches.retrieve(batch.id)
    assert (ended.request_counts.expired, ended.ended_at) == (2, batch.expires_at)
    sandbox.set(clock_ahead_seconds=30 * 24 * 3600)
    assert client.messages.batches.retrieve(batch.id).archived_at is not None
