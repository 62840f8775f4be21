"""How committed offsets end: by OffsetDelete, or by retention."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetDeleteResponse

from aktor.broker.call import Call
from aktor.broker.codes import Code, Refused
from aktor.broker.groups.classic.group import ClassicGroup
from aktor.broker.groups.directory import Directory, Group, is_empty, is_subscribed
from aktor.broker.groups.offsets.committed import Committed, GroupOffsets
from aktor.broker.groups.offsets.places import AskedTopic, look_up
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.groups.topics_view import TopicsView

__all__ = ["OffsetDeletes"]

_Topic: Any = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition: Any = _Topic.OffsetDeleteResponsePartition


class OffsetDeletes:
    """Answers OffsetDelete, and lets old offsets and empty groups go."""

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

    def delete(self, call: Call) -> Any:
        """The answer to an OffsetDelete. An error of the group is all there is in it."""
        request = call.request
        try:
            group = self._deletable(request.group_id)
        except Refused as refused:
            return OffsetDeleteResponse(error_code=refused.code)
        asked = look_up(self._topics, request.topics)
        for topic in asked:
            subscribed = is_subscribed(group, topic.name)
            for partition in list(topic.good()):
                if subscribed:
                    partition.code = Code.GROUP_SUBSCRIBED_TO_TOPIC
                else:
                    self._offsets.delete(request.group_id, (topic.name, partition.index))
        return OffsetDeleteResponse(topics=[_answer(topic) for topic in asked])

    def _deletable(self, group_id: str) -> Group:
        """The group, if it may lose offsets; of which topics is another question."""
        if not group_id:
            raise Refused(Code.INVALID_GROUP_ID)
        group = self._groups[group_id]
        if not is_empty(group) and group.protocol_type != "consumer":
            # It is unknown what members other than consumers subscribe to.
            raise Refused(Code.NON_EMPTY_GROUP)
        return group

    def expire(self, now: float) -> None:
        """Delete offsets that have expired (see `_unused_since`), then groups that are empty.

        Kafka's OffsetMetadataManager.cleanupExpiredOffsets, for all groups.
        """
        for group in list(self._groups):
            left = [
                place
                for place, committed in self._offsets.of_group(group.group_id)
                if not self._expired(group, place, committed, now)
            ]
            for place, _ in self._offsets.of_group(group.group_id):
                if place not in left:
                    self._offsets.delete(group.group_id, place)
            if not left and is_empty(group) and not self._offsets.in_transaction(group.group_id):
                self._groups.remove(group, now)

    def _expired(
        self, group: Group, place: tuple[str, int], committed: Committed, now: float
    ) -> bool:
        since = _unused_since(group, committed)
        if since is None or is_subscribed(group, place[0]):
            return False
        if self._offsets.is_unstable(group.group_id, place):
            return False
        if committed.expires_at is not None:
            return now >= committed.expires_at
        return now - since >= self._settings.offsets_retention


def _unused_since(group: Group, committed: Committed) -> float | None:
    """From when on the retention counts; None: not as long as the group is as it is.

    For a group that had members from when the last one left, else from the commit.
    """
    if not isinstance(group, ClassicGroup) or group.protocol_type is None:
        return committed.committed_at
    if is_empty(group):
        return group.state_since
    known = group.protocol_type == "consumer" and group.subscribed_topics() is not None
    return committed.committed_at if known and group.state == "Stable" else None


def _answer(topic: AskedTopic) -> Any:
    return _Topic(
        name=topic.request.name,
        partitions=[
            _Partition(partition_index=partition.index, error_code=partition.code)
            for partition in topic.partitions
        ],
    )
