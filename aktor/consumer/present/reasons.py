"""Why nothing is delivered: two tables of reasons, in order of priority, and the sentence of `why`.

Each reason is a function of the picture: it says None if it does not apply, else a `Reason`, which
has what `status()`, `why()`, `healthy` and the event `delivery.stalled` tell. A guess is no reason:
each text says only what an owner has published.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from aktor.consumer.core.partition import Stage
from aktor.consumer.present.picture import LATE_POLL, PartitionSeen, Picture
from aktor.events.present import BrokerNow, MemberNow, PositionNow, TopicTrouble
from aktor.structs import TopicPartition
from aktor.values import Value

__all__ = [
    "FAULT_AFTER",
    "Findings",
    "Reason",
    "WaitingFor",
    "of_consumer",
    "of_partition",
    "of_partitions",
    "sentence",
    "why",
    "wrong",
]

#: Compared for each partition. Before Python 3.12 a member of an Enum class is slow to read.
_OWNED: Final = Stage.OWNED

#: A failure that is younger, in seconds, is one of those that pass: a connection that the broker
#: has closed and that is opened again. It is no reason yet.
FAULT_AFTER: Final = 1.0


#: Of records that were delivered so many seconds ago nobody says that they are being delivered.
LONG_AGO: Final = 3.0


class WaitingFor(enum.Enum):
    """What the next record of a partition waits for."""

    RECORDS = "nothing new"
    """All that was written has been delivered, as far as the leader has told."""

    FETCH = "fetch"
    """It is being fetched, or delivered: nothing hinders it."""

    APPLICATION = "application"
    """Records are here, or could be. The application has not polled for a second or more."""

    TURN = "its turn"
    """Its records have been here for three seconds. The application polls, and is given those of
    other partitions first, or only few with each poll: it is slower than what comes."""

    CALLBACK = "callback"
    """A method of the rebalance listener has not returned."""

    PAUSED = "paused"
    """The user has paused the partition."""

    BUFFER = "buffer full"
    """The buffer (`max_buffered_bytes`) is full of other partitions' records."""

    TRANSACTION = "open transaction"
    """With read_committed: what follows belongs to a transaction that is still open."""

    SESSION = "session unconfirmed"
    """The session may be over, so another member may own the partition. What is buffered is
    withheld until a heartbeat is answered."""

    GROUP = "group"
    """The member has no partitions yet, or gives this one up: a rebalance is under way."""

    COORDINATOR = "coordinator"
    """The group's coordinator is not known, or does not answer."""

    POSITION = "position"
    """Its position is being looked up or validated."""

    LEADER = "no leader"
    """No broker leads the partition, or the topic does not exist."""

    BROKER = "broker"
    """The broker that leads it cannot be reached, or does not answer."""

    THROTTLED = "throttled"
    """The broker wants no request before some time: a quota is used up."""

    REFUSED = "refused"
    """The broker refuses it, or its next record cannot be read: `poll` raises the error."""

    SUBSCRIPTION = "subscription"
    """Nothing is subscribed to or assigned."""

    CONSUMER = "consumer"
    """The consumer is closed or has failed, or its background thread does not turn."""


class Reason(Value, kw_only=False):
    """Why something is not delivered. `text` is a clause without a stop; `since` is when it began,
    by the consumer's clock (-inf: not known). A `fault` is nothing that the application has asked
    for, and nothing usual. `then`: what happens next, as a sentence, or "". `yours`: the
    application's own code is the cause."""

    waiting_for: WaitingFor
    text: str
    since: float
    fault: bool
    then: str = ""
    yours: bool = False


# -- words


def _seconds(span: float) -> str:
    if span == math.inf:
        return "unknown time"
    # An owner may have published after `now` was read: nothing was in the future for that.
    return f"{max(0.0, span):.1f} s" if span < 100 else f"{span:.0f} s"


def _for(since: float, now: float) -> str:
    return "" if since == -math.inf else f" for {_seconds(now - since)}"


def _waited(who: str, since: float, now: float) -> str:
    """ "the member has waited 0.3 s", if it is known since when."""
    return f"{who} waits" if since == -math.inf else f"{who} has waited {_seconds(now - since)}"


def _ago(at: float, now: float) -> str:
    return "" if at == -math.inf else f" {_seconds(now - at)} ago"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _in(at: float, now: float, what: str) -> str:
    """ "<what> is made in 0.3 s", if it is known when."""
    if at == -math.inf or at <= now:
        return f"{what} is under way"
    return f"{what} is made in {_seconds(at - now)}" if at < math.inf else ""


def _broker_name(broker: BrokerNow) -> str:
    return broker.address if broker.node < 0 else f"broker {broker.node}, {broker.address}"


def _silence(broker: BrokerNow, now: float) -> str:
    """ "has not answered for 7.2 s (connection refused, 14 attempts)"."""
    since = down_since(broker, now)
    if broker.heard_at > -math.inf:
        return f"has not answered{_for(since, now)}{_how(broker)}"
    first = f"; the first attempt was {_seconds(now - since)} ago" if since > -math.inf else ""
    return f"has never answered{first}{_how(broker)}"


def _throttle(broker: BrokerNow | None, asked_at: float, now: float) -> str:
    """ "has throttled us for 2.0 s (a quota is used up); 3.0 s are left", if what was asked then is
    held back by that; else ""."""
    if broker is None or broker.throttled_until <= now or asked_at < broker.throttled_since:
        return ""
    left = _seconds(broker.throttled_until - now)
    told = _for(broker.throttled_since, now)
    return f"has throttled us{told} (a quota is used up); {left} are left"


def _how(broker: BrokerNow) -> str:
    error = _first_line(broker.error)
    attempts = _plural(broker.attempts, "attempt") if broker.attempts else ""
    inside = ", ".join(filter(None, (error, attempts)))
    return f" ({inside})" if inside else ""


def _first_line(text: str, most: int = 160) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= most else line[: most - 3] + "..."


def is_down(broker: BrokerNow | None, now: float) -> bool:
    """Whether this broker has not answered for a second since it failed, or since we try to connect
    to it."""
    if broker is None:
        return False
    begun = _begun(broker, now)
    return begun is not None and now - begun >= FAULT_AFTER


def _begun(broker: BrokerNow, now: float) -> float | None:
    """Since when it fails, or we try to connect to it; None: neither."""
    if broker.fails_at(now):
        return broker.failing_since
    return None if broker.connected else broker.connecting_since


def down_since(broker: BrokerNow, now: float) -> float:
    """From when on a broker that is down has answered nothing that it was asked; -inf: not known.
    (Its last answer may be of long before: nobody has asked since.)"""
    begun = _begun(broker, now)
    return broker.heard_at if begun is None else max(begun, broker.heard_at)


# -- reasons that concern the whole consumer


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


def _failed(p: Picture) -> Reason | None:
    if not p.failure:
        return None
    text = f"the consumer has failed: {_first_line(p.failure, 400)}"
    return Reason(WaitingFor.CONSUMER, text, -math.inf, True, "Close it and make a new one.")


def _hangs(p: Picture) -> Reason | None:
    if p.overdue < FAULT_AFTER:
        return None
    if p.overdue == math.inf:
        text, since = "the background thread has ended", -math.inf
    else:
        where = f" (it is at {p.background_line})" if p.background_line else ""
        text = f"the background thread has not turned for {_seconds(p.overdue)}{where}"
        since = p.now - p.overdue
    return Reason(WaitingFor.CONSUMER, text, since, fault=True)


def _login_refused(p: Picture) -> Reason | None:
    asked = (*p.network.brokers.values(), *p.network.servers)
    refusing = [one for one in asked if one.refused and one.fails]
    if not refusing:
        return None
    last = max(refusing, key=lambda one: one.failed_at)
    # A bootstrap server is one of the brokers, mostly.
    same = [one for one in p.network.brokers.values() if one.address == last.address]
    if any(one.heard_at > last.failed_at for one in same):
        return None
    last = same[0] if same and same[0].refused else last
    since = last.failing_since or -math.inf
    text = f"{_broker_name(last)} has refused our login{_for(since, p.now)}"
    text += f" ({_first_line(last.error)})"
    return Reason(WaitingFor.REFUSED, text, since, True, _next_attempt(last, p.now))


def _nobody_there(p: Picture) -> Reason | None:
    """No broker that was tried answers, neither one of the cluster nor a bootstrap server."""
    brokers = _all_brokers(p)
    if p.unreachable:
        since = _all_down_since(brokers, p.now)
        return Reason(WaitingFor.BROKER, _first_line(p.unreachable, 400), since, fault=True)
    if any(one.connected and not one.fails for one in brokers):
        return None
    down = [one for one in brokers if is_down(one, p.now)]
    if not down:
        return None
    since = _all_down_since(brokers, p.now)
    named = ", ".join(f"{_broker_name(one)}{_how(one)}" for one in down[:3])
    more = f" and {len(down) - 3} more" if len(down) > 3 else ""
    text = f"no broker has been reachable{_for(since, p.now)}: {named}{more}"
    soonest = min(down, key=lambda one: one.retry_at)
    return Reason(WaitingFor.BROKER, text, since, True, _next_attempt(soonest, p.now))


def _all_down_since(brokers: list[BrokerNow], now: float) -> float:
    """From when on none of them has answered anything: the first failure after the last answer."""
    heard = max([one.heard_at for one in brokers], default=-math.inf)
    begun = [down_since(one, now) for one in brokers if is_down(one, now)]
    return min([at for at in begun if at >= heard], default=heard)


def _next_attempt(broker: BrokerNow, now: float) -> str:
    said = _in(broker.retry_at, now, "the next attempt")
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _all_brokers(p: Picture) -> list[BrokerNow]:
    known = list(p.network.brokers.values())
    addresses = {one.address for one in known}
    return [*known, *(one for one in p.network.servers if one.address not in addresses)]


def _in_callback(p: Picture) -> Reason | None:
    app = p.application
    if not app.callback:
        return None
    at = f" ({app.line})" if app.line else ""
    text = f"the listener's {app.callback} has not returned{_for(app.callback_since, p.now)}{at}"
    long = p.now - app.callback_since >= p.session_timeout
    then = _poll_deadline(p)
    return Reason(WaitingFor.CALLBACK, text, app.callback_since, long, then)


def _poll_deadline(p: Picture) -> str:
    """When the group goes on without an application that does not poll."""
    if not p.in_group or p.closing or p.application.polled_at == -math.inf:
        return ""
    by = p.application.polled_at + p.max_poll_interval
    if p.now < by:
        return f"If it does not poll, the member leaves its group in {_seconds(by - p.now)}."
    return (
        "The member has left its group (max_poll_interval_ms); it joins again with the next poll."
    )


def _polls_late(p: Picture) -> Reason | None:
    """The application has not polled for a second, and records could be given out."""
    late = _lateness(p)
    if late < LATE_POLL or not (p.partitions or p.in_group):
        return None
    expired = p.in_group and late >= p.max_poll_interval
    if not (expired or any(one.is_here and not one.paused for one in p.partitions.values())):
        return None
    app = p.application
    return Reason(WaitingFor.APPLICATION, _late_text(p), app.polled_at, expired, _poll_deadline(p))


def _lateness(p: Picture) -> float:
    """For how long the application has not polled; 0 while a call of it waits for the cluster."""
    app = p.application
    if app.waits or p.closing or app.polled_at == -math.inf:
        return 0.0
    return p.now - app.polled_at


def _late_text(p: Picture) -> str:
    at = f" (it is at {p.application.line})" if p.application.line else ""
    return f"the application has not polled{_for(p.application.polled_at, p.now)}{at}"


def _nothing_wanted(p: Picture) -> Reason | None:
    if p.subscribed or p.assigned_by_user:
        return None
    text = "nothing is subscribed to, and nothing is assigned"
    return Reason(WaitingFor.SUBSCRIPTION, text, -math.inf, fault=False)


def _coordinator(p: Picture) -> Reason | None:
    """The coordinator does not answer, or is not known."""
    it, member = p.coordinator, p.member
    if p.group_id is None or it is None:
        return None
    broker = p.network.brokers.get(it.node)
    if it.refused:
        text = f"the group {p.group_id!r} may not be used: {_first_line(it.trouble, 300)}"
        return Reason(WaitingFor.REFUSED, text, it.since, True, _again(it.retry_at, p.now))
    if is_down(broker, p.now):
        assert broker is not None, "a broker that is down is known"
        text = f"the coordinator ({_broker_name(broker)}) {_silence(broker, p.now)}"
        then = _session_end(p) or _next_attempt(broker, p.now)
        return Reason(WaitingFor.COORDINATOR, text, down_since(broker, p.now), True, then)
    if not it.known and p.now - it.since >= FAULT_AFTER:
        last = f", last: {_first_line(it.trouble)}" if it.trouble else ""
        looked = _plural(it.asked, "look-up")
        text = f"the group's coordinator has not been known{_for(it.since, p.now)} ({looked}{last})"
        then = _session_end(p) or _again(it.retry_at, p.now)
        return Reason(WaitingFor.COORDINATOR, text, it.since, True, then)
    name = f"broker {it.node}, {it.address}"
    if member is not None and p.now - member.failing_since >= FAULT_AFTER:
        since = member.failing_since
        last = f", last: {_first_line(member.trouble)}" if member.trouble else ""
        if member.refused:
            what = f"has refused the member's heartbeats{_for(since, p.now)}"
            last = f" ({_plural(member.failures, 'attempt')}{last})"
        else:
            what = f"has not answered a heartbeat{_for(since, p.now)}"
            last = f" ({_plural(member.failures, 'heartbeat')} failed{last})"
        text = f"the coordinator ({name}) {what}{last}"
        if it.moved_at > since:  # most of that time another broker was the coordinator
            text = f"no heartbeat has been answered{_for(since, p.now)}{last}; the coordinator has"
            text += f" been {name}{_for(it.moved_at, p.now)}"
        return Reason(WaitingFor.COORDINATOR, text, since, True, _session_end(p))
    if member is not None and p.now - member.asked_at >= FAULT_AFTER:
        ago = _seconds(p.now - member.asked_at)
        text = f"the coordinator ({name}) "
        if throttle := _throttle(broker, member.asked_at, p.now):
            text += f"{throttle}, and until then a heartbeat waits"
        else:
            text += f"has not answered the heartbeat that was sent {ago} ago"
        return Reason(WaitingFor.COORDINATOR, text, member.asked_at, True, _session_end(p))
    return None


def _group_refuses(p: Picture) -> Reason | None:
    """The group does not want the member, and only the user can mend that."""
    member = p.member
    if member is None or not member.refusal or not p.subscribed:
        return None
    then = "It joins again after the next poll."
    if member.for_good:
        then = "It does not join again: close the consumer and make a new one."
    text = f"the group has refused the member{_for(member.refusal_since, p.now)}: "
    text += _first_line(member.refusal, 400)
    return Reason(WaitingFor.REFUSED, text, member.refusal_since, True, then)


def _again(retry_at: float, now: float) -> str:
    said = _in(retry_at, now, "the next look-up")
    return f"{said[0].upper()}{said[1:]}." if said else ""


def _session_end(p: Picture) -> str:
    member = p.member
    if member is None or not p.partitions or not p.in_group or p.session_until == -math.inf:
        return ""
    length = _seconds(member.session)
    if p.now <= p.session_until and not _may_be_removed(p, member):
        left = _seconds(p.session_until - p.now)
        return (
            f"The session ({length}) is over in {left}; from then on records are withheld until a"
            " heartbeat is answered."
        )
    return ""


def _no_assignment(p: Picture) -> Reason | None:
    """The group has given this member no partitions, or not yet."""
    if p.partitions or not p.subscribed:
        return None
    if p.pattern and not p.topics and (no_match := _no_match(p)) is not None:
        return no_match
    if not p.in_group:
        return no_topic(p) or _never_polled(p)
    member = p.member
    if member is None:
        return Reason(WaitingFor.GROUP, "the member is being restarted", -math.inf, fault=True)
    if member.state == "stable":
        text = f"the group has given this member no partitions{_for(member.since, p.now)}"
        then = "It gets some when another member gives some up."
        return no_topic(p) or Reason(WaitingFor.GROUP, text, member.since, False, then)
    long = p.now - member.since >= max(p.session_timeout, 3 * FAULT_AFTER)
    text = _step_text(p, member)
    if member.step == "members":
        text = _members_text(p, member)
    waits = WaitingFor.CALLBACK if member.step == "callback" else WaitingFor.GROUP
    fault = long and member.step != "poll"
    return Reason(waits, text, member.since, fault, _no_topic_note(p))


def _never_polled(p: Picture) -> Reason | None:
    """Without a group it is the poll that assigns the partitions of the topics."""
    if p.application.polled_at > -math.inf or p.application.waits:
        return None
    text = "the application has not polled yet; the first poll assigns the partitions"
    return Reason(WaitingFor.APPLICATION, text, -math.inf, fault=False)


def _step_text(p: Picture, member: MemberNow) -> str:
    """How long it has waited, and for what."""
    because = f" ({_first_line(member.trouble)})" if member.trouble else ""
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


def _members_text(p: Picture, member: MemberNow) -> str:
    """The coordinator keeps the member's JoinGroup, or SyncGroup: it does not say for whom."""
    it = p.coordinator
    name = "the group's coordinator"
    if it is not None and it.known:
        name = f"the coordinator (broker {it.node}, {it.address})"
        if throttle := _throttle(p.network.brokers.get(it.node), p.now, p.now):
            waited = _waited("the member", member.since, p.now)
            return f"{waited} to get into its group: {name} {throttle}"
    waited = _waited(name, member.since, p.now)
    return f"{waited} for other members to join, or for the leader to assign partitions"


def _no_match(p: Picture) -> Reason | None:
    """The pattern that is subscribed to matches no topic."""
    if p.in_group and p.member is not None and p.member.step:
        return None  # it waits for something else
    text = f"no topic that the brokers have reported matches the pattern {p.pattern!r}"
    then = "New topics are looked for every metadata_max_age_ms."
    return Reason(WaitingFor.LEADER, text, -math.inf, False, then)


def no_topic(p: Picture) -> Reason | None:
    """Topics that are subscribed to are not there, or may not be described."""
    if p.topics.isdisjoint(p.metadata.troubles) and p.topics <= p.cluster.topics.keys():
        return None
    troubles = sorted(
        (trouble.since, topic, trouble)
        for topic, trouble in p.metadata.troubles.items()
        if topic in p.topics
    )
    for since, topic, trouble in troubles:
        if trouble.error:
            text, fault = _refused_topic(topic, trouble, p.now), _is_fault(trouble, p.now)
            return Reason(WaitingFor.REFUSED, text, since, fault, _AGAIN_AND_AGAIN)
    if troubles:
        since = troubles[0][0]
        these = ", ".join(repr(topic) for _, topic, _ in troubles[:3])
        more = f" and {len(troubles) - 3} more" if len(troubles) > 3 else ""
        noun = "topics" if len(troubles) > 1 else "topic"
        text = f"no broker has known the {noun} {these}{more}{_for(since, p.now)}"
        fault = p.now - since >= FAULT_AFTER
        return Reason(WaitingFor.LEADER, text, since, fault, _AGAIN_AND_AGAIN)
    if p.cluster.version <= 0:
        return Reason(
            WaitingFor.BROKER, "no broker has described the cluster yet", -math.inf, False
        )
    first = min(p.topics - p.cluster.topics.keys())
    text = f"the metadata that is known has no topic {first!r}"
    return Reason(WaitingFor.BROKER, text, -math.inf, False)


_AGAIN_AND_AGAIN: Final = "The metadata is asked for again and again."


def _is_fault(trouble: TopicTrouble, now: float) -> bool:
    return not trouble.may_pass or now - trouble.since >= FAULT_AFTER


def _refused_topic(topic: str, trouble: TopicTrouble, now: float) -> str:
    how_long = _for(trouble.since, now)
    if trouble.forbidden:
        return f"this principal has not been allowed to describe the topic {topic!r}{how_long}"
    return f"the topic {topic!r} has been refused{how_long} ({trouble.error})"


def _no_topic_note(p: Picture) -> str:
    missing = no_topic(p)
    if missing is None or not missing.fault:
        return ""
    return f"{missing.text[0].upper()}{missing.text[1:]}."


def _session(p: Picture) -> Reason | None:
    """The session may be over: nothing is given out before a heartbeat is answered."""
    if not p.in_group or not p.partitions or p.now <= p.session_until:
        return None
    member = p.member
    if member is None:
        return Reason(WaitingFor.SESSION, "the member is being restarted", -math.inf, fault=True)
    since = p.session_until
    length = _seconds(member.session)
    if since == -math.inf:
        text = "the group has not confirmed the member yet"
    elif _may_be_removed(p, member):
        text = f"{_GONE_ON}{_for(since, p.now)}"
    else:
        text = f"the session ({length}) may have been over{_for(since, p.now)}"
        text += ": no heartbeat was answered"
    return Reason(WaitingFor.SESSION, text, max(since, member.since), fault=True)


def _may_be_removed(p: Picture, member: MemberNow) -> bool:
    """Whether a rebalance has waited for this member as long as it waits."""
    return member.rebalance_until <= p.session_until


#: Why nothing is given out when a rebalance has taken too long, while heartbeats are answered.
_GONE_ON: Final = (
    "a rebalance has waited for this member for max_poll_interval_ms, and the group may have gone"
    " on without it"
)


def _waits_elsewhere(p: Picture) -> Reason | None:
    """Records are here, and the application waits for the cluster in a call that gives out none."""
    if not any(one.is_here and not one.paused for one in p.partitions.values()):
        return None
    return _elsewhere(p)


def _elsewhere(p: Picture) -> Reason | None:
    app = p.application
    if not app.waits_in or p.now - app.polled_at < LATE_POLL:
        return None
    text = (
        f"the application waits in {app.waits_in}, and has not polled{_for(app.polled_at, p.now)}"
    )
    return Reason(WaitingFor.APPLICATION, text, app.polled_at, fault=False)


#: Those of the reasons below that keep records of every partition back. (The coordinator does so
#: once the session is over, or while there are no partitions.)
_COVERING: Final[tuple[Callable[[Picture], Reason | None], ...]] = (
    _closed,
    _forked,
    _failed,
    _hangs,
    _login_refused,
    _nobody_there,
    _in_callback,
    _closing,
)

#: Reasons of the whole consumer, the most important first.
REASONS: Final[tuple[Callable[[Picture], Reason | None], ...]] = (
    *_COVERING,
    _polls_late,
    _nothing_wanted,
    _group_refuses,
    _coordinator,
    _no_assignment,
    _session,
    _waits_elsewhere,
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


# -- reasons that concern one partition


def _given_up(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    since = -math.inf if p.member is None else p.member.since
    if it.stage is Stage.PENDING_REVOCATION:
        return Reason(WaitingFor.GROUP, "it is about to be revoked", since, fault=False)
    if not it.subscribed:
        text = "its topic is not subscribed any more"
        return Reason(WaitingFor.GROUP, text, -math.inf, fault=False)
    if it.stage is Stage.PENDING_CALLBACK:
        text = "on_partitions_assigned has not returned, or has failed"
        return Reason(WaitingFor.CALLBACK, text, since, fault=False)
    return None


def _paused(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if not it.paused:
        return None
    text = f"the application has paused it{_ago(it.paused_at, p.now)}"
    return Reason(WaitingFor.PAUSED, text, it.paused_at, fault=False)


def _has_error(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if not it.error:
        return None
    hindrance = p.fetch.hindered.get(tp)
    since = it.failed_at if hindrance is None else hindrance.since
    first = "" if since == -math.inf else f" (the first time{_ago(since, p.now)})"
    text = f"poll raises an error{first} until it is dealt with: {_first_line(it.error, 300)}"
    return Reason(WaitingFor.REFUSED, text, since, fault=True, yours=it.error_is_yours)


def _no_leader(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if p.cluster.leader(*tp) is not None or p.cluster.version <= 0:
        return None
    hindrance = p.fetch.hindered.get(tp)
    # (None: it was assigned just now.)
    since = p.now if hindrance is None else hindrance.since
    trouble = p.metadata.troubles.get(tp.topic)
    if trouble is not None and trouble.error:
        text, fault = _refused_topic(tp.topic, trouble, p.now), _is_fault(trouble, p.now)
        return Reason(WaitingFor.REFUSED, text, trouble.since, fault, _AGAIN_AND_AGAIN)
    topic = p.cluster.topics.get(tp.topic)
    if topic is None and trouble is None:
        text = f"the metadata that is known has no topic {tp.topic!r}"
        return Reason(WaitingFor.BROKER, text, since, fault=False)
    how_long, old = _for(since, p.now), p.now - since >= FAULT_AFTER
    if topic is None:
        text = f"no broker has known the topic {tp.topic!r}{how_long}"
    elif tp.partition not in topic.partitions:
        text = f"the topic has had no such partition{how_long} (it has {len(topic.partitions)})"
    else:
        text = f"no broker has led it{how_long}"
    return Reason(WaitingFor.LEADER, text, since, old, _AGAIN_AND_AGAIN)


def _leader_down(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    broker = _source(p, tp)
    if broker is None or not is_down(broker, p.now):
        return None
    text = f"{_source_word(p, tp)} ({_broker_name(broker)}) {_silence(broker, p.now)}"
    since, then = down_since(broker, p.now), _next_attempt(broker, p.now)
    return Reason(WaitingFor.BROKER, text, since, True, then)


def _source_node(p: Picture, tp: TopicPartition) -> int | None:
    """The broker from which it is read: a replica near us (KIP-392), else its leader."""
    leader = p.cluster.leader(*tp)
    return p.fetch.replicas.get(tp, None if leader is None else leader.leader)


def _source_word(p: Picture, tp: TopicPartition) -> str:
    return "the replica that is read" if tp in p.fetch.replicas else "its leader"


def _source(p: Picture, tp: TopicPartition) -> BrokerNow | None:
    node = _source_node(p, tp)
    return None if node is None else p.network.brokers.get(node)


def _position(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    waiting = p.positions.waiting.get(tp)
    late = _lateness(p) >= LATE_POLL
    if waiting is None:
        if it.position is None and (p.application.polled_at == -math.inf or late):
            text = "the application has not polled yet"
            text = f"{_late_text(p) if late else text}; its position is taken over by the next poll"
            return Reason(WaitingFor.APPLICATION, text, p.application.polled_at, fault=False)
        if it.position is None:
            text = "its position is being looked up"
            return Reason(WaitingFor.POSITION, text, -math.inf, fault=False)
        return None
    old = p.now - waiting.since >= FAULT_AFTER
    if waiting.stage == "failed":
        text = f"no position has been found{_for(waiting.since, p.now)}"
        text += f": {_first_line(waiting.trouble)}"
        return Reason(WaitingFor.POSITION, text, waiting.since, old, "The next poll raises it.")
    what = {
        "committed": "the look-up of its committed offset",
        "reset": "the look-up of its position (ListOffsets)",
        "validation": "the check whether its leader has what was read",
    }.get(waiting.stage, "the look-up of its position")
    begun = " is under way" if waiting.since == -math.inf else f" began{_ago(waiting.since, p.now)}"
    if waiting.stage == "truncated":
        what, begun = "its log was truncated below the position", _ago(waiting.since, p.now)
    text = f"{what}{begun}{_asked(p, waiting)}"
    broker = None if waiting.node is None else p.network.brokers.get(waiting.node)
    if _throttle(broker, waiting.asked_at, p.now):
        return Reason(WaitingFor.THROTTLED, text, waiting.since, fault=False)
    then = "" if waiting.asked_at < math.inf else _in(waiting.retry_at, p.now, "the next attempt")
    then = f"{then[0].upper()}{then[1:]}." if then and waiting.trouble else ""
    return Reason(WaitingFor.POSITION, text, waiting.since, old, then)


def _asked(p: Picture, waiting: PositionNow) -> str:
    said = []
    if waiting.node is not None:
        broker = p.network.brokers.get(waiting.node)
        name = f"broker {waiting.node}" if broker is None else _broker_name(broker)
        ago = _seconds(p.now - waiting.asked_at)
        throttle = _throttle(broker, waiting.asked_at, p.now)
        said.append(f"{name} {throttle or f'was asked {ago} ago and has not answered'}")
    trouble = waiting.trouble
    if waiting.stage == "committed" and p.commits is not None:
        trouble = p.commits.trouble or trouble
    if trouble:
        said.append(f"last: {_first_line(trouble)}")
    return f" ({'; '.join(said)})" if said else ""


def _refused(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    hindrance = p.fetch.hindered.get(tp)
    if hindrance is None or hindrance.state not in ("failing", "stopped"):
        return None
    old = p.now - hindrance.since >= FAULT_AFTER
    trouble = _first_line(hindrance.trouble) or "an error"
    text = f"its Fetch has been refused{_for(hindrance.since, p.now)}: {trouble}"
    then = _in(hindrance.until, p.now, "the next attempt") if hindrance.state == "failing" else ""
    then = f"{then[0].upper()}{then[1:]}." if then else ""
    return Reason(WaitingFor.REFUSED, text, hindrance.since, old, then)


def _late_answer(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    node = _source_node(p, tp)
    since = math.inf if node is None else p.fetch.late.get(node, math.inf)
    if node is None or p.now - since < FAULT_AFTER:
        return None
    broker = _source(p, tp)
    name = f"broker {node}" if broker is None else _broker_name(broker)
    source, lasts = f"{_source_word(p, tp)} ({name})", _for(since, p.now)
    if refusal := p.fetch.refusals.get(node):
        text = f"{source} has refused every Fetch{lasts}: {refusal}"
        return Reason(WaitingFor.REFUSED, text, since, fault=True)
    return Reason(WaitingFor.BROKER, f"{source} has not answered a Fetch{lasts}", since, fault=True)


def _throttled(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    broker = _source(p, tp)
    throttle = _throttle(broker, p.now, p.now)
    if broker is None or not throttle:
        return None
    text = f"{_broker_name(broker)} {throttle}"
    return Reason(WaitingFor.THROTTLED, text, broker.throttled_since, fault=False)


def _unpolled(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    hindrance = p.fetch.hindered.get(tp)
    late = _lateness(p)
    if hindrance is not None and hindrance.state == "unpolled":
        text = "the application has not polled since it was assigned"
        return Reason(WaitingFor.APPLICATION, text, hindrance.since, fault=False)
    if not it.is_here:
        # Its position is found, or validated: the application takes it over with its next poll. Or
        # it was read: only the next poll tells that to the fetch manager (so what its leader told
        # last, that there is nothing new, may not be true any more).
        return _unfetched(p) if hindrance is not None or tp in p.crowded else None
    if late < LATE_POLL:
        return _elsewhere(p) or _its_turn(p, it)
    return Reason(WaitingFor.APPLICATION, _late_text(p), p.application.polled_at, fault=False)


def _its_turn(p: Picture, it: PartitionSeen) -> Reason | None:
    """Its records are here, the application polls, and they are not given out for long."""
    if p.now - it.here_since < LONG_AGO:
        return None
    here = _seconds(p.now - it.here_since)
    text = f"its records have been here for {here}, and come with one of the next polls"
    return Reason(WaitingFor.TURN, text, it.here_since, fault=False)


def _unfetched(p: Picture) -> Reason | None:
    """It is not fetched before the application polls, and that is late."""
    if _lateness(p) < LATE_POLL:
        return _elsewhere(p)
    text = f"{_late_text(p)}; it is fetched after the next poll"
    return Reason(WaitingFor.APPLICATION, text, p.application.polled_at, fault=False)


def _no_room(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    # While it is full nothing is asked for: that there was nothing new may have changed. (What is
    # buffered of paused partitions keeps no others from being fetched.)
    full, buffered = p.room * 9 // 10, p.buffered - p.buffered_of_paused
    if it.is_here or buffered + p.untold < full:
        return None
    if buffered < full:
        return _unfetched(p)  # the rest was read; the next poll tells that
    text = f"the buffer is full ({p.buffered} of {p.room} bytes) of other partitions' records"
    return Reason(WaitingFor.BUFFER, text, p.application.polled_at, fault=False)


def _open_transaction(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if not p.isolated or it.lag != 0 or it.buffered:
        return None
    behind = (it.high_watermark or 0) - (it.position or 0)
    if behind <= 0:
        return None
    verb = "belongs" if behind == 1 else "belong"
    text = f"{_plural(behind, 'record')} after the position {verb} to an open transaction"
    if it.open_at > -math.inf:
        text += f", as its leader said{_ago(it.open_at, p.now)}"
    return Reason(WaitingFor.TRANSACTION, text, it.open_at, fault=False)


def _nothing_new(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if it.lag != 0 or it.buffered:
        return None
    told = _source(p, tp)
    since = -math.inf if told is None else told.heard_at
    ago = ""
    if since > -math.inf:
        ago = f" ({_source_word(p, tp)} answered{_ago(since, p.now)})"
    return Reason(WaitingFor.RECORDS, f"there is nothing new{ago}", -math.inf, fault=False)


#: Reasons of one partition, the most important first.
OF_PARTITION: Final[
    tuple[Callable[[Picture, TopicPartition, PartitionSeen], Reason | None], ...]
] = (
    _given_up,
    _paused,
    _has_error,
    _no_leader,
    _leader_down,
    _position,
    _refused,
    _throttled,
    _late_answer,
    _unpolled,
    _no_room,
    _open_transaction,
    _nothing_new,
)

_FETCHED: Final = Reason(WaitingFor.FETCH, "it is being fetched", -math.inf, fault=False)
_HERE: Final = Reason(WaitingFor.FETCH, "its records are here for the next poll", -math.inf, False)


def of_partitions(p: Picture) -> Mapping[TopicPartition, Reason]:
    """What each assigned partition waits for."""
    if not p.partitions:
        return {}
    covering = next(_that_apply(p, _COVERING), None) or _session_reason(p)
    if covering is not None:
        return dict.fromkeys(p.partitions, covering)
    found: dict[TopicPartition, Reason] = {}
    #: What partitions wait for of which nothing is known but who leads them, by leader: most of
    #: some thousand partitions are like that.
    alike: dict[int, Reason] = {}
    hindered, looked_up, crowded = p.fetch.hindered, p.positions.waiting, p.crowded
    is_quiet = _is_never_quiet if p.isolated else _is_quiet
    for tp, it in p.partitions.items():
        leader = None
        known = tp in hindered or tp in looked_up or tp in crowded
        if not known and is_quiet(it):
            leader = p.cluster.leader(*tp)
        if leader is None:
            found[tp] = of_partition(p, tp, it)
            continue
        reason = alike.get(leader.leader)
        if reason is None:
            reason = alike[leader.leader] = of_partition(p, tp, it)
        found[tp] = reason
    return found


def _is_quiet(it: PartitionSeen) -> bool:
    """Whether it has read all, and nothing of the partition itself can be what it waits for."""
    return (
        it.lag == 0
        and not it.buffered
        and not it.paused
        and not it.error
        and it.subscribed
        and it.stage is _OWNED
    )


def _is_never_quiet(_it: PartitionSeen) -> bool:
    """With read_committed each partition may wait for a transaction of its own."""
    return False


def _session_reason(p: Picture) -> Reason | None:
    """The session may be over: why no heartbeat is answered, if that is known."""
    unconfirmed = _session(p)
    if unconfirmed is None:
        return None
    late = _polls_late(p)
    if late is not None and late.fault:
        return late  # so the member has left its group, and nobody expects an answer
    cause = _coordinator(p)
    text = unconfirmed.text if cause is None else f"{unconfirmed.text}: {cause.text}"
    return Reason(WaitingFor.SESSION, text, unconfirmed.since, fault=True)


def of_partition(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason:
    """What this partition waits for, as far as it alone is concerned."""
    for reason in OF_PARTITION:
        if (found := reason(p, tp, it)) is not None:
            return found
    return _HERE if it.is_here else _FETCHED


# -- the sentence


class Findings(NamedTuple):
    """The reasons that apply now: of the whole consumer, and of each partition."""

    picture: Picture
    main: Reason | None
    waiting: Mapping[TopicPartition, Reason]

    @classmethod
    def of(cls, p: Picture) -> Findings:
        """Those that apply in this picture."""
        return cls(p, of_consumer(p), of_partitions(p))


def why(p: Picture) -> str:
    """What is not happening now, since when, because of whom, and what happens next."""
    return sentence(Findings.of(p))


def sentence(findings: Findings) -> str:
    """The sentence of `why`."""
    p, reason, waiting = findings
    if reason is None:
        return _of_the_partitions(p, waiting)
    return " ".join(
        filter(None, (_head(p, reason), _withheld(p), reason.then, _not_yours(p, reason)))
    )


def wrong(findings: Findings) -> str:
    """The worst that is wrong, in a clause; "" if nothing is."""
    p, reason, waiting = findings
    if reason is not None:
        return reason.text if reason.fault else ""
    faulty = {tp: reason for tp, reason in waiting.items() if reason.fault}
    if not faulty:
        topic = no_topic(p) if p.subscribed else None
        return topic.text if topic is not None and topic.fault else ""
    first = _oldest(faulty)
    more = f" (and {len(faulty) - 1} more)" if len(faulty) > 1 else ""
    return f"nothing from {_named(first)}{more} is delivered: {faulty[first].text}"


def _oldest(reasons: Mapping[TopicPartition, Reason]) -> TopicPartition:
    return min(reasons, key=lambda tp: (reasons[tp].since, tp))


def _head(p: Picture, reason: Reason) -> str:
    if reason.waiting_for is WaitingFor.COORDINATOR and p.partitions and p.now <= p.session_until:
        can = "can still be" if _lateness(p) >= LATE_POLL else "are still"
        return f"Records {can} delivered, but {_stopped(reason.text)}"
    return f"Nothing is delivered: {_stopped(reason.text)}"


def _stopped(text: str) -> str:
    """With a stop at its end."""
    return text if text.endswith(".") else f"{text}."


def _withheld(p: Picture) -> str:
    unconfirmed = _session(p)
    if unconfirmed is None or p.member is None:
        return ""
    count = sum(one.records for one in p.partitions.values())
    if not count or p.session_until == -math.inf:
        return ""
    withheld = f"{_plural(count, 'record')} {'is' if count == 1 else 'are'} buffered and withheld"
    if _may_be_removed(p, p.member):
        return f"{withheld}, since the group may have gone on without this member."
    length = _seconds(p.member.session)
    return f"{withheld}, since the session ({length}) may be over."


def _not_yours(p: Picture, reason: Reason) -> str:
    """Whether it is the application's code that holds things up."""
    if reason.waiting_for in (WaitingFor.APPLICATION, WaitingFor.CALLBACK, WaitingFor.SUBSCRIPTION):
        return ""
    if p.closed or p.forked or p.failure:
        return ""
    if p.closing:
        return "The consumer is being closed."
    app = p.application
    if reason.yours:
        return "Your own code has raised it."
    if app.callback:
        return f"The listener's {app.callback} has not returned either."
    if app.polled_at == -math.inf:
        return "The application has not polled yet."
    if _lateness(p) >= LATE_POLL:
        late = _late_text(p)
        return f"And {late}."
    if not reason.fault:
        return ""
    if app.waits:
        return f"Not your code: {app.waits_in or 'a poll'} is waiting."
    return f"Not your code: the last poll was{_ago(app.polled_at, p.now)}."


def _slow_note(waiting: Mapping[TopicPartition, Reason]) -> str:
    """Which partitions wait for a slow application."""
    slow = {tp: reason for tp, reason in waiting.items() if reason.waiting_for is WaitingFor.TURN}
    if not slow:
        return ""
    first = _oldest(slow)
    more = f" (and {len(slow) - 1} more)" if len(slow) > 1 else ""
    return f"The application is slower than what comes: {_named(first)}{more}: {slow[first].text}."


def _of_the_partitions(p: Picture, waiting: Mapping[TopicPartition, Reason]) -> str:
    """The sentence if nothing hinders the whole consumer: the worst that hinders a partition."""
    faulty = {tp: reason for tp, reason in waiting.items() if reason.fault}
    if faulty:
        first = _oldest(faulty)
        reason = faulty[first]
        same = sorted(tp for tp, other in faulty.items() if other.waiting_for is reason.waiting_for)
        names = ", ".join(map(_named, same[:5])) + (" ..." if len(same) > 5 else "")
        rest = len(waiting) - len(faulty)
        are = "is" if rest == 1 else "are"
        others = f" ({rest} of {len(waiting)} partitions {are} not affected)" if rest else ""
        head = (
            f"Nothing is delivered from {names}{others}: {_named(first)}: {_stopped(reason.text)}"
        )
        return " ".join(filter(None, (head, reason.then, _not_yours(p, reason))))
    kinds = {reason.waiting_for for reason in waiting.values()}
    if WaitingFor.FETCH in kinds or WaitingFor.TURN in kinds:
        slow = _slow_note(waiting)
        if p.application.delivered_at > -math.inf:
            late = p.now - p.application.delivered_at
            said = f"Records are fetched and delivered: the last ones {_seconds(late)} ago."
            if late >= LONG_AGO:
                said = (
                    f"Records are being fetched; the last ones were delivered {_seconds(late)} ago."
                )
            return " ".join(filter(None, (said, slow, _no_topic_note(p))))
        said = "Records are being fetched; none were delivered yet."
        return " ".join(filter(None, (said, slow)))
    for kind in WaitingFor:  # the same order as in `OF_PARTITION` does not matter: none is a fault
        if kind in kinds and kind is not WaitingFor.RECORDS:
            these = sorted(tp for tp, reason in waiting.items() if reason.waiting_for is kind)
            text = waiting[these[0]].text
            names = ", ".join(map(_named, these[:5])) + (" ..." if len(these) > 5 else "")
            if any(waiting[tp].text != text for tp in these):
                names = f"{names}: {_named(these[0])}"
            if kind is WaitingFor.APPLICATION:
                return f"Nothing is delivered: {text}. {_poll_deadline(p)}".strip()
            return f"Nothing is delivered from {names}: {text}."
    last = p.application.delivered_at
    ago = (
        "none was delivered yet" if last == -math.inf else f"the last {_seconds(p.now - last)} ago"
    )
    said = (
        f"There is nothing new: all records that the brokers have reported are delivered ({ago})."
    )
    return " ".join(filter(None, (said, _no_topic_note(p))))
