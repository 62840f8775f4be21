"""In whose name offsets are committed: the member, and the ids of the topics."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Set

from kafka.structs import TopicPartition

from aktor.events.membership import MemberChanged, MemberState
from aktor.events.metadata import Cluster
from aktor.managers.commits.requests import TopicIds

__all__ = ["CommitMember", "CommitTopics"]


class CommitMember:
    """Owns which member of which generation we are, and whether the group assigns our partitions.

    With `assign` the user chooses the partitions: then we commit without being a member.
    """

    def __init__(self) -> None:
        #: The last `MemberChanged` of the membership manager.
        self.now = MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED)
        #: Whether the group assigns our partitions.
        self.is_managed = False

    def changed(self, member: MemberChanged) -> None:
        """We are this member from now on."""
        self.now = member

    def assigned(self, *, by_group: bool) -> None:
        """We have other partitions now, from the group or from `assign`."""
        self.is_managed = by_group

    @property
    def has_joined(self) -> bool:
        """Whether there is a generation to commit in."""
        return self.now.generation >= 0

    @property
    def is_rebalancing(self) -> bool:
        """Whether the group rebalances."""
        return self.now.state is MemberState.REBALANCING

    @property
    def may_commit(self) -> bool:
        """Whether we can commit now: we are a member, or the user assigned the partitions."""
        return self.has_joined or not self.is_managed

    def moves_on_from(self, generation: int) -> bool:
        """Whether we are a member of a newer generation than this, or will be soon.

        The answer to a commit may arrive before MemberChanged does. But while partitions are being
        revoked we do not join, and the revocation waits for this commit: waiting for a new
        generation would never end.
        """
        is_newer = self.now.generation != generation
        rejoins = self.is_rebalancing and not self.now.is_revoking
        return self.has_joined and (is_newer or rejoins)


class CommitTopics:
    """Owns the ids of topics, by the metadata and by the group, and which topics are deleted.

    A KIP-848 group assigns partitions by topic id. The metadata tells another id if the topic was
    deleted since, and created again under its name.

    While the metadata does not describe a topic that is read, its id is kept: an offset of the
    deleted topic that is committed by name would be stored for the topic that is created next. The
    brokers may know that one before we do.
    """

    def __init__(self) -> None:
        #: Topic ids from the metadata, as far as the brokers tell them.
        self.known: TopicIds = {}
        #: The topics that the metadata describes; None: nothing was heard of it.
        self.described: Set[str] | None = None
        #: Topic ids from the group; empty if it assigns partitions by name.
        self._assigned: TopicIds = {}
        #: The topics that the brokers do not know (any more).
        self.deleted: frozenset[str] = frozenset()
        #: What `replaced` compared last, and its result.
        self._compared: tuple[TopicIds, TopicIds, TopicIds] = ({}, {}, {})
        self._replaced: Set[str] = frozenset()

    def follow(self, cluster: Cluster, read: Iterable[str] = ()) -> frozenset[str]:
        """The metadata has changed; these topics are `read`. Returns those topics that were deleted
        and created again."""
        told = {
            name: info.topic_id
            for name, info in cluster.topics.items()
            if info.topic_id is not None
        }
        anew = {name for name, was in self.known.items() if told.get(name, was) != was}
        kept = {name: self.known[name] for name in read if name in self.known}
        self.known = {**kept, **told}
        self.described = cluster.topics.keys()
        self.deleted = cluster.unknown
        return frozenset(anew)

    def assign(self, topic_ids: TopicIds) -> None:
        """The group has assigned partitions of these topics to us."""
        self._assigned = topic_ids

    @property
    def are_assigned_by_name(self) -> bool:
        """Whether the group has told no topic ids."""
        return not self._assigned

    @property
    def ids(self) -> TopicIds:
        """The topic ids to send in requests.

        The positions belong to the topic that was assigned to us, not to a topic of the same name
        that was created later.
        """
        return {**self.known, **self._assigned}

    def created_anew(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """The partitions whose topic was deleted and created again since the group assigned it."""
        was, known = self._assigned, self.known
        return {
            partition
            for partition in partitions
            if partition.topic in was.keys() & known.keys()
            and was[partition.topic] != known[partition.topic]
        }

    def replaced(self, read: TopicIds) -> Set[str]:
        """Topics that were `read` under these ids, and whose names belong to other topics now.
        A topic that the group has assigned by id is read until the group takes it away."""
        compared = (read, self.known, self._assigned)
        if not all(map(operator.is_, compared, self._compared)):  # each Poll asks
            self._compared = compared
            self._replaced = {
                topic
                for topic, was in read.items()
                if topic not in self._assigned and self.known.get(topic, was) != was
            }
        return self._replaced

    def ids_of(self, read: TopicIds) -> TopicIds:
        """As `ids`, for offsets that the application has `read` under these ids."""
        return {**self.known, **read, **self._assigned}

    def are_deleted(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether the brokers say that none of their topics exists."""
        return {partition.topic for partition in partitions} <= self.deleted
