"""Another kafka-python than ours is refused by name and version, before anything fails inside."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka.consumer.fetcher import ConsumerRecord
from kafka.net.selector import NetworkSelector
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import MetadataRequest

from aktor import kafka_python
from tests.gate import all_but_the_first

ROOT = Path(__file__).parent.parent.parent

#: What a program may begin with.
ENTRANCES = (
    "from aktor import KafkaConsumer",
    "from aktor import TopicPartition",
    "from aktor import errors",
    "from aktor.broker import EmbeddedKafka",
    "from aktor.processing import dead_letter",
    "from aktor.simulation import Simulation",
    "from aktor.spark import register",
    "import aktor.consumer.facade",
)


def refusal(folder: Path, program: str = ENTRANCES[0]) -> str:
    """The last line that `program` ends with if `kafka` is found in `folder` first."""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
    )
    return run.stderr.strip().rpartition("\n")[2]


def a_kafka(folder: Path, source: str, distribution: str = "kafka-python") -> Path:
    """A package `kafka` that this distribution has installed."""
    (folder / "kafka").mkdir()
    (folder / "kafka" / "__init__.py").write_text(source)
    told = folder / f"{distribution.replace('-', '_')}-0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0\n")
    (told / "top_level.txt").write_text("kafka\n")
    return folder


READS = """
from aktor import KafkaConsumer
from aktor.broker import EmbeddedKafka
from aktor.broker.sample_records import write
with EmbeddedKafka(topics={"orders": 1}) as kafka:
    write(kafka, "orders", 2)
    for protocol in ("classic", "consumer"):
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id=protocol,
            group_protocol=protocol, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
        assert next(consumer).offset == 0
        consumer.commit()
        consumer.metrics(), consumer.status(), consumer.topics()
        consumer.close()
"""

#: What a program may go on with, and what is imported only then.
LATER = (
    "import aktor.managers.membership.consumer.manager",
    "import aktor.managers.membership.auto",
    "from aktor.consumer.configuration.configuration import parse\n"
    "parse({'group_id': 'g', 'partition_assignment_strategy': 'sticky'})",
    "from aktor import KafkaConsumer\n"
    "KafkaConsumer('t', group_id='g', group_protocol='auto', bootstrap_timeout_ms=0).close()",
    "import aktor.spark.sink.kafka_python_producer",
    "import aktor.simulation.world.producers",
    "import aktor.testing.plugin",
)


@pytest.mark.parametrize("program", all_but_the_first(2, [READS, *ENTRANCES, *LATER]))
def test_no_warning_of_kafka_pythons_reaches_a_program_that_takes_warnings_for_errors(
    program: str,
) -> None:
    """As `filterwarnings = error` of pytest does."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )

    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("program", all_but_the_first(3, ENTRANCES))
def test_an_old_kafka_python_is_refused_wherever_a_program_enters(
    program: str, tmp_path: Path
) -> None:
    said = refusal(a_kafka(tmp_path, "__version__ = '2.3.2'"), program)

    assert said == (
        "ImportError: aktor needs kafka-python >=3.0.5,<3.1, found 2.3.2. To repair:"
        " pip install --force-reinstall 'kafka-python>=3.0.5,<3.1'"
    )


@pytest.mark.parametrize("found", all_but_the_first(2, ["3.0.4", "3.1.0", "3.1.0.dev0", "4.0"]))
def test_a_version_outside_of_the_range_is_refused(found: str, tmp_path: Path) -> None:
    assert f"found {found}." in refusal(a_kafka(tmp_path, f"__version__ = {found!r}"))


def test_another_distribution_is_named_and_has_to_be_removed(tmp_path: Path) -> None:
    said = refusal(a_kafka(tmp_path, "__version__ = '2.2.3'", "kafka-python-ng"))

    assert "found 2.2.3, from kafka-python-ng. To repair: pip uninstall kafka-python-ng; " in said


def test_one_that_cannot_be_imported_is_refused(tmp_path: Path) -> None:
    said = refusal(a_kafka(tmp_path, "import kafka.vendor.six.moves"))

    assert "found one that cannot be imported (No module named 'kafka.vendor')" in said


def test_none_at_all_is_said_so(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['kafka'] = None; "

    assert "needs kafka-python >=3.0.5,<3.1, found none." in refusal(
        tmp_path, hidden + ENTRANCES[0]
    )


def test_the_command_and_the_pytest_plugin_start_without_it(tmp_path: Path) -> None:
    a_kafka(tmp_path, "__version__ = '2.3.2'")

    assert refusal(tmp_path, "import aktor.testing.plugin") == ""
    assert refusal(tmp_path, "from aktor.cli.main import main; main(['--version'])") == ""


def test_the_installed_one_is_accepted() -> None:
    kafka_python.check()

    assert re.match(r"3\.0\.", kafka_python.version())


def test_setup_cfg_asks_for_the_same_range() -> None:
    assert "    kafka-python>=3.0.5,<3.1\n" in (ROOT / "setup.cfg").read_text()
    assert (kafka_python.OLDEST, kafka_python.BEFORE) == ((3, 0, 5), (3, 1))


#: What aktor uses of kafka-python without a promise of stability: `kafka.net`, and what begins with
#: an underscore. A version that lacks any of it does not fit, whatever its number is.
INTERNALS = {
    "kafka.net.selector:NetworkSelector": (
        *("_poll_once", "_add_ready_task", "call_soon", "wakeup", "close"),
    ),
    "kafka.net.selector:Task": (),
    "kafka.net.selector:TaskState": ("WAIT_IO",),
    "kafka.net.selector:KernelEvent": (),
    "kafka.net.inet:KafkaNetSocket": (),
    "kafka.net.sasl:get_sasl_mechanism": (),
    "kafka.protocol.api_header:ResponseClassRegistry": ("_response_class_registry",),
    "kafka.protocol.metadata:MetadataRequest": ("_struct", "flexible_version_q"),
    "kafka.protocol.broker_version_data:BrokerVersionData": ("api_version",),
}


@pytest.mark.parametrize("name", INTERNALS)
def test_the_internals_of_kafka_python_that_aktor_uses_are_there(name: str) -> None:
    module, _, attribute = name.partition(":")
    thing = getattr(importlib.import_module(module), attribute)

    # (A body's `_version` and its like are set by its `__init__`.)
    assert [one for one in INTERNALS[name] if not hasattr(thing, one)] == []


def test_the_loop_of_kafka_net_has_the_descriptors_that_a_forked_child_closes() -> None:
    loop = NetworkSelector()

    for descriptor in (loop._wakeup_r, loop._wakeup_w, loop._selector):
        descriptor.close()


def test_the_codecs_of_a_message_can_be_made_before_its_first_use() -> None:
    response: Any = ResponseClassRegistry._response_class_registry[MetadataRequest.API_KEY]
    version = {"compact": True, "tagged": True}

    assert callable(MetadataRequest._struct.compiled_encode_into(9, **version))
    decode = response._struct.compiled_decode_from(9, **version, data_class=response[None])
    assert callable(decode)


def test_a_record_is_a_tuple_of_these_fields() -> None:
    assert ConsumerRecord.__basicsize__ == tuple.__basicsize__
    assert ConsumerRecord._fields == (
        *("topic", "partition", "leader_epoch", "offset", "timestamp", "timestamp_type"),
        *("key", "value", "headers", "checksum"),
        *("serialized_key_size", "serialized_value_size", "serialized_header_size"),
    )
