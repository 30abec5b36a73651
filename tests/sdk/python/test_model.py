"""Models and the counting of tokens."""

import anthropic
import pytest

from conftest import MODEL, question


def test_every_model_is_listed_newest_first(client):
    models = list(client.models.list(limit=5))
    ids = [model.id for model in models]
    assert len(ids) == len(set(ids)) > 15
    assert {"claude-opus-5-5", "claude-sonnet-5-5", MODEL} <= set(ids)
    dates = [model.created_at for model in models]
    assert dates == sorted(dates, reverse=True)
    assert all(model.capabilities.batch.supported for model in models)


def test_a_model_is_found_by_its_alias(client):
    model = client.models.retrieve("claude-haiku-4-5")
    assert (model.id, model.max_tokens) == ("claude-haiku-4-5-20251001", 64_000)
    assert model.display_name == "Claude Haiku 4.5"
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("claude-9")


def test_tokens_are_counted_as_a_message_would_bill_them(client):
    asked = question(system="Answer in Chinese: 请用中文回答。")
    counted = client.messages.count_tokens(
        model=MODEL, system=asked["system"], messages=asked["messages"]
    )
    assert counted.input_tokens == client.messages.create(**asked).usage.input_tokens


def test_a_door_can_fail_alone(sandbox, client):
    sandbox.break_model({"on": "model", "status": 503})
    with pytest.raises(anthropic.ServiceUnavailableError):
        client.models.list()
    sandbox.break_model({"on": "count_tokens", "status": 429})
    with pytest.raises(anthropic.RateLimitError):
        client.messages.count_tokens(model=MODEL, messages=question()["messages"])
    assert client.messages.create(**question()).stop_reason == "end_turn"
