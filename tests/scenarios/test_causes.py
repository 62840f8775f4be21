"""What an event's `cause` leads back to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aktor.consumer.facade import KafkaConsumer
from tests.scenarios.history import History
from tests.scenarios.reading import T0, a_member, read
from tests.scenarios.world import World

Events = list[dict[str, Any]]


@pytest.fixture(scope="module", name="events")
def _events() -> Events:
    """What a consumer tells whose group another one joins after five seconds."""
    world = World(1)
    world.cluster.create_topic("orders", partitions=4)
    world.cluster.fill("orders", 30)
    history = History(world)
    first = history.reader("orders", group_id="g", auto_commit_interval_ms=300)
    history.drive(5.0)
    history.reader("orders", group_id="g")
    history.drive(10.0)
    return world.host(first.consumer).events


def named(events: Events, name: str, api: str | None = None) -> Events:
    return [one for one in events if one["event"] == name and one.get("api") == api]


def walked_back(event: dict[str, Any], events: Events) -> list[str]:
    """The event, what led to it, what led to that, and so on; requests by their names."""
    way, cause = [f"{event['event']} {event.get('api', '')}".strip()], event.get("cause")
    while cause is not None:
        event = events[cause - 1]
        way.append(f"{event['event']} {event.get('api', '')}".strip())
        cause = event.get("cause")
    return way


def test_events_are_numbered_without_a_gap_and_a_cause_was_told_before(events: Events) -> None:
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all(0 < event["cause"] < event["seq"] for event in events if "cause" in event)


def test_a_rejoin_is_walked_back_to_the_heartbeat_that_began_it(events: Events) -> None:
    """Over the application, which has given its partitions up, and the commit before that."""
    last = named(events, "request.sent", "JoinGroup")[-1]

    way = walked_back(last, events)

    assert way[: way.index("request.answered Heartbeat") + 2] == [
        "request.sent JoinGroup",
        "membership.moved",
        "partitions.released",
        "commit.succeeded",
        "request.answered OffsetCommit",
        "request.sent OffsetCommit",
        "commit.sent",
        "membership.moved",
        "request.answered Heartbeat",
        "request.sent Heartbeat",
    ]


def test_what_the_application_does_is_walked_back_to_the_answer_that_it_acts_on(
    events: Events,
) -> None:
    assigned = named(events, "partitions.assigned")[-1]

    assert walked_back(assigned, events)[:4] == [
        "partitions.assigned",
        "membership.moved",
        "request.answered SyncGroup",
        "request.sent SyncGroup",
    ]


def test_a_fetch_is_walked_back_to_the_answer_that_told_its_position(events: Events) -> None:
    first = named(events, "request.sent", "Fetch")[0]

    assert "request.answered OffsetFetch" in walked_back(first, events)


@pytest.mark.parametrize("end", ["request.answered", "request.failed"])
def test_the_end_of_a_request_was_led_to_by_its_sending(end: str, events: Events) -> None:
    for event in events:
        if event["event"] == end:
            sent = events[event["cause"] - 1]
            assert (sent["event"], sent["request"]) == ("request.sent", event["request"])


def test_a_commit_and_its_request_have_one_number(events: Events) -> None:
    commits = named(events, "commit.sent")
    requests = named(events, "request.sent", "OffsetCommit")

    assert commits
    assert [one["request"] for one in commits] == [one["request"] for one in requests]
    assert [one["seq"] for one in commits] == [one["cause"] for one in requests]


@pytest.fixture(scope="module", name="behind")
def _behind() -> Events:
    """What a consumer tells whose records wait, since it polls slowly, when another one joins: in
    the first course in which a chunk comes too late."""
    courses = map(_when_another_joins, range(60))
    return next(events for events in courses if named(events, "chunk.dropped"))


def _when_another_joins(seed: int) -> Events:
    world = World(seed)
    world.cluster.create_topic("orders", partitions=4)
    world.cluster.fill("orders", 500)
    history = History(world)
    first = history.reader("orders", group_id="g", max_poll_records=5)
    history.drive(5.0)
    world.trickle("orders", 400, over=6.0)
    second = history.reader("orders", group_id="g", max_poll_records=5)
    for _ in range(20):
        history.drive(0.2, second)  # meanwhile chunks come to the first one, and the revocation
        history.drive(0.1, first)
    history.drive(10.0)
    assert history.broken == []
    return world.host(first.consumer).events


def test_while_records_wait_all_of_a_rebalance_is_walked_back_to_its_heartbeat(
    behind: Events,
) -> None:
    rejoined = named(behind, "request.sent", "JoinGroup")[-1]
    commit = [one for one in named(behind, "commit.sent") if one["kind"] == "revocation"][-1]
    callbacks = named(behind, "callback.finished")
    callback = next(one for one in callbacks if one["seq"] > commit["seq"])

    for event in (rejoined, commit, callback):
        assert "request.answered Heartbeat" in walked_back(event, behind)
    assert named(behind, "chunk.dropped")
    led_by_effects = [
        event
        for event in behind
        if behind[event.get("cause", 1) - 1]["event"] in ("records.delivered", "chunk.dropped")
    ]
    assert led_by_effects == []


def test_a_chunk_that_comes_too_late_was_dropped_because_of_what_the_partition_left_by(
    behind: Events,
) -> None:
    for dropped in named(behind, "chunk.dropped"):
        assert "request.answered Heartbeat" in walked_back(dropped, behind)


#: Calls of the application, and what their actors tell of each first.
CALLS: list[tuple[Callable[[KafkaConsumer], object], str, str | None]] = [
    (lambda consumer: consumer.commit(), "commit.sent", None),
    (lambda consumer: consumer.commit_async(), "commit.sent", None),
    (lambda consumer: consumer.committed(T0), "offsets.requested", None),
    (lambda consumer: consumer.end_offsets([T0]), "request.sent", "ListOffsets"),
    (lambda consumer: consumer.offsets_for_times({T0: 1}), "request.sent", "ListOffsets"),
    (lambda consumer: consumer.topics(), "request.sent", "Metadata"),
    (lambda consumer: consumer.seek_to_end(T0), "position.sought", None),
    (lambda consumer: consumer.pause(T0), "partitions.paused", None),
    (lambda consumer: consumer.resume(T0), "partitions.resumed", None),
    (lambda consumer: consumer.unsubscribe(), "request.sent", "LeaveGroup"),
]


@pytest.mark.parametrize("before", range(len(CALLS) - 1))
def test_a_call_begins_a_chain_of_its_own(before: int) -> None:
    """Whatever the application has called before it."""
    world = World(1)
    world.cluster.create_topic("orders", partitions=2)
    world.cluster.fill("orders", 30)
    consumer = a_member(world, enable_auto_commit=False)
    read(world, consumer, 30)
    events = world.host(consumer).events

    for call, name, api in CALLS:
        CALLS[before][0](consumer)
        world.sleep(0.2)  # the background has nothing more to do for that
        begun = len(events)
        call(consumer)
        world.sleep(0.2)
        told = named(events[begun:], name, api)
        assert told, f"{name} {api} was not told"
        first = told[0]
        led = walked_back(first, events)[1:]
        assert first.get("cause", begun + 1) > begun, f"{name} {api} was led to by {led}"
