"""The asyncio consumer has aiokafka's methods and arguments, and those of the synchronous one.

What it does not have stands in docs/coming-from-aiokafka.md, with the reason.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import aiokafka
import pytest

import aktor
from aktor.aio import AIOKafkaConsumer, KafkaConsumer
from aktor.consumer import columns

PAGE = (Path(__file__).parents[3] / "docs" / "coming-from-aiokafka.md").read_text()

#: What aiokafka 0.14 says of its consumer: the parameters of each method; "await" if it is a
#: coroutine function.
METHODS = {
    "assign": "(partitions)",
    "assignment": "()",
    "beginning_offsets": "await (partitions)",
    "commit": "await (offsets=None)",
    "committed": "await (partition)",
    "end_offsets": "await (partitions)",
    "getmany": "await (*partitions, timeout_ms=0, max_records=None)",
    "getone": "await (*partitions)",
    "highwater": "(partition)",
    "last_poll_timestamp": "(partition)",
    "last_stable_offset": "(partition)",
    "offsets_for_times": "await (timestamps)",
    "partitions_for_topic": "(topic)",
    "pause": "(*partitions)",
    "paused": "()",
    "position": "await (partition)",
    "resume": "(*partitions)",
    "seek": "(partition, offset)",
    "seek_to_beginning": "await (*partitions)",
    "seek_to_committed": "await (*partitions)",
    "seek_to_end": "await (*partitions)",
    "start": "await ()",
    "stop": "await ()",
    "subscribe": "(topics=(), pattern=None, listener=None)",
    "subscription": "()",
    "topics": "await ()",
    "unsubscribe": "()",
}

#: Its constructor's arguments, with their defaults.
ARGUMENTS = {
    "loop": None,
    "bootstrap_servers": "localhost",
    "client_id": "aiokafka-0.14.0",
    "group_id": None,
    "group_instance_id": None,
    "key_deserializer": None,
    "value_deserializer": None,
    "fetch_max_wait_ms": 500,
    "fetch_max_bytes": 52428800,
    "fetch_min_bytes": 1,
    "max_partition_fetch_bytes": 1048576,
    "request_timeout_ms": 40000,
    "retry_backoff_ms": 100,
    "auto_offset_reset": "latest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 5000,
    "check_crcs": True,
    "metadata_max_age_ms": 300000,
    "partition_assignment_strategy": "round robin",  # aiokafka's class of that name
    "max_poll_interval_ms": 300000,
    "rebalance_timeout_ms": None,
    "session_timeout_ms": 10000,
    "heartbeat_interval_ms": 3000,
    "consumer_timeout_ms": 200,
    "max_poll_records": None,
    "ssl_context": None,
    "security_protocol": "PLAINTEXT",
    "api_version": None,
    "exclude_internal_topics": True,
    "connections_max_idle_ms": 540000,
    "isolation_level": "read_uncommitted",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_password": None,
    "sasl_plain_username": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
    "client_rack": None,
}


def parameters(method: Any) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(method).parameters)
    found.pop("self", None)
    return found


def shown(method: Any) -> str:
    """As `METHODS` has it."""
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters(method).values()]
    awaited = "await " if inspect.iscoroutinefunction(method) else ""
    return f"{awaited}{inspect.Signature(bare)}"


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and hasattr(kind, name)}


def test_the_list_is_what_the_installed_aiokafka_has() -> None:
    theirs = aiokafka.AIOKafkaConsumer
    assert {name: shown(getattr(theirs, name)) for name in public(theirs)} == METHODS
    given = parameters(theirs.__init__)
    assert given.pop("topics").kind is inspect.Parameter.VAR_POSITIONAL
    assert {*given} == {*ARGUMENTS}
    for name, one in given.items():
        assert name in ("client_id", "partition_assignment_strategy") or (
            one.default == ARGUMENTS[name]
        )


@pytest.mark.parametrize("name", METHODS)
def test_each_method_of_aiokafka_is_there_and_takes_what_it_takes(name: str) -> None:
    ours = getattr(AIOKafkaConsumer, name)
    wanted = METHODS[name]
    assert inspect.iscoroutinefunction(ours) is wanted.startswith("await")
    taken = {key: str(one).partition(":")[0] for key, one in parameters(ours).items()}
    for part in filter(None, wanted.removeprefix("await ")[1:-1].split(", ")):
        key, _, default = part.partition("=")
        assert taken.get(key.lstrip("*")) == key
        if default and default != "()":
            assert repr(parameters(ours)[key].default) == default


@pytest.mark.parametrize("name", ARGUMENTS)
def test_each_argument_of_aiokafka_is_taken_with_its_default(name: str) -> None:
    value = ARGUMENTS[name]
    if name == "partition_assignment_strategy":
        value = parameters(aiokafka.AIOKafkaConsumer.__init__)[name].default
    AIOKafkaConsumer(**{name: value, **({"group_id": "g"} if name != "group_id" else {})})


def test_what_the_synchronous_class_has_is_there_or_on_the_page() -> None:
    missing = public(aktor.KafkaConsumer) - public(KafkaConsumer)
    assert {name for name in missing if not is_explained(name)} == set()


def test_what_a_method_of_the_synchronous_class_takes_is_taken_or_on_the_page() -> None:
    untold = []
    for name in sorted(public(aktor.KafkaConsumer) & public(KafkaConsumer)):
        ours, theirs = getattr(KafkaConsumer, name), getattr(aktor.KafkaConsumer, name)
        if callable(theirs):
            untold += [
                f"{name}({key})"
                for key in {*parameters(theirs)} - {*parameters(ours)}
                if not is_explained(key)
            ]
    assert untold == []


def is_explained(name: str) -> bool:
    """Whether the page says what stands in its place."""
    section = PAGE.partition("## What `aktor.KafkaConsumer` has by another name")[2]
    rows = section.partition("\n## ")[0]
    return re.search(rf"^\| [^|]*`{name}`", rows, re.MULTILINE) is not None


def test_both_consumers_say_what_to_install_if_pyarrow_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aktor.consumer.columns.arrow", None)
    monkeypatch.delattr(columns, "arrow", raising=False)
    ours = aktor.KafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=0)
    try:
        with pytest.raises(ImportError, match="pip install pyarrow"):
            ours.poll_arrow()
    finally:
        ours.close(timeout_ms=0)

    for ask in (KafkaConsumer.poll_arrow, KafkaConsumer.to_table):
        with pytest.raises(ImportError, match="pip install pyarrow"):
            asyncio.run(ask(KafkaConsumer()))
