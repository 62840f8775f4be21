"""Resets: leaders are asked by ListOffsets where their logs begin or end (state AWAIT_RESET)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from kafka.errors import OffsetNotAvailableError
from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.events.network import RequestFailed, ResponseReceived
from aktor.events.positions import Position, ResetStrategy
from aktor.managers.positions.leaders import Asked, LeaderRequests, Leaders, Send
from aktor.managers.positions.list_offsets import ListedOffsets, list_offsets
from aktor.managers.positions.partition import Partition, Partitions, State, Trigger, WantedReset
from aktor.protocol.error_codes import Answer, Do, means
from aktor.protocol.partitions import listed
from aktor.protocol.refusals import explained
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["Resets"]


class Resets(LeaderRequests):
    """Finds the positions of the partitions in AWAIT_RESET.

    `wall` tells the time since the epoch, in seconds.
    """

    WAITING = State.AWAIT_RESET
    ANSWER = Answer.LIST_OFFSETS

    def __init__(
        self,
        settings: Settings,
        partitions: Partitions,
        leaders: Leaders,
        *,
        wall: Callable[[], float],
        send: Send,
        log: Trace,
    ) -> None:
        super().__init__(partitions, leaders, send=send, log=log)
        self._settings = settings
        self._wall = wall

    # -- what is sent

    def _wanted(self, partition: Partition) -> WantedReset:
        return partition.wanted_reset

    def _body(self, epochs: Mapping[TopicPartition, int], seconds: float) -> Any:
        wall = self._wall()
        timestamps = {tp: self._partitions[tp].timestamp(wall) for tp in epochs}
        return list_offsets(timestamps, epochs, seconds=seconds, settings=self._settings)

    def explain(self, tp: TopicPartition, now: float) -> str:
        """What the position of a partition in AWAIT_RESET waits for."""
        partition = self._partitions[tp]
        where = {ResetStrategy.EARLIEST: "begins", ResetStrategy.LATEST: "ends"}
        of = where.get(partition.strategy) if partition.strategy is not None else None
        asked = partition.asked if partition.exchange.in_flight else None
        why = self._leaders.obstacle(tp, asked, partition.trouble, now)
        return f"where its log {of or 'is'}: {why}"

    # -- what is answered

    def answered(self, received: ResponseReceived) -> None:
        """Apply what is still wanted, ask again for the rest."""
        asked: Asked = received.request.context
        by = self._leaders.name(received.node)
        found = ListedOffsets.of(self.ANSWER, received.response, asked.wanted, by)
        self._listed(asked, found, received.now, received.jitter)

    def failed(self, failed: RequestFailed) -> None:
        """The leader did not answer: perhaps it is another one now."""
        asked: Asked = failed.request.context
        if Do.RAISE in means(self.ANSWER, type(failed.error)):
            error = explained(failed.error, listed(asked.wanted), self.ANSWER)
            self._partitions.fail(self._still_wanted(asked), error)
            return
        unanswered = ListedOffsets(troubles=dict.fromkeys(asked.wanted, failed.error))
        self._listed(asked, unanswered, failed.now, failed.jitter)

    def _listed(self, asked: Asked, found: ListedOffsets, now: float, jitter: float) -> None:
        resets: dict[TopicPartition, OffsetAndTimestamp] = {}
        troubles: dict[TopicPartition, Exception] = {}
        wanted = self._still_wanted(asked)
        for tp in wanted:
            partition = self._partitions[tp]
            offset = found.offsets.get(tp)
            if tp in found.offsets:
                offset = partition.answered(offset)
            if offset is not None:
                partition.was_reset(offset.offset, now, jitter)
                resets[tp] = offset
            elif tp in found.offsets and partition.goes_on:
                continue
            elif tp not in found.refused:
                troubles[tp] = found.troubles.get(tp) or OffsetNotAvailableError()
        self._reset(resets)
        for error, those in found.refusals(wanted):
            self._partitions.fail(those, error)
        self._retry(troubles, now, jitter)

    def _reset(self, found: Mapping[TopicPartition, OffsetAndTimestamp]) -> None:
        groups: defaultdict[tuple[str, str], list[TopicPartition]] = defaultdict(list)
        positions: dict[TopicPartition, Position] = {}
        for tp, offset in found.items():
            partition = self._partitions.move(tp, Trigger.END_FOUND)
            groups[partition.way, partition.because].append(tp)
            positions[tp] = partition.starts_at(offset)
        for (strategy, because), partitions in groups.items():
            from_offsets = {tp: self._partitions[tp].from_offset for tp in partitions}
            is_loss = any(offset is not None for offset in from_offsets.values())
            facts = {
                "partitions": {tp: found[tp].offset for tp in partitions},
                "from_offsets": from_offsets,
                "strategy": strategy,
                "because": because,
            }
            if is_loss:
                self._log.warning("position.reset", **facts)
            else:
                self._log.info("position.reset", **facts)
        self._partitions.resolved(positions, because="reset")
