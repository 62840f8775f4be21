"""What was recorded in the last while: averages, maxima and rates over kafka-python's windows.

The numbers are those of its `kafka.metrics.stats` (Avg, Max, Rate, Count), from one object that is
written in a third of a microsecond. There is no clock here: the time in seconds is passed in. The
owner records; any thread may read, and changes nothing by it.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["SAMPLES", "WINDOW", "Sensor"]

#: kafka-python's `metrics_num_samples`, and `metrics_sample_window_ms` in seconds.
SAMPLES: Final = 2
WINDOW: Final = 30.0


class _Sample:
    """What was recorded since `began`."""

    __slots__ = ("began", "count", "most", "total")

    def __init__(self, began: float) -> None:
        self.began = began
        self.count = 0
        self.total = 0.0
        self.most = -math.inf


class Sensor:
    """Owns the values of the last `samples` windows, each of `window` seconds.

    A window begins with the first value after the end of the one before. `count` is of all values
    that were ever recorded.
    """

    __slots__ = ("_before", "_current", "_number", "_samples", "_window")

    def __init__(self, samples: int = SAMPLES, window: float = WINDOW) -> None:
        self._number = samples
        self._window = window
        #: The latest windows, the newest last. Replaced as a whole.
        self._samples: tuple[_Sample, ...] = ()
        self._current = _Sample(-math.inf)
        #: How many values were recorded before the current window.
        self._before = 0

    def record(self, value: float, now: float) -> None:
        """Add one value."""
        sample = self._current
        if now - sample.began >= self._window:
            sample = self._begin(now)
        sample.count += 1
        sample.total += value
        if value > sample.most:
            sample.most = value

    def _begin(self, now: float) -> _Sample:
        self._before += self._current.count
        self._current = _Sample(now)
        self._samples = (*self._samples, self._current)[-self._number :]
        return self._current

    @property
    def count(self) -> int:
        """How many values were ever recorded."""
        return self._before + self._current.count

    def average(self, now: float) -> float:
        """The average value; 0 if there is none."""
        samples = self._recent(now)
        count = sum(sample.count for sample in samples)
        return sum(sample.total for sample in samples) / count if count else 0.0

    def maximum(self, now: float) -> float:
        """The largest value; -inf if there is none, as in kafka-python."""
        return max((sample.most for sample in self._recent(now)), default=-math.inf)

    def rate(self, now: float) -> float:
        """The sum of the values, per second."""
        return self._per_second(sum(sample.total for sample in self._recent(now)), now)

    def frequency(self, now: float) -> float:
        """The number of values, per second."""
        return self._per_second(sum(sample.count for sample in self._recent(now)), now)

    def _recent(self, now: float) -> list[_Sample]:
        oldest = now - self._number * self._window
        return [sample for sample in self._samples if sample.began > oldest]

    def _per_second(self, amount: float, now: float) -> float:
        """All windows but the last count as whole ones: otherwise the rate would be far too high
        in the first seconds."""
        elapsed = max(0.0, now - min((sample.began for sample in self._recent(now)), default=now))
        missing = self._number - 1 - int(elapsed / self._window)
        elapsed += max(0, missing) * self._window
        return amount / elapsed if elapsed else 0.0
