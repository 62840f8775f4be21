"""Who comes from another client, and writes as there, is told how it is written here."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import kafka
import pytest
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from tests.scenarios.reading import T0
from tests.scenarios.world import World


@pytest.fixture
def consumer() -> Iterator[KafkaConsumer]:
    with World() as world:
        world.cluster.create_topic("orders")
        yield world.consumer(group_id="g")


@pytest.mark.parametrize("given", [{"bootstrap.servers": "b", "sasl.password": "hunter2"}, {}])
def test_a_dict_of_settings_is_refused_and_no_password_is_shown(given: dict[str, str]) -> None:
    with pytest.raises(TypeError, match=r"confluent-kafka.*bootstrap_servers=") as refusal:
        KafkaConsumer(given)  # type: ignore[arg-type]

    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("kind", [list, tuple, set])
def test_a_collection_of_topics_is_refused(kind: Callable[[list[str]], Any]) -> None:
    with pytest.raises(TypeError, match=r"KafkaConsumer\(\*topics\)"):
        KafkaConsumer(kind(["orders", "bills"]))


@pytest.mark.parametrize("name", ["timeout", "num_messages"])
def test_an_argument_of_confluents_poll_is_refused(consumer: KafkaConsumer, name: str) -> None:
    with pytest.raises(TypeError, match=r"poll\(timeout_ms=1000, max_records=500\)"):
        consumer.poll(**{name: 1})


def test_an_unknown_argument_of_poll_is_refused_as_ever(consumer: KafkaConsumer) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_record'"):
        consumer.poll(max_record=1)  # type: ignore[arg-type]

    ours, theirs = (
        [
            (one.name, one.kind, one.default)
            for one in inspect.signature(kind.poll).parameters.values()
        ]
        for kind in (KafkaConsumer, kafka.KafkaConsumer)
    )
    assert ours == theirs


@pytest.mark.parametrize("seconds", [1.0, 0.1, 5.0, 0.25])
def test_a_poll_of_some_seconds_is_warned_of_once(consumer: KafkaConsumer, seconds: float) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(3):
            consumer.poll(seconds)

    (warning,) = warned
    assert f"poll(timeout_ms={seconds * 1000:g})" in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize("timeout_ms", [0, 0.0, 1, 5, 100.0, 1000, 3.7218431, float("inf")])
def test_any_other_poll_is_not_warned_of(consumer: KafkaConsumer, timeout_ms: float) -> None:
    consumer.wakeup()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Exception, match="wakeup"):
            consumer.poll(timeout_ms)


def test_an_async_for_is_refused(consumer: KafkaConsumer) -> None:
    async def main() -> None:
        async for _ in consumer:  # type: ignore[attr-defined]
            pass

    with pytest.raises(TypeError, match=r"aiokafka.*asyncio\.to_thread"):
        asyncio.run(main())


def test_a_fake_whose_init_calls_nobody_can_be_printed() -> None:
    """A failing test with such a fake prints it."""

    class Fake(KafkaConsumer):
        def __init__(self) -> None:
            """It does not call ours."""

    assert repr(Fake()) == "<Fake without a KafkaConsumer: __init__ was not called>"


# -- what programs see beside records, as in kafka-python


def test_topics_leaves_out_kafkas_own_unless_they_are_wanted() -> None:
    with World() as world:
        for topic in ("orders", "__consumer_offsets"):
            world.cluster.create_topic(topic)

        assert world.consumer().topics() == {"orders"}
        every = world.consumer(exclude_internal_topics=False).topics()
        assert every == {"orders", "__consumer_offsets"}
        assert set(world.consumer().look_up_topics()) == every


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_pattern_that_matches_nothing_is_a_subscription_without_topics(
    group_id: str | None,
) -> None:
    with World() as world:
        consumer = world.consumer(group_id=group_id)
        assert consumer.subscription() is None

        consumer.subscribe(pattern="bills.*")
        assert consumer.subscription() == set()

        world.cluster.create_topic("bills-1")
        world.cluster.fill("bills-1", 1)
        consumer.poll(600_000)
        assert consumer.subscription() == {"bills-1"}
        consumer.unsubscribe()
        assert consumer.subscription() is None


def test_a_closed_consumer_has_no_partitions(consumer: KafkaConsumer) -> None:
    consumer.assign([T0])
    assert consumer.assignment() == {TopicPartition("orders", 0)}

    consumer.close()

    assert consumer.assignment() == set()


# -- a `__next__` that was put in place of ours


def counting(calls: list[int], wrapped: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def replaced(self: Any) -> Any:
        record = wrapped(self)
        calls.append(record.offset)
        return record

    return replaced


@pytest.mark.parametrize("of", ["class", "subclass", "subclass, later", "instance"])
def test_a_loop_calls_the_next_that_was_put_in_place_of_ours_for_each_record(
    of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents that monitor an application wrap it; so does a decorator, or a test."""
    calls: list[int] = []
    replaced = counting(calls, KafkaConsumer.__next__)
    with World() as world:
        world.cluster.create_topic("orders", partitions=1)
        world.cluster.fill("orders", 10)
        consumer = world.consumer(
            "orders", auto_offset_reset="earliest", consumer_timeout_ms=500, group_id=None
        )
        if of == "class":
            monkeypatch.setattr(KafkaConsumer, "__next__", replaced)
        elif of.startswith("subclass"):
            own = {"__next__": replaced} if of == "subclass" else {}
            consumer.__class__ = type("Own", (KafkaConsumer,), own)
            if not own:
                type(consumer).__next__ = replaced  # type: ignore[method-assign]
        else:
            consumer.__next__ = lambda: replaced(consumer)  # type: ignore[method-assign]

        assert [record.offset for record in consumer] == list(range(10))
        assert calls == list(range(10))
