"""OffsetCommit and OffsetFetch: how each is written and read, whichever version a broker speaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from kafka.errors import UnknownError
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.membership import MemberChanged
from aktor.protocol.group_protocols import has_member_epochs
from aktor.protocol.partitions import by_topic
from aktor.settings import Settings

__all__ = [
    "Offsets",
    "TopicIds",
    "committed",
    "offset_commit",
    "offset_commit_codes",
    "offset_fetch",
    "offset_fetch_answers",
    "takes_ids",
]

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]

#: Topic -> its id, as far as known.
TopicIds: TypeAlias = Mapping[str, Any]


def offset_commit(
    settings: Settings, member: MemberChanged, offsets: Offsets, topic_ids: TopicIds
) -> Any:
    """OffsetCommit v2-10; v9 at least as a member of a KIP-848 group.

    A static member needs v7, where the broker can tell it that another took its place (KIP-345).
    v10 names topics by their ids, which must all be known: an offset is stored for the topic that
    was read, not for one that was created later under its name.
    """
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_type = topic_type.OffsetCommitRequestPartition
    in_group = member.generation >= 0
    instance_id = settings.group_instance_id if in_group else None
    topics = [
        topic_type(
            name=topic,
            topic_id=topic_ids.get(topic),
            partitions=[
                partition_type(
                    partition_index=number,
                    committed_offset=offsets[TopicPartition(topic, number)].offset,
                    committed_leader_epoch=_epoch(offsets[TopicPartition(topic, number)]),
                    committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    low = 2 if instance_id is None else 7
    if has_member_epochs(member.protocol) and in_group:
        low = 9
    return OffsetCommitRequest(
        group_id=settings.group_id,
        generation_id_or_member_epoch=member.generation if in_group else -1,
        member_id=member.member_id if in_group else "",
        group_instance_id=instance_id,
        topics=topics,
        min_version=low,
        max_version=_newest(topics),
    )


def offset_commit_codes(response: Any, request: Any) -> dict[TopicPartition, int]:
    """Each partition's error code; 0 says that its offset is stored.

    An answer by topic ids is read with the names of its own request (KAFKA-20040).
    """
    names = {topic.topic_id: topic.name for topic in request.topics}
    return {
        TopicPartition(
            topic.name or names.get(topic.topic_id), partition.partition_index
        ): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }


def offset_fetch(
    group: str | None,
    partitions: Iterable[TopicPartition],
    member: MemberChanged,
    topic_ids: TopicIds,
    *,
    stable: bool = True,
) -> Any:
    """OffsetFetch v1-10: up to v7 one group, from v8 on a list of groups (KIP-709); v9 at least as
    a member of a KIP-848 group.

    From v7 the broker holds back what an open transaction is about to replace, if the offsets are
    to be `stable` (KIP-447). A member of a KIP-848
    group sends its id and epoch, so that the broker refuses a member that was expelled: the new
    owner may have committed later. v10 names topics by their ids, which must all be known.
    """
    group_type = OffsetFetchRequest.OffsetFetchRequestGroup
    old, new = OffsetFetchRequest.OffsetFetchRequestTopic, group_type.OffsetFetchRequestTopics
    topics = by_topic(partitions)
    in_group = [
        new(name=name, topic_id=topic_ids.get(name), partition_indexes=those)
        for name, those in topics.items()
    ]
    low, who = 1, {}
    if has_member_epochs(member.protocol) and member.generation >= 0:
        low = 9
        who = {"member_id": member.member_id, "member_epoch": member.generation}
    return OffsetFetchRequest(
        group_id=group,
        topics=[old(name=name, partition_indexes=those) for name, those in topics.items()],
        groups=[group_type(group_id=group, topics=in_group, **who)],
        require_stable=stable,
        min_version=low,
        max_version=_newest(in_group),
    )


#: From this version on both requests name topics by their ids.
_BY_ID: Final = 10


def _newest(topics: Iterable[Any]) -> int:
    """The newest version of both requests that can be written: v10 if the id of each topic is
    known."""
    return _BY_ID if all(topic.topic_id is not None for topic in topics) else _BY_ID - 1


def takes_ids(response: Any, request: Any, known: bool) -> bool:
    """Whether the coordinator takes topic ids. An answer to a request that could not have any says
    nothing: then it is what is `known`."""
    if request._max_version < _BY_ID:
        return known
    return bool(response.API_VERSION >= _BY_ID)


def offset_fetch_answers(response: Any, request: Any) -> tuple[int, dict[TopicPartition, Any]]:
    """The group's error code (0 is none), and the answer for each partition."""
    result, names = response, {}
    if response.API_VERSION >= 8:
        ours = [group for group in response.groups if group.group_id == request.group_id]
        if not ours:
            return UnknownError.errno, {}
        result = ours[0]
        names = {topic.topic_id: topic.name for topic in request.groups[0].topics}
    return (result.error_code or 0), {
        TopicPartition(
            topic.name or names.get(topic.topic_id), partition.partition_index
        ): partition
        for topic in result.topics
        for partition in topic.partitions
    }


def committed(answer: Any) -> OffsetAndMetadata | None:
    """The committed offset in one partition's answer; offset -1 means that there is none."""
    if answer.committed_offset < 0:
        return None
    epoch = answer.committed_leader_epoch
    return OffsetAndMetadata(
        answer.committed_offset, answer.metadata or "", -1 if epoch is None else epoch
    )


def _epoch(value: OffsetAndMetadata) -> int:
    return -1 if value.leader_epoch is None else int(value.leader_epoch)
