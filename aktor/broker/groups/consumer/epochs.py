"""Whether the epoch that a member comes with is good enough for what it asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from aktor.broker.codes import Code, Refused
from aktor.broker.groups.consumer.member import Member
from aktor.broker.groups.consumer.requests import reported_partitions
from aktor.broker.groups.topics_view import TopicsView

__all__ = [
    "FIRST_COMMIT_VERSION",
    "PartitionCheck",
    "check_commit_epoch",
    "check_fetch_epoch",
    "check_heartbeat_epoch",
]

#: Raises Refused if the commit of this (topic, partition) comes too late: STALE_MEMBER_EPOCH, of
#: classic members ILLEGAL_GENERATION.
PartitionCheck: TypeAlias = Callable[[str, int], None]

#: The first OffsetCommit whose generation may be a member epoch.
FIRST_COMMIT_VERSION: Final = 9


def check_heartbeat_epoch(member: Member, request: Any) -> None:
    """Raises FENCED_MEMBER_EPOCH unless it is the member's, or the last and an answer got lost."""
    epoch = request.member_epoch
    if epoch > member.epoch:
        relation = "greater"
    elif epoch < member.epoch and not _answer_was_lost(member, request):
        relation = "smaller"
    else:
        return
    raise Refused(
        Code.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _answer_was_lost(member: Member, request: Any) -> bool:
    """Whether it may not have heard of its epoch: it owns nothing that it should not."""
    reported = reported_partitions(request)
    return (
        request.member_epoch == member.previous_epoch
        and reported is not None
        and all(p in member.assigned.get(topic_id, {}) for topic_id, p in reported)
    )


def _stale(member: Member) -> tuple[Code, str]:
    """The code for what is too old or too new, and what a member of this protocol calls it."""
    if member.classic is None:
        return Code.STALE_MEMBER_EPOCH, "member epoch"
    return Code.ILLEGAL_GENERATION, "generation id"


def check_commit_epoch(member: Member, epoch: int, topics: TopicsView) -> PartitionCheck | None:
    """None if all may be committed, or the check to make for each partition (KIP-1251).

    Raises STALE_MEMBER_EPOCH (of classic members ILLEGAL_GENERATION) if nothing may be.
    """
    code, called = _stale(member)
    if epoch == member.epoch:
        return None
    if epoch > member.epoch:
        raise Refused(
            code, f"Received {called} {epoch} is newer than current member epoch {member.epoch}."
        )

    def check(topic: str, partition: int) -> None:
        topic_id = topics.topic_id(topic)
        since = None if topic_id is None else member.assignment_epoch(topic_id, partition)
        if since is None:
            raise Refused(
                code,
                f"Partition {topic}-{partition} is not assigned or pending revocation for member.",
            )
        if epoch < since:
            raise Refused(
                code,
                f"Received {called} {epoch} is older than assignment epoch {since} for "
                f"partition {topic}-{partition}.",
            )

    return check


def check_fetch_epoch(member: Member, epoch: int) -> None:
    """Raises STALE_MEMBER_EPOCH (or ILLEGAL_GENERATION) unless it is the member's."""
    code, called = _stale(member)
    if epoch != member.epoch:
        raise Refused(
            code,
            f"The received {called} {epoch} does not match the expected member epoch "
            f"{member.epoch}.",
        )
