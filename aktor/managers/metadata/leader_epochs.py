"""Leader epochs that are too high: the metadata told them, and the leaders do not know them."""

from __future__ import annotations

from typing import Final

from kafka.structs import TopicPartition

from aktor.values import Mutable

__all__ = ["DoubtedEpochs"]

#: A leader that hears of its election later than we do knows the epoch after a moment. One that
#: does not know it after so many seconds was never elected in it.
DOUBTED_FOR: Final = 1.0

#: Refusals further apart than this, in seconds, have different causes: a request that is refused is
#: repeated within `retry_backoff_max_ms`, 1 s by default.
APART: Final = 5.0


class _Doubt(Mutable):
    """Since when, and until when, the leader has refused this epoch."""

    epoch: int
    since: float
    until: float


class DoubtedEpochs:
    """Owns which leader epochs the leaders themselves refuse by UNKNOWN_LEADER_EPOCH.

    An answer with an older epoch comes from a broker that lags behind, and is ignored (KAFKA-9212).
    If a broker has told an epoch that never was, each true one seems to be older, and each request
    with the false one is refused. A topic without an id that was deleted and created again begins
    anew, too. The Java client does not get out of this until the topic's id changes.
    """

    def __init__(self) -> None:
        self._doubts: dict[TopicPartition, _Doubt] = {}

    def refused(self, tp: TopicPartition, epoch: int, now: float) -> bool:
        """The leader does not know this epoch; whether it is wrong by now."""
        doubt = self._doubts.get(tp)
        if doubt is None or doubt.epoch != epoch or now - doubt.until > APART:
            doubt = self._doubts[tp] = _Doubt(epoch=epoch, since=now, until=now)
        doubt.until = now
        return self.is_wrong(tp, epoch)

    def is_wrong(self, tp: TopicPartition, epoch: int) -> bool:
        """Whether the leader has refused this epoch for long enough."""
        doubt = self._doubts.get(tp)
        return (
            doubt is not None and doubt.epoch == epoch and doubt.until - doubt.since >= DOUBTED_FOR
        )

    def forget(self, tp: TopicPartition) -> None:
        """A broker has told this epoch again, or a later one; or the partition is gone."""
        self._doubts.pop(tp, None)
