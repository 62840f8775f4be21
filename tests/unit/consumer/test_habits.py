"""Who comes from another client, and writes as there, is told how it is written here."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import kafka
import pytest
from kafka.structs import TopicPartition

from aktor.consumer.facade import KafkaConsumer
from aktor.consumer.subscription_state import ConsumerRebalanceListener
from aktor.errors import ConfigurationError
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


@pytest.mark.parametrize(
    ("call", "way"),
    [
        (lambda one: one.commit(asynchronous=True), r"commit_async\(callback=...\)"),
        (lambda one: one.commit(asynchronous=False), r"commit\(\), which waits"),
        (lambda one: one.commit(message=object()), r"OffsetAndMetadata\(record.offset \+ 1\)"),
        (lambda one: one.commit(timeout=5), r"commit\(timeout_ms=...\), in milliseconds"),
        (lambda one: one.subscribe(["a"], on_assign=print), r"listener=.*on_partitions_assigned"),
        (lambda one: one.subscribe(["a"], on_revoke=print), r"listener=.*on_partitions_revoked"),
        (lambda one: one.subscribe(["a"], on_lost=print), r"listener=.*on_partitions_lost"),
        (lambda one: one.committed([], timeout=5), r"committed\(timeout_ms=...\)"),
        (lambda one: one.position(None, timeout=5), r"position\(timeout_ms=...\)"),
        (lambda one: one.beginning_offsets([], timeout=5), r"beginning_offsets\(timeout_ms=...\)"),
        (lambda one: one.end_offsets([], timeout=5), r"end_offsets\(timeout_ms=...\)"),
        (lambda one: one.offsets_for_times({}, timeout=5), r"offsets_for_times\(timeout_ms=...\)"),
        (lambda one: one.close(timeout=5), r"close\(timeout_ms=...\), in milliseconds"),
    ],
)
def test_an_argument_of_a_confluent_method_is_refused_with_the_way_it_is_written_here(
    consumer: KafkaConsumer, call: Callable[[Any], Any], way: str
) -> None:
    with pytest.raises(TypeError, match=f"confluent-kafka's consumer has.*{way}"):
        call(consumer)


def test_an_unknown_argument_that_no_client_has_is_refused_as_ever(consumer: KafkaConsumer) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'offset'"):
        consumer.commit(offset=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["pause", "resume", "seek_to_beginning", "seek_to_end"])
def test_a_list_of_partitions_is_refused_where_each_is_an_argument(
    consumer: KafkaConsumer, name: str
) -> None:
    consumer.assign([TopicPartition("orders", 0)])

    with pytest.raises(TypeError, match=rf"not \[.*{name}\(\*partitions\)"):
        getattr(consumer, name)([TopicPartition("orders", 0)])


def test_a_commit_of_something_else_says_what_a_commit_takes(consumer: KafkaConsumer) -> None:
    with pytest.raises(TypeError, match=r"\{TopicPartition\(.*OffsetAndMetadata\(.* \+ 1\)\}"):
        consumer.commit([TopicPartition("orders", 0)])  # type: ignore[arg-type]


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


def test_an_async_with_is_refused(consumer: KafkaConsumer) -> None:
    async def main() -> None:
        async with consumer:  # type: ignore[misc]
            pass

    with pytest.raises(TypeError, match=r"aiokafka.*asyncio\.to_thread"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("consume", r"confluent-kafka.*poll\(timeout_ms=1000, max_records=500\)"),
        ("get_watermark_offsets", r"confluent-kafka.*end_offsets\(\)"),
        ("memberid", r"confluent-kafka.*group_metadata\(\)\.member_id"),
        ("getone", r"aiokafka.*next\(consumer\)"),
        ("start", r"aiokafka.*aktor\.aio\.KafkaConsumer"),
        ("stop", r"aiokafka.*close\(\)"),
    ],
)
def test_a_method_of_another_client_is_no_attribute_and_the_error_says_what_to_call(
    consumer: KafkaConsumer, name: str, instead: str
) -> None:
    assert not hasattr(consumer, name)
    assert not hasattr(type(consumer), name)
    assert name not in dir(consumer)
    with pytest.raises(AttributeError, match=instead) as refusal:
        getattr(consumer, name)

    assert (refusal.value.name, refusal.value.obj) == (name, consumer)


def test_what_no_client_has_is_no_attribute_as_of_any_object(consumer: KafkaConsumer) -> None:
    with pytest.raises(AttributeError, match=r"^'KafkaConsumer' object has no attribute 'pol'$"):
        consumer.pol()  # type: ignore[attr-defined]


def test_a_partition_in_place_of_a_topic_is_refused_with_assign() -> None:
    with pytest.raises(TypeError, match=r"assign\(\[\.\.\.\]\)"):
        KafkaConsumer(TopicPartition("orders", 0))  # type: ignore[arg-type]


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


@pytest.mark.parametrize("begin", ["assign", "subscribe", "nothing"])
def test_a_closed_consumer_has_no_partitions_and_no_connections_but_its_subscription(
    consumer: KafkaConsumer, begin: str
) -> None:
    if begin == "assign":
        consumer.assign([T0])
        assert consumer.assignment() == {TopicPartition("orders", 0)}
    if begin == "subscribe":
        consumer.subscribe(["orders"])
    consumer.topics()
    before = consumer.subscription()
    assert before == ({"orders"} if begin == "subscribe" else None)
    assert consumer.bootstrap_connected()

    consumer.close()

    assert (consumer.assignment(), consumer.paused()) == (set(), set())
    assert consumer.subscription() == before
    assert not consumer.bootstrap_connected()


# -- subclasses


def test_a_subclass_may_have_defaults_and_settings_of_its_own() -> None:
    class Own(KafkaConsumer):
        DEFAULT_CONFIG = KafkaConsumer.DEFAULT_CONFIG | {"max_poll_records": 7, "table": "bills"}

    servers = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 0}
    found = []
    for given in ({}, {"max_poll_records": 8, "table": "orders"}):
        with Own(**servers, **given) as consumer:  # type: ignore[arg-type]
            found.append((consumer.config["max_poll_records"], consumer.config["table"]))  # type: ignore[typeddict-item]

    assert found == [(7, "bills"), (8, "orders")]
    with pytest.raises(ConfigurationError, match="unknown setting 'tabel'"):
        Own(tabel="orders")  # type: ignore[call-overload]


def test_the_constructor_calls_no_method_of_a_subclass() -> None:
    """Such a method may need what the subclass's constructor sets after ours has returned."""

    class Own(KafkaConsumer):
        def subscribe(self, *args: Any, **how: Any) -> None:
            raise AssertionError

    with Own("orders", bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0) as consumer:
        assert consumer.subscription() == {"orders"}


def test_a_method_of_another_client_may_come_from_another_base_of_a_subclass() -> None:
    """As `start` of a consumer that is a thread, too, or `stop` of a service's base class."""

    class Service:
        def stop(self) -> str:
            return "stopped"

        @property
        def list_topics(self) -> list[str]:
            return ["orders"]

    class Reader(KafkaConsumer, Service, threading.Thread):
        def __init__(self, *topics: str, **settings: Any) -> None:
            threading.Thread.__init__(self)
            KafkaConsumer.__init__(self, *topics, **settings)
            self.seen: list[object] = []

        def run(self) -> None:
            self.seen.append(self.subscription())

    with Reader("orders", bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0) as reader:
        reader.start()
        reader.join()

    assert (reader.seen, reader.stop(), reader.list_topics) == ([{"orders"}], "stopped", ["orders"])
    assert Reader.start is threading.Thread.start
    assert {"start", "stop"} < set(dir(reader))
    assert not {"getmany", "memberid"} & set(dir(reader))
    with pytest.raises(AttributeError, match="aiokafka"):
        reader.getmany  # noqa: B018


def test_what_a_subclass_counts_may_have_the_name_of_what_only_looks(
    consumer: KafkaConsumer,
) -> None:
    """kafka-python's consumer has none of these names: they are the subclass's to take."""

    class Counting(KafkaConsumer):
        def __init__(self, **settings: Any) -> None:
            self.rebalances = self.status = self.why = 0
            super().__init__(**settings)
            self.rebalances += 1

    with Counting(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0) as counting:
        assert (counting.rebalances, counting.status, counting.why) == (1, 0, 0)
    assert consumer.rebalances == []


def test_what_a_consumer_of_ours_tells_is_not_set_by_a_program(consumer: KafkaConsumer) -> None:
    with pytest.raises(AttributeError, match=r"^rebalances of a KafkaConsumer is what"):
        consumer.rebalances = []  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"^rebalances of a KafkaConsumer is what"):
        del consumer.rebalances
    assert consumer.rebalances == []


def test_close_of_a_subclass_runs_once_also_if_a_callback_calls_it(consumer: KafkaConsumer) -> None:
    calls: list[bool] = []

    class Own(KafkaConsumer):
        def close(self, *args: Any, **how: Any) -> None:
            calls.append(True)
            super().close(*args, **how)

    class Closing(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            consumer.close()

        def on_partitions_revoked(self, revoked: Any) -> None: ...

    consumer.__class__ = Own
    consumer.subscribe(["orders"], listener=Closing())
    consumer.poll(600_000)

    assert (consumer._closed, calls) == (True, [True])


# -- a method that was put in place of ours


def putting_in_place(
    consumer: Any, name: str, of: str, replaced: Callable[..., Any], undo: pytest.MonkeyPatch
) -> None:
    """Where agents, decorators, subclasses and tests put another method of this name."""
    if of == "class":
        undo.setattr(KafkaConsumer, name, replaced)
    elif of == "subclass":
        consumer.__class__ = type("Own", (KafkaConsumer,), {name: replaced})
    elif of == "subclass, later":
        consumer.__class__ = type("Own", (KafkaConsumer,), {})
        setattr(type(consumer), name, replaced)
    else:
        setattr(consumer, name, functools.partial(replaced, consumer))


EVERYWHERE = ["class", "subclass", "subclass, later", "instance"]


@pytest.fixture
def ten() -> Iterator[Any]:
    """A consumer of a topic with ten records."""
    with World() as world:
        world.cluster.create_topic("orders", partitions=1)
        world.cluster.fill("orders", 10)
        yield world.consumer(
            "orders", auto_offset_reset="earliest", consumer_timeout_ms=500, group_id=None
        )


@pytest.mark.parametrize("of", EVERYWHERE)
@pytest.mark.parametrize("name", ["poll", "_poll_once"])
@pytest.mark.parametrize("how", ["for", "next"])
def test_an_iteration_gives_out_what_a_poll_gives_that_was_put_in_place_of_ours(
    ten: Any, how: str, name: str, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in kafka-python, whose iteration calls `poll`: such a poll may count, decrypt or filter
    records. No position moves past what was not handed out."""
    own, positions = getattr(KafkaConsumer, name), []

    def replaced(self: Any, *args: Any, **kwargs: Any) -> Any:
        return {
            partition: [record._replace(value=b"seen") for record in records if record.offset % 2]
            for partition, records in own(self, *args, **kwargs).items()
        }

    putting_in_place(ten, name, of, replaced, monkeypatch)
    records = []
    for record in ten if how == "for" else iter(lambda: next(ten, None), None):
        records.append((record.offset, record.value))
        positions.append(ten.position(T0))

    assert records == [(offset, b"seen") for offset in (1, 3, 5, 7, 9)]
    assert positions == [2, 4, 6, 8, 10]


def test_a_poll_in_place_of_ours_may_give_more_than_it_is_asked_for_and_a_seek_ends_that(
    ten: Any,
) -> None:
    ten.__class__ = type(
        "Own", (KafkaConsumer,), {"poll": lambda self, **_: KafkaConsumer.poll(self, 100)}
    )
    offsets = []
    for record in ten:
        offsets.append(record.offset)
        if offsets == [0, 1, 2]:
            ten.seek(T0, 8)

    assert offsets == [0, 1, 2, 8, 9]


def test_close_ends_an_iteration_by_another_poll(ten: Any) -> None:
    def poll(self: Any, **how: Any) -> Any:
        self.close()
        return {}

    ten.__class__ = type("Own", (KafkaConsumer,), {"poll": poll})
    assert list(ten) == []


def counting(calls: list[int], wrapped: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def replaced(self: Any) -> Any:
        record = wrapped(self)
        calls.append(record.offset)
        return record

    return replaced


@pytest.mark.parametrize("of", EVERYWHERE)
def test_a_loop_calls_the_next_that_was_put_in_place_of_ours_for_each_record(
    ten: Any, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    replaced = counting(calls, KafkaConsumer.__next__)
    putting_in_place(ten, "__next__", of, replaced, monkeypatch)

    assert [record.offset for record in ten] == list(range(10))
    assert calls == list(range(10))
