"""Limits that the user sets: pauses, counts of records, bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aktor.simulation.checks.readers import given_between, when
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]


def paused_partitions_are_silent(history: History) -> list[str]:
    """Nothing of a partition is given out from `pause` until `resume`, or until it is given up."""
    return [
        f"{when(event)} was given {event['partition']}, which is paused"
        for event in given_between(
            history, "partitions.paused", {"partitions.resumed", "partitions.released"}
        )
    ]


def limits_are_kept(history: History) -> list[str]:
    """A poll returns no more records than it may (`max_records`, `max_poll_records`)."""
    return [
        f"{when(event)} was given {event['records']} records, {event['limit']} are allowed"
        for event in history.named("limit.exceeded")
    ]


def buffers_stay_in_bounds(history: History) -> list[str]:
    """`max_buffered_bytes` bounds what is fetched and could be given out, arrived or taken over.

    Beyond it are: for each Fetch that can be under way (two for each broker), a first batch, which
    a broker sends whole however little was asked for (KIP-74); for each broker a sixteenth of the
    bound, asked for beside a Fetch in its long poll. What was fetched of a partition before it was
    paused, and before a seek, does not count: it must not keep the others from being fetched.
    """
    return [f"{when(event)}: {event}" for event in history.named("buffer.exceeded")]


def bytes_are_conserved(history: History) -> list[str]:
    """What a consumer counts as under way or buffered is what is under way or buffered: when none
    of its actors has mail, nothing is in between. Too much, and it would fetch less and less."""
    complaints = []
    for event in history.named("books.seen"):
        for counted, there in (("reserved", "asked"), ("counted", "held")):
            if event[counted] != event[there]:
                complaints.append(
                    f"{when(event)} has {counted} {event[counted]} bytes, {there} are"
                    f" {event[there]}"
                )
    return complaints


def the_background_reads_what_is_wanted(history: History) -> list[str]:
    """What a consumer owns, from where on, and what of it is paused: the fetch manager knows."""
    return [
        f"{when(event)} takes {partition} for what it is not: its assignment, epoch, or pause"
        for event, partition in _seen_twice(history, "misread")
    ]


def no_connection_is_forgotten(history: History) -> list[str]:
    """A connection that is not needed any more is closed; its requests end with it."""
    return [
        f"{when(event)} has {connection}, which it does not know"
        for event, connection in _seen_twice(history, "unused")
    ]


def _seen_twice(history: History, what: str) -> Iterator[tuple[Event, str]]:
    """What two looks in a row see: one may come in the middle of a call."""
    before: dict[str, set[str]] = {}
    for event in history.named("books.seen"):
        now = set(event.get(what, ()))
        for name in sorted(now & before.get(event["member"], set())):
            yield event, name
        before[event["member"]] = now


CHECKS: Final = (
    the_background_reads_what_is_wanted,
    no_connection_is_forgotten,
    paused_partitions_are_silent,
    limits_are_kept,
    buffers_stay_in_bounds,
    bytes_are_conserved,
)
