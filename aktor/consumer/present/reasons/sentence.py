"""The sentence of `why`: the most important reason, and what its reader asks next."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from aktor.consumer.present.picture import LATE_POLL, Picture
from aktor.consumer.present.reasons.application import (
    elsewhere,
    handlers_are_busy,
    late_text,
    lateness,
    poll_deadline,
    polls_late,
    unpolled_for,
)
from aktor.consumer.present.reasons.commits import commits_fail
from aktor.consumer.present.reasons.consumer import covering, of_consumer
from aktor.consumer.present.reasons.group import fenced, may_be_removed, session, session_of
from aktor.consumer.present.reasons.partition import is_fed, lasting, of_partitions
from aktor.consumer.present.reasons.reason import LATELY, LONG_AGO, Reason, WaitingFor
from aktor.consumer.present.reasons.topics import no_topic, no_topic_note
from aktor.consumer.present.reasons.words import ago, plural, seconds
from aktor.consumer.present.seen import with_records
from aktor.structs import TopicPartition

__all__ = ["Findings", "sentence", "why", "wrong"]


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _names(partitions: Sequence[TopicPartition]) -> str:
    some = ", ".join(map(_named, partitions[:5]))
    return f"{some} ..." if len(partitions) > 5 else some


def _and_more(first: TopicPartition, these: Collection[TopicPartition]) -> str:
    return _named(first) + (f" (and {len(these) - 1} more)" if len(these) > 1 else "")


class Findings(NamedTuple):
    """The reasons that apply now: of the whole consumer, and of each partition; `distinct` has each
    of those once (thousands of partitions may have the same), `faulty` those that are faults."""

    picture: Picture
    main: Reason | None
    waiting: Mapping[TopicPartition, Reason]
    distinct: Collection[Reason]
    faulty: Mapping[TopicPartition, Reason]

    @classmethod
    def of(cls, p: Picture) -> Findings:
        """Those that apply in this picture."""
        waiting = lasting(p, of_partitions(p))
        distinct = {id(reason): reason for reason in waiting.values()}.values()
        faulty = {}
        if any(reason.fault for reason in distinct):
            faulty = {tp: reason for tp, reason in waiting.items() if reason.fault}
        return cls(p, of_consumer(p), waiting, distinct, faulty)


def why(p: Picture) -> str:
    """What is not happening now, since when, because of whom, and what happens next."""
    return sentence(Findings.of(p))


def sentence(findings: Findings) -> str:
    """The sentence of `why`."""
    p, reason = findings.picture, findings.main
    commits = commits_fail(p)
    commits = _stopped(f"{commits[0].upper()}{commits[1:]}") if commits else ""
    if reason is None:
        now, busy = _of_the_partitions(findings), handlers_are_busy(p)
        busy = "" if not busy or busy in now else _stopped(f"{busy[0].upper()}{busy[1:]}")
        return " ".join(filter(None, (now, busy, commits)))
    said = _head(findings, reason), _withheld(p), reason.then, _not_yours(p, reason), commits
    return " ".join(filter(None, said))


def _each(
    first: TopicPartition, same: list[TopicPartition], faulty: Mapping[TopicPartition, Reason]
) -> str:
    """What keeps these back: one partition for each reason (two leaders, say), at most three."""
    one_of = {faulty[tp].text: tp for tp in reversed([first, *same])}
    shown = sorted(one_of.items(), key=lambda item: item[1] != first)[:3]
    more = f"; and {len(one_of) - 3} more such reasons" if len(one_of) > 3 else ""
    return _stopped("; ".join(f"{_named(tp)}: {text}" for text, tp in shown) + more)


def wrong(findings: Findings) -> str:
    """The worst that is wrong, in a clause; "" if nothing is."""
    p, reason = findings.picture, findings.main
    if reason is not None:
        return reason.text if reason.fault else commits_fail(p)
    faulty = findings.faulty
    if not faulty:
        topic = no_topic(p) if p.subscribed else None
        return topic.text if topic is not None and topic.fault else commits_fail(p)
    first = _oldest(faulty)
    new = "new " if is_fed(p, p.partitions[first], faulty[first]) else ""
    return f"nothing {new}from {_and_more(first, faulty)} is delivered: {faulty[first].text}"


def _oldest(reasons: Mapping[TopicPartition, Reason]) -> TopicPartition:
    since = min([reason.since for reason in reasons.values()])
    return min([tp for tp, reason in reasons.items() if reason.since == since])


def _head(findings: Findings, reason: Reason) -> str:
    p = findings.picture
    fed = [one for one in with_records(p.partitions).values() if is_fed(p, one, reason)]
    if fed:
        count = sum([one.records for one in fed])
        can = "can still be" if unpolled_for(p) >= LATE_POLL else "are still"
        held = f" ({count} here)" if count else ""
        return f"Buffered records{held} {can} delivered, but {_stopped(reason.text)}"
    if reason.waiting_for is WaitingFor.COORDINATOR and p.partitions and p.now <= p.session_until:
        return _without_coordinator(findings, reason)
    return f"Nothing is delivered: {_stopped(reason.text)}"


#: What a partition waits for whose records need no coordinator, as long as the session lasts.
_READ: Final = frozenset(
    {
        *(WaitingFor.RECORDS, WaitingFor.FETCH, WaitingFor.BYTES, WaitingFor.TURN),
        WaitingFor.APPLICATION,
    }
)


def _without_coordinator(findings: Findings, reason: Reason) -> str:
    """Records are delivered until the session is over, unless something else hinders every
    partition: that the coordinator does not answer keeps none of them back."""
    p, waiting = findings.picture, findings.waiting
    if (blocked := elsewhere(p)) is not None:
        return f"Nothing is delivered: {blocked.text}; and {_stopped(reason.text)}"
    if any(one.waiting_for in _READ and not one.fault for one in findings.distinct):
        lately = p.now - p.application.delivered_at < LATELY
        are = "are still" if lately else "can still be"
        said = f"Records {are} delivered, but {_stopped(reason.text)}"
        if findings.faulty:
            worst = _oldest(findings.faulty)
            named = _and_more(worst, findings.faulty)
            said += f" Nothing from {named}: {_stopped(findings.faulty[worst].text)}"
        return said
    first = _oldest(findings.faulty or waiting)
    hinders = waiting[first].text
    if len(findings.distinct) > 1 or covering(p) is None:
        hinders = f"{_and_more(first, waiting)}: {hinders}"
    if reason.text not in hinders:
        hinders += f"; and {reason.text}"
    return f"Nothing is delivered: {_stopped(hinders)}"


def _stopped(text: str) -> str:
    """With a stop at its end."""
    return text if text.endswith(".") else f"{text}."


def _withheld(p: Picture) -> str:
    unconfirmed = session(p)
    if unconfirmed is None or p.member is None:
        return ""
    count = sum([one.records for one in with_records(p.partitions).values()])
    if not count or p.session_until == -math.inf:
        return ""
    withheld = f"{plural(count, 'record')} {'is' if count == 1 else 'are'} buffered and withheld"
    late = polls_late(p)
    if late is not None and late.fault:
        return f"{withheld}, since the member has not polled for max_poll_interval_ms."
    if unconfirmed.waiting_for is WaitingFor.APPLICATION:
        return f"{withheld}, since the member had not polled for max_poll_interval_ms."
    if fenced(p) is not None:
        return f"{withheld}, since the member was fenced."
    if may_be_removed(p, p.member):
        return f"{withheld}, since the group may have gone on without this member."
    return f"{withheld}, since the {session_of(p.member)} may be over."


def _not_yours(p: Picture, reason: Reason) -> str:
    """Whether it is the application's code that holds things up."""
    if reason.waiting_for in (WaitingFor.APPLICATION, WaitingFor.CALLBACK, WaitingFor.SUBSCRIPTION):
        return ""
    if p.closed or p.forked or p.failure:
        return ""
    if p.closing:
        is_told = reason.waiting_for is WaitingFor.CONSUMER
        return "" if is_told else "The consumer is being closed."
    app = p.application
    if reason.yours:
        return "Your own code has raised it."
    if app.callback:
        return f"The listener's {app.callback} has not returned either."
    if app.polled_at == -math.inf:
        return "The application has not polled yet."
    if lateness(p) >= LATE_POLL:
        late = late_text(p)
        return f"And {late}."
    if not reason.fault:
        return ""
    if app.waits:
        return f"Not your code: {app.waits_in or 'a poll'} is waiting."
    return f"Not your code: the last poll was{ago(app.polled_at, p.now)}."


def _slow_note(waiting: Mapping[TopicPartition, Reason]) -> str:
    """Which partitions' records have waited long for their turn."""
    slow = {tp: reason for tp, reason in waiting.items() if reason.waiting_for is WaitingFor.TURN}
    if not slow:
        return ""
    first = _oldest(slow)
    return f"Some wait for their turn: {_and_more(first, slow)}: {slow[first].text}."


#: Of these partitions records come, or would: a fault of others does not affect them.
_UNHINDERED: Final = (
    WaitingFor.RECORDS,
    WaitingFor.FETCH,
    WaitingFor.BYTES,
    WaitingFor.TURN,
    WaitingFor.PAUSED,
    WaitingFor.TRANSACTION,
)

#: What is no fault, and yet nothing that the application has asked for.
_HELD: Final = (
    WaitingFor.THROTTLED,
    WaitingFor.BUFFER,
    WaitingFor.BYTES,
    WaitingFor.TRANSACTION,
)


#: A text that speaks of one partition.
_OF_ONE: Final = re.compile(r"\bits?\b")


def _held_note(waiting: Mapping[TopicPartition, Reason]) -> str:
    """Which partitions are held up, while others are read."""
    notes = []
    for kind in _HELD:
        held = {tp: reason for tp, reason in waiting.items() if reason.waiting_for is kind}
        if held:
            first = _oldest(held)
            notes.append(f"Nothing from {_and_more(first, held)}: {_stopped(held[first].text)}")
    return " ".join(notes)


def _of_the_partitions(findings: Findings) -> str:
    """The sentence if nothing hinders the whole consumer: the worst that hinders a partition."""
    p, waiting, faulty = findings.picture, findings.waiting, findings.faulty
    if faulty:
        first = _oldest(faulty)
        reason = faulty[first]
        same = sorted(tp for tp, other in faulty.items() if other.waiting_for is reason.waiting_for)
        names = _names(same)
        rest = sum(other.waiting_for in _UNHINDERED for other in waiting.values())
        are = "is" if rest == 1 else "are"
        others = f" ({rest} of {len(waiting)} partitions {are} not affected)" if rest else ""
        here = with_records(p.partitions)
        fed = any(is_fed(p, here[tp], faulty[tp]) for tp in same if tp in here)
        what = "Nothing new, but what is buffered," if fed else "Nothing"
        head = f"{what} is delivered from {names}{others}: {_each(first, same, faulty)}"
        return " ".join(filter(None, (head, reason.then, _not_yours(p, reason))))
    kinds = {reason.waiting_for for reason in findings.distinct}
    if WaitingFor.FETCH in kinds or WaitingFor.TURN in kinds:
        slow = _slow_note(waiting)
        if p.application.delivered_at > -math.inf:
            late = p.now - p.application.delivered_at
            said = f"Records are fetched and delivered: the last ones {seconds(late)} ago."
            if late >= LONG_AGO:
                said = (
                    f"Records are being fetched; the last ones were delivered {seconds(late)} ago."
                )
            return " ".join(filter(None, (said, slow, _held_note(waiting), no_topic_note(p))))
        said = "Records are being fetched; none were delivered yet."
        return " ".join(filter(None, (said, slow, _held_note(waiting))))
    for kind in WaitingFor:  # in any order: none of these reasons is a fault
        if kind in kinds and kind is not WaitingFor.RECORDS:
            these = sorted(tp for tp, reason in waiting.items() if reason.waiting_for is kind)
            text = waiting[these[0]].text
            names = _names(these)
            if len({waiting[tp].text for tp in these}) > 1 or (
                len(these) > 1 and _OF_ONE.search(text)
            ):
                names = f"{names}: {_named(these[0])}"
            if kind is WaitingFor.APPLICATION:
                then = poll_deadline(p) if lateness(p) >= LATE_POLL else ""
                return f"Nothing is delivered: {text}. {then}".strip()
            unlike = {tp: it for tp, it in waiting.items() if it.waiting_for is not kind}
            head = f"Nothing is delivered from {names}: {_stopped(text)}"
            return " ".join(filter(None, (head, _held_note(unlike))))
    last = p.application.delivered_at
    told = (
        "none was delivered yet" if last == -math.inf else f"the last {seconds(p.now - last)} ago"
    )
    said = (
        f"There is nothing new: all records that the brokers have reported are delivered ({told})."
    )
    return " ".join(filter(None, (said, no_topic_note(p))))
