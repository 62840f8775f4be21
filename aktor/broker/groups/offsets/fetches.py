"""Fetches: what a group has committed, told in the shape of the version that was asked in."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from kafka.protocol.consumer import OffsetFetchResponse

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.consumer.group import ConsumerGroup
from aktor.broker.groups.directory import Directory
from aktor.broker.groups.offsets.committed import Committed, GroupOffsets
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["OffsetFetches"]

#: The first version that asks for several groups at once, and answers so.
_MANY_GROUPS: Final = 8
#: The first version that names topics by id.
_BY_ID: Final = 10

_NO_OFFSET: Final = -1
_NO_EPOCH: Final = -1

_OldTopic: Any = OffsetFetchResponse.OffsetFetchResponseTopic
_OldPartition: Any = _OldTopic.OffsetFetchResponsePartition
_Group: Any = OffsetFetchResponse.OffsetFetchResponseGroup
_Topic: Any = _Group.OffsetFetchResponseTopics
_Partition: Any = _Topic.OffsetFetchResponsePartitions


class OffsetFetches:
    """Answers OffsetFetch. An unknown group is one that has not committed anything."""

    def __init__(self, *, groups: Directory, offsets: GroupOffsets, topics: TopicsView) -> None:
        self._groups = groups
        self._offsets = offsets
        self._topics = topics

    def fetch(self, call: Call) -> Any:
        """The answer to an OffsetFetch."""
        request = call.request
        if call.version >= _MANY_GROUPS:
            by_id = call.version >= _BY_ID
            return OffsetFetchResponse(
                groups=[
                    self._group(asked, by_id=by_id, stable=request.require_stable)
                    for asked in request.groups
                ]
            )
        # Before v8 the request is for one group and names no member: no error of a whole group.
        topics = self._topics_of(
            request.group_id, request.topics, by_id=False, stable=request.require_stable
        )
        return OffsetFetchResponse(topics=[_old_topic(topic) for topic in topics])

    def _group(self, asked: Any, *, by_id: bool, stable: bool) -> Any:
        group = self._groups.get(asked.group_id)
        try:
            if isinstance(group, ConsumerGroup):
                group.validate_fetch(asked.member_id, asked.member_epoch)
        except Refused as refused:
            return _Group(group_id=asked.group_id, topics=[], error_code=refused.code)
        topics = self._topics_of(asked.group_id, asked.topics, by_id=by_id, stable=stable)
        return _Group(group_id=asked.group_id, topics=topics)

    def _topics_of(
        self, group_id: str, asked: list[Any] | None, *, by_id: bool, stable: bool
    ) -> list[Any]:
        if asked is None:
            return self._all(group_id, by_id=by_id, stable=stable)
        answers = []
        for topic in asked:
            name = topic.name
            if by_id:
                name = self._topics.name(topic.topic_id) if topic.topic_id is not None else None
            answers.append(
                _Topic(
                    name=name or "",
                    topic_id=topic.topic_id if by_id else None,
                    partitions=[
                        _partition(index, None, Code.UNKNOWN_TOPIC_ID)
                        if name is None
                        else self._committed(group_id, name, index, stable=stable)
                        for index in topic.partition_indexes
                    ],
                )
            )
        return answers

    def _all(self, group_id: str, *, by_id: bool, stable: bool) -> list[Any]:
        """All topics with offsets; in a version that knows ids only, those that exist."""
        places: Iterable[tuple[str, int]] = (
            place
            for place, committed in self._offsets.of_group(group_id)
            if self._counts(place[0], committed)
        )
        return [
            _Topic(
                name=name,
                topic_id=self._topics.topic_id(name),
                partitions=[
                    self._committed(group_id, name, index, stable=stable) for _, index in indexes
                ],
            )
            for name, indexes in groupby(places, key=lambda place: place[0])
            if not by_id or self._topics.topic_id(name) is not None
        ]

    def _committed(self, group_id: str, topic: str, index: int, *, stable: bool) -> Any:
        if stable and self._offsets.is_unstable(group_id, (topic, index)):
            return _partition(index, None, Code.UNSTABLE_OFFSET_COMMIT)
        committed = self._offsets.get(group_id, (topic, index))
        if committed is not None and not self._counts(topic, committed):
            committed = None
        return _partition(index, committed)

    def _counts(self, topic: str, committed: Committed) -> bool:
        """Whether it was committed in the topic that has this name now, not in one before it."""
        topic_id = self._topics.topic_id(topic)
        return topic_id is None or committed.topic_id in ("", topic_id.hex)


def _partition(index: int, committed: Committed | None, code: Code = Code.NONE) -> Any:
    return _Partition(
        partition_index=index,
        committed_offset=committed.offset if committed is not None else _NO_OFFSET,
        committed_leader_epoch=committed.leader_epoch if committed is not None else _NO_EPOCH,
        metadata=committed.metadata if committed is not None else "",
        error_code=code,
    )


def _old_topic(topic: Any) -> Any:
    """A topic of the answer as versions before 8 have it."""
    return _OldTopic(
        name=topic.name,
        partitions=[
            _OldPartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ],
    )
