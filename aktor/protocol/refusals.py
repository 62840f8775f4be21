"""What brokers refuse for whole topics: errors that read the same in every process."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["topics_refused"]


class _Topics(frozenset[str]):
    """Names of topics, written in order: an error reads the same in every process."""

    def __repr__(self) -> str:
        return f"{{{', '.join(repr(topic) for topic in sorted(self))}}}"


def topics_refused(kind: Callable[[object], Exception], topics: Iterable[str]) -> Exception:
    """An error of one of kafka-python's classes, whose argument is the set of its topics."""
    return kind(_Topics(topics))
