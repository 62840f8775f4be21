"""Which partitions without a committed offset are new: with "latest", those are read from their
first record.

A partition that a topic gains has no position, and "latest" would skip every record that is written
to it before somebody notices it (KAFKA-12261, KIP-1327). Brokers do not tell when a partition was
made. So there are three witnesses, and without one of them a partition is not new:

- The metadata: the topic had fewer partitions, or did not exist, when this member began to follow
  it.
- The notes in the group's commits (`commit_note`), for a member that did not see that: the topic
  had fewer partitions when some member of the group began to follow it.
- The group's offsets, where commits have no notes: offsets are committed for all partitions of the
  topic with lower numbers, and for none from there on. Only with auto-commit on: it commits the
  position of each partition that is owned, also where there are no records. A group that commits
  only what it has read leaves gaps, or nothing to tell a new partition from an idle one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.metadata import Cluster, TopicInfo
from aktor.protocol.commit_note import count_in
from aktor.settings import Settings
from aktor.values import Value

__all__ = ["NewPartitions", "Verdict"]

#: Whether a partition is new, and why.
Verdict = tuple[bool, str]

NO_GROUP: Final = False, "there is no group whose commits would tell"
NO_AUTO_COMMIT: Final = False, "auto-commit is off: an idle partition may have no committed offset"
FIRST: Final = False, "it is the first partition of its topic"
NOTHING: Final = False, "the group has committed nothing for its topic"
NOT_DESCRIBED: Final = False, "its topic is described without it"
GAPS: Final = False, "the group has committed no offset for others of its topic, either"


class NewPartitions:
    """Owns what is asked of the group's offsets, to find out which partitions are new."""

    def __init__(self, settings: Settings) -> None:
        self._has_group = settings.group_id is not None
        self._commits_idle_ones = settings.enable_auto_commit
        #: By topic: the partitions in question, and what is committed for the others.
        self._in_question: dict[str, set[int]] = {}
        self._committed: dict[str, dict[int, OffsetAndMetadata | None]] = {}

    def note(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """These offsets were looked up; None where none is committed."""
        for tp, offset in committed.items():
            if self._has_group:
                self._committed.setdefault(tp.topic, {})[tp.partition] = offset

    def judge(
        self, partitions: Iterable[TopicPartition], cluster: Cluster
    ) -> dict[TopicPartition, Verdict | None]:
        """Whether these partitions, which have no committed offset, are new. None: the topic must
        be described first, or `missing` looked up, and `note` called."""
        # Once for each topic, not for each partition: there may be thousands.
        told: dict[str, _Told | None] = {}
        verdicts: dict[TopicPartition, Verdict | None] = {}
        for tp in partitions:
            info = cluster.topics.get(tp.topic)
            if info is not None and info.has_gained(tp.partition):
                verdicts[tp] = True, _seen(info)
                continue
            if info is not None and not self._has_group:
                verdicts[tp] = NO_GROUP
                continue
            self._in_question.setdefault(tp.topic, set()).add(tp.partition)
            if tp.topic not in told:
                told[tp.topic] = None if info is None else self._by_group(tp.topic, info)
            group = told[tp.topic]
            verdicts[tp] = None if group is None else group.verdict(tp.partition)
        return verdicts

    def _by_group(self, topic: str, info: TopicInfo) -> _Told | None:
        """What the group's commits tell; None: some must be looked up first."""
        if self._missing_of(topic, info):
            return None
        committed = self._committed.get(topic, {})
        counts = [count_in(one.metadata) for one in committed.values() if one is not None]
        return _Told(
            least=min((count for count in counts if count is not None), default=None),
            first=min(info.partitions, default=None),
            by_offsets=self._by_offsets(committed, info) if counts else NOTHING,
        )

    def _by_offsets(
        self, committed: Mapping[int, OffsetAndMetadata | None], info: TopicInfo
    ) -> Verdict:
        if not self._commits_idle_ones:
            return NO_AUTO_COMMIT
        uncommitted = (number for number in info.partitions if committed[number] is None)
        first = min(uncommitted, default=None)
        if first is None:
            return NOT_DESCRIBED
        if any(committed[number] for number in info.partitions if number > first):
            return GAPS
        return True, f"the group has committed offsets for all of its topic's first {first}, only"

    def missing(self, cluster: Cluster) -> frozenset[TopicPartition]:
        """The partitions whose committed offsets must be known, and are not."""
        return frozenset(
            TopicPartition(topic, number)
            for topic in self._in_question
            if (info := cluster.topics.get(topic)) is not None
            for number in self._missing_of(topic, info)
        )

    def _missing_of(self, topic: str, info: TopicInfo) -> Collection[int]:
        return info.partitions.keys() - self._committed.get(topic, {}).keys()

    @property
    def in_question(self) -> frozenset[TopicPartition]:
        """The partitions that have no verdict yet."""
        return frozenset(
            TopicPartition(topic, number)
            for topic, numbers in self._in_question.items()
            for number in numbers
        )

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not in question any more. What is known of a topic is forgotten with the last
        partition in question: the group may commit more."""
        for tp in partitions:
            self._in_question.get(tp.topic, set()).discard(tp.partition)
        self._in_question = {topic: left for topic, left in self._in_question.items() if left}
        self._committed = {
            topic: known for topic, known in self._committed.items() if topic in self._in_question
        }


class _Told(Value):
    """What a group's commits tell of a topic: the least count in a note, the topic's first
    partition, and what the offsets say of any other that has none."""

    least: int | None
    first: int | None
    by_offsets: Verdict

    def verdict(self, partition: int) -> Verdict:
        """Whether this partition is new."""
        if self.least is not None and partition >= self.least:
            return True, f"its topic had {self.least} partitions when the group began to follow it"
        return FIRST if partition == self.first else self.by_offsets


def _seen(info: TopicInfo) -> str:
    """How this member has seen that a partition of the topic is new."""
    if not info.had:
        return "its topic did not exist when this member began to look for it"
    return f"its topic had {info.had} partitions when this member began to follow it"
