"""The brokers' assignors for consumer groups (KIP-848).

`uniform` gives every member as many partitions as the others and moves as few as it can; `range`
gives neighbouring partitions, the same numbers of every topic to the same member.
Both come to what Kafka's UniformAssignor and RangeAssignor come to, for members and topics in the
order in which they are given here (Kafka takes them in the order of a hash table).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from uuid import UUID

from aktor.broker.groups.consumer.balancer import Balancer, Owners

__all__ = [
    "ASSIGNORS",
    "MemberAssignment",
    "Assignor",
    "Candidate",
    "assign_range",
    "assign_uniform",
]

#: What an assignor gives to a member: partitions by topic, each topic's in ascending order; no
#: topic is without partitions.
MemberAssignment: TypeAlias = Mapping[UUID, tuple[int, ...]]

#: Rounds over all topics after which balancing gives up (UniformHeterogeneousAssignmentBuilder).
_MAX_ROUNDS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A member as an assignor sees it.

    topics: the existing topics it subscribes to.
    target: what the last target assignment gave it.
    """

    topics: tuple[UUID, ...]
    target: MemberAssignment = field(default_factory=dict)
    instance_id: str | None = None


#: (members by id, how many partitions each subscribed topic has, whether all subscribe to the same)
#: to an assignment for each member.
Assignor: TypeAlias = Callable[
    [Mapping[str, Candidate], Mapping[UUID, int], bool], dict[str, dict[UUID, tuple[int, ...]]]
]


def assign_range(
    members: Mapping[str, Candidate], partitions: Mapping[UUID, int], homogeneous: bool
) -> dict[str, dict[UUID, tuple[int, ...]]]:
    """Neighbouring partitions of each topic to each of its subscribers, static members first."""
    ordered = sorted(members, key=lambda member_id: _range_key(member_id, members[member_id]))
    subscribers = dict.fromkeys(partitions, 0)
    for member in members.values():
        for topic_id in member.topics:
            subscribers[topic_id] += 1
    next_partition = dict.fromkeys(partitions, 0)
    extras = {t: partitions[t] % count for t, count in subscribers.items() if count}

    assignment: dict[str, dict[UUID, tuple[int, ...]]] = {}
    for member_id in ordered:
        given: dict[UUID, tuple[int, ...]] = {}
        for topic_id in members[member_id].topics:
            start = next_partition[topic_id]
            end = start + partitions[topic_id] // subscribers[topic_id]
            if extras[topic_id] > 0:
                extras[topic_id] -= 1
                end += 1
            next_partition[topic_id] = end
            if start < end:
                given[topic_id] = tuple(range(start, end))
        assignment[member_id] = given
    return assignment


def _range_key(member_id: str, member: Candidate) -> tuple[bool, str]:
    """Static members come first, by instance id: so they keep their range over a restart."""
    if member.instance_id is not None:
        return False, member.instance_id
    return True, member_id


def assign_uniform(
    members: Mapping[str, Candidate], partitions: Mapping[UUID, int], homogeneous: bool
) -> dict[str, dict[UUID, tuple[int, ...]]]:
    """As many partitions to each member as to the others, as few of them moved as possible."""
    if homogeneous:
        return _uniform_for_all(members, partitions)
    return _uniform_by_topic(members, partitions)


def _uniform_for_all(
    members: Mapping[str, Candidate], partitions: Mapping[UUID, int]
) -> dict[str, dict[UUID, tuple[int, ...]]]:
    """All subscribe to the same topics: each keeps its part up to its quota, the rest is dealt."""
    if not partitions or not members:
        return {member_id: {} for member_id in members}
    had = {(t, p) for member in members.values() for t, ps in member.target.items() for p in ps}
    pool = [(t, p) for t, n in partitions.items() for p in range(n) if (t, p) not in had]
    quota, extra = divmod(sum(partitions.values()), len(members))

    kept: dict[str, dict[UUID, list[int]]] = {}
    rooms: list[tuple[str, int]] = []
    for index, (member_id, member) in enumerate(members.items()):
        offered = extra > 0
        room = quota + offered
        mine: dict[UUID, list[int]] = {}
        for topic_id, owned in member.target.items():
            if topic_id not in partitions:
                continue
            if owned[:room]:
                mine[topic_id] = list(owned[:room])
            pool.extend((topic_id, partition) for partition in owned[room:])
            room -= len(owned[:room])
        kept[member_id] = mine
        if offered and room > 0 and len(members) - index > extra:
            # It would not keep one more than the quota: one of those to come may.
            offered = False
            room -= 1
        extra -= offered
        if room > 0:
            rooms.append((member_id, room))

    dealt = iter(pool)
    for member_id, room in rooms:
        for _, (topic_id, partition) in zip(range(room), dealt, strict=False):
            kept[member_id].setdefault(topic_id, []).append(partition)
    return {
        member_id: {topic_id: tuple(sorted(owned)) for topic_id, owned in mine.items()}
        for member_id, mine in kept.items()
    }


def _uniform_by_topic(
    members: Mapping[str, Candidate], partitions: Mapping[UUID, int]
) -> dict[str, dict[UUID, tuple[int, ...]]]:
    """Subscriptions differ: topics with few subscribers first, then even out topic by topic."""
    names = list(members)
    subscribers: dict[UUID, list[int]] = {topic_id: [] for topic_id in partitions}
    owners = Owners(partitions, members=len(names))
    for index, member in enumerate(members.values()):
        for topic_id in member.topics:
            subscribers[topic_id].append(index)
        wanted = set(member.topics)
        for topic_id, owned in member.target.items():
            if topic_id in wanted:
                for partition in owned:
                    owners.give(topic_id, partition, index)

    topics = sorted(
        (topic_id for topic_id in partitions if subscribers[topic_id]),
        key=lambda t: _topic_key(t, partitions[t], len(subscribers[t])),
    )
    for topic_id in topics:
        balancer = Balancer(owners.sizes, subscribers[topic_id])
        for partition in owners.unowned(topic_id):
            owners.give(topic_id, partition, balancer.next_least_loaded())
    _even_out([t for t in topics if len(subscribers[t]) > 1], subscribers, owners)
    return {name: owners.of(index) for index, name in enumerate(names)}


def _even_out(topics: list[UUID], subscribers: Mapping[UUID, list[int]], owners: Owners) -> None:
    """Move partitions from the most to the least loaded until a whole round moves nothing."""
    last_moved: int | None = None
    for _ in range(_MAX_ROUNDS):
        for index, topic_id in enumerate(topics):
            if index == last_moved:
                return
            moved = Balancer(owners.sizes, subscribers[topic_id]).even_out(topic_id, owners)
            if moved or last_moved is None:
                last_moved = index


def _topic_key(topic_id: UUID, partitions: int, subscribers: int) -> tuple[float, int, int, int]:
    """Most partitions for a subscriber first, then fewest subscribers, then Kafka's id order."""
    return (
        -partitions / subscribers,
        subscribers,
        _signed(topic_id.int >> 64),
        _signed(topic_id.int & (2**64 - 1)),
    )


def _signed(bits: int) -> int:
    """The 64 bits as Java's long, by which Kafka's Uuid compares."""
    return bits - 2**64 if bits >= 2**63 else bits


#: By the names that `group.consumer.assignors` knows.
ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
