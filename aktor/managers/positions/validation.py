"""Validation: does the leader's log have what we have read? (KIP-320, KIP-595)

When a leader was elected since the record before a position was written, the leader is asked by
OffsetForLeaderEpoch (state VALIDATING). If its log is another one, by its answer or by a Fetch that
diverges, the application is told (state TRUNCATED).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from kafka.errors import NoError, UnknownTopicOrPartitionError
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.structs import TopicPartition

from aktor.events.message import Message
from aktor.events.network import RequestFailed, ResponseReceived
from aktor.events.positions import (
    Divergence,
    Position,
    PositionsDiverged,
    PositionsValidated,
    TruncationFound,
    Validated,
    ValidatePositions,
)
from aktor.managers.positions.leaders import Asked, LeaderRequests, Leaders, Send
from aktor.managers.positions.partition import Partition, Partitions, State, Trigger
from aktor.protocol.error_codes import Answer, Do, error_of, means
from aktor.trace import Trace
from aktor.values import Value

__all__ = ["Validation"]


class _Validated(Value, kw_only=False):
    """A position in validation: its answer counts while the partition has both."""

    epoch: int
    position: Position


class Validation(LeaderRequests):
    """Validates the positions of the partitions in VALIDATING."""

    WAITING = State.VALIDATING
    ANSWER = Answer.OFFSET_FOR_LEADER_EPOCH

    def __init__(
        self,
        partitions: Partitions,
        leaders: Leaders,
        *,
        send: Send,
        say: Callable[[Message], None],
        log: Trace,
    ) -> None:
        super().__init__(partitions, leaders, send=send, log=log)
        self._say = say

    # -- what the fetch manager tells

    def begin(self, asked: ValidatePositions) -> None:
        """Leaders were elected: ask them whether they have these positions."""
        positions: dict[TopicPartition, int] = {}
        for tp, assigned in asked.partitions.items():
            if self._is_resolved(tp, assigned.epoch, because="a validation"):
                assert assigned.position is not None, "no position to validate"
                partition = self._partitions.move(tp, Trigger.LEADER_ELECTED)
                partition.validate(assigned.position)
                positions[tp] = assigned.position.offset
        if positions:
            self._log.info("position.validating", partitions=positions)

    def diverged(self, told: PositionsDiverged) -> None:
        """Fetches were answered with a diverging epoch."""
        self._truncated(
            {
                tp: found
                for tp, found in told.partitions.items()
                if self._is_resolved(tp, found.epoch, because="a divergence")
            }
        )

    def _is_resolved(self, tp: TopicPartition, epoch: int, *, because: str) -> bool:
        """Whether the partition still has the position of this epoch."""
        partition = self._partitions.get(tp)
        if partition is None or partition.epoch != epoch or partition.state is not State.RESOLVED:
            self._log.info("position.dropped", partitions=[tp], because=f"{because}, moved on")
            return False
        return True

    # -- what is sent

    def _wanted(self, partition: Partition) -> _Validated:
        assert partition.position is not None, "no position to validate"
        return _Validated(partition.epoch, partition.position)

    def _body(self, epochs: Mapping[TopicPartition, int], seconds: float) -> Any:
        """Where the epochs of these positions end. Before v3 only brokers may ask (KIP-320)."""
        topics: defaultdict[str, list[Any]] = defaultdict(list)
        kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        for tp, leader_epoch in epochs.items():
            topics[tp.topic].append(
                kind.OffsetForLeaderPartition(
                    partition=tp.partition,
                    current_leader_epoch=leader_epoch,
                    leader_epoch=self._position(tp).leader_epoch,
                )
            )
        return OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[kind(topic=name, partitions=partitions) for name, partitions in topics.items()],
            min_version=3,
        )

    def _position(self, tp: TopicPartition) -> Position:
        position = self._partitions[tp].position
        assert position is not None, "no position to validate"
        return position

    # -- what is answered

    def answered(self, received: ResponseReceived) -> None:
        """A leader says where the epochs of our positions end in its log."""
        asked: Asked = received.request.context
        answers = {
            TopicPartition(topic.topic, partition.partition): partition
            for topic in received.response.topics
            for partition in topic.partitions
        }
        diverged: dict[TopicPartition, Divergence] = {}
        errors: dict[TopicPartition, Exception | None] = {}
        for tp in self._still_wanted(asked):
            answer, position = answers.get(tp), self._position(tp)
            kind = error_of(answer.error_code) if answer else UnknownTopicOrPartitionError
            end = _end_of(answer) if kind is NoError else None
            if kind is NoError and _has_read_further(position, end):
                epoch = self._partitions[tp].epoch
                diverged[tp] = Divergence(
                    epoch=epoch, position=position, end=end, node=received.node
                )
            else:
                errors[tp] = None if kind is NoError else kind()
        self._truncated(diverged)
        self._validated(asked, errors, received.now, received.jitter)

    def failed(self, failed: RequestFailed) -> None:
        """The leader did not answer: perhaps it is another one now."""
        asked: Asked = failed.request.context
        errors = dict.fromkeys(self._still_wanted(asked), failed.error)
        self._validated(asked, errors, failed.now, failed.jitter)

    def _validated(
        self,
        asked: Asked,
        errors: Mapping[TopicPartition, Exception | None],
        now: float,
        jitter: float,
    ) -> None:
        """Fetch on where no error stands against it; ask again for the rest."""
        valid: dict[TopicPartition, Validated] = {}
        troubles: dict[TopicPartition, Exception] = {}
        for tp, error in errors.items():
            if error is None or Do.DONE in means(self.ANSWER, type(error)):
                epoch = self._partitions.move(tp, Trigger.VALID).epoch
                valid[tp] = Validated(epoch=epoch, leader_epoch=asked.epochs[tp])
            else:
                troubles[tp] = error
        if valid:
            self._log.info(
                "position.validated",
                partitions={tp: self._position(tp).offset for tp in valid},
                because=sorted({str(errors[tp]) for tp in valid if errors[tp]}) or None,
            )
            self._say(PositionsValidated(partitions=valid))
        self._retry(troubles, now, jitter)

    def _truncated(self, found: Mapping[TopicPartition, Divergence]) -> None:
        """The application compares with what it has given out: the records behind it may have been
        fetched ahead, and nothing be lost."""
        for tp in found:
            self._partitions.move(tp, Trigger.DIVERGED)
        if found:
            self._log.info(
                "position.diverged",
                partitions={tp: one.position.offset for tp, one in found.items()},
                leader_epochs={tp: one.position.leader_epoch for tp, one in found.items()},
                ends={
                    tp: one.end and (one.end.offset, one.end.leader_epoch)
                    for tp, one in found.items()
                },
                nodes={tp: one.node for tp, one in found.items()},
            )
            self._say(TruncationFound(partitions=found))


def _end_of(answer: Any) -> Position | None:
    """The last epoch up to ours that the leader knows, and where it ends there; None: none."""
    if answer.end_offset < 0 or answer.leader_epoch < 0:
        return None
    return Position(offset=answer.end_offset, leader_epoch=answer.leader_epoch)


def _has_read_further(position: Position, end: Position | None) -> bool:
    """Whether the epoch of the position is unknown to the leader, or ends before the position."""
    return end is None or end.offset < position.offset or end.leader_epoch < position.leader_epoch
