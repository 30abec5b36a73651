import math

import pytest

from longhaul import Error
from longhaul._retry import Retry

AWAY = Error("UNAVAILABLE", "away")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    return clock


def test_pauses_grow_to_five_seconds_until_there_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda _, most: most)
    retry = Retry(math.inf)
    assert retry.seconds_left() < math.inf
    assert [round(retry.pause(AWAY), 3) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    retry.begin()
    assert retry.pause(AWAY) == 0.1


def test_pauses_differ() -> None:
    pauses = {Retry(30).pause(AWAY) for _ in range(20)}
    assert len(pauses) > 1
    assert all(0.05 <= pause <= 0.1 for pause in pauses)


def test_the_servers_delay_goes_before() -> None:
    assert Retry(30).pause(Error("RESOURCE_EXHAUSTED", "much", retry_after=7.5)) == 7.5
    assert Retry(30).pause(Error("UNAVAILABLE", "now", retry_after=0.0)) == 0.0


def test_a_call_has_five_attempts() -> None:
    retry = Retry(30, attempts=5)
    for _ in range(4):
        retry.pause(AWAY)
    with pytest.raises(Error, match="away"):
        retry.pause(AWAY)


def test_it_gives_up_where_the_pause_would_outlast_the_time_left(clock: Clock) -> None:
    retry = Retry(30)
    clock.now += 29
    retry.pause(AWAY)
    with pytest.raises(Error, match="much"):
        retry.pause(Error("RESOURCE_EXHAUSTED", "much", retry_after=1.0))
    retry.begin()
    assert retry.seconds_left() == 30
    clock.now += 31
    assert retry.seconds_left() == 0
    with pytest.raises(Error, match="away"):
        retry.pause(AWAY)


def test_a_time_to_the_end_ends_with_the_last_error_as_its_cause(clock: Clock) -> None:
    retry = Retry(30, to_the_end=True)
    clock.now += 20
    retry.begin()
    assert retry.pause(Error("RESOURCE_EXHAUSTED", "much", retry_after=60.0)) == retry.seconds_left() == 10
    assert retry.pause(AWAY) < 10
    assert retry.pause(Error("DEADLINE_EXCEEDED", "a little early")) < 10
    clock.now += 10
    for ends in (retry.seconds_left, lambda: retry.pause(Error("DEADLINE_EXCEEDED", "late"))):
        with pytest.raises(Error, match="DEADLINE_EXCEEDED: it took longer than 30 seconds") as raised:
            ends()
        assert raised.value.__cause__ is AWAY


@pytest.mark.parametrize("code", ["UNKNOWN", "INTERNAL", "CANCELLED", "ABORTED", "DATA_LOSS"])
def test_a_broken_line_is_no_end_for_those_who_only_read(code: str) -> None:
    Retry(30, reads=True).pause(Error(code, "broken"))
    for retry, error in ((Retry(30), Error(code, "broken")), (Retry(30, reads=True), Error(code, "told", "INTERNAL"))):
        with pytest.raises(Error):
            retry.pause(error)


def test_a_refusal_is_an_end() -> None:
    for code in ("NOT_FOUND", "UNAUTHENTICATED", "OUT_OF_RANGE", "DEADLINE_EXCEEDED", "UNIMPLEMENTED"):
        with pytest.raises(Error):
            Retry(30, reads=True).pause(Error(code, "refused"))
