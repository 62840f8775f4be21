"""Why nothing at all is delivered: the table of reasons, in order of priority."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.application import in_callback, polls_late, waits_elsewhere
from aktor.consumer.present.reasons.brokers import login_refused, nobody_there
from aktor.consumer.present.reasons.group import (
    NO_HEARTBEAT,
    coordinator,
    fenced,
    group_refuses,
    no_assignment,
    session,
)
from aktor.consumer.present.reasons.reason import FAULT_AFTER, Reason, WaitingFor
from aktor.consumer.present.reasons.words import first_line, seconds

__all__ = ["covering", "faults", "of_consumer"]


def _closed(p: Picture) -> Reason | None:
    if not p.closed:
        return None
    return Reason(WaitingFor.CONSUMER, "the consumer is closed", -math.inf, fault=False)


def _forked(p: Picture) -> Reason | None:
    if not p.forked:
        return None
    text = "this process is a fork, and the consumer is that of its parent process"
    then = "Make a consumer of its own for this process."
    return Reason(WaitingFor.CONSUMER, text, -math.inf, fault=True, then=then, yours=True)


def _closing(p: Picture) -> Reason | None:
    if not p.closing:
        return None
    text = "the consumer is being closed"
    return Reason(WaitingFor.CONSUMER, text, -math.inf, fault=False)


def _not_started(p: Picture) -> Reason | None:
    if p.started:
        return None
    text = "the consumer has not been started"
    then = "Await its start(), or enter it by `async with`."
    return Reason(WaitingFor.CONSUMER, text, -math.inf, fault=False, then=then)


def _failed(p: Picture) -> Reason | None:
    if not p.failure:
        return None
    text = f"the consumer has failed: {first_line(p.failure, 400)}"
    return Reason(WaitingFor.CONSUMER, text, -math.inf, True, "Close it and make a new one.")


def _hangs(p: Picture) -> Reason | None:
    if p.overdue < FAULT_AFTER:
        return None
    if p.overdue == math.inf:
        text, since = "the background thread has ended", -math.inf
    else:
        where = f" (it is at {p.background_line})" if p.background_line else ""
        text = f"the background thread has not turned for {seconds(p.overdue)}{where}"
        since = p.now - p.overdue
    if p.in_hook:
        text = f"{text}: it waits for a hook of on_event() to return"
        return Reason(WaitingFor.APPLICATION, text, since, fault=True)
    return Reason(WaitingFor.CONSUMER, text, since, fault=True)


def _nothing_wanted(p: Picture) -> Reason | None:
    if p.subscribed or p.assigned_by_user:
        return None
    text = "nothing is subscribed to, and nothing is assigned"
    return Reason(WaitingFor.SUBSCRIPTION, text, -math.inf, fault=False)


#: Those of the reasons below that keep records of every partition back. (The coordinator does so
#: once the session is over, or while there are no partitions.)
_COVERING: Final[tuple[Callable[[Picture], Reason | None], ...]] = (
    _closed,
    _forked,
    _not_started,
    _failed,
    _hangs,
    login_refused,
    nobody_there,
    in_callback,
    _closing,
)


#: Reasons of the whole consumer, the most important first.
REASONS: Final[tuple[Callable[[Picture], Reason | None], ...]] = (
    *_COVERING,
    polls_late,
    _nothing_wanted,
    group_refuses,
    fenced,
    coordinator,
    no_assignment,
    session,
    waits_elsewhere,
)


def of_consumer(p: Picture) -> Reason | None:
    """The most important reason that concerns the whole consumer."""
    return next(_that_apply(p, REASONS), None)


def _that_apply(
    p: Picture, reasons: tuple[Callable[[Picture], Reason | None], ...]
) -> Iterator[Reason]:
    for reason in reasons:
        if (found := reason(p)) is not None:
            yield found


def faults(p: Picture) -> Iterator[Reason]:
    """All that is wrong with the whole consumer. The most important may have begun just now, while
    another lasts for long: the coordinator answers no heartbeat, and now nobody can be reached."""
    return (reason for reason in _that_apply(p, REASONS) if reason.fault)


def covering(p: Picture) -> Reason | None:
    """The most important of those reasons that keep the records of every partition back."""
    return next(_that_apply(p, _COVERING), None) or _session_reason(p)


def _session_reason(p: Picture) -> Reason | None:
    """The session may be over: why no heartbeat is answered, if that is known."""
    unconfirmed = session(p)
    if unconfirmed is None:
        return None
    late = polls_late(p)
    if late is not None and late.fault:
        return late  # so the member has left its group, and nobody expects an answer
    if unconfirmed.waiting_for is WaitingFor.APPLICATION:
        return unconfirmed  # the same; it has polled since
    if fenced(p) is not None:
        return unconfirmed  # its heartbeats have ended with that
    cause = coordinator(p)
    text = unconfirmed.text
    if cause is not None and cause.text.startswith("no heartbeat"):
        text = f"{text.removesuffix(NO_HEARTBEAT)}: {cause.text}"
    elif cause is not None:
        text = f"{text}: {cause.text}"
    return Reason(WaitingFor.SESSION, text, unconfirmed.since, fault=True)
