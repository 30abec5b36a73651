import asyncio
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from conftest import PATIENCE_SECONDS, SILENCE, Refusal, Server

from longhaul import AsyncClient, Error
from longhaul._client import _Alarm
from longhaul.v1.event_pb2 import Event
from longhaul.v1.job_pb2 import Job
from longhaul.v1.job_service_pb2 import Heartbeat, OutputDelta, WatchJobRequest, WatchJobResponse

BREAK = Refusal(grpc.StatusCode.CANCELLED)
AWAY = Refusal(grpc.StatusCode.UNAVAILABLE, "WATCH_LAGGED")
SNAPSHOT = WatchJobResponse(snapshot=Job(last_sequence=2))
HEARTBEAT = WatchJobResponse(heartbeat=Heartbeat())
TEXT = WatchJobResponse(output_delta=OutputDelta(text="Once"))


def event(sequence: int) -> WatchJobResponse:
    return WatchJobResponse(event=Event(sequence=sequence))


def after(server: Server) -> list[int | None]:
    """After which sequence each watch was asked for."""
    return [asked.after_sequence if asked.HasField("after_sequence") else None for asked in server.asked]


def test_no_event_is_lost_or_repeated(client: Any, server: Server) -> None:
    server.answers = [[event(1), event(2), AWAY], [HEARTBEAT, event(2), event(1), event(3), BREAK], [event(4)]]
    assert list(client.watch("j", after_sequence=0)) == [event(1), event(2), event(3), event(4)]
    assert after(server) == [0, 2, 3]


def test_it_goes_on_after_a_snapshot(client: Any, server: Server) -> None:
    server.answers = [[BREAK], [SNAPSHOT, BREAK], [event(2), event(3), TEXT, BREAK], [TEXT]]
    assert list(client.watch("j", include_output_deltas=True)) == [SNAPSHOT, event(3), TEXT, TEXT]
    assert after(server) == [None, None, 2, 3]
    assert all(asked.include_output_deltas and not asked.include_notices for asked in server.asked)


def test_a_refusal_ends_it(client: Any, server: Server) -> None:
    server.answers = [[event(1), Refusal(grpc.StatusCode.INTERNAL, "INTERNAL")]]
    watch = client.watch("j", after_sequence=0)
    assert next(watch) == event(1)
    with pytest.raises(Error, match="INTERNAL") as raised:
        next(watch)
    assert raised.value.reason == "INTERNAL"


def test_it_gives_up_with_the_last_error(client: Any, server: Server) -> None:
    server.answers = [[AWAY]]
    with pytest.raises(Error) as raised:
        list(client.watch("j", patience=0))
    assert raised.value.reason == "WATCH_LAGGED"


def test_a_silent_line_is_dead(client: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longhaul._base.SILENCE_SECONDS", 0.2)
    silent = iter([[SILENCE], [SILENCE]])

    def answers(request: WatchJobRequest) -> list[Any]:
        return next(silent, [event(2)]) if request.after_sequence else [event(1), SILENCE]

    server.answers = answers
    assert list(client.watch("j", after_sequence=0)) == [event(1), event(2)]
    assert all(left.wait(PATIENCE_SECONDS) for left in server.left)
    server.answers = [[SILENCE]]
    with pytest.raises(Error, match="nothing came"):
        list(client.watch("j", patience=0))


def test_who_takes_long_is_no_silent_line(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, cancelled, now = threading.Semaphore(0), threading.Event(), time.monotonic

    def clock() -> float:
        looked.release()
        return now()

    monkeypatch.setattr("longhaul._base.SILENCE_SECONDS", 0.01)
    monkeypatch.setattr("longhaul._client.time.monotonic", clock)
    alarm = _Alarm(cancelled.set)
    assert all(looked.acquire(timeout=PATIENCE_SECONDS) for _ in range(3))
    assert not cancelled.is_set()
    with pytest.raises(TimeoutError), alarm:
        assert cancelled.wait(PATIENCE_SECONDS)


def test_leaving_early_ends_the_call(client: Any, server: Server) -> None:
    server.answers = [[event(1), SILENCE]]
    with closing(client.watch("j")) as watch:
        assert next(watch) == event(1)
    assert server.left[0].wait(PATIENCE_SECONDS)


def test_closing_the_client_ends_its_watches(client: Any, server: Server) -> None:
    server.answers = [[event(1), SILENCE]]
    watch = client.watch("j")
    next(watch)
    client.close()
    assert server.left[0].wait(PATIENCE_SECONDS)
    with pytest.raises((Error, asyncio.CancelledError)):
        next(watch)


def test_cancelling_the_task_ends_the_watch(server: Server) -> None:
    server.answers = [[event(1), SILENCE]]

    async def watch() -> None:
        came = asyncio.Event()

        async def until_cancelled() -> None:
            async with AsyncClient(server.address) as client:
                async for _ in client.watch("j"):
                    came.set()

        task = asyncio.create_task(until_cancelled())
        await came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(watch())
    assert server.left[0].wait(PATIENCE_SECONDS)
    assert len(server.asked) == 1


BLOCKING = """
from longhaul import Client
client = Client({address!r})
for message in client.watch("j"):
    break
kept = client.watch("j")
next(kept)
"""
ASYNCIO = """
import asyncio
from longhaul import AsyncClient
async def main():
    client = AsyncClient({address!r})
    async for message in client.watch("j"):
        break
    kept = client.watch("j")
    await anext(kept)
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [BLOCKING, ASYNCIO])
def test_a_program_that_leaves_a_watch_ends(server: Server, program: str, tmp_path: Path) -> None:
    server.answers = [[event(1), SILENCE], [event(1), SILENCE]]
    command = [sys.executable, "-W", "error", "-c", program.format(address=server.address)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(left.wait(PATIENCE_SECONDS) for left in server.left)
