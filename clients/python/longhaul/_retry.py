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

    def __init__(self, seconds: float, *, attempts: float = math.inf, reads: bool = False) -> None:
        """Takes how long and how often to try, and whether the call only reads, so that a broken line is no end."""
        self._seconds, self._attempts, self._reads = seconds, attempts, reads
        self.begin()

    def begin(self) -> None:
        """Begins anew: there was an answer."""
        self._failures, self._deadline = 0, time.monotonic() + self._seconds

    def seconds_left(self) -> float:
        """How long the call may still take; three years are as good as ever, which gRPC does not know."""
        return max(0.0, min(self._deadline - time.monotonic(), 1e8))

    def pause(self, error: Error) -> float:
        """How many seconds to wait before the next try; raises the error where there is none."""
        seconds = error.retry_after
        if seconds is None:
            seconds = min(0.1 * 2 ** min(self._failures, 6), 5.0) * random.uniform(0.5, 1.0)  # noqa: S311
        self._failures += 1
        passes = error.code in _PASSING or (self._reads and error.code in _BREAKS and not error.reason)
        if not passes or self._failures >= self._attempts or seconds >= self.seconds_left():
            raise error
        return seconds
