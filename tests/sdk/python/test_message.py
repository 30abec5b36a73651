"""Messages, whole and streamed."""

import datetime
import typing

import anthropic
import httpx2
import pydantic
import pytest

from conftest import MODEL, question

SEARCH = {"type": "web_search_20260318", "name": "web_search", "allowed_callers": ["direct"]}


def test_a_message_is_answered_and_journaled(sandbox, client):
    message = client.messages.create(**question())
    assert (message.type, message.role, message.model) == ("message", "assistant", MODEL)
    assert message.stop_reason == "end_turn"
    assert "risks of a Friday deployment" in message.content[0].text
    counted = client.messages.count_tokens(
        model=MODEL, messages=question()["messages"]
    )
    assert message.usage.input_tokens == counted.input_tokens > 0
    assert message.usage.output_tokens > 10
    assert message.usage.service_tier == "standard"
    [entry] = sandbox.requests(at_least=1, path="/v1/messages", outcome="answered")
    assert entry["request_id"] == message._request_id
    assert entry["headers"]["anthropic-version"] == "2026-10-21"
    assert entry["headers"]["authorization"] == "Bearer ***"
    assert entry["body"] == question()


def test_an_answer_ends_where_it_is_told_to(client):
    whole = client.messages.create(**question())
    word = whole.content[0].text.split()[5]
    stopped = client.messages.create(**question(stop_sequences=[word]))
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", word)
    assert whole.content[0].text.startswith(stopped.content[0].text + word)
    cut = client.messages.create(**question(max_tokens=5))
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 5)


@pytest.mark.parametrize("reason", ["refusal", "model_context_window_exceeded", "brand_new"])
def test_a_scripted_stop_reason_arrives(sandbox, client, reason):
    sandbox.break_model({"stop_reason": reason})
    message = client.messages.create(**question())
    assert message.stop_reason == reason
    assert (message.stop_details is not None) == (reason == "refusal")


def test_a_stream_brings_the_same_answer_in_pieces(client):
    whole = client.messages.create(**question())
    with client.messages.stream(**question()) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(pieces) > 3
    assert "".join(pieces) == whole.content[0].text == final.content[0].text
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert final.stop_reason == "end_turn"


def test_a_streamed_search_is_cited_and_can_be_sent_back(client):
    asked = question(tools=[SEARCH])
    with client.messages.stream(**asked) as stream:
        deltas = [event.delta.type for event in stream if event.type == "content_block_delta"]
        final = stream.get_final_message()
    assert {"text_delta", "input_json_delta", "citations_delta"} <= set(deltas)
    search, found, *texts = final.content
    assert (search.type, search.name) == ("server_tool_use", "web_search")
    assert search.input["query"]
    assert (found.type, found.tool_use_id) == ("web_search_tool_result", search.id)
    assert [text.citations[0].url for text in texts[:2]] == [page.url for page in found.content]
    assert texts[0].citations[0].cited_text == texts[0].text.strip()
    assert final.usage.server_tool_use.web_search_requests == 1
    content = [block.model_dump(exclude_none=True) for block in final.content]
    turns = [*asked["messages"], {"role": "assistant", "content": content}, *asked["messages"]]
    again = client.messages.create(**{**asked, "messages": turns})
    assert again.stop_reason == "end_turn"
    content[1]["content"][0]["encrypted_content"] = "changed"
    with pytest.raises(anthropic.BadRequestError, match="encrypted_content"):
        client.messages.create(**{**asked, "messages": turns})


def test_a_paused_turn_is_gone_on_with(sandbox, client):
    sandbox.break_model({"stop_reason": "pause_turn", "times": 1})
    asked = question(tools=[SEARCH])
    with client.messages.stream(**asked) as stream:
        paused = stream.get_final_message()
    assert paused.stop_reason == "pause_turn"
    assert paused.content[-1].type == "server_tool_use"
    turns = [*asked["messages"], {"role": "assistant", "content": paused.content}]
    final = client.messages.create(**{**asked, "messages": turns})
    assert final.stop_reason == "end_turn"
    assert final.content[0].tool_use_id == paused.content[-1].id
    assert final.usage.server_tool_use.web_search_requests == 1


def test_thinking_is_streamed_and_signed(client):
    asked = question(model="claude-opus-5-5", thinking={"type": "adaptive", "display": "summarized"})
    asked["output_config"] = {"effort": "low"}
    with client.messages.stream(**asked) as stream:
        thoughts = [event.thinking for event in stream if event.type == "thinking"]
        final = stream.get_final_message()
    thought, text = final.content
    assert "".join(thoughts) == thought.thinking
    assert thought.signature
    assert 0 < final.usage.output_tokens_details.thinking_tokens < final.usage.output_tokens
    turns = [*asked["messages"], {"role": "assistant", "content": [thought, text]}]
    again = client.messages.create(**{**asked, "messages": [*turns, *asked["messages"]]})
    assert again.content[0].type == "thinking"


class Risk(pydantic.BaseModel):
    """One of the risks."""

    name: str
    level: typing.Literal["low", "high"]
    seen_on: datetime.date
    note: str | None = None


class Verdict(pydantic.BaseModel):
    """What the answer is to look like."""

    summary: str
    score: int
    share: float
    fits: bool
    risks: list[Risk]


def test_a_structured_answer_fits_its_schema(client):
    message = client.messages.parse(**question(output_format=Verdict))
    verdict = message.parsed_output
    assert isinstance(verdict, Verdict)
    assert verdict.summary and verdict.risks[0].name
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    config = {"format": {"type": "json_schema", "schema": schema}}
    with pytest.raises(anthropic.BadRequestError, match="additionalProperties"):
        client.messages.create(**question(output_config=config))


def test_a_prefix_is_written_to_the_cache_and_then_read(sandbox, client):
    system = [{"type": "text", "text": "Be brief. " * 400,
               "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    written = client.messages.create(**question(system=system)).usage
    read = client.messages.create(**question(system=system)).usage
    assert written.cache_creation.ephemeral_1h_input_tokens == 1000
    assert (written.cache_creation_input_tokens, written.cache_read_input_tokens) == (1000, 0)
    assert (read.cache_creation_input_tokens, read.cache_read_input_tokens) == (0, 1000)
    assert read.input_tokens == written.input_tokens < 50
    sandbox.set(clock_ahead_seconds=3601)
    warmed = client.messages.create(**question(system=system, max_tokens=0))
    assert (warmed.content, warmed.usage.output_tokens) == ([], 0)
    assert warmed.usage.cache_creation_input_tokens == 1000
    sandbox.set(clock_ahead_seconds=7202)
    with client.messages.stream(**question(system=system)) as stream:
        assert stream.get_final_message().usage.cache_creation_input_tokens == 1000
    with pytest.raises(anthropic.BadRequestError, match="maximum of 4"):
        client.messages.create(**question(system=system * 5))


def test_a_stream_that_breaks_is_noticed_or_not_as_the_client_does(sandbox, client):
    sandbox.break_model({"cut_after_events": 5})
    with pytest.raises(httpx2.RemoteProtocolError):
        with client.messages.stream(**question()) as stream:
            stream.get_final_message()
    sandbox.break_model({"error_after_events": 5})
    with pytest.raises(anthropic.APIStatusError) as error:
        with client.messages.stream(**question()) as stream:
            stream.get_final_message()
    assert (error.value.status_code, error.value.type) == (200, "overloaded_error")
    # The client takes a stream that ends too early for whole: only the stop reason is missing.
    sandbox.break_model({"end_after_events": 5})
    with client.messages.stream(**question()) as stream:
        assert stream.get_final_message().stop_reason is None


def test_a_held_stream_goes_on_when_it_is_let(sandbox, client):
    sandbox.break_model({"hold_after_events": 5})
    with client.messages.stream(**question()) as stream:
        events = iter(stream)
        assert next(events).type == "message_start"
        sandbox.requests(at_least=1, outcome="held")
        sandbox.mend()
        assert [event.type for event in events][-1] == "message_stop"
