"""ConsumerGroupHeartbeat: what a KIP-848 member tells its coordinator, and what it need not repeat.

The coordinator keeps the fields that it was told, so a heartbeat carries only fields that changed.
After any failure we do not know whether the coordinator has read the last heartbeat. So the next
heartbeat carries all fields again, and nothing is missed if a request or an answer was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from aktor.protocol.consumer_group import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from aktor.settings import Settings
from aktor.values import Value

__all__ = [
    "LocalAssignment",
    "Report",
    "HeartbeatSent",
    "SentFields",
    "assignment_of",
    "claimed",
    "leave_heartbeat",
]

#: Partitions of a member: topic id -> partition ids. Java's LocalAssignment, without its epoch.
LocalAssignment: TypeAlias = Mapping[Any, frozenset[int]]

#: From this version on the member makes its id, and may subscribe by a pattern (KIP-1082).
_WITH_REGEX: Final = 1


class Report(Value):
    """What a heartbeat tells of the member; `target` counts the targets that it has been given.

    `owned`: the partitions that were assigned to the application and are not revoked; `assigning`:
    those that are being assigned; `epoch` is 0 while the member joins.
    """

    member_id: str
    epoch: int
    topics: frozenset[str]
    regex: str
    owned: LocalAssignment = field(default_factory=dict)
    assigning: LocalAssignment = field(default_factory=dict)
    target: int = 0


def claimed(owned: LocalAssignment, assigning: LocalAssignment) -> LocalAssignment:
    """The partitions to report as owned: the coordinator gives away what is not reported."""
    nothing: frozenset[int] = frozenset()
    both = owned.keys() | assigning.keys()
    return {
        topic_id: owned.get(topic_id, nothing) | assigning.get(topic_id, nothing)
        for topic_id in both
    }


class HeartbeatSent(Value):
    """Note on a heartbeat: its number, when it was sent, whether it is one that frees our
    `group_instance_id`, whether it reports what is owned, and whether the coordinator waits all the
    same for partitions to be given up."""

    number: int
    at: float
    frees: bool = False
    reports: bool = False
    owes: bool = False


class SentFields:
    """Owns what the coordinator was told last: a field is left out while it is the same.

    `has_predecessor`: this actor was restarted. Its predecessor may have subscribed to a pattern
    under the same member id; so may an earlier process of a static member.
    """

    def __init__(self, settings: Settings, *, has_predecessor: bool = False) -> None:
        self._settings = settings
        self._sent: Report | None = None
        self._had_regex = False
        self._may_have_regex = has_predecessor or settings.group_instance_id is not None

    def forget(self) -> None:
        """We do not know what the coordinator has read: the next heartbeat has all fields."""
        self._sent = None

    def knows(self, report: Report) -> bool:
        """Whether the coordinator was told what is owned of this target."""
        sent = self._sent
        return sent is not None and (sent.owned, sent.target) == (report.owned, report.target)

    def is_subscribed(self, report: Report) -> bool:
        """Whether the coordinator was told this subscription."""
        sent = self._sent
        return sent is not None and (sent.topics, sent.regex) == (report.topics, report.regex)

    def heartbeat(self, report: Report) -> Any:
        """The heartbeat that brings the coordinator up to date."""
        settings, sent = self._settings, self._sent
        joins = report.epoch == JOIN_GROUP_MEMBER_EPOCH
        anew = joins or sent is None
        names = regex = partitions = None
        if anew or sent is None or sent.topics != report.topics:
            names = sorted(report.topics)
        known = None if anew or sent is None else sent.regex
        # Only "" removes the pattern from the group: null means that it has not changed.
        if known != report.regex and (report.regex or self._had_regex):
            regex = report.regex
            self._had_regex = True
        elif anew and not report.regex and self._may_have_regex:
            regex = ""  # version 0 has no such field, and its members have no pattern
        if joins or not self.knows(report):
            partitions = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(
                    topic_id=topic, partitions=sorted(numbers)
                )
                for topic, numbers in claimed(report.owned, report.assigning).items()
            ]
        self._sent = report
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=report.member_id,
            member_epoch=report.epoch,
            instance_id=settings.group_instance_id,
            rack_id=(settings.client_rack or None) if joins else None,
            rebalance_timeout_ms=round(settings.max_poll_interval * 1000) if anew else -1,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            server_assignor=settings.group_remote_assignor if anew else None,
            topic_partitions=partitions,
            min_version=_WITH_REGEX if report.regex or (regex == "" and self._had_regex) else 0,
        )


def leave_heartbeat(settings: Settings, member_id: str, *, stays: bool) -> Any:
    """The last heartbeat; `stays`: a static member that keeps its place until it is back."""
    epoch = LEAVE_GROUP_STATIC_MEMBER_EPOCH if stays else LEAVE_GROUP_MEMBER_EPOCH
    return ConsumerGroupHeartbeatRequest(
        group_id=settings.group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=settings.group_instance_id,
    )


def assignment_of(response: Any) -> LocalAssignment | None:
    """The target in an answer; None if it is as before."""
    if response.assignment is None:
        return None
    return {
        topic.topic_id: frozenset(topic.partitions)
        for topic in response.assignment.topic_partitions
        if topic.partitions
    }
