"""Where a query begins and ends: the options of Spark's Kafka source, and what they come to.

See "Deploying" and "Reading Data from Kafka" in Spark's "Structured Streaming + Kafka Integration
Guide". `group`, relative times and a default for partitions that are not named are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from kafka.structs import OffsetAndTimestamp, TopicPartition

from aktor.errors import ConfigurationError
from aktor.spark.offsets.ranges import name_of

__all__ = ["EARLIEST", "GROUP", "LATEST", "At", "Bounds", "Offsets", "read_bounds", "read_json"]

#: The next offset to read of each partition.
Offsets: TypeAlias = dict[TopicPartition, int]

#: The offsets that mean an end of the partition, as in Spark's JSON (and in ListOffsets requests).
EARLIEST: Final = -2
LATEST: Final = -1
#: The offset that `kafka.group.id` has committed.
GROUP: Final = "group"

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RELATIVE: Final = re.compile(r"-([0-9]{1,18})(ms|s|m|h|d)")
_PARTITION: Final = re.compile(r"[0-9]{1,9}")
#: Offsets and times are signed 64-bit numbers in Kafka's protocol.
_TOO_BIG: Final = 2**63
_WORDS: Final[dict[str, At]] = {}


class Time(NamedTuple):
    """The first record at or after this time (ms since 1970)."""

    ms: int


class Ago(NamedTuple):
    """The first record at or after this long ago (ms), reckoned from when the query begins."""

    ms: int


#: An offset (EARLIEST and LATEST included), a time, or the group's committed offset.
At: TypeAlias = int | Time | Ago | Literal["group"]
_WORDS.update({"earliest": EARLIEST, "latest": LATEST, "group": GROUP})


class LookUps(Protocol):
    """What is asked of a cluster to resolve bounds; `aktor.spark.driver.cluster` has it."""

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> Offsets: ...

    def end_offsets(self, partitions: Collection[TopicPartition]) -> Offsets: ...

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, OffsetAndTimestamp | None]: ...

    def committed(self, partitions: Collection[TopicPartition]) -> Offsets: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One end of a query: for each partition that is named, and for all others.

    `option` is the option that it was said by. `default` is None if every partition must be named.
    """

    option: str
    default: At | None
    given: Mapping[TopicPartition, At] = field(default_factory=dict)
    #: What to do for a partition without a record at or after the time (Spark's
    #: startingOffsetsByTimestampStrategy). None, if the user does not set it: an error for an
    #: absolute time; for a relative one the partition begins at its end. (An idle partition has no
    #: record of the last 15 minutes, and nothing is wrong with that.)
    no_match: Literal["error", "latest"] | None = "latest"
    #: Where the group has committed nothing.
    no_commit: int = EARLIEST

    @property
    def offsets(self) -> Offsets:
        """Those of `given` that are offsets, so that nothing has to be looked up."""
        return {one: at for one, at in self.given.items() if isinstance(at, int) and at >= 0}

    @property
    def exact(self) -> bool:
        """Whether all of these are offsets, so that resolving them again comes to the same."""
        return self.default is None and self.offsets == self.given

    @property
    def _default_option(self) -> str:
        end = "starting" if self.option.startswith("starting") else "ending"
        return f"{end}OffsetsDefault"

    @property
    def of_group(self) -> bool:
        """Whether committed offsets of the group are needed."""
        return GROUP in (self.default, *self.given.values())

    def resolve(
        self, partitions: Collection[TopicPartition], cluster: LookUps, now_ms: int
    ) -> Offsets:
        """The offset that is meant for each of these partitions.

        Raises ConfigurationError for a partition that is named and not read, one that is read and
        not named, and for a time after the last record where that is an error.
        """
        wanted = self._of_each(partitions)
        found: Offsets = {one: at for one, at in wanted.items() if isinstance(at, int) and at >= 0}
        found |= self._of_group(wanted, cluster)
        found |= self._of_times(wanted, cluster, now_ms)
        ends: dict[int, list[TopicPartition]] = {EARLIEST: [], LATEST: []}
        for partition in wanted.keys() - found.keys():
            at = wanted[partition]
            ends[at if isinstance(at, int) else self.no_commit if at == GROUP else LATEST].append(
                partition
            )
        if ends[EARLIEST]:
            found |= cluster.beginning_offsets(sorted(ends[EARLIEST]))
        if ends[LATEST]:
            found |= cluster.end_offsets(sorted(ends[LATEST]))
        return found

    def _of_each(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, At]:
        unknown = sorted(self.given.keys() - set(partitions))
        if unknown:
            raise ConfigurationError(
                f"{self.option} names {_names(unknown)}, which is not among the partitions to read"
                f" ({_names(sorted(partitions)) or 'none'})"
            )
        missing = sorted(set(partitions) - self.given.keys())
        if self.default is None:
            if missing:
                timed = self.option.endswith("ByTimestamp")
                meanings = "" if timed else " (-2 is earliest, -1 latest)"
                raise ConfigurationError(
                    f"{self.option} must name every partition that is read; it lacks"
                    f" {_names(missing)}. Name them{meanings}, or set"
                    f" {self._default_option} to earliest, latest or a relative time for the"
                    " partitions that are not named"
                )
            return dict(self.given)
        return {partition: self.given.get(partition, self.default) for partition in partitions}

    def _of_group(self, wanted: Mapping[TopicPartition, At], cluster: LookUps) -> Offsets:
        asked = [partition for partition, at in wanted.items() if at == GROUP]
        return cluster.committed(asked) if asked else {}

    def _of_times(
        self, wanted: Mapping[TopicPartition, At], cluster: LookUps, now_ms: int
    ) -> Offsets:
        times = {
            partition: at.ms if isinstance(at, Time) else max(0, now_ms - at.ms)
            for partition, at in wanted.items()
            if isinstance(at, (Time, Ago))
        }
        if not times:
            return {}
        found = cluster.offsets_for_times(times)
        later = sorted(
            time
            for time in times
            if found.get(time) is None
            and (self.no_match == "error" or not (self.no_match or isinstance(wanted[time], Ago)))
        )
        if later:
            have = "has" if len(later) == 1 else "have"
            raise ConfigurationError(
                f"{self.option}: {_names(later)} {have} no record at or after {times[later[0]]} ms;"
                " set startingOffsetsByTimestampStrategy=latest to begin at the end there"
            )
        return {partition: at.offset for partition, at in found.items() if at is not None}


def read_bounds(option: str, text: str, *, default: At | None = None, **rest: Any) -> Bounds:
    """The bounds that this text of an option means: a word, a relative time, or JSON."""
    at = _at(text)
    if at is not None:
        return Bounds(option=option, default=at, **rest)
    words, end = (
        ("latest", LATEST) if option.startswith("ending") else ("earliest, latest", EARLIEST)
    )
    must = f'JSON as {{"orders": {{"0": 23, "1": {end}}}}}'
    given = _from_json(option, text, must, f"{words}, group, a relative time as -15m, or ")
    for partition, offset in given.items():
        if offset < EARLIEST:
            raise ConfigurationError(
                f"{option} has the offset {offset} for {name_of(partition)};"
                " offsets begin with 0, -2 is earliest, -1 is latest"
            )
    return Bounds(option=option, default=default, given=given, **rest)


def read_times(option: str, text: str, *, default: At | None = None, **rest: Any) -> Bounds:
    """The bounds that this JSON with times (ms) of partitions means."""
    times = _from_json(option, text, 'JSON as {"orders": {"0": 1790000000000}} (ms since 1970)')
    given = {partition: Time(_not_negative(option, ms)) for partition, ms in times.items()}
    return Bounds(option=option, default=default, given=given, **rest)


def read_time(option: str, text: str, **rest: Any) -> Bounds:
    """The bounds that this time (ms, or a relative one) for all partitions means."""
    at = _at(text)
    if isinstance(at, Ago):
        return Bounds(option=option, default=at, **rest)
    if not re.fullmatch(r"[0-9]{1,19}", text.strip()) or int(text) >= _TOO_BIG:
        raise ConfigurationError(
            f"{option} must be milliseconds since 1970 or a relative time as -15m, not {text!r}"
        )
    return Bounds(option=option, default=Time(int(text)), **rest)


def read_default(option: str, text: str) -> At:
    """A word or a relative time."""
    at = _at(text)
    if at is None:
        raise ConfigurationError(
            f"{option} must be earliest, latest, group or a relative time as -15m, not {text!r}"
        )
    return at


def _at(text: str) -> At | None:
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return word
    relative = _RELATIVE.fullmatch(text.strip())
    return Ago(int(relative[1]) * _UNITS[relative[2]]) if relative else None


def _not_negative(option: str, ms: int) -> int:
    if ms < 0:
        raise ConfigurationError(f"{option} has the time {ms}; it must be ms since 1970")
    return ms


def _from_json(option: str, text: str, must: str, words: str = "") -> dict[TopicPartition, int]:
    value = read_json(option, text)
    if not isinstance(value, dict) or not all(
        isinstance(partitions, dict) for partitions in value.values()
    ):
        raise ConfigurationError(f"{option} must be {words}{must}; it is {text!r}")
    found = {}
    for topic, partitions in value.items():
        for partition, number in partitions.items():
            if not _PARTITION.fullmatch(partition) or not _is_long(number):
                raise ConfigurationError(
                    f"{option} must be {must}; {topic} has {partition!r}: {number!r}"
                )
            topic_partition = TopicPartition(topic, int(partition))
            if topic_partition in found:
                raise ConfigurationError(f"{option} names {_names([topic_partition])} twice")
            found[topic_partition] = number
    return found


def _is_long(number: Any) -> bool:
    # True and False are instances of int, too.
    return type(number) is int and number < _TOO_BIG


def read_json(option: str, text: str) -> Any:
    """The value of the JSON of this option; None if it is not JSON.

    Raises ConfigurationError if an object has the same name twice. Python would take the last of
    the two, and the query would not read the partitions of the first.
    """

    def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ConfigurationError(f"{option} names {name} twice")
            found[name] = value
        return found

    try:
        return json.loads(text, object_pairs_hook=named_once)
    except (ValueError, RecursionError):
        return None


def _names(partitions: Collection[TopicPartition], limit: int = 10) -> str:
    named = [name_of(partition) for partition in list(partitions)[:limit]]
    more = len(partitions) - limit
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
