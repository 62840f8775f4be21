"""The values of an event, as JSON has them; and which of them never leave the process."""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["copied", "named", "plain", "plain_event", "text_of", "visible"]

#: Keys whose values never leave the process, whatever they hold.
_SECRET: Final = ("password", "secret", "token", "credential", "auth_bytes")

#: The longest list that an event carries in full.
_LIST_MAX: Final = 50

#: Values of exactly these types are as JSON has them.
_PLAIN: Final = frozenset({bool, int, float, str, type(None)})


def plain_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with plain values, and without secrets."""
    told = {}
    for key, value in event.items():
        if type(value) not in _PLAIN:
            value = plain(value)
        told[key] = "***" if _is_secret(key) else value
    return told


@functools.lru_cache(maxsize=1024)
def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in _SECRET)


def plain(value: Any) -> Any:
    """A value as JSON has it: partitions as "topic-0", sets sorted, errors as "Type: text"."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:  # by far the most frequent, as partitions are
        items = [item if type(item) in _PLAIN else plain(item) for item in value]
        return _cut(items) if len(items) > _LIST_MAX else items
    if isinstance(value, tuple) and hasattr(value, "topic") and hasattr(value, "partition"):
        return f"{value.topic}-{value.partition}"
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        return format(value)  # a secret formats as ***
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, BaseException):
        return named(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping):
        keyed = ((str(plain(key)), item) for key, item in value.items())
        return {key: "***" if _is_secret(key) else plain(item) for key, item in keyed}
    if hasattr(value, "topic") and hasattr(value, "partition"):
        return f"{value.topic}-{value.partition}"
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [plain(item) for item in value]
        if isinstance(value, (set, frozenset)):
            items.sort(key=text_of)
        return _cut(items)
    return text_of(value)


def copied(values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of plain values, of which nothing is shared: whoever gets it may change it."""
    return {key: _copy(item) for key, item in values.items()}


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return copied(value)
    return [_copy(item) for item in value] if kind is list else value


def _cut(items: list[Any]) -> list[Any]:
    if len(items) > _LIST_MAX:
        return [*items[:_LIST_MAX], f"... {len(items) - _LIST_MAX} more"]
    return items


def named(error: BaseException) -> str:
    """An error as "Type: text", with its name once. The text of an error of kafka-python begins
    with its name, and that of a broker's refusal with its number and its name: "[Error 29]
    TopicAuthorizationFailedError: ..."."""
    name, text = type(error).__name__, text_of(error)
    numbered, _, rest = text.partition("] ")
    if numbered.startswith("[Error ") and rest.startswith(name):
        return rest
    return text if text.startswith(name) else f"{name}: {text}"


def text_of(value: Any) -> str:
    """The value as text. It may be the user's, an exception for instance, whose `__str__` raises:
    that must not crash the actor that traces it."""
    try:
        return str(value)
    except Exception as error:
        return f"({type(value).__name__}, without a text: {type(error).__name__} in __str__)"


def visible(text: str) -> str:
    """The text without what would steer a terminal or the direction of writing: names of topics and
    members are the application's, and may hold anything."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
