"""aktor's consumer in the place of kafka-python's, for code that cannot be changed.

Monitoring agents wrap the methods of `kafka.KafkaConsumer`. They find ours there after `install`;
what they have wrapped before that is put around ours as well (`consumer/agents.py`).
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
import kafka
import kafka.consumer
import kafka.consumer.group

from aktor.consumer.facade import AGENTS, KafkaConsumer

__all__ = ["Installation", "install", "uninstall"]

#: The modules that have the class under its name.
_PLACES: Final[tuple[ModuleType, ...]] = (kafka, kafka.consumer, kafka.consumer.group)
#: kafka-python's own.
_THEIRS: Final = kafka.consumer.group.KafkaConsumer


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
        AGENTS.follow()
        for module in _PLACES:
            vars(module)["KafkaConsumer"] = KafkaConsumer
    return Installation(is_new=is_new)


def uninstall() -> None:
    """Let `kafka.KafkaConsumer` be kafka-python's class again."""
    for module in _PLACES:
        vars(module)["KafkaConsumer"] = _THEIRS
    AGENTS.leave()
