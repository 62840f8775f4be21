"""Answers as plain data in which nothing depends on chance, so that two runs can be compared.

What Kafka makes up (member ids, topic ids, producer ids, ports) gets a name in the order in which
it appears; times that are now are "now"; arrays whose order means nothing are sorted; throttle
times, and fields with the default of their schema, are left out.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import Any, Final

from aktor.broker.codes import Code
from tests.kafka.recorded.batches import THEN, read_batches
from tests.kafka.recorded.client import Said

__all__ = ["Observer"]

_NOW_WITHIN_MS: Final = 60_000

#: Fields that say nothing one could compare.
_DROPPED: Final = frozenset({"throttle_time_ms"})

#: Fields that are shown even with the default value: there the default is the news.
_SHOWN: Final = frozenset(
    {"error_code", "partition_index", "partition", "base_offset", "high_watermark", "offset"}
    | {"committed_offset", "generation_id", "member_epoch", "end_offset", "topics", "members"}
    | {"topic_partitions", "responses", "groups", "partitions", "min_version", "producer_epoch"}
)

#: Human text, which need not be Kafka's word for word.
_PROSE: Final = frozenset({"error_message", "documentation", "batch_index_error_message"})

#: What is made at random, by the name of its field, and the name it gets.
_RANDOM: Final = {
    "member_id": "member",
    "leader": "member",
    "topic_id": "topic",
    "producer_id": "producer",
    "cluster_id": "cluster",
    "port": "port",
    "session_id": "session",
}
#: What such a field has when there is nothing to name; a producer id may be 0.
_MEANINGLESS: Final = ("", -1, None, uuid.UUID(int=0))
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BASE64_UUID: Final = re.compile(r"[A-Za-z0-9_-]{22}$")

#: The same character so often that nobody wants to read it.
_REPEATED: Final = re.compile(r"(.)\1{39,}")

#: Arrays of numbers or names whose order means nothing.
_SETS: Final = frozenset(
    {"subscribed_topic_names", "partitions", "partition_indexes", "offline_replicas"}
)

#: Arrays of structures whose order is the point.
_LISTS: Final = frozenset({"records", "headers"})


class Observer:
    """Owns the names given so far in one scenario. `run` ends all names that are its own."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._named: dict[tuple[str, Any], str] = {}

    def see(self, thing: Any) -> Any:
        """An answer, or plain data, as JSON data."""
        return self._name(self._order(self._plain(thing, "")), "")

    def _plain(self, thing: Any, name: str) -> Any:
        if isinstance(thing, Said):
            return thing.text
        if hasattr(thing, "_struct"):
            return self._struct(thing)
        if isinstance(thing, dict):
            return {str(key): self._plain(value, str(key)) for key, value in thing.items()}
        if isinstance(thing, list | tuple | set | frozenset):
            items = [self._plain(item, name) for item in thing]
            return sorted(items) if isinstance(thing, set | frozenset) else items
        if name == "error_code":
            return Code(thing).name
        if isinstance(thing, bytes | bytearray | memoryview):
            return self._text(bytes(thing).decode("utf-8", "backslashreplace"))
        if name in _PROSE:
            return thing if not thing else "(some text)"
        if isinstance(thing, str):
            return self._text(thing)
        return _moment(thing) if isinstance(thing, int) else thing

    def _struct(self, message: Any) -> dict[str, Any]:
        said = {}
        for field in message._struct._fields:
            if field.name in _DROPPED or not _in_version(message, field):
                continue
            value = getattr(message, field.name)
            if field.name == "records":
                batches = [self._plain(each, "") for each in read_batches(value)]
                said["records"] = batches if batches or value is None else ""
            elif field.name in _SHOWN or value != _default(field):
                said[field.name] = self._plain(value, field.name)
        return said

    def _text(self, text: str) -> str:
        text = text.replace(f"-{self._run}", "")
        return _REPEATED.sub(lambda found: f"({found[1]} * {len(found[0])})", text)

    def _order(self, thing: Any, name: str = "") -> Any:
        """Sort what has no order, by what is the same in every run."""
        if isinstance(thing, dict):
            return {key: self._order(value, key) for key, value in thing.items()}
        if not isinstance(thing, list):
            return thing
        items = [self._order(item) for item in thing]
        if name in _SETS and not any(isinstance(item, dict) for item in items):
            return sorted(items)
        if name in _LISTS or not any(isinstance(item, dict) for item in items):
            return items
        return sorted(items, key=self._sort_key)

    def _sort_key(self, item: Any) -> str:
        return json.dumps(self._name(item, "", masked=True), sort_keys=True, default=str)

    def _name(self, thing: Any, name: str, *, masked: bool = False) -> Any:
        if isinstance(thing, dict):
            return {k: self._name(v, k, masked=masked) for k, v in thing.items()}
        if isinstance(thing, list):
            return [self._name(item, name, masked=masked) for item in thing]
        kind = _RANDOM.get(name)
        if kind is None:
            return self._uuids(thing, masked) if isinstance(thing, str) else str_uuid(thing)
        if thing in _MEANINGLESS or (name == "session_id" and not thing):
            return str_uuid(thing)
        if kind == "member":
            if _UUID.search(thing):
                return self._uuids(thing, masked)
            if not _BASE64_UUID.match(thing):
                return thing
        return self._known(kind, thing, masked)

    def _uuids(self, text: str, masked: bool) -> str:
        return _UUID.sub(lambda found: self._known("uuid", found[0], masked), text)

    def _known(self, kind: str, value: Any, masked: bool) -> str:
        if (kind, value) not in self._named:
            if masked:
                return "?"
            count = sum(1 for known, _ in self._named if known == kind)
            self._named[kind, value] = f"<{kind}-{count + 1}>"
        return self._named[kind, value]


def _moment(number: int) -> int | str:
    """A time in ms by its name; any other number as it is."""
    if abs(time.time() * 1000 - number) < _NOW_WITHIN_MS:
        return "now"
    if abs(number - THEN) < _NOW_WITHIN_MS:
        return f"then{number - THEN:+}" if number != THEN else "then"
    return number


def str_uuid(thing: Any) -> Any:
    """UUIDs as text, zero as 0; anything else as it is."""
    if isinstance(thing, uuid.UUID):
        return str(thing) if thing.int else 0
    return thing


def _in_version(message: Any, field: Any) -> bool:
    version = message._version
    return version is None or field.for_version_q(version)


def _default(field: Any) -> Any:
    # For a structure that may not be null kafka-python has no default.
    return None if field.is_struct() else field.default
