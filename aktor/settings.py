"""The settings of one consumer, checked and in seconds.

The application's half reads them as they are. Each actor declares which of them it reads (`READS`)
and is given no others (`Settings.only`).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, Final, cast

import aktor.kafka_python  # noqa: F401  # it checks kafka-python

# isort: split
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from aktor.values import Value
from aktor.version import __version__

__all__ = ["DEFAULT_HOST", "DEFAULT_PORT", "Settings"]

#: The broker that is asked first, unless others are given, and the port of those without one.
DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9092


class Settings(Value):
    """Made by `aktor.consumer.configuration.configuration` from the user's keyword arguments.

    Times are seconds, sizes are bytes. `connection` holds what only the connections need (TLS,
    SASL, socket options), under kafka-python's names; it is kept out of `repr` for its secrets.
    """

    client_id: str = f"aktor-{__version__}"
    client_rack: str = ""
    bootstrap_servers: tuple[tuple[str, int], ...] = ((DEFAULT_HOST, DEFAULT_PORT),)
    bootstrap_timeout: float = 30.0
    connection: dict[str, Any] = field(default_factory=dict, repr=False)
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0
    #: Classes or instances, as those of kafka-python's KafkaConsumer.
    partition_assignment_strategy: tuple[Any, ...] = (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
    )

    enable_auto_commit: bool = True
    auto_commit_interval: float = 5.0
    auto_offset_reset: str = "latest"
    #: The same for an offset out of range; None: as `auto_offset_reset`.
    auto_offset_reset_out_of_range: str | None = None
    #: With "latest": where to start in partitions that came into being since.
    auto_offset_reset_new_partitions: str = "earliest"
    exclude_internal_topics: bool = True
    isolation_level: str = "read_uncommitted"

    fetch_min_bytes: int = 1
    fetch_max_wait: float = 0.5
    #: The same while a broker has nothing for us, if it is longer.
    fetch_idle_wait: float = 0.0
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    #: By default at most `fetch_max_bytes`. A larger default does not make reading faster (measured
    #: with records of 100 bytes, 10,000 a poll).
    max_buffered_bytes: int = 33_554_432
    max_decompressed_batch_bytes: int = 50_331_648
    enable_incremental_fetch_sessions: bool = True
    check_crcs: bool = True

    request_timeout: float = 30.0
    default_api_timeout: float = 60.0
    retry_backoff: float = 0.1
    retry_backoff_max: float = 1.0
    reconnect_backoff: float = 0.05
    reconnect_backoff_max: float = 30.0
    connection_setup_timeout: float = 10.0
    connections_max_idle: float = 540.0
    max_in_flight: int = 5

    metrics_num_samples: int = 2
    metrics_sample_window: float = 30.0

    metadata_max_age: float = 300.0
    allow_auto_create_topics: bool = True

    @property
    def out_of_range_policy(self) -> str:
        """Where to go from an offset that is out of range, in the words of `auto_offset_reset`."""
        return self.auto_offset_reset_out_of_range or self.auto_offset_reset

    @property
    def reads_new_partitions_from_start(self) -> bool:
        """Whether a partition without a committed offset is read from its first record if it is
        new, and from its end otherwise."""
        return (
            self.auto_offset_reset == "latest"
            and self.auto_offset_reset_new_partitions == "earliest"
        )

    def only(self, actor: str, names: Collection[str]) -> Settings:
        """These settings for `actor`, without all others: to read another raises AttributeError.

        What is there is read as before, from the same slots. It counts alone for equality, `repr`,
        `replace` and pickling. Raises ValueError if one of the names is no setting.
        """
        if unknown := sorted({*names} - Settings.FIELDS.keys()):
            raise ValueError(f"{actor} reads what is no setting: {', '.join(unknown)}")
        seen = tuple(name for name in Settings.FIELDS if name in names)
        return _restored(actor, {name: getattr(self, name) for name in seen})


def _restored(actor: str, values: Mapping[str, Any]) -> Settings:
    return _slice(actor, tuple(values))(**values)


@functools.cache
def _slice(actor: str, names: tuple[str, ...]) -> type[Settings]:
    """The class of the settings of `actor`: it has only these fields.

    A class, because `__getattr__` would be simpler, but makes each read of a setting three times as
    slow (CPython 3.11): here a property stands in the way of each setting that is not to be read.
    """
    body: dict[str, Any] = {
        name: _refusal(actor, name) for name in Settings.FIELDS.keys() - {*names}
    }
    body["__module__"] = __name__
    body["FIELDS"] = {name: Settings.FIELDS[name] for name in names}
    # (pickle does not find this class by its name.)
    body["__reduce__"] = lambda self: (_restored, (actor, self.__getstate__()))
    made = types.new_class(
        f"Settings[{actor}]", (Settings,), exec_body=lambda own: own.update(body)
    )
    return cast(type[Settings], made)


def _refusal(actor: str, name: str) -> property:
    def refuse(_settings: Settings) -> Any:
        raise AttributeError(
            f"the actor {actor!r} reads the setting {name!r}, which its READS lacks"
        )

    return property(refuse)
