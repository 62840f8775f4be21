"""ListOffsets as we send it, and its answer taken apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from kafka.errors import OffsetNotAvailableError, UnknownTopicOrPartitionError
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.protocol.error_codes import Answer, Do, error_of, forbids_topic, means
from aktor.protocol.partitions import listed
from aktor.protocol.refusals import refused, topics_refused
from aktor.settings import Settings
from aktor.values import Mutable

__all__ = ["ListedOffsets", "list_offsets"]

#: The offset in an answer to ListOffsets that found none.
NO_OFFSET: Final = -1


def list_offsets(
    timestamps: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
    *,
    seconds: float,
    settings: Settings,
) -> Any:
    """The request for these partitions and timestamps; their leaders have these epochs. It may take
    so many seconds."""
    committed = settings.isolation_level == "read_committed"
    topics: defaultdict[str, list[Any]] = defaultdict(list)
    for tp, timestamp in timestamps.items():
        topics[tp.topic].append(
            ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=tp.partition,
                current_leader_epoch=epochs[tp],
                timestamp=timestamp,
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        timeout_ms=max(0, int(seconds * 1000)),
        # v0 answers in segments; before v2 a broker cannot tell committed from aborted.
        min_version=2 if committed else 1,
    )


class ListedOffsets(Mutable, kw_only=False):
    """An answer to ListOffsets, taken apart: what was found, what to ask again, what was refused.

    An offset of None says that no record is from the time that was asked for, or later.
    """

    offsets: dict[TopicPartition, OffsetAndTimestamp | None] = field(default_factory=dict)
    troubles: dict[TopicPartition, Exception] = field(default_factory=dict)
    refused: dict[TopicPartition, type[Exception]] = field(default_factory=dict)
    #: Why there is no offset, if the answer has an error that means that there is none.
    without: dict[TopicPartition, type[Exception]] = field(default_factory=dict)
    #: In which answer, and which broker has given it.
    answer: Answer = Answer.LIST_OFFSETS
    by: str = ""

    @classmethod
    def of(
        cls, answer: Answer, response: Any, asked: Iterable[TopicPartition], by: str
    ) -> ListedOffsets:
        """The part of an answer for each partition that was asked for. A partition that is left out
        counts as UNKNOWN_TOPIC_OR_PARTITION."""
        left_out = dict.fromkeys(asked, True)
        by_code: defaultdict[int, dict[TopicPartition, Any]] = defaultdict(dict)
        for topic in response.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if left_out.pop(tp, False):  # otherwise it was never asked for
                    by_code[partition.error_code][tp] = partition
        offsets: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        troubles: dict[TopicPartition, Exception] = {
            tp: UnknownTopicOrPartitionError() for tp in left_out
        }
        refusals: dict[TopicPartition, type[Exception]] = {}
        without: dict[TopicPartition, type[Exception]] = {}
        for code, parts in by_code.items():
            kind = error_of(code)
            meaning = means(answer, kind)
            if Do.DONE in meaning:
                for tp, part in parts.items():
                    if part.offset < NO_OFFSET:
                        troubles[tp] = OffsetNotAvailableError(f"it named the offset {part.offset}")
                    else:
                        offsets[tp] = _found(part)
                if code:
                    without.update(dict.fromkeys(parts, kind))
            elif Do.RAISE in meaning:
                refusals.update(dict.fromkeys(parts, kind))
            else:
                troubles.update((tp, kind()) for tp in parts)
        return cls(offsets, troubles, refusals, without, answer, by)

    def is_no_end(self, tp: TopicPartition) -> None:
        """An end of the log was asked for, which each log has. So an answer without an offset means
        that the leader does not know it yet (KIP-207), or has refused to tell it."""
        del self.offsets[tp]
        if tp in self.without:
            self.refused[tp] = self.without[tp]
        else:
            self.troubles[tp] = OffsetNotAvailableError()

    def refusals(
        self, of: Iterable[TopicPartition]
    ) -> list[tuple[Exception, list[TopicPartition]]]:
        """The errors to raise for these partitions, each with those that it is about."""
        by_kind: dict[type[Exception], list[TopicPartition]] = {}
        for tp in of:
            if tp in self.refused:
                by_kind.setdefault(self.refused[tp], []).append(tp)
        return [(self._refusal(kind, refused), refused) for kind, refused in by_kind.items()]

    def _refusal(self, kind: type[Exception], those: list[TopicPartition]) -> Exception:
        if forbids_topic(kind):
            topics = {tp.topic for tp in those}
            return topics_refused(kind, topics, self.answer, by=self.by)
        return refused(kind, listed(those), self.answer, by=self.by)


def _found(answer: Any) -> OffsetAndTimestamp | None:
    if answer.error_code or answer.offset == NO_OFFSET:
        return None
    timestamp = -1 if answer.timestamp is None else answer.timestamp
    epoch = -1 if answer.leader_epoch is None else answer.leader_epoch
    return OffsetAndTimestamp(answer.offset, timestamp, epoch)
