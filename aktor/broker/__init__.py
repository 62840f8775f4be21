"""A Kafka cluster in pure Python, for tests, demonstrations and notebooks.

from aktor.broker import EmbeddedKafka

with EmbeddedKafka(brokers=3, topics={"orders": 4}) as kafka:
    run_my_service(kafka.bootstrap_servers)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

if TYPE_CHECKING:
    from aktor.broker.codes import Code
    from aktor.broker.embedded import EmbeddedKafka
    from aktor.broker.faults import (
        Corrupt,
        CorruptRecords,
        Delay,
        Drop,
        FailPartly,
        FailWith,
        Fault,
        Swallow,
        Throttle,
        Truncate,
    )
    from aktor.broker.groups.settings import GroupSettings
    from aktor.broker.journal import DataFolderError
    from aktor.broker.server import PortInUseError
    from aktor.broker.settings import ClusterSettings

__all__ = [
    "ClusterSettings",
    "Code",
    "Corrupt",
    "CorruptRecords",
    "DataFolderError",
    "Delay",
    "Drop",
    "EmbeddedKafka",
    "FailPartly",
    "FailWith",
    "Fault",
    "GroupSettings",
    "PortInUseError",
    "Swallow",
    "Throttle",
    "Truncate",
]

#: Where the names come from; imported when they are first used, so that one part of the broker can
#: be imported without all others.
_MODULES: Final = {
    "ClusterSettings": "settings",
    "Code": "codes",
    "Corrupt": "faults",
    "CorruptRecords": "faults",
    "DataFolderError": "journal",
    "Delay": "faults",
    "Drop": "faults",
    "EmbeddedKafka": "embedded",
    "FailPartly": "faults",
    "FailWith": "faults",
    "Fault": "faults",
    "GroupSettings": "groups.settings",
    "PortInUseError": "server",
    "Swallow": "faults",
    "Throttle": "faults",
    "Truncate": "faults",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
