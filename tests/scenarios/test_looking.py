"""Whoever only looks (an exporter of metrics, a health check) never gets in anybody's way."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.present import picture
from aktor.consumer.present.seen import see
from aktor.errors import ConsumerClosedError
from tests.gate import all_but_the_first
from tests.scenarios.interrupts import Injection
from tests.scenarios.reading import T0, T1, a_member, in_another_thread, read
from tests.scenarios.world import World

#: Every method that only reads, and what it says of a member that has read two partitions.
LOOKS: dict[str, tuple[Callable[[KafkaConsumer], Any], Any]] = {
    "assignment": (lambda one: one.assignment(), {T0, T1}),
    "subscription": (lambda one: one.subscription(), {"orders"}),
    "paused": (lambda one: one.paused(), {T1}),
    "highwater": (lambda one: one.highwater(T0), 40),
    "group_metadata": (lambda one: one.group_metadata().group_id, "g"),
    "partitions_for_topic": (lambda one: one.partitions_for_topic("orders"), {0, 1}),
    "known_topics": (lambda one: set(one.known_topics()["orders"].partitions), {0, 1}),
    "bootstrap_connected": (lambda one: one.bootstrap_connected(), True),
    "config": (lambda one: one.config["group_id"], "g"),
    "repr": (lambda one: "[orders]" in repr(one), True),
    "metrics": (
        lambda one: one.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"],
        80,
    ),
    "metrics, raw": (lambda one: len(one.metrics(raw=True)) > 5, True),
    "status": (lambda one: one.status().partitions[T1].paused, True),
    "why": (lambda one: "the application has paused reading" in one.why(), True),
    "rebalances": (lambda one: [type(each).__name__ for each in one.rebalances], ["MemberPart"]),
}


@pytest.fixture
def world() -> Iterator[World]:
    with World(3) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", 40)
        yield world


@pytest.mark.parametrize("name", LOOKS)
def test_another_thread_may_look_while_the_application_waits_in_poll(
    world: World, name: str
) -> None:
    look, expected = LOOKS[name]
    consumer = a_member(world)
    assert len(read(world, consumer, 80)) == 80
    consumer.pause(T1)
    seen: list[Any] = []
    world.after(0.3, lambda: seen.append(in_another_thread(lambda: look(consumer))))
    world.after(0.6, lambda: seen.append(in_another_thread(lambda: consumer.poll(0))))

    assert consumer.poll(timeout_ms=1000) == {}

    assert seen[0] == expected
    assert seen[1] == {}  # the application waits, and lets it in


@pytest.mark.parametrize("name", LOOKS)
def test_who_looks_keeps_nobody_out(world: World, name: str) -> None:
    """The application polls while another thread is in the middle of a look."""
    look, expected = LOOKS[name]
    consumer = a_member(world)
    assert len(read(world, consumer, 80)) == 80
    consumer.pause(T1)
    began: list[Any] = []

    def poll_once(_frame: Any, _event: str, _arg: Any) -> None:
        if not began:
            began.append(in_another_thread(lambda: consumer.poll(0)))

    sys.settrace(poll_once)
    try:
        seen = look(consumer)
    finally:
        sys.settrace(None)

    assert seen == expected
    assert began in ([{}], [])  # `config` is not even a call


def test_no_end_is_said_to_be_younger_than_it_is_if_an_answer_comes_in_the_middle_of_a_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partitions have been looked at when the answer with a new record comes."""
    consumer = a_member(world)
    assert len(read(world, consumer, 80)) == 80
    world.sleep(0.4)
    before = consumer.status().partitions[T0]

    def see_and_wait(engine: Any) -> Any:
        seen = see(engine)
        world.cluster.produce("orders", 0, b"new")
        world.sleep(0.05)
        return seen

    monkeypatch.setattr(picture, "see", see_and_wait)
    status = consumer.status().partitions[T0]
    monkeypatch.setattr(picture, "see", see)

    assert consumer.status().partitions[T0].end == 41  # an answer has come meanwhile
    assert (before.end, status.end) == (40, 40)
    assert before.end_age is not None
    assert status.end_age is not None
    assert status.end_age >= before.end_age > 0.0


def test_a_look_sees_one_assignment_or_the_other_while_it_changes() -> None:
    """However often the threads take turns: never a part of one, never an error. (The threads are
    real, and so is the consumer's own. No broker is there, and none is needed.)"""
    every = [TopicPartition("orders", number) for number in range(200)]
    with KafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0) as consumer:
        consumer.assign(every[50:150])
        stop, errors = threading.Event(), list[BaseException]()

        def look() -> None:
            while not stop.is_set():
                try:
                    assert len(consumer.assignment()) == 100
                    consumer.paused()
                    consumer.highwater(every[100])
                    consumer.metrics()
                    assert len(consumer.status().partitions) == 100
                    assert consumer.why()
                except BaseException as error:
                    errors.append(error)
                    return

        lookers = [threading.Thread(target=look) for _ in range(2)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for looker in lookers:
                looker.start()
            for _ in range(30):
                consumer.assign(every[100:])
                consumer.assign(every[50:150])
        finally:
            stop.set()
            for looker in lookers:
                looker.join()
            sys.setswitchinterval(before)

        assert errors == []
        consumer.close(timeout_ms=0)


def test_a_look_at_any_line_of_a_change_sees_one_assignment_or_the_other(world: World) -> None:
    consumer = world.consumer()
    looks = 0

    def look(_frame: Any, event: str, _argument: Any) -> Any:
        nonlocal looks
        sys.settrace(None)
        try:
            assert len(consumer.assignment()) == 1
            looks += 1
        finally:
            sys.settrace(look)
        return look

    consumer.assign([T0])
    for one in (T1, T0):
        sys.settrace(look)
        try:
            consumer.assign([one])
        finally:
            sys.settrace(None)

    assert looks > 100


def test_a_closed_consumer_still_shows_its_metrics_and_status(world: World) -> None:
    consumer = a_member(world)
    read(world, consumer, 80)
    consumer.close()

    counted = consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"]
    assert counted == 80
    assert consumer.status().state == "closed"
    assert consumer.subscription() == {"orders"}
    with pytest.raises(ConsumerClosedError):
        consumer.poll()


@pytest.mark.parametrize("first", all_but_the_first(1, (1, 4)))
@pytest.mark.parametrize(
    "look", all_but_the_first(1, [KafkaConsumer.status, KafkaConsumer.metrics])
)
def test_a_consumer_may_be_closed_at_any_line_of_a_look(
    world: World, look: Callable[[KafkaConsumer], Any], first: int
) -> None:
    """Every sixth line, from the first one on."""
    consumer = world.consumer()
    with Injection(world) as counted:
        look(consumer)

    for line in range(first, counted.count + 1, 6):
        consumer = world.consumer()
        with Injection(world, at=[line], act=consumer.close):
            assert look(consumer) is not None
