"""The user's deserializers: how to call one is decided once, then it is called for each record."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from kafka.serializer import Deserializer

from aktor.errors import ConfigurationError
from aktor.records import Deserialize

__all__ = ["close", "wrap"]


def wrap(deserializer: Any, config_name: str) -> Deserialize | None:
    """The function that turns the bytes of one key or value into what the user sees.

    Accepts what kafka-python 3.0.12 does: None; a `kafka.serializer.Deserializer`; an object with
    the older `deserialize(topic, data)`; a plain callable of the bytes. The last two get a
    DeprecationWarning, as there. `config_name` ("value_deserializer") is for messages.

    Returns None if there is nothing to call: the bytes are handed out as they are. Otherwise the
    function is called for every record, tombstones too: a missing key or value arrives as None.
    Raises ConfigurationError if the object cannot be called in any of these ways.
    """
    if deserializer is None:
        return None
    if isinstance(deserializer, type) and issubclass(deserializer, Deserializer):
        raise ConfigurationError(
            f"{config_name} is the class {deserializer.__name__}, but must be an instance of it:"
            f" pass {deserializer.__name__}()"
        )
    modern = isinstance(deserializer, Deserializer)
    if not modern:
        _deprecated(f"{config_name} does not implement kafka.serializer.Deserializer")
        if callable(deserializer):
            return _of_the_bytes_alone(deserializer, config_name)

    method = getattr(deserializer, "deserialize", None)
    if not callable(method):
        raise ConfigurationError(
            f"{config_name} is of type {type(deserializer).__name__}, which cannot be called: pass"
            " a kafka.serializer.Deserializer or a function of the bytes"
        )
    if _takes(method, "", [], b""):
        with_headers: Deserialize = method
        return with_headers
    if modern:
        _deprecated(f"{config_name} does not implement deserialize(topic, headers, data)")
    return _without_headers(method, config_name)


def close(deserializer: Any) -> None:
    """Call `close()` of the user's object, if it has one; the caller handles what it raises."""
    method = getattr(deserializer, "close", None)
    if callable(method) and not isinstance(deserializer, type):
        method()


def _of_the_bytes_alone(function: Callable[[bytes | None], Any], config_name: str) -> Deserialize:
    if not _takes(function, b""):
        raise ConfigurationError(
            f"{config_name} takes {inspect.signature(function)}, but must take one argument, the"
            " bytes; a kafka.serializer.Deserializer gets the topic and the headers as well"
        )

    def deserialize(topic: str, headers: list[Any], data: bytes | None) -> Any:
        return function(data)

    return deserialize


def _without_headers(method: Callable[[str, bytes | None], Any], config_name: str) -> Deserialize:
    if not _takes(method, "", b""):
        raise ConfigurationError(
            f"{config_name}.deserialize takes {inspect.signature(method)}, but must take"
            " (topic, headers, data)"
        )

    def deserialize(topic: str, headers: list[Any], data: bytes | None) -> Any:
        return method(topic, data)

    return deserialize


def _takes(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the function takes these arguments. One written in C may have no signature: then
    True."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _deprecated(text: str) -> None:
    # this function, `wrap`, the consumer's constructor, and then the line that must be changed
    warnings.warn(text, category=DeprecationWarning, stacklevel=4)
