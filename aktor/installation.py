"""aktor's consumer in the place of kafka-python's, for code that cannot be changed.

Monitoring agents wrap the methods of `kafka.KafkaConsumer`. They find ours there after `install`;
what they have wrapped before that is taken over.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, Final

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
import kafka
import kafka.consumer
import kafka.consumer.group

from aktor.consumer.facade import KafkaConsumer

__all__ = ["Installation", "install", "uninstall"]

#: The modules that have the class under its name.
_PLACES: Final[tuple[ModuleType, ...]] = (kafka, kafka.consumer, kafka.consumer.group)
#: kafka-python's own.
_THEIRS: Final = kafka.consumer.group.KafkaConsumer

#: Methods of ours that are wrapped as an agent had wrapped kafka-python's: ours, and the wrapper.
_taken_over: Final[dict[str, tuple[Any, Any]]] = {}


class Installation:
    """What `install` returns: in a `with` statement, the end of the block undoes the installation,
    unless it was there before."""

    def __init__(self, *, is_new: bool) -> None:
        self._is_new = is_new

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_new:
            uninstall()


def install() -> Installation:
    """Let `kafka.KafkaConsumer` be aktor's class, also as `kafka.consumer.KafkaConsumer` and
    `kafka.consumer.group.KafkaConsumer`.

    Call it before the code that uses it is imported: a module that has done `from kafka import
    KafkaConsumer` before keeps kafka-python's class. To call it again changes nothing. Producer and
    admin client stay kafka-python's.
    """
    is_new = kafka.KafkaConsumer is not KafkaConsumer
    if is_new:
        _take_over()
        for module in _PLACES:
            vars(module)["KafkaConsumer"] = KafkaConsumer
    return Installation(is_new=is_new)


def uninstall() -> None:
    """Let `kafka.KafkaConsumer` be kafka-python's class again."""
    for module in _PLACES:
        vars(module)["KafkaConsumer"] = _THEIRS
    while _taken_over:
        name, (own, wrapper) = _taken_over.popitem()
        if inspect.getattr_static(KafkaConsumer, name) is wrapper:
            setattr(KafkaConsumer, name, own)


def _take_over() -> None:
    """Wrap our methods as those of kafka-python are wrapped: an agent that started with Python, or
    as `kafka` was imported, has wrapped them before the program could call `install`.

    Agents use `wrapt`, or a copy of it, whose wrappers say what they call (`_self_wrapper`).
    """
    for name, wrapper in vars(_THEIRS).items():
        if not hasattr(wrapper, "_self_wrapper"):
            continue
        own = inspect.getattr_static(KafkaConsumer, name)
        mine = type(wrapper)(own, wrapper._self_wrapper)
        setattr(KafkaConsumer, name, mine)
        _taken_over[name] = own, mine
