"""What the fetch manager measures, for `consumer.metrics()`: the sizes of Fetches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from aktor.events.metric import FETCH_METRICS, Metric
from aktor.managers.fetch.session import FetchSession
from aktor.protocol.fetch import FetchedPartition
from aktor.sensor import Sensor

__all__ = ["METRICS", "FetchMetrics", "sizes"]

_NO_TAGS: Final[tuple[tuple[str, str], ...]] = ()


def sizes(tags: tuple[tuple[str, str], ...] = _NO_TAGS) -> tuple[Metric, Metric]:
    """The average and the maximum: of a topic, or of all."""
    of = f" of {tags[0][1]}" if tags else ""
    return (
        Metric(
            name="fetch-size-avg",
            group=FETCH_METRICS,
            kind="average",
            description=f"bytes of records{of} in a Fetch that has any",
            tags=tags,
        ),
        Metric(
            name="fetch-size-max",
            group=FETCH_METRICS,
            kind="maximum",
            description=f"bytes of records{of} in a Fetch that has any",
            tags=tags,
        ),
    )


METRICS: Final = sizes()


class FetchMetrics:
    """Owns the sizes of the last Fetches, in all and by topic."""

    __slots__ = ("_all", "_samples", "_topics", "_window")

    def __init__(self, samples: int, window: float) -> None:
        self._samples, self._window = samples, window
        self._all = Sensor(samples, window)
        self._topics: dict[str, tuple[Sensor, tuple[Metric, Metric]]] = {}

    def answered(
        self,
        partitions: Iterable[FetchedPartition],
        size: int,
        now: float,
        *,
        session: FetchSession,
    ) -> None:
        """A Fetch has brought `size` bytes of records; its session knows how topics are named."""
        if not size:
            return
        self._all.record(size, now)
        sizes: dict[str | bytes, int] = {}
        for fetched in partitions:
            sizes[fetched.topic] = sizes.get(fetched.topic, 0) + len(fetched.records)
        for topic, of_topic in sizes.items():
            name = session.name_of(topic)
            if of_topic and name is not None:
                self._sensor(name, now).record(of_topic, now)

    def _sensor(self, topic: str, now: float) -> Sensor:
        found = self._topics.get(topic)
        if found is None:
            # Topics come and go: those of which nothing came lately are forgotten.
            self._topics = {name: of for name, of in self._topics.items() if of[0].frequency(now)}
            sensor = Sensor(self._samples, self._window)
            found = self._topics[topic] = sensor, sizes((("topic", topic),))
        return found[0]

    def measure(self, now: float) -> Mapping[Metric, float]:
        """The values as of now."""
        values: dict[Metric, float] = {}
        for sensor, (average, maximum) in ((self._all, METRICS), *self._topics.values()):
            values[average] = sensor.average(now)
            values[maximum] = sensor.maximum(now)
        return values
