"""The recipes: programs in examples/ that put a consumer beside something else.

Django and Celery are not installed for it: of these programs the part runs that knows no framework,
and the shell around it is compiled only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from kafka import KafkaProducer

from aktor import TopicPartition
from examples import (
    aio_taskgroup,
    batch_insert,
    exactly_once_sqlite,
    from_asyncio,
    health_check,
    record_loop,
    schema_registry,
    with_celery,
)
from examples.background_reader import BackgroundReader
from tests.kafka.real.topics import create_topic, produce
from tests.kafka.support import PROMPT_S, ROOT, SOON_S, quick, wait_until

pytestmark = pytest.mark.embedded("what they show of Kafka has its tests on both")

COUNT = 40


@pytest.fixture
def orders(kafka: Any, topic: str) -> str:
    """A topic of two partitions with the values "0" to "39"."""
    create_topic(kafka.bootstrap_servers, topic, partitions=2)
    produce(kafka.bootstrap_servers, topic, [b"%d" % number for number in range(COUNT)])
    return topic


def test_exactly_once_stores_each_record_once_though_the_program_falls_in_a_batch(
    kafka: Any, orders: str, group: str, tmp_path: Path
) -> None:
    arguments = ",".join(kafka.bootstrap_servers), orders, group, str(tmp_path / "bills.db")
    fell: list[int] = []

    def fall_once(database: sqlite3.Connection, record: Any) -> None:
        exactly_once_sqlite.bill(database, record)
        if record.offset == 7 and not fell:
            fell.append(record.offset)
            raise KeyError("the program falls in the middle of a batch")

    with pytest.raises(KeyError):
        exactly_once_sqlite.main(*arguments, insert=fall_once, idle_ms=PROMPT_S * 1000)
    exactly_once_sqlite.main(*arguments, idle_ms=1500)

    stored = exactly_once_sqlite.stored(arguments[-1])
    assert sorted(map(int, stored)) == list(range(COUNT))


def test_exactly_once_refuses_a_member_whose_partition_another_one_has_stored() -> None:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.executescript(exactly_once_sqlite.TABLES)
        database.execute("insert into offsets values ('orders', 0, 12)")
        offsets = exactly_once_sqlite.Offsets(database, consumer=None)  # type: ignore[arg-type]
        record = a_record(offset=10)

        with pytest.raises(RuntimeError, match="by another member"):
            offsets.store(TopicPartition("orders", 0), [record], exactly_once_sqlite.bill)

        assert database.execute("select count(*) from bills").fetchone() == (0,)


def a_record(offset: int) -> Any:
    from aktor.records import ConsumerRecord

    return ConsumerRecord("orders", 0, 0, offset, 0, 0, None, b"1", [], None, -1, 1, -1)


@pytest.mark.gate  # it waits for the end of what comes
def test_batch_insert_stores_each_record_once_in_few_batches(
    kafka: Any, orders: str, group: str, tmp_path: Path
) -> None:
    arguments = ",".join(kafka.bootstrap_servers), orders, group, str(tmp_path / "orders.db")

    assert 1 <= batch_insert.main(*arguments, idle_ms=PROMPT_S * 1000) <= 3
    # Another group reads the same records: they are there.
    again = arguments[0], orders, f"{group}-2", arguments[3]
    batch_insert.main(*again, idle_ms=1500)

    with contextlib.closing(sqlite3.connect(arguments[-1])) as database:
        values = [int(value) for (value,) in database.execute("select value from orders")]
    assert sorted(values) == list(range(COUNT))
    with quick(kafka, group_id=group) as consumer:
        committed = consumer.committed([TopicPartition(orders, number) for number in (0, 1)])
    assert sum(committed.values()) == COUNT


def answer(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=SOON_S) as found:
            return found.status, found.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_health_check_is_ready_and_live_and_neither_once_it_is_closed(
    kafka: Any, orders: str, group: str
) -> None:
    consumer = quick(kafka, orders, group_id=group)
    with consumer, health_check.probes(consumer.status, 0) as port:
        assert answer(port, "/ready") == (200, "ok")
        assert answer(port, "/live") == (200, "ok")
        while not consumer.poll(timeout_ms=500):
            pass
        assert answer(port, "/ready") == (200, "ok")
        assert answer(port, "/no")[0] == 503
        consumer.close()
        assert answer(port, "/live") == (503, "the consumer is closed")
        assert answer(port, "/ready") == (503, "the consumer is closed")


def test_a_background_reader_commits_what_it_has_handled_when_it_is_stopped(
    kafka: Any, orders: str, group: str
) -> None:
    handled: list[Any] = []
    reader = BackgroundReader(
        handled.append,
        orders,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
    )
    assert reader.status() is None
    reader.start()
    wait_until(lambda: len(handled) == COUNT, "all records")
    reader.stop()

    status = reader.status()
    assert status is not None
    assert (reader.error, status.state) == (None, "closed")
    with quick(kafka, group_id=group) as consumer:
        committed = consumer.committed([TopicPartition(orders, number) for number in (0, 1)])
    assert sum(committed.values()) == COUNT


def test_a_background_reader_says_why_it_has_ended(kafka: Any, orders: str, group: str) -> None:
    def fail(record: Any) -> None:
        raise KeyError(record.offset)

    settings = {"bootstrap_servers": kafka.bootstrap_servers, "auto_offset_reset": "earliest"}
    reader = BackgroundReader(fail, orders, group_id=group, **settings)
    reader.start()
    wait_until(lambda: reader.error is not None, "an error")

    assert isinstance(reader.error, KeyError)
    assert reader.status().state == "closed"


def test_a_record_loop_ends_at_sigterm_and_has_committed_what_is_done(
    kafka: Any, orders: str, group: str
) -> None:
    done: list[Any] = []
    batches: list[None] = []

    def handle(record: Any) -> None:
        done.append(with_celery.task_id(record))
        if len(done) == COUNT:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with quick(kafka, orders, group_id=group) as consumer:
        count = record_loop.run(consumer, handle, before_batch=lambda: batches.append(None))
        committed = consumer.committed([TopicPartition(orders, number) for number in (0, 1)])

    assert count == COUNT
    assert sorted(done) == sorted({*done})
    assert sum(committed.values()) == COUNT
    assert batches
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_task_of_celery_is_named_by_its_record() -> None:
    record = a_record(offset=7)

    assert with_celery.task_id(record) == "orders-0-7"
    assert with_celery.arguments(record) == ["1"]


@pytest.mark.parametrize("name", ["with_celery", "with_django"])
def test_the_shell_around_a_framework_is_python(name: str) -> None:
    path = ROOT / "examples" / f"{name}.py"

    compile(path.read_text(), str(path), "exec")


def test_fastapi_handles_records_and_answers_its_probe(
    kafka: Any, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # (Each process of a run imports this module, and a framework for the web takes long.)
    from starlette.testclient import TestClient

    from examples import aio_fastapi

    monkeypatch.setenv("TOPIC", orders)
    monkeypatch.setenv("KAFKA", ",".join(kafka.bootstrap_servers))
    aio_fastapi.billed.clear()
    with TestClient(aio_fastapi.app) as client:
        wait_until(lambda: client.get("/billed").json() == COUNT, "all were handled")
        assert client.get("/ready").json() == "ok"
        client.portal.call(aio_fastapi.app.state.consumer.stop)
        assert client.get("/ready").status_code == 503
    with quick(kafka, group_id="billing") as consumer:
        found = consumer.committed([TopicPartition(orders, number) for number in (0, 1)])
    assert sum(found.values()) == COUNT


def test_starlette_streams_a_topic_until_the_client_has_enough(
    kafka: Any, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from starlette.testclient import TestClient

    from examples import aio_starlette

    monkeypatch.setenv("KAFKA", ",".join(kafka.bootstrap_servers))
    with TestClient(aio_starlette.app) as client:
        answer = client.get(f"/{orders}?from=earliest&limit={COUNT}")
    assert sorted(map(int, answer.text.split())) == [*range(COUNT)]


def test_aiohttp_answers_with_what_the_topic_has_last(kafka: Any, orders: str) -> None:
    from aiohttp.test_utils import TestClient, TestServer

    from examples import aio_aiohttp

    async def ask() -> None:
        app = aio_aiohttp.make_app(",".join(kafka.bootstrap_servers), orders)
        async with TestClient(TestServer(app)) as client:
            produce(kafka.bootstrap_servers, orders, [b"late"], key=b"ada")
            async with asyncio.timeout(SOON_S):
                while (answer := await client.get("/ada")).status == 404:
                    await asyncio.sleep(0.02)
            assert await answer.read() == b"late"
            assert (await client.get("/nobody")).status == 404

    asyncio.run(ask())


def test_in_a_taskgroup_one_failure_ends_all_and_its_record_is_not_committed(
    kafka: Any, orders: str, group: str
) -> None:
    handled: list[Any] = []

    async def handle(record: Any) -> None:
        if len(handled) == 7:
            raise ZeroDivisionError
        handled.append(record.value)

    async def ends() -> None:
        async with asyncio.timeout(SOON_S):
            await aio_taskgroup.main(",".join(kafka.bootstrap_servers), orders, group, handle)

    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(ends())
    assert raised.group_contains(ZeroDivisionError)
    with quick(kafka, group_id=group) as consumer:
        found = consumer.committed([TopicPartition(orders, number) for number in (0, 1)])
    assert sum(offset or 0 for offset in found.values()) <= 7


@pytest.mark.gate  # it waits for the end of what comes
def test_asyncio_goes_on_while_a_poll_waits(kafka: Any, orders: str, group: str) -> None:
    async def both() -> tuple[int, int]:
        ticks, reading = 0, asyncio.create_task(read())
        while not reading.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return reading.result(), ticks

    def read() -> Any:
        return from_asyncio.main(",".join(kafka.bootstrap_servers), orders, group, PROMPT_S * 1000)

    done, ticks = asyncio.run(both())

    assert done == COUNT
    assert ticks > 50


@pytest.mark.gate  # it waits for the end of what comes
def test_a_schema_registry_gives_orders(
    kafka: Any, topic: str, group: str, unique: Callable[[str], str]
) -> None:
    # Slow to import, for one test.
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    fields = [{"name": "id", "type": "int"}, {"name": "total", "type": "double"}]
    registry: Any = SchemaRegistryClient.new_client({"url": "mock://"})  # in memory
    schema = f'{{"type": "record", "name": "Order", "fields": {fields}}}'.replace("'", '"')
    serialize = AvroSerializer(registry, schema)
    context = SerializationContext(topic, MessageField.VALUE)
    create_topic(kafka.bootstrap_servers, topic, partitions=1)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for key, total in ((b"alice", 1.5), (b"bob", 2.0), (b"alice", 3.0)):
            value = serialize({"id": 1, "total": total}, context)
            producer.send(topic, key=key, value=value)
        producer.send(topic, key=b"bob", value=None)

    found = schema_registry.main(
        ",".join(kafka.bootstrap_servers), topic, group, registry, idle_ms=PROMPT_S * 1000
    )

    assert found == {"alice": 4.5}
