"""Of the application: whether it polls, and the reasons for which records wait for it."""

from __future__ import annotations

import math

from aktor.consumer.present.picture import LATE_POLL, Picture
from aktor.consumer.present.reasons.reason import Reason, WaitingFor
from aktor.consumer.present.reasons.words import ago, for_long, plural, seconds
from aktor.consumer.present.seen import with_records

__all__ = [
    "elsewhere",
    "handlers_are_busy",
    "held_up",
    "in_callback",
    "late_text",
    "lateness",
    "never_polled",
    "poll_deadline",
    "polls_late",
    "unpolled_for",
    "waits_elsewhere",
]


def in_callback(p: Picture) -> Reason | None:
    app = p.application
    if not app.callback:
        return None
    at = f" ({app.line})" if app.line else ""
    lasts = for_long(app.callback_since, p.now)
    text = f"the listener's {app.callback} has not returned{lasts}{at}"
    long = p.now - app.callback_since >= p.session_timeout
    then = poll_deadline(p)
    return Reason(WaitingFor.CALLBACK, text, app.callback_since, long, then)


def poll_deadline(p: Picture) -> str:
    """When the group goes on without an application that does not poll."""
    if not p.in_group or p.closing or p.application.polled_at == -math.inf:
        return ""
    by = p.application.polled_at + p.max_poll_interval
    if p.now < by:
        return f"If it does not poll, the member leaves its group in {seconds(by - p.now)}."
    return (
        "The member has left its group (max_poll_interval_ms); it joins again with the next poll."
    )


def polls_late(p: Picture) -> Reason | None:
    """The application has not polled for a second, and records could be given out."""
    late = lateness(p)
    if late < LATE_POLL or not (p.partitions or p.in_group):
        return None
    expired = p.in_group and late >= p.max_poll_interval
    if not (expired or any(not one.paused for one in with_records(p.partitions).values())):
        return None
    app = p.application
    return Reason(WaitingFor.APPLICATION, late_text(p), app.polled_at, expired, poll_deadline(p))


def lateness(p: Picture) -> float:
    """For how long the application has not polled; 0 while a call of it waits for the cluster."""
    app = p.application
    if app.waits or p.closing or app.polled_at == -math.inf:
        return 0.0
    return p.now - app.polled_at


def unpolled_for(p: Picture) -> float:
    """For how long the application has taken no records, also while another call of it waits for
    the cluster; 0 while it waits for records."""
    app = p.application
    return p.now - app.polled_at if app.waits_in and not p.closing else lateness(p)


def late_text(p: Picture) -> str:
    app = p.application
    if app.waits_in:
        lasts = for_long(app.polled_at, p.now)
        return f"the application waits in {app.waits_in}, and has not polled{lasts}"
    at = f" (it is at {app.line})" if app.line else ""
    lasts = for_long(app.polled_at, p.now)
    if app.in_poll:
        return f"a poll of the application has not returned{lasts}{at}"
    return f"the application has not polled{lasts}{at}"


def never_polled(p: Picture) -> Reason | None:
    """Without a group it is the poll that assigns the partitions of the topics."""
    if p.application.polled_at > -math.inf or p.application.waits:
        return None
    text = "the application has not polled yet; the first poll assigns the partitions"
    return Reason(WaitingFor.APPLICATION, text, -math.inf, fault=False)


def waits_elsewhere(p: Picture) -> Reason | None:
    """Records are here, and the application waits for the cluster in a call that gives out none."""
    if not any(not one.paused for one in with_records(p.partitions).values()):
        return None
    return elsewhere(p)


def elsewhere(p: Picture) -> Reason | None:
    """It has not polled for a second, since another call of it waits."""
    return held_up(p) if p.application.waits_in else None


def held_up(p: Picture) -> Reason | None:
    """The application has not polled for a second: it takes nothing of what is here."""
    if unpolled_for(p) < LATE_POLL:
        return None
    return Reason(WaitingFor.APPLICATION, late_text(p), p.application.polled_at, fault=False)


def handlers_are_busy(p: Picture) -> str:
    """How many of the records that were delivered the handlers of `process` have yet to finish."""
    handlers = p.application.handlers
    unfinished, given = handlers.unfinished, handlers.given
    if not unfinished:
        return ""
    said = f"the handlers of process() have yet to finish {plural(unfinished, 'delivered record')}"
    if not given:
        return f"{said}: none is with a handler"
    waits = f"; {unfinished - given} wait for one" if unfinished > given else ""
    return f"{said}: the first was given to one{ago(handlers.since, p.now)}{waits}"
