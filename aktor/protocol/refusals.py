"""The texts of refusals: what was asked for, who refused it, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.structs import TopicPartition

from aktor import errors
from aktor.protocol.error_codes import Answer
from aktor.protocol.partitions import first_of, listed, name_of_partition
from aktor.protocol.remedies import remedy

__all__ = [
    "explained",
    "named_node",
    "no_offset",
    "out_of_range",
    "refused",
    "topics_refused",
]


class _Topics(frozenset[str]):
    """Names of topics: what kafka-python's errors have as their argument. Written in order, so that
    an error reads the same in every process; `text` is what `str` of the error says."""

    text = ""

    def __repr__(self) -> str:
        return f"{{{', '.join(repr(topic) for topic in sorted(self))}}}"

    def __str__(self) -> str:
        return self.text or repr(self)


class _Offsets(dict[TopicPartition, int]):
    """Offsets by partition: kafka-python's argument of OffsetOutOfRangeError."""

    text = ""

    def __str__(self) -> str:
        return self.text


class _Partitions(frozenset[TopicPartition]):
    """Kafka-python's argument of NoOffsetForPartitionError."""

    text = ""

    def __repr__(self) -> str:
        return repr(set(self))

    def __str__(self) -> str:
        return self.text


def out_of_range(offsets: Mapping[TopicPartition, int], advice: str) -> Exception:
    """The logs have no such offsets, and `auto_offset_reset` says that this is an error."""
    given = _Offsets(offsets)
    places = [f"{name_of_partition(one)} at offset {at}" for one, at in sorted(offsets.items())]
    given.text = f"{first_of(places)}: the log has no such offset; {advice}"
    return errors.OffsetOutOfRangeError(given)


def no_offset(partitions: Iterable[TopicPartition], advice: str) -> Exception:
    """It is not known where to begin, and `auto_offset_reset` says that this is an error."""
    given = _Partitions(partitions)
    given.text = f"no offset to begin at is known for {listed(given)}; {advice}"
    return errors.NoOffsetForPartitionError(given)


def topics_refused(kind: Any, topics: Iterable[str], answer: Answer, *, by: str = "") -> Exception:
    """An error of one of kafka-python's classes, whose argument is the set of its topics.

    `answer` says in which answer they were refused, `by` which broker refused them.
    """
    names = _Topics(topics)
    several = "s" if len(names) > 1 else ""
    listed = ", ".join(repr(topic) for topic in sorted(names))
    names.text = _text(answer, f"the topic{several} {listed}", by, kind)
    error: Exception = kind(names)
    return error


def refused(
    kind: Any, of: str, answer: Answer, *, by: str = "", cause: Exception | None = None
) -> Exception:
    """An error of one of kafka-python's classes: `by` refused `of`, a partition for example."""
    error: Exception = kind(_text(answer, of, by, kind))
    error.__cause__ = cause
    return error


def explained(error: Exception, of: str, answer: Answer) -> Exception:
    """The error of a request without an answer, with what it was for, and what to do about it.

    aktor's own classes (a refused login, for example) say what to do already.
    """
    if type(error).__module__ == errors.__name__:
        return error
    why = str(error.args[0]) if error.args else type(error).__name__
    made: Exception = type(error)(f"{_api(answer)} for {of}: {why}; {remedy(answer, type(error))}")
    made.__cause__ = error
    return made


def named_node(node: int, brokers: Mapping[int, object]) -> str:
    """A node as an error names it. Bootstrap servers have negative numbers."""
    if node in brokers:
        return str(brokers[node])
    return f"broker {node}" if node >= 0 else "a bootstrap server"


def _text(answer: Answer, of: str, by: str, kind: type[BaseException]) -> str:
    refusing = f" by {by}" if by else ""
    return f"{_api(answer)} for {of} was refused{refusing}; {remedy(answer, kind)}"


def _api(answer: Answer) -> str:
    """Kafka's name of the request."""
    return answer.value.partition(",")[0]
