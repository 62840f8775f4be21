"""How many records and bytes were decoded, and how far behind the log that was: for metrics."""

from __future__ import annotations

from collections.abc import Callable

from aktor.consumer.core.partition import Partition
from aktor.events.fetching import Chunk
from aktor.sensor import SAMPLES, WINDOW, Sensor

__all__ = ["Consumption"]


class Consumption:
    """Owns the counts of what was decoded.

    Rates are measured when a chunk was read to its end, as in kafka-python: not with each poll.
    """

    __slots__ = (
        "_begun",
        "_clock",
        "_ended",
        "_new",
        "_told",
        "by_topic",
        "bytes",
        "lags",
        "recent",
        "records",
    )

    def __init__(
        self,
        clock: Callable[[], float] = lambda: 0.0,
        samples: int = SAMPLES,
        window: float = WINDOW,
    ) -> None:
        self._clock = clock
        self._new: Callable[[], tuple[Sensor, Sensor]] = lambda: (
            Sensor(samples, window),
            Sensor(samples, window),
        )
        self.records = 0
        self.bytes = 0
        #: The last records and bytes in all, and of each topic.
        self.recent = self._new()
        self.by_topic: dict[str, tuple[Sensor, Sensor]] = {}
        #: How many records were behind what was decoded, as kafka-python measures it: after the
        #: first records of a chunk, and at its end.
        self.lags = Sensor(samples, window)
        #: How many records of each topic were decoded and not measured yet.
        self._told: dict[str, int] = {}
        #: Partitions of which a chunk was begun; their lags are not measured yet.
        self._begun: list[Partition] = []
        #: Chunks that were read to their ends and are not measured yet, each with its lag.
        self._ended: list[tuple[Chunk, int]] = []

    def add_records(self, topic: str, count: int) -> None:
        """Count records that were decoded."""
        self.records += count
        self._told[topic] = self._told.get(topic, 0) + count
        if self._ended or self._begun:
            self._measure()

    def begin_chunk(self, state: Partition) -> None:
        """The next chunk of this partition is decoded."""
        self._begun.append(state)

    def add_chunk(self, chunk: Chunk, lag: int) -> None:
        """This chunk was decoded to its end; `lag` records are behind it."""
        self.bytes += len(chunk.data)
        self._ended.append((chunk, lag))

    def _measure(self) -> None:
        now, ended, begun = self._clock(), self._ended, self._begun
        self._ended, self._begun = [], []
        for state in begun:
            self.lags.record(state.lag_behind, now)
        for chunk, lag in ended:
            topic = chunk.partition.topic
            of_topic = self.by_topic.get(topic)
            if of_topic is None:
                of_topic = self._new()
                # Topics come and go: those of which nothing was read lately are forgotten.
                kept = {name: of for name, of in self.by_topic.items() if of[0].frequency(now)}
                self.by_topic = {**kept, topic: of_topic}  # any thread may iterate over it
            count = self._told.pop(topic, 0)
            for records, size in (self.recent, of_topic):
                records.record(count, now)
                size.record(len(chunk.data), now)
            self.lags.record(lag, now)
