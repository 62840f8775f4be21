"""The protocols of groups, and in what they differ beside their requests.

What differs is asked here, so that a further protocol (streams groups, KIP-1071) answers each of
these questions once.
"""

from __future__ import annotations

from typing import Final

__all__ = ["AUTO", "CLASSIC", "CONSUMER", "assigns_topic_ids", "has_member_epochs", "joins"]

#: JoinGroup and SyncGroup: the leader assigns.
CLASSIC: Final = "classic"

#: ConsumerGroupHeartbeat: the coordinator assigns (KIP-848).
CONSUMER: Final = "consumer"

#: As the group speaks; tried in the order CONSUMER, CLASSIC.
AUTO: Final = "auto"


def assigns_topic_ids(protocol: str) -> bool:
    """Whether partitions are assigned by topic id. Otherwise they are assigned by topic name, and
    keep their owner when a topic is created anew."""
    return protocol == CONSUMER


def has_member_epochs(protocol: str) -> bool:
    """Whether OffsetCommit and OffsetFetch carry the member's epoch, in place of a generation."""
    return protocol == CONSUMER


def joins(protocol: str) -> bool:
    """Whether a member begins with JoinGroup, as far as is known before it has asked the group."""
    return protocol == CLASSIC
