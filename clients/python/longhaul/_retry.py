"""When a call is tried again, and when no more."""

import math
import random
import time

from ._error import Error

# What passes by itself, and how a line that broke is told: those say nothing of what became of the call.
_PASSING = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED"})
_BREAKS = frozenset({"UNKNOWN", "INTERNAL", "CANCELLED", "ABORTED", "DATA_LOSS"})


class Retry:
    """Counts the tries of a call, or of one that only reads since it was last answered."""

    def __init__(
        self, seconds: float, *, attempts: float = math.inf, reads: bool = False, to_the_end: bool = False
    ) -> None:
        """Takes how long and how often to try, and whether the call only reads, so that a broken line is no end.

        `to_the_end`: the time is one for all answers, and only when it is over is what passes an end.
        """
        self._seconds, self._attempts, self._reads, self._to_the_end = seconds, attempts, reads, to_the_end
        self._deadline = time.monotonic() + seconds
        self._last: Error | None = None
        self.begin()

    def begin(self) -> None:
        """Begins anew: there was an answer."""
        self._failures, self._last = 0, None
        if not self._to_the_end:
            self._deadline = time.monotonic() + self._seconds

    def seconds_left(self) -> float:
        """How long the call may still take; three years are as good as ever, which gRPC does not know."""
        left = max(0.0, min(self._deadline - time.monotonic(), 1e8))
        if self._last and not left:
            raise Error("DEADLINE_EXCEEDED", f"it took longer than {self._seconds:g} seconds") from self._last
        return left

    def pause(self, error: Error) -> float:
        """How many seconds to wait before the next try; raises the error, or that the time is over, if none is left."""
        seconds = error.retry_after
        if seconds is None:
            seconds = min(0.1 * 2 ** min(self._failures, 6), 5.0) * random.uniform(0.5, 1.0)  # noqa: S311
        self._failures += 1
        passes = error.code in _PASSING or (self._reads and error.code in _BREAKS and not error.reason)
        if self._to_the_end and (passes or error.code == "DEADLINE_EXCEEDED"):
            self._last = error if passes else self._last or error
            return min(seconds, self.seconds_left())
        if not passes or self._failures >= self._attempts or seconds >= self.seconds_left():
            raise error
        return seconds
