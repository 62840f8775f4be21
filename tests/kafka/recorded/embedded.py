"""An embedded broker with the settings of the real one that was recorded."""

from __future__ import annotations

import threading
import time
from typing import Self

from aktor.broker import EmbeddedKafka
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.server import Clock
from aktor.broker.settings import ClusterSettings

__all__ = ["Ticking", "embedded_kafka"]

_TICK_S = 0.01
_LONGEST_TICK_S = 0.05


class Ticking(Clock):
    """Real time, less what passes while this process stands still.

    Some scenarios have sessions of half a second. A machine that stalls for longer would end them
    between two requests; by this clock, which a thread of the same process winds, it does not.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = super().__call__()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="ticking clock", daemon=True)

    def __call__(self) -> float:
        return self._now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _tick(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(_TICK_S):
            now = time.monotonic()
            self._now += min(now - before, _LONGEST_TICK_S)
            before = now


def embedded_kafka(clock: Clock | None = None) -> EmbeddedKafka:
    """One broker, not yet started, with what `tests.kafka.real` calls QUICK."""
    groups = GroupSettings(
        initial_rebalance_delay=0.0,
        min_session_timeout=0.5,
        consumer_min_heartbeat_interval=0.1,
        consumer_heartbeat_interval=0.5,
        consumer_min_session_timeout=1.0,
        consumer_session_timeout=6.0,
    )
    settings = ClusterSettings(
        groups=groups,
        offsets_topic_partitions=4,
        transactions_topic_partitions=4,
        topic_configs={"segment.index.bytes": "1048576"},
    )
    return EmbeddedKafka(brokers=1, racks=("rack-1",), settings=settings, clock=clock)
