"""A call that runs out of time says what it was, how long it took, what stood in its way, and whom
to look at. A table: calls by causes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from kafka.errors import CoordinatorNotAvailableError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.questions import ANSWER_GRACE
from aktor.consumer.facade import KafkaConsumer
from tests.scenarios.reading import T0, read
from tests.scenarios.world import World

GHOST: Final = TopicPartition("ghosts", 0)
OFFSETS: Final = {T0: OffsetAndMetadata(1, "", -1)}

#: What each call is given, in seconds.
TIME: Final = 3.0

Call = Callable[[KafkaConsumer], Any]

CALLS: Final[dict[str, Call]] = {
    "commit": lambda consumer: consumer.commit(OFFSETS, timeout_ms=TIME * 1000),
    "committed": lambda consumer: consumer.committed(T0, timeout_ms=TIME * 1000),
    "position": lambda consumer: consumer.position(T0),
    "position after seek_to_end": lambda consumer: (
        consumer.seek_to_end(T0) or consumer.position(T0)
    ),
    "end_offsets": lambda consumer: consumer.end_offsets([T0], timeout_ms=TIME * 1000),
    "beginning_offsets": lambda consumer: consumer.beginning_offsets([T0], timeout_ms=TIME * 1000),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({T0: 5}, TIME * 1000),
    "offsets of a ghost": lambda consumer: consumer.end_offsets([GHOST], timeout_ms=TIME * 1000),
    "topics": lambda consumer: consumer.topics(),
    "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("bills"),
}

#: What each call says that it did not do.
WHAT: Final = {
    "commit": "the offsets of orders-0 were not committed in group 'g'",
    "committed": "the committed offsets of orders-0 in group 'g' were not found",
    "position": "no position for orders-0 was found",
    "position after seek_to_end": "no position for orders-0 was found",
    "end_offsets": "no offset was found",
    "beginning_offsets": "no offset was found",
    "offsets_for_times": "no offset was found",
    "offsets of a ghost": "no offset was found",
    "topics": "no broker described all topics",
    "partitions_for_topic": "no broker described the topics bills",
}


def all_brokers_go_down(world: World) -> None:
    world.cluster.down(1, 2, 3)


def no_coordinator(world: World) -> None:
    world.cluster.fail_next("FindCoordinator", CoordinatorNotAvailableError, times=99)


def coordinator_moves_and_is_not_found(world: World) -> None:
    no_coordinator(world)
    world.cluster.move_coordinator("g")


def silence(*apis: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        for api in apis:
            world.cluster.drop_next(api, times=99)

    return act


def no_leader(world: World) -> None:
    world.cluster.log("orders", 0).leader = -1


def nothing(world: World) -> None:
    """The topic does not exist: nothing needs to be done."""


frozen_coordinator = silence("OffsetCommit", "OffsetFetch")
frozen_leader = silence("ListOffsets")
frozen_brokers = silence("Metadata", "FindCoordinator")

LOOK_UPS: Final = ("end_offsets", "beginning_offsets", "offsets_for_times")

#: Calls, what goes wrong, whether it does so before the consumer has done anything, and what the
#: error says about it.
TABLE: Final[list[tuple[tuple[str, ...], Callable[[World], None], bool, str]]] = [
    (
        ("commit", "committed"),
        all_brokers_go_down,
        False,
        r"coordinator is not known: broker b1 closed the connection",
    ),
    (LOOK_UPS, all_brokers_go_down, False, r"for orders-0: broker 1 at b1:9092.*refused"),
    (
        ("position after seek_to_end",),
        all_brokers_go_down,
        False,
        r"where its log ends: broker 1 at b1:9092.*refused",
    ),
    (
        ("topics", "partitions_for_topic"),
        all_brokers_go_down,
        False,
        r"no broker could be reached \(last failure: b\d:9092: connection refused\)",
    ),
    (
        ("commit", "committed", "position"),
        no_coordinator,
        True,
        r"coordinator is not known: .*could not be found \(COORDINATOR_NOT_AVAILABLE\)",
    ),
    (
        ("commit", "committed"),
        coordinator_moves_and_is_not_found,
        False,
        r"NOT_COORDINATOR.*coordinator is not known: .*\(COORDINATOR_NOT_AVAILABLE\)",
    ),
    (
        ("commit", "committed"),
        frozen_coordinator,
        False,
        r"the coordinator, broker 1 at b1:9092, has not answered for 3\.0 s",
    ),
    (
        ("position",),
        frozen_coordinator,
        True,
        r"committed offset: the coordinator, broker 1 at b1:9092, has not answered for 3\.0 s",
    ),
    (LOOK_UPS, frozen_leader, True, r"orders-0: broker 1 at b1:9092 has not answered for 3\.0 s"),
    (LOOK_UPS, frozen_leader, False, r"orders-0: broker 1 at b1:9092 has not answered for 3\.0 s"),
    (
        ("position", "position after seek_to_end"),
        frozen_leader,
        True,
        r"where its log (begins|ends): broker 1 at b1:9092 has not answered for 3\.0 s",
    ),
    (LOOK_UPS, no_leader, True, r"orders-0: the partition has no leader at the moment"),
    (
        ("position", "position after seek_to_end"),
        no_leader,
        True,
        r"where its log (begins|ends): the partition has no leader at the moment",
    ),
    (("offsets of a ghost",), nothing, True, r"ghosts-0: no broker has described the topic"),
    (
        ("commit", "committed", "position"),
        frozen_brokers,
        True,
        r"coordinator is not known: (no broker has answered FindCoordinator yet|disconnected)",
    ),
    (LOOK_UPS, frozen_brokers, True, r"orders-0: no broker has said yet who leads it"),
    (("topics", "partitions_for_topic"), frozen_brokers, True, r"broker b\d:9092 did not answer"),
]

CASES: Final = [
    pytest.param(name, act, first, why, id=f"{name}-{act.__name__}-{'first' if first else 'later'}")
    for names, act, first, why in TABLE
    for name in names
]


def a_consumer(world: World) -> KafkaConsumer:
    world.cluster.create_topic("orders", partitions=2)
    world.cluster.create_topic("bills")
    world.cluster.fill("orders", 40)
    consumer = world.consumer(
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        default_api_timeout_ms=TIME * 1000,
    )
    consumer.assign([T0])
    return consumer


@pytest.mark.parametrize(("name", "act", "first", "why"), CASES)
def test_what_ran_out_of_time_says_what_stood_in_its_way(
    name: str, act: Callable[[World], None], first: bool, why: str
) -> None:
    with World(1) as world:
        consumer = a_consumer(world)
        if not first:
            assert len(read(world, consumer, 40)) == 40
        act(world)
        began = world.now

        with pytest.raises(KafkaTimeoutError) as caught:
            CALLS[name](consumer)

        assert world.now - began <= TIME + ANSWER_GRACE
        text = str(caught.value)
        assert WHAT[name] in text
        assert re.search(r"within 3(\.0)? s", text), text
        assert re.search(why, text), text
        assert "Check that" in text, "what to do about it"
        world.host(consumer).freeze()  # closing would take its time


@pytest.mark.parametrize("name", ["commit", "committed", *LOOK_UPS])
def test_a_call_without_any_time_says_why_as_well_and_at_once(name: str) -> None:
    calls: dict[str, Call] = {
        "commit": lambda consumer: consumer.commit(OFFSETS, timeout_ms=0),
        "committed": lambda consumer: consumer.committed(T0, timeout_ms=0),
        "end_offsets": lambda consumer: consumer.end_offsets([T0], timeout_ms=0),
        "beginning_offsets": lambda consumer: consumer.beginning_offsets([T0], timeout_ms=0),
        "offsets_for_times": lambda consumer: consumer.offsets_for_times({T0: 5}, 0),
    }
    with World(1) as world:
        consumer = a_consumer(world)
        began = world.now

        with pytest.raises(KafkaTimeoutError, match="yet"):
            calls[name](consumer)

        assert world.now == began
