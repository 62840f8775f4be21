"""`aktor` gives its names when they are asked for, and what is light stays light."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import kafka.consumer
import pytest

import aktor
from aktor.consumer.facade import KafkaConsumer


def test_every_public_name_is_there() -> None:
    assert all(getattr(aktor, name) is not None for name in aktor.__all__)
    assert set(aktor.__all__) <= set(dir(aktor))


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'KafkaConsumers'"):
        aktor.KafkaConsumers  # noqa: B018


#: Where programs import from, and which names, if not all public ones of kafka-python's module.
IMPORTED = {
    "": kafka.__all__,
    "admin": None,
    "cluster": ["ClusterMetadata"],
    "codec": None,
    "consumer": ["KafkaConsumer"],
    "consumer.fetcher": ["ConsumerRecord", "RecordTooLargeError"],
    "consumer.group": ["KafkaConsumer"],
    "consumer.subscription_state": [
        *("AsyncConsumerRebalanceListener", "ConsumerRebalanceListener"),
    ],
    "coordinator.assignors": [],
    "coordinator.assignors.abstract": ["AbstractPartitionAssignor"],
    "coordinator.assignors.cooperative_sticky": ["CooperativeStickyAssignor"],
    "coordinator.assignors.range": ["RangePartitionAssignor"],
    "coordinator.assignors.roundrobin": ["RoundRobinPartitionAssignor"],
    "coordinator.assignors.sticky": [],
    "coordinator.assignors.sticky.sticky_assignor": ["StickyPartitionAssignor"],
    "errors": None,
    "future": ["Future"],
    "metrics": ["DictReporter", "KafkaMetric", "MetricConfig", "MetricName", "Metrics"],
    "metrics.metrics_reporter": ["AbstractMetricsReporter"],
    "net.sasl.oauth": ["AbstractTokenProvider"],
    "partitioner": None,
    "producer": ["KafkaProducer"],
    "serializer": None,
    "serializer.abstract": ["Deserializer", "Serializer"],
    "structs": None,
}


def public_names(module: object) -> list[str]:
    """Its classes and functions that are kafka-python's."""
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_"
        and not inspect.ismodule(value)
        and getattr(value, "__module__", "").startswith("kafka.")
    ]


@pytest.mark.parametrize("module", IMPORTED)
def test_an_import_from_kafka_python_finds_the_same_when_the_package_name_is_replaced(
    module: str,
) -> None:
    theirs = importlib.import_module(f"kafka.{module}".strip("."))
    ours = importlib.import_module(f"aktor.{module}".strip("."))
    found = IMPORTED[module]

    for name in public_names(theirs) if found is None else found:
        same, mine = getattr(theirs, name), getattr(ours, name)
        if same is kafka.KafkaConsumer:
            assert mine is KafkaConsumer
        elif mine is not same:  # more is told by ours, and who catches theirs catches it
            assert issubclass(mine, same)
            assert mine.__module__ == "aktor.errors"
        assert module not in ("errors", "structs", "serializer") or name in ours.__all__


def test_after_import_aktor_its_modules_can_be_used_as_those_of_kafka_python() -> None:
    program = """
import aktor as kafka
print(kafka.errors.KafkaTimeoutError, kafka.structs.TopicPartition, kafka.consumer.KafkaConsumer)
print(kafka.admin.NewTopic, kafka.producer.KafkaProducer, kafka.serializer.JsonSerializer)
"""

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.returncode == 0, run.stderr


def test_an_import_logs_nothing_so_no_handler_of_the_users_can_end_it() -> None:
    program = """
import logging
import kafka
class Raises(logging.Handler):
    def emit(self, record):
        raise RuntimeError(record)
logging.basicConfig(level="DEBUG", handlers=[Raises()])
from aktor import KafkaConsumer
import aktor.aio, aktor.broker, aktor.processing
"""

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("module", ["aktor", "aktor.testing.plugin", "aktor.cli.main"])
def test_what_everybody_waits_for_imports_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print({{'kafka', 'pykka', 'structlog'}} & set(sys.modules))"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stdout == "set()\n", run.stderr


#: What a consumer does not need, or only in rare cases, and what is slow to import.
NOT_NEEDED = (
    "aktor.broker",
    "aktor.cli",
    "aktor.consumer.present",
    "aktor.consumer.status",
    "aktor.managers.membership.auto",
    "aktor.managers.membership.consumer.manager",
    "aktor.protocol.consumer_group",
    "aktor.simulation",
    "aktor.testing",
    "asyncio",
    "concurrent.futures",
    "cryptography",
    "difflib",
    "greenlet",
    "rich",
    "structlog",
    "subprocess",
)


def test_a_consumer_imports_nothing_that_it_does_not_need() -> None:
    # What kafka-python and its codecs import by themselves cannot be helped.
    program = f"""
import sys
import kafka
theirs = set(sys.modules)
from aktor import KafkaConsumer
print(sorted((set(sys.modules) - theirs) & {set(NOT_NEEDED)}))
"""

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stdout == "[]\n", run.stderr


def test_what_status_and_why_need_is_loaded_when_the_watch_looks_first() -> None:
    # When they are needed most, the program may have no file left to open.
    program = """
import sys
from aktor import KafkaConsumer
from aktor.consumer.shown import _looks_later
consumer = KafkaConsumer(bootstrap_servers="localhost:1", bootstrap_timeout_ms=0, group_id="g")
of = consumer._engine, consumer._dispatcher, consumer._guard, consumer._core.log
_looks_later(*of)(0.0)
before = set(sys.modules)
str(consumer.status()), consumer.why()
print(sorted(set(sys.modules) - before))
consumer.close()
"""

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stdout == "[]\n", run.stderr


def test_asyncio_is_imported_with_a_listener_and_not_in_its_callback() -> None:
    # A callback may run in a signal handler, or while Python exits: an import may fail there.
    program = """
import sys
from aktor import ConsumerRebalanceListener, KafkaConsumer
consumer = KafkaConsumer(
    bootstrap_servers="localhost:1", bootstrap_timeout_ms=0, group_id="g")
consumer.subscribe(["t"])
print("asyncio" in sys.modules)
consumer.subscribe(["t"], listener=type("Listener", (ConsumerRebalanceListener,), {
    "on_partitions_assigned": None, "on_partitions_revoked": None})())
print("asyncio" in sys.modules)
consumer.close()
"""

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stdout == "False\nTrue\n", run.stderr


def test_columns_do_not_import_pandas() -> None:
    """pyarrow does so by itself in some of its functions, at 40 MB."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    program = """
import sys
from aktor.consumer.columns.arrow import DEFAULT_COLUMNS, batch_of
from aktor.records import Columns, ConsumerRecord

columns = Columns(9)
for topic in ("orders", "r\xe9sum\xe9s"):
    fields = (topic, 0, 1, 7, 8, 0, b"k", b"v", [("h", b"x")], None, 1, 1, 2)
    columns.append(ConsumerRecord(*fields))
batch = batch_of(columns, DEFAULT_COLUMNS)
assert batch.column("topic").to_pylist() == ["orders", "r\xe9sum\xe9s"]
print("pandas" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert told.stdout.strip() == b"False"
