"""What `process` knows of a record whose handler failed."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Final

from aktor.structs import ConsumerRecord

__all__ = ["Failure", "Retries"]

#: So many characters of a text go into a header: a message may have all of a record in it, and a
#: dead letter that is too large could not be written. Of a traceback it is the end.
TEXT_MAX: Final = 8_000


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a record is tried again, and after which waits.

    The wait begins with `backoff_ms` and doubles up to `backoff_max_ms` (KIP-580). Records that
    come after it in order wait, too; no worker does.
    """

    count: int
    backoff_ms: float = 100
    backoff_max_ms: float = 10_000

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 0:
            raise ValueError(f"retries must be an int of at least 0, not {self.count!r}")
        if not 0 <= self.backoff_ms <= self.backoff_max_ms:
            raise ValueError(
                f"retries: backoff_ms ({self.backoff_ms!r}) must be between 0 and backoff_max_ms"
                f" ({self.backoff_max_ms!r})"
            )

    def wait(self, attempts: int) -> float:
        """Seconds before the next attempt, after so many."""
        doublings = min(attempts - 1, 60)
        return float(min(self.backoff_ms * 2**doublings, self.backoff_max_ms)) / 1000


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that could not be handled: what `on_error` is called with.

    `error` is what the handler, or a deserializer, raised last. In that case the record's key and
    value are the raw bytes.
    """

    record: ConsumerRecord
    error: BaseException
    attempts: int
    group_id: str | None

    def headers(self) -> list[tuple[str, bytes]]:
        """Where the record was, and why it failed: as the headers of a dead letter.

        They follow those of Kafka Connect (KIP-298), with the prefix `aktor.errors.`.
        """
        record, error = self.record, self.error
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        values = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "group": self.group_id,
            "attempts": self.attempts,
            "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
            "exception.message": _message(error)[:TEXT_MAX],
            "exception.stacktrace": "".join(lines)[-TEXT_MAX:],
        }
        return [
            (f"aktor.errors.{name}", str(value).encode(errors="backslashreplace"))
            for name, value in values.items()
            if value is not None
        ]


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failure:
        return f"(no text: {type(failure).__name__} in __str__)"
