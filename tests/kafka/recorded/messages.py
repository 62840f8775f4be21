"""Kafka's messages by the name of their API, with dicts for the structures inside."""

from __future__ import annotations

from functools import cache
from typing import Any

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer

__all__ = ["request", "response_class"]

_PACKAGES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
)


@cache
def _class(name: str) -> Any:
    for package in _PACKAGES:
        if found := getattr(package, name, None):
            return found
    from aktor.protocol import consumer_group

    return getattr(consumer_group, name)


def response_class(api: str) -> Any:
    """The class of an API's answers: response_class("Fetch") is FetchResponse."""
    return _class(f"{api}Response")


def request(api: str, **fields: Any) -> Any:
    """A request: `request("DeleteRecords", topics=[{"name": "orders", "partitions": [...]}])`.

    Fields that are not given have the defaults of the schema. Raises ValueError if there is no
    such field.
    """
    return _filled(_class(f"{api}Request"), fields)


def _filled(kind: Any, values: dict[str, Any]) -> Any:
    known = kind._struct.fields
    if unknown := set(values) - set(known):
        raise ValueError(f"{kind.__name__} has no fields {sorted(unknown)}, but {sorted(known)}")
    return kind(**{name: _value(known[name], value) for name, value in values.items()})


def _value(field: Any, value: Any) -> Any:
    if value is None:
        return None
    if field.is_struct():
        return _filled(field.data_class, value)
    if field.is_struct_array():
        return [_filled(field.data_class, each) for each in value]
    return value
