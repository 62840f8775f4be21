"""Whatever one thread waits for, another may call whatever it likes: both get what they would get
alone, and nothing is lost or given out twice. In virtual time; `tests/kafka/test_threads.py` has
real threads, and `close`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from tests.scenarios.reading import T0, a_member, in_another_thread, offsets, read
from tests.scenarios.world import World


def _resume_behind(consumer: KafkaConsumer) -> None:
    consumer.seek(T0, COUNT // 2)
    consumer.resume(T0)


#: What another thread calls, after which there are buffered records to give out.
FREES: dict[str, Callable[[KafkaConsumer], Any]] = {
    "resume": lambda consumer: consumer.resume(T0),
    "seek to what is buffered": _resume_behind,
    "a poll that leaves some": lambda consumer: (consumer.resume(T0), consumer.poll(0)),
}


@pytest.mark.parametrize("call", FREES)
@pytest.mark.parametrize("iterates", [False, True])
def test_a_wait_ends_when_another_thread_frees_records_that_are_buffered(
    iterates: bool, call: str
) -> None:
    """No Fetch brings them any more, so the background has nothing to ring for."""
    with World(7) as world:
        world.cluster.create_topic("orders", partitions=1)
        world.cluster.fill("orders", COUNT, batch=COUNT)
        consumer = world.consumer(
            auto_offset_reset="earliest", max_poll_records=5, consumer_timeout_ms=60_000
        )
        consumer.assign([T0])
        assert len(consumer.poll(5000)[T0]) == 5
        consumer.pause(T0)
        began = world.now
        world.after(0.3, lambda: in_another_thread(lambda: FREES[call](consumer)))

        assert next(consumer) if iterates else consumer.poll(60_000)

        assert world.now == pytest.approx(began + 0.3, abs=0.11)


GHOST = TopicPartition("ghosts", 0)
COUNT = 20


def in_vain(call: Callable[[], Any]) -> str:
    """A call whose time runs out."""
    with pytest.raises(KafkaTimeoutError):
        call()
    return "in vain"


#: What a thread waits in, of which nothing comes within its second.
WAITS: dict[str, Callable[[KafkaConsumer], Any]] = {
    "poll": lambda consumer: consumer.poll(1000),
    "poll_arrow": lambda consumer: consumer.poll_arrow(1000).num_rows,
    "next": lambda consumer: next(consumer, "nothing"),
    "for": lambda consumer: list(consumer),
    "end_offsets": lambda consumer: in_vain(lambda: consumer.end_offsets([GHOST], 1000)),
}

#: What another thread calls meanwhile, and what it gets.
CALLS: dict[str, tuple[Callable[[KafkaConsumer], Any], Any]] = {
    "poll": (lambda one: one.poll(0), {}),
    "poll for a while": (lambda one: one.poll(300), {}),
    "poll_arrow": (lambda one: one.poll_arrow(10).num_rows, 0),
    "commit": (lambda one: one.commit(), None),
    "commit_async": (lambda one: one.commit_async().is_done, False),
    "committed": (lambda one: one.committed(T0), None),
    "position": (lambda one: one.position(T0), COUNT),
    "pause": (lambda one: one.pause(T0), None),
    "resume": (lambda one: one.resume(T0), None),
    "seek": (lambda one: one.seek(T0, COUNT), None),
    "end_offsets": (lambda one: one.end_offsets([T0]), {T0: COUNT}),
    "beginning_offsets": (lambda one: one.beginning_offsets([T0]), {T0: 0}),
    "offsets_for_times": (lambda one: one.offsets_for_times({T0: 2**41}), {T0: None}),
    "topics": (lambda one: one.topics(), {"orders"}),
    "partitions_for_topic": (lambda one: one.partitions_for_topic("orders"), {0, 1}),
    "subscribe": (lambda one: one.subscribe(["orders"]), None),
}


@pytest.mark.few_cases
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wait", WAITS)
def test_another_thread_is_let_in_while_one_waits_and_the_wait_goes_on(
    wait: str, call: str
) -> None:
    act, expected = CALLS[call]
    with World(7) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", COUNT)
        consumer = a_member(
            world,
            enable_auto_commit=False,
            consumer_timeout_ms=1000,
            allow_auto_create_topics=False,
        )
        assert len(read(world, consumer, 2 * COUNT)) == 2 * COUNT
        began, outcome = world.now, []
        world.after(0.3, lambda: outcome.append(in_another_thread(lambda: act(consumer))))

        alone = {
            "poll": {},
            "poll_arrow": 0,
            "next": "nothing",
            "for": [],
            "end_offsets": "in vain",
        }
        assert WAITS[wait](consumer) == alone[wait]

        assert outcome == [expected]
        assert world.now == pytest.approx(began + 1.0, abs=0.11)
        world.cluster.fill("orders", COUNT)
        more = read(world, consumer, 2 * COUNT)
        assert offsets(more, 1) == list(range(COUNT, 2 * COUNT))
        consumer.resume(T0)
        more += read(world, consumer, 2 * COUNT - len(more))
        assert offsets(more, 0) == list(range(COUNT, 2 * COUNT))


@pytest.mark.parametrize(
    "act",
    [
        lambda one: sum(map(len, one.poll(300).values())),
        lambda one: one.poll_arrow(300).num_rows,
        lambda one: len([next(one), next(one)]),
    ],
    ids=["poll", "poll_arrow", "next"],
)
def test_records_are_given_out_while_another_thread_waits_for_an_answer(
    act: Callable[[KafkaConsumer], int],
) -> None:
    """A poll that is not let in ends in time, too, and without records."""
    with World(7) as world:
        world.cluster.create_topic("orders", partitions=2)
        world.cluster.fill("orders", COUNT)
        consumer = a_member(world, consumer_timeout_ms=1000, allow_auto_create_topics=False)
        read(world, consumer, 2 * COUNT)
        outcome: list[int] = []
        world.after(0.2, lambda: world.cluster.fill("orders", 1))
        world.after(0.3, lambda: outcome.append(in_another_thread(lambda: act(consumer))))

        in_vain(lambda: consumer.end_offsets([GHOST], 1000))

    assert outcome == [2]
