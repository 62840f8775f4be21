"""Rules of the assignors: what the Java classes of the same names do."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor as TheirCooperative,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from kafka.protocol.consumer import JoinGroupResponse
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.structs import TopicPartition

from aktor.managers.membership.classic.assignors import Assignors, LeaderPlan
from aktor.managers.membership.classic.mended_assignors import CooperativeStickyAssignor
from aktor.protocol.partitions import by_topic
from tests.unit.managers.membership.builders import a_cluster

#: Any of the ways to say that a member had partitions 0 and 1 of t in generation 7.
JAVAS = bytes.fromhex("00000001000174000000020000000000000001" + "00000007")
KAFKA_PYTHONS = bytes.fromhex("0001") + JAVAS


def a_member(
    name: str,
    *topics: str,
    instance: str | None = None,
    user_data: bytes = b"",
    owned: Iterable[TopicPartition] = (),
    generation: int = -1,
) -> Any:
    """A member of a JoinGroup response, as the leader gets it."""
    claims: dict[str, list[int]] = {}
    for topic, partition in owned:
        claims.setdefault(topic, []).append(partition)
    subscription = ConsumerProtocolSubscription(
        version=2,
        topics=list(topics),
        user_data=user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in claims.items()
        ],
        generation_id=generation,
    )
    return JoinGroupResponse.JoinGroupResponseMember(
        member_id=name, group_instance_id=instance, metadata=bytes(subscription.encode())
    )


def assigned(strategy: Any, topics: Mapping[str, int], *members: Any) -> dict[str, list[str]]:
    """Who gets what from a leader with this strategy, in a cluster with these topics."""
    (assignor,) = Assignors([strategy]).by_name.values()
    made = LeaderPlan(assignor, members).assign(a_cluster(**topics))
    return {
        member: [
            f"{topic}-{partition}"
            for topic, partition in ConsumerProtocolAssignment.decode(data).partitions()
        ]
        for member, data in made.items()
    }


# -- range and round robin


@pytest.mark.parametrize("strategy", [RangePartitionAssignor, RoundRobinPartitionAssignor])
def test_static_and_dynamic_members_get_their_share_in_whatever_order_they_come(
    strategy: type,
) -> None:
    members = [
        a_member("m1", "t", instance="b"),
        a_member("m2", "t"),
        a_member("m3", "t", instance="a"),
        a_member("m0", "t"),
    ]
    for seed in range(10):
        random.Random(seed).shuffle(members)

        assert assigned(strategy, {"t": 4}, *members) == {
            "m3": ["t-0"],
            "m1": ["t-1"],
            "m0": ["t-2"],
            "m2": ["t-3"],
        }


def test_round_robin_passes_over_members_that_have_not_subscribed_to_the_topic() -> None:
    """The example of Java's `RoundRobinAssignor`."""
    members = [a_member("C0", "t0"), a_member("C1", "t0", "t1"), a_member("C2", "t0", "t1", "t2")]

    assert assigned(RoundRobinPartitionAssignor, {"t0": 1, "t1": 2, "t2": 3}, *members) == {
        "C0": ["t0-0"],
        "C1": ["t1-0"],
        "C2": ["t1-1", "t2-0", "t2-1", "t2-2"],
    }


def test_round_robin_leaves_out_topics_that_do_not_exist() -> None:
    members = [a_member("a", "gone"), a_member("b", "t")]

    assert assigned(RoundRobinPartitionAssignor, {"t": 1}, *members) == {"a": [], "b": ["t-0"]}


# -- sticky


def test_a_sticky_member_says_what_it_had_as_java_does() -> None:
    assignors = Assignors([StickyPartitionAssignor])
    assignment = bytes(ConsumerProtocolAssignment(0, [("t", [0, 1])], b"").encode())
    assignors.read("sticky", assignment, 7)

    ((_, offer),) = assignors.subscriptions(frozenset({"t"}), (), 7)

    assert ConsumerProtocolSubscription.decode(offer).user_data == JAVAS


@pytest.mark.parametrize("user_data", [JAVAS, KAFKA_PYTHONS, JAVAS[:-4]])
def test_a_sticky_leader_leaves_partitions_where_they_are_whoever_says_so(user_data: bytes) -> None:
    members = [a_member("a", "t"), a_member("b", "t", user_data=user_data)]

    assert assigned(StickyPartitionAssignor, {"t": 4}, *members) == {
        "a": ["t-2", "t-3"],
        "b": ["t-0", "t-1"],
    }


@pytest.mark.parametrize("user_data", [b"", b"x", b"\xff" * 20, JAVAS + b"x", JAVAS[:-1]])
def test_a_sticky_leader_passes_over_what_it_cannot_read(
    user_data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    members = [a_member("a", "t"), a_member("b", "t", user_data=user_data)]

    given = assigned(StickyPartitionAssignor, {"t": 4}, *members)

    assert sorted(map(len, given.values())) == [2, 2]
    assert caplog.records == []


@pytest.mark.parametrize(
    "strategy", [StickyPartitionAssignor, TheirCooperative, RoundRobinPartitionAssignor]
)
def test_each_partition_goes_to_one_member_that_has_subscribed_to_its_topic(strategy: type) -> None:
    """Members claim what they had in several generations, also of topics that they have left."""
    for seed in range(300):
        draw = random.Random(seed)
        topics = {f"t{number}": draw.randint(0, 6) for number in range(draw.randint(1, 5))}
        everything = [TopicPartition(topic, one) for topic in topics for one in range(8)]
        subscribed = {
            f"m{number}": draw.sample(sorted(topics), k=draw.randint(0, len(topics)))
            for number in range(draw.randint(1, 7))
        }
        members = []
        for name, wanted in subscribed.items():
            had = draw.sample(everything, k=draw.randint(0, 8))
            generation = draw.choice([1, 2, 3])
            told = StickyAssignorUserData(list(by_topic(had).items()), generation)
            members.append(
                a_member(
                    name,
                    *wanted,
                    user_data=told.encode(header=False),
                    owned=had,
                    generation=generation,
                )
            )

        made = assigned(strategy, topics, *members)

        given = [partition for those in made.values() for partition in those]
        wanted_topics = {topic for wanted in subscribed.values() for topic in wanted}
        there = {f"{t}-{one}" for t in wanted_topics for one in range(topics[t])}
        assert len(given) == len(set(given)), seed
        assert set(given) <= there, seed
        if strategy is not TheirCooperative:  # it withholds what its owner has to give up first
            assert set(given) == there, seed
        for name, those in made.items():
            assert {one.rpartition("-")[0] for one in those} <= set(subscribed[name]), seed


def test_a_claim_of_an_older_generation_does_not_make_the_owner_give_the_partition_up() -> None:
    here, there = TopicPartition("t", 0), TopicPartition("t", 1)
    owner = a_member("b", "t", owned=[here], generation=6)
    late = a_member("c", "t", owned=[here, there], generation=5)

    given = assigned(TheirCooperative, {"t": 2}, owner, late)

    assert given == {"b": ["t-0"], "c": ["t-1"]}


def test_of_a_subscription_nothing_is_lost_but_claims_that_do_not_count() -> None:
    """KIP-881's rack, for one, and the user data."""
    seen: dict[str, Any] = {}

    class Seeing(CooperativeStickyAssignor):
        @classmethod
        def parse_member_metadata(cls, metadata: Any) -> Any:
            seen[metadata.rack_id] = metadata
            return super().parse_member_metadata(metadata)

    def a_subscription(rack: str, partition: int, generation: int) -> ConsumerProtocolSubscription:
        return ConsumerProtocolSubscription(
            version=3,
            topics=["t", "u"],
            user_data=b"kept",
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=[partition])
            ],
            generation_id=generation,
            rack_id=rack,
        )

    sent = [a_subscription("north", 0, 7), a_subscription("south", 1, 7)]
    members = [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=f"m{number}", group_instance_id=None, metadata=bytes(one.encode())
        )
        for number, one in enumerate(sent)
    ]

    LeaderPlan(Seeing(), members).assign(a_cluster(t=2, u=1))

    assert [seen["north"].encode(), seen["south"].encode()] == [one.encode() for one in sent]


def test_a_partition_that_two_members_have_from_one_generation_is_assigned_anew() -> None:
    here = TopicPartition("t", 0)
    members = [a_member(name, "t", owned=[here], generation=5) for name in "ab"]

    given = assigned(TheirCooperative, {"t": 2}, *members)

    assert sorted(given["a"] + given["b"]) == ["t-0", "t-1"]


def test_a_partition_that_moves_is_given_to_nobody_before_its_owner_has_given_it_up() -> None:
    members = [
        a_member("a", "t", owned=[TopicPartition("t", n) for n in range(4)], generation=5),
        a_member("b", "t", generation=5),
    ]

    given = assigned(TheirCooperative, {"t": 4}, *members)

    assert (len(given["a"]), given["b"]) == (2, [])


# -- all of them


@pytest.mark.parametrize(
    "strategy",
    [
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        TheirCooperative,
    ],
)
def test_topics_are_offered_in_order(strategy: type) -> None:
    topics = frozenset(f"t{n}" for n in range(20))

    ((_, offer),) = Assignors([strategy]).subscriptions(topics, (), 1)

    assert ConsumerProtocolSubscription.decode(offer).topics == sorted(topics)


def test_an_assignor_that_an_application_has_derived_is_its_own() -> None:
    class Own(RoundRobinPartitionAssignor):  # type: ignore[misc]
        name = "own"

    own = Own()

    assert Assignors([own]).by_name == {"own": own}
    assert type(Assignors([Own]).by_name["own"]) is Own
