"""Commits: which requests may commit offsets in a group, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kafka.protocol.consumer import OffsetCommitResponse
from kafka.protocol.producer import TxnOffsetCommitResponse

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.group import ClassicGroup
from aktor.broker.groups.directory import Directory, Group
from aktor.broker.groups.offsets.committed import Committed, GroupOffsets
from aktor.broker.groups.offsets.places import Asked, AskedTopic, look_up
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["OffsetCommits"]

#: The first OffsetCommit that a KIP-848 member may send, whose client knows GROUP_ID_NOT_FOUND.
_KNOWS_EPOCHS: Final = 9
#: The first OffsetCommit that names topics by id.
_BY_ID: Final = 10
#: The OffsetCommits that say how long to keep the offsets.
_WITH_RETENTION: Final = range(2, 5)

#: Raises Refused for a (topic, partition) that this member may not commit.
_Check: TypeAlias = Callable[[str, int], None]
#: Keeps one partition's commit: its topic, what was asked, what to keep.
_Keep: TypeAlias = Callable[[str, int, Committed], None]


class OffsetCommits:
    """Answers OffsetCommit and TxnOffsetCommit (Kafka's OffsetMetadataManager)."""

    def __init__(
        self,
        *,
        groups: Directory,
        offsets: GroupOffsets,
        settings: GroupSettings,
        topics: TopicsView,
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._settings = settings
        self._topics = topics

    def commit(self, call: Call) -> Any:
        """The answer to an OffsetCommit, whose offsets are kept by then."""
        request = call.request
        asked = self._look_up(request, by_id=call.version >= _BY_ID)
        expires_at = None
        if call.version in _WITH_RETENTION and request.retention_time_ms != -1:
            expires_at = call.now + request.retention_time_ms / 1000

        def keep(topic: str, partition: int, committed: Committed) -> None:
            self._offsets.commit(request.group_id, (topic, partition), committed)

        self._keep(asked, lambda: self._permit(call), keep, call.now, expires_at)
        return OffsetCommitResponse(topics=[_answer(topic) for topic in asked])

    def commit_in_transaction(self, call: Call, verify: Callable[[], None] | None) -> Any:
        """The answer to a TxnOffsetCommit, whose offsets are pending by then.

        `verify` raises Refused unless the group is in the producer's transaction.
        """
        request = call.request
        asked = self._look_up(request)

        def permit() -> _Check | None:
            if not request.group_id:
                raise Refused(Code.INVALID_GROUP_ID)
            if verify is not None:
                verify()
            return self._permit_in_transaction(call)

        def keep(topic: str, partition: int, committed: Committed) -> None:
            self._offsets.commit_pending(
                request.group_id, request.producer_id, (topic, partition), committed
            )

        self._keep(asked, permit, keep, call.now, None)
        return TxnOffsetCommitResponse(topics=[_txn_answer(topic) for topic in asked])

    def _look_up(self, request: Any, *, by_id: bool = False) -> list[AskedTopic]:
        asked = look_up(self._topics, request.topics, by_id=by_id)
        for topic in asked:
            if topic.name in self._topics.forbidden:
                for partition in topic.partitions:
                    partition.code = Code.TOPIC_AUTHORIZATION_FAILED
        return asked

    # Which requests may commit.

    def _permit(self, call: Call) -> _Check | None:
        """Raise Refused unless the sender may commit; what is returned is asked per partition."""
        request = call.request
        group = self._groups.get(request.group_id)
        epoch = request.generation_id_or_member_epoch
        if group is None:
            if epoch >= 0:
                known = call.version >= _KNOWS_EPOCHS
                raise Refused(Code.GROUP_ID_NOT_FOUND if known else Code.ILLEGAL_GENERATION)
            group = self._new_simple_group(call)
        check = self._validate(
            group,
            request.member_id,
            request.group_instance_id,
            epoch,
            transactional=False,
            version=call.version,
        )
        if isinstance(group, ClassicGroup):
            group.touch(request.member_id, call.now)
        return check

    def _permit_in_transaction(self, call: Call) -> _Check | None:
        """The same for a transaction: as before KIP-848, a wrong epoch is ILLEGAL_GENERATION."""
        request = call.request
        group = self._groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise Refused(Code.ILLEGAL_GENERATION)
            group = self._new_simple_group(call)
        try:
            check = self._validate(
                group,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                transactional=True,
                version=call.version,
            )
        except Refused as refused:
            raise _for_transaction(refused) from None
        return _translated(check) if check is not None else None

    def _new_simple_group(self, call: Call) -> ClassicGroup:
        """Kafka's "simple group": an empty one that does nothing but hold offsets."""
        return self._groups.new_classic(call.request.group_id, call.now)

    @staticmethod
    def _validate(
        group: Group,
        member_id: str,
        group_instance_id: str | None,
        epoch: int,
        *,
        transactional: bool,
        version: int,
    ) -> _Check | None:
        if isinstance(group, ClassicGroup):
            group.validate_commit(member_id, group_instance_id, epoch, transactional=transactional)
            return None
        return group.validate_commit(
            member_id, epoch, group_instance_id, transactional=transactional, version=version
        )

    # What is kept.

    def _keep(
        self,
        asked: list[AskedTopic],
        permit: Callable[[], _Check | None],
        keep: _Keep,
        now: float,
        expires_at: float | None,
    ) -> None:
        """Keep what may be kept; each partition's code says what became of it.

        As in Kafka the group is not asked, nor made, if no partition exists; and nothing is kept
        if a single partition is no longer the member's.
        """
        good = [(topic, partition) for topic in asked for partition in topic.good()]
        if not good:
            return
        short = [(topic, partition) for topic, partition in good if not self._too_long(partition)]
        try:
            check = permit()
            if check is not None:
                for topic, partition in short:
                    check(topic.name, partition.index)
        except Refused as refused:
            for _, partition in good:
                partition.code = refused.code
            return
        for _, partition in good:
            if self._too_long(partition):
                partition.code = Code.OFFSET_METADATA_TOO_LARGE
        for topic, partition in short:
            keep(topic.name, partition.index, self._committed(topic, partition, now, expires_at))

    def _too_long(self, partition: Asked) -> bool:
        """Kafka counts what Java's String.length counts."""
        metadata = partition.request.committed_metadata or ""
        return len(metadata.encode("utf-16-be")) // 2 > self._settings.offset_metadata_max_bytes

    def _committed(
        self, topic: AskedTopic, partition: Asked, now: float, expires_at: float | None
    ) -> Committed:
        request = partition.request
        return Committed(
            offset=request.committed_offset,
            leader_epoch=request.committed_leader_epoch,
            metadata=request.committed_metadata or "",
            committed_at=now,
            expires_at=expires_at,
            topic_id=topic.topic_id,
            number=self._offsets.next_number(),
        )


def _for_transaction(refused: Refused) -> Refused:
    if refused.code is Code.STALE_MEMBER_EPOCH:
        return Refused(Code.ILLEGAL_GENERATION, refused.message)
    return refused


def _translated(check: _Check) -> _Check:
    def translated(topic: str, partition: int) -> None:
        try:
            check(topic, partition)
        except Refused as refused:
            raise _for_transaction(refused) from None

    return translated


_CommitTopic: Any = OffsetCommitResponse.OffsetCommitResponseTopic
_CommitPartition: Any = _CommitTopic.OffsetCommitResponsePartition
_TxnTopic: Any = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_TxnPartition: Any = _TxnTopic.TxnOffsetCommitResponsePartition


def _answer(topic: AskedTopic) -> Any:
    return _CommitTopic(
        name=topic.request.name,
        topic_id=topic.request.topic_id,
        partitions=[
            _CommitPartition(partition_index=partition.index, error_code=partition.code)
            for partition in topic.partitions
        ],
    )


def _txn_answer(topic: AskedTopic) -> Any:
    return _TxnTopic(
        name=topic.request.name,
        partitions=[
            _TxnPartition(partition_index=partition.index, error_code=partition.code)
            for partition in topic.partitions
        ],
    )
