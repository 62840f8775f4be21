"""Of the group: its coordinator, the member's way into it, and the session."""

from __future__ import annotations

import math
from typing import Final

from aktor.consumer.present.picture import Picture
from aktor.consumer.present.reasons.application import never_polled, poll_deadline
from aktor.consumer.present.reasons.brokers import (
    broker_name,
    down_since,
    is_down,
    next_attempt,
    refusal,
    silence,
    throttling,
)
from aktor.consumer.present.reasons.reason import FAULT_AFTER, Reason, WaitingFor
from aktor.consumer.present.reasons.topics import no_topic, no_topic_note
from aktor.consumer.present.reasons.words import (
    a_sentence,
    ago,
    first_line,
    for_long,
    made_in,
    plural,
    seconds,
)
from aktor.events.present import BrokerNow, MemberNow

__all__ = [
    "NO_HEARTBEAT",
    "coordinator",
    "coordinator_away",
    "fenced",
    "group_refuses",
    "may_be_removed",
    "no_assignment",
    "session",
    "session_of",
]


def _waited(who: str, since: float, now: float) -> str:
    """ "the member has waited 0.3 s", if it is known since when."""
    return f"{who} waits" if since == -math.inf else f"{who} has waited {seconds(now - since)}"


#: JoinGroup or SyncGroup has no answer: what it is called, and when the coordinator answers it ("":
#: it waits for nobody).
_UNANSWERED: Final = {
    "join": ("the JoinGroup by which the member gets its id", ""),
    "members": ("the member's JoinGroup", "when every member has joined"),
    "leader": ("the member's SyncGroup", "when the group's leader, another one, has assigned"),
    "sync": ("the SyncGroup with this leader's assignment", ""),
}

#: In these steps a member sends no heartbeats.
_WITHOUT_HEARTBEATS: Final = frozenset({"backoff", "poll", *_UNANSWERED})


def coordinator(p: Picture) -> Reason | None:
    """The coordinator does not answer the member, or is not known."""
    return coordinator_away(p) if p.in_group else None


def coordinator_away(p: Picture) -> Reason | None:
    """The coordinator does not answer, or is not known. It keeps records back from members, and
    from partitions whose committed offsets are looked up; who assigns needs it for nothing else."""
    it, member = p.coordinator, p.member
    if p.group_id is None or it is None:
        return None
    broker = p.network.brokers.get(it.node)
    if it.refused:
        text = f"the group {p.group_id!r} may not be used: {first_line(it.trouble, 300)}"
        return Reason(WaitingFor.REFUSED, text, it.since, True, _again(it.retry_at, p.now))
    if member is not None and p.now - member.awake_since < FAULT_AFTER:
        return None  # it was this process that stood still: nobody knows yet who answers
    if is_down(broker, p.now):
        assert broker is not None, "a broker that is down is known"
        text = f"the coordinator ({broker_name(broker)}) {silence(p, broker)}"
        since = down_since(p, broker)
        if member is not None and member.failing_since < since - FAULT_AFTER:
            since = member.failing_since  # it has answered something since, but no heartbeat
            text += f"; no heartbeat has been answered{for_long(since, p.now)}"
        then = _session_end(p) or a_sentence(next_attempt(broker, p.now))
        return Reason(WaitingFor.COORDINATOR, text, since, True, then)
    unanswered_since = math.inf if member is None else member.failing_since
    refused = broker is not None and broker.refused_since is not None
    if broker is not None and refused and p.now - unanswered_since >= FAULT_AFTER:
        # (Another connection to it may be open, and answer: login_refused.)
        text = f"the coordinator ({broker_name(broker)}) {refusal(broker, p.now)};"
        text += f" no heartbeat has been answered{for_long(unanswered_since, p.now)}"
        then = _session_end(p) or a_sentence(next_attempt(broker, p.now))
        return Reason(WaitingFor.COORDINATOR, text, unanswered_since, True, then)
    if not it.known and p.now - it.since >= FAULT_AFTER:
        last = f", last: {first_line(it.trouble)}" if it.trouble else ""
        looked = plural(it.asked, "look-up")
        text = f"the group's coordinator has not been known{for_long(it.since, p.now)}"
        text += f" ({looked}{last})"
        since = it.since
        if member is not None and member.failing_since < since:
            since = member.failing_since  # what it was does not matter: it did not answer before
            text += f", and no heartbeat has been answered{for_long(since, p.now)}"
        then = _session_end(p) or _again(it.retry_at, p.now)
        return Reason(WaitingFor.COORDINATOR, text, since, True, then)
    name = f"broker {it.node}, {it.address}"
    if member is not None and member.step in _WITHOUT_HEARTBEATS:
        return _no_answer(p, member, broker)
    if member is not None and p.now - member.failing_since >= FAULT_AFTER:
        since = member.failing_since
        last = f", last: {first_line(member.trouble)}" if member.trouble else ""
        if member.refused:
            what = f"has refused the member's heartbeats{for_long(since, p.now)}"
            last = f" ({plural(member.failures, 'attempt')}{last})"
        else:
            what = f"has not answered a heartbeat{for_long(since, p.now)}"
            last = f" ({plural(member.failures, 'heartbeat')} failed{last})"
        text = f"the coordinator ({name}) {what}{last}"
        if it.moved_at > since:  # before that another broker was the coordinator
            text = f"no heartbeat has been answered{for_long(since, p.now)}{last};"
            text += (
                f" the coordinator was {it.was}, and has been"
                if it.was
                else " the coordinator has been"
            )
            text += f" {name}{for_long(it.moved_at, p.now)}"
        elif p.now - member.asked_at >= FAULT_AFTER:
            text += f"; one that was sent {seconds(p.now - member.asked_at)} ago has no answer yet"
        return Reason(WaitingFor.COORDINATOR, text, since, True, _session_end(p))
    if member is not None and p.now - member.asked_at >= FAULT_AFTER:
        ago = seconds(p.now - member.asked_at)
        text = f"the coordinator ({name}) "
        if throttle := throttling(
            None if broker is None else broker.group_throttle, member.asked_at, p.now
        ):
            text += f"{throttle}, and until then a heartbeat waits"
        else:
            text += f"has not answered the heartbeat that was sent {ago} ago"
        return Reason(WaitingFor.COORDINATOR, text, member.asked_at, True, _session_end(p))
    return None


def _no_answer(p: Picture, member: MemberNow, broker: BrokerNow | None) -> Reason | None:
    """The coordinator does not answer a JoinGroup or SyncGroup that waits for nobody."""
    if _UNANSWERED.get(member.step, ("", "others"))[1] or p.now - member.since < FAULT_AFTER:
        return None
    if broker is None or not broker.connected or broker.group_throttle.until > p.now:
        return None
    text = _unanswered_text(p, member)
    return Reason(WaitingFor.COORDINATOR, text, member.since, True, _session_end(p))


def group_refuses(p: Picture) -> Reason | None:
    """The group does not want the member, and only the user can mend that."""
    member = p.member
    if member is None or not member.refusal or not p.subscribed:
        return None
    if _is_asking(p, member):
        return None  # nobody has refused what it asks for now
    text = f"the group has refused the member{for_long(member.refusal_since, p.now)}: "
    text += first_line(member.refusal, 400)
    then = _joins_again(p, member)
    return Reason(WaitingFor.REFUSED, text, member.refusal_since, True, then)


def _is_asking(p: Picture, member: MemberNow) -> bool:
    """Whether the coordinator keeps its request to join, as while it waits for others."""
    return member.step in _UNANSWERED and p.now - member.since >= FAULT_AFTER


def _joins_again(p: Picture, member: MemberNow) -> str:
    """What a member that was refused does next, and when."""
    if member.for_good:
        return "It does not join again: close the consumer and make a new one."
    if member.joins_at > p.now:
        return f"It joins again in {seconds(member.joins_at - p.now)}."
    if member.step in ("callback", "commit"):
        return "It joins again once the application has given up its partitions, and polls."
    return "It joins again after the next poll." if member.step == "poll" else "It joins again now."


#: The states of a member that the group has fenced, in both protocols, until the application has
#: given up what it owned. (Also of one that the group refuses: see `group_refuses`.)
_FENCED: Final = frozenset({"fenced", "losing"})


def fenced(p: Picture) -> Reason | None:
    """The group has taken the member out, and says so: no heartbeat is due, and however long the
    session is, its records are not given out any more."""
    member = p.member
    if member is None or member.state not in _FENCED or not p.in_group or not p.partitions:
        return None
    if member.refusal or member.left_late_at > -math.inf:
        return None
    after = f"after {member.fenced_after}" if member.fenced_after else ""
    because = " ".join(filter(None, (first_line(member.trouble), after)))
    because = f" ({because})" if because else ""
    text = f"the group has fenced the member{ago(member.since, p.now)}{because}: another one may"
    text += " own its partitions by now"
    then = "It joins again once a poll has given them up."
    return Reason(WaitingFor.SESSION, text, member.since, fault=True, then=then)


def _again(retry_at: float, now: float) -> str:
    return a_sentence(made_in(retry_at, now, "the next look-up"))


def _session_end(p: Picture) -> str:
    member = p.member
    if member is None or not p.partitions or not p.in_group or p.session_until == -math.inf:
        return ""
    if p.now <= p.session_until and not may_be_removed(p, member):
        left = seconds(p.session_until - p.now)
        over = "is over" if member.session_is_known else "may be over"
        return (
            f"The {session_of(member)} {over} in {left}; from then on records are withheld"
            " until a heartbeat is answered."
        )
    return ""


def session_of(member: MemberNow) -> str:
    """The session of the member, and how long it is. In a KIP-848 group only the brokers know."""
    length = seconds(member.session)
    if member.session_is_known:
        return f"session ({length})"
    return f"session ({length} are assumed, the brokers do not tell)"


#: The membership actor has had no tick yet: it is new, or was restarted.
_STARTED: Final = "the member is being started"


def no_assignment(p: Picture) -> Reason | None:
    """The group has given this member no partitions, or not yet."""
    if p.partitions or not p.subscribed:
        return None
    if p.pattern and not p.topics and (no_match := _no_match(p)) is not None:
        return no_match
    if not p.in_group:
        return no_topic(p) or never_polled(p)
    member = p.member
    if member is None:
        return Reason(WaitingFor.GROUP, _STARTED, -math.inf, fault=False)
    if member.state == "stable":
        text = f"the group has given this member no partitions{for_long(member.since, p.now)}"
        then = "It gets some when another member gives some up, or more partitions match."
        return no_topic(p) or Reason(WaitingFor.GROUP, text, member.since, False, then)
    since = member.since if member.joining_since == -math.inf else member.joining_since
    long = p.now - since >= max(p.session_timeout, 3 * FAULT_AFTER)
    text = _step_text(p, member)
    if member.step in _UNANSWERED:
        text = _unanswered_text(p, member)
    if member.since - since >= FAULT_AFTER:
        text += f"; it has been rebalancing{for_long(since, p.now)}"
    waits = WaitingFor.CALLBACK if member.step == "callback" else WaitingFor.GROUP
    fault = long and member.step != "poll"
    return Reason(waits, text, since, fault, no_topic_note(p))


def _no_match(p: Picture) -> Reason | None:
    """The pattern that is subscribed to matches no topic."""
    if p.in_group and p.member is not None and p.member.step:
        return None  # it waits for something else
    text = f"no topic that the brokers have reported matches the pattern {p.pattern!r}"
    then = "New topics are looked for every metadata_max_age_ms."
    return Reason(WaitingFor.LEADER, text, -math.inf, False, then)


def _step_text(p: Picture, member: MemberNow) -> str:
    """How long it has waited, and for what."""
    because = f" ({first_line(member.trouble)})" if member.trouble else ""
    the_member, the_rebalance = (
        _waited(who, member.since, p.now) for who in ("the member", "the rebalance")
    )
    return {
        "poll": f"{the_member} for the next poll, by which it joins its group",
        "coordinator": f"{the_member} for the group's coordinator to be found",
        "callback": f"{the_rebalance} for the application (a poll, or its listener)",
        "commit": f"{the_rebalance} for the last commit before a revocation",
        "metadata": f"{the_rebalance} for the metadata of the group's topics",
        "backoff": f"{the_member} to join again{because}",
        "answer": f"{the_member} for the group to take it in{because}",
    }.get(member.step, f"{the_member} to get into its group")


def _unanswered_text(p: Picture, member: MemberNow) -> str:
    """The coordinator has not answered JoinGroup, or SyncGroup: it does not say for whom it waits,
    but only when it answers."""
    it = p.coordinator
    name = "the group's coordinator"
    if it is not None and it.known:
        name = f"the coordinator (broker {it.node}, {it.address})"
        broker = p.network.brokers.get(it.node)
        the_member = _waited("the member", member.since, p.now)
        if throttle := throttling(None if broker is None else broker.group_throttle, p.now, p.now):
            return f"{the_member} to get into its group: {name} {throttle}"
        if broker is not None and not broker.connected:
            return f"{the_member} for a connection to {name}"
    request, answered = _UNANSWERED[member.step]
    when = f": it does {answered}" if answered else ""
    text = f"{name} has not answered {request}{for_long(member.since, p.now)}{when}"
    if member.refusal:
        text += f"; the group refused the member{ago(member.refusal_since, p.now)}:"
        text += f" {first_line(member.refusal, 300)}"
    return text


#: Why a session may be over, if nothing more is known.
NO_HEARTBEAT: Final = ": no heartbeat was answered"


def session(p: Picture) -> Reason | None:
    """The session may be over: nothing is given out before a heartbeat is answered. Or the member
    has ended it: it has left, and still has the partitions that it is about to give up."""
    member = p.member
    if not p.in_group or not p.partitions:
        return None
    if member is not None and member.left_late_at > -math.inf:
        return _left_late(p, member)
    if (out := fenced(p)) is not None:
        return out
    if p.now <= p.session_until:
        return None
    since = p.session_until
    if member is None:
        return Reason(WaitingFor.SESSION, _STARTED, p.now if since == -math.inf else since, True)
    if since == -math.inf:
        since, text = member.since, "the group has not confirmed the member yet"
    elif may_be_removed(p, member):
        text = f"{_GONE_ON}{for_long(since, p.now)}"
    else:
        text = f"the {session_of(member)} may have been over{for_long(since, p.now)}"
        if member.stood_still:
            text += f": {member.stood_still}; no heartbeat has been answered since then"
        else:
            text += NO_HEARTBEAT
    return Reason(WaitingFor.SESSION, text, since, fault=True)


def _left_late(p: Picture, member: MemberNow) -> Reason:
    """It has left by itself, so no heartbeat is due; now the application polls again, and gives up
    what it owned first."""
    text = f"the member left its group{ago(member.left_late_at, p.now)}, since the application had"
    text += " not polled for max_poll_interval_ms"
    then = poll_deadline(p)
    if p.now - p.application.polled_at < p.max_poll_interval:
        then = "It joins again, now that the application polls."
    return Reason(WaitingFor.APPLICATION, text, member.left_late_at, fault=True, then=then)


def may_be_removed(p: Picture, member: MemberNow) -> bool:
    """Whether a rebalance may have waited for this member as long as it waits."""
    return member.rebalance_until <= p.session_until


#: Why nothing is given out when a rebalance has taken too long, while heartbeats are answered; or
#: may have: nobody has asked the coordinator meanwhile (the process stood still).
_GONE_ON: Final = (
    "a rebalance may have waited for this member for max_poll_interval_ms, and the group may have"
    " gone on without it"
)
