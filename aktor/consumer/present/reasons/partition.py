"""Why nothing of one partition is delivered: the table of reasons, in order of priority."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Final

from aktor.consumer.core.partition import Stage
from aktor.consumer.present.ends import source_of
from aktor.consumer.present.picture import LATE_POLL, Picture
from aktor.consumer.present.reasons.application import (
    elsewhere,
    handlers_are_busy,
    late_text,
    lateness,
)
from aktor.consumer.present.reasons.brokers import (
    broker_name,
    down_since,
    is_down,
    next_attempt,
    refusal,
    refused_since,
    refuses,
    silence,
    throttling,
)
from aktor.consumer.present.reasons.consumer import covering
from aktor.consumer.present.reasons.group import coordinator_away, session
from aktor.consumer.present.reasons.reason import FAULT_AFTER, LONG_AGO, Reason, WaitingFor
from aktor.consumer.present.reasons.topics import AGAIN_AND_AGAIN, is_fault, refused_topic
from aktor.consumer.present.reasons.words import (
    a_sentence,
    ago,
    first_line,
    for_long,
    made_in,
    plural,
    seconds,
)
from aktor.consumer.present.seen import PartitionSeen, kinds
from aktor.events.present import BrokerNow, Hindrance, PositionNow
from aktor.structs import TopicPartition
from aktor.values import replace

__all__ = [
    "LEADER_CANNOT_TELL",
    "is_or_becomes_fault",
    "is_fed",
    "is_paused_by_user",
    "lasting",
    "of_partition",
    "of_partitions",
]


def _given_up(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    since = -math.inf if p.member is None else p.member.since
    if it.stage is Stage.PENDING_REVOCATION:
        text = "it is about to be revoked"
        commits = p.member is not None and p.member.step == "commit"
        if commits and (cause := coordinator_away(p)):
            text += f", after a last commit: {cause.text}"
        return Reason(WaitingFor.GROUP, text, since, fault=False)
    if not it.subscribed:
        text = "its topic is not subscribed any more"
        return Reason(WaitingFor.GROUP, text, -math.inf, fault=False)
    if it.stage is Stage.PENDING_CALLBACK:
        text = "no on_partitions_assigned has returned for it"
        return Reason(WaitingFor.CALLBACK, text, since, fault=False)
    return None


def is_paused_by_user(p: Picture, tp: TopicPartition, it: PartitionSeen) -> bool:
    """Whether the user has paused it: `process` pauses some, too, until its handlers have done
    more."""
    return it.paused and tp not in p.application.handlers.paused


def _paused(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if not it.paused:
        return None
    if not is_paused_by_user(p, tp, it):
        text = handlers_are_busy(p) or "process() is about to resume it"
        return Reason(WaitingFor.APPLICATION, text, it.paused_at, fault=False)
    text = f"the application has paused reading{ago(it.paused_at, p.now)}"
    return Reason(WaitingFor.PAUSED, text, it.paused_at, fault=False)


def _has_error(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if not it.error:
        return None
    hindrance = p.fetch.hindered.get(tp)
    since = it.failed_at if hindrance is None else hindrance.since
    came = "" if since == -math.inf else f" (it came{ago(since, p.now)})"
    text = f"poll raises an error until it is dealt with{came}: {first_line(it.error, 300)}"
    return Reason(WaitingFor.REFUSED, text, since, fault=True, yours=it.error_is_yours)


def _no_leader(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if p.cluster.leader(*tp) is not None or p.cluster.version <= 0:
        return None
    hindrance = p.fetch.hindered.get(tp)
    # (None: it was assigned just now.)
    since = p.now if hindrance is None else hindrance.since
    trouble = p.metadata.troubles.get(tp.topic)
    if trouble is not None and trouble.error:
        text, fault = refused_topic(tp.topic, trouble, p.now), is_fault(trouble, p.now)
        since = trouble.since
        return Reason(WaitingFor.REFUSED, text, since, fault, AGAIN_AND_AGAIN, only_new=True)
    topic = p.cluster.topics.get(tp.topic)
    if topic is None and trouble is None:
        text = f"the metadata that is known has no topic {tp.topic!r}"
        return Reason(WaitingFor.BROKER, text, since, fault=False, only_new=True)
    how_long, old = for_long(since, p.now), p.now - since >= FAULT_AFTER
    if topic is None:
        text = f"no broker has known the topic {tp.topic!r}{how_long}"
    elif tp.partition not in topic.partitions:
        text = f"the topic has had no such partition{how_long} (it has {len(topic.partitions)})"
    else:
        text = f"no broker has led it{how_long}{_led_before(p, hindrance)}"
    return Reason(WaitingFor.LEADER, text, since, old, AGAIN_AND_AGAIN, only_new=True)


def _led_before(p: Picture, hindrance: Hindrance | None) -> str:
    if hindrance is None or hindrance.node is None:
        return ""
    # (A broker that has left the cluster is not among these.)
    broker = p.network.brokers.get(hindrance.node)
    name = f"broker {hindrance.node}" if broker is None else broker_name(broker)
    return f"; {name} did before"


def _leader_down(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    broker = _source(p, tp)
    if broker is None or not is_down(broker, p.now) or _keeps_a_fetch(p, tp, broker):
        return None
    refused = refuses(broker)
    said = refusal(broker, p.now) if refused else silence(p, broker)
    text = f"{_source_word(p, tp)} ({broker_name(broker)}) {said}"
    waiting_for = WaitingFor.REFUSED if refused else WaitingFor.BROKER
    since = refused_since(broker) if refused else down_since(p, broker)
    then = a_sentence(next_attempt(broker, p.now))
    return Reason(waiting_for, text, since, True, then, only_new=True)


def _keeps_a_fetch(p: Picture, tp: TopicPartition, broker: BrokerNow) -> bool:
    """Whether it has a Fetch for the partition, and is not late with its answer. It may have failed
    on another connection only: as the coordinator, say, that cannot write."""
    is_asked = broker.connected and _asked_since(p, tp) is not None
    return is_asked and broker.node not in p.fetch.late


def _source_word(p: Picture, tp: TopicPartition) -> str:
    return "the replica that is read" if tp in p.fetch.replicas else "its leader"


def _source(p: Picture, tp: TopicPartition) -> BrokerNow | None:
    node = source_of(p.fetch, p.cluster, tp)
    return None if node is None else p.network.brokers.get(node)


def _position(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    waiting = p.positions.waiting.get(tp)
    late = lateness(p) >= LATE_POLL
    if waiting is None:
        if it.position is None and (p.application.polled_at == -math.inf or late):
            text = "the application has not polled yet"
            text = f"{late_text(p) if late else text}; its position is taken over by the next poll"
            return Reason(WaitingFor.APPLICATION, text, p.application.polled_at, fault=False)
        if it.position is None:
            text = "its position is being looked up"
            return Reason(WaitingFor.POSITION, text, -math.inf, fault=False)
        return None
    old = p.now - waiting.since >= FAULT_AFTER
    if waiting.stage == "failed":
        text = f"no position has been found{for_long(waiting.since, p.now)}"
        text += f": {first_line(waiting.trouble)}"
        return Reason(WaitingFor.POSITION, text, waiting.since, old, "The next poll raises it.")
    what = {
        "committed": "the look-up of its committed offset",
        "reset": "the look-up of its position (ListOffsets)",
        "validation": "the check whether its leader has what was read",
    }.get(waiting.stage, "the look-up of its position")
    begun = " is under way" if waiting.since == -math.inf else f" began{ago(waiting.since, p.now)}"
    if waiting.stage == "truncated":
        what, begun = "its log was truncated below the position", ago(waiting.since, p.now)
    if waiting.stage == "committed" and not p.in_group and (cause := coordinator_away(p)):
        text = f"{what}{begun}: {cause.text}"
        return Reason(WaitingFor.POSITION, text, waiting.since, old, cause.then)
    text = f"{what}{begun}{_asked(p, waiting)}"
    broker = None if waiting.node is None else p.network.brokers.get(waiting.node)
    if _throttled_look_up(waiting, broker, p.now):
        return Reason(WaitingFor.THROTTLED, text, waiting.since, fault=False)
    then = ""
    if waiting.trouble and waiting.asked_at == math.inf:
        then = a_sentence(made_in(waiting.retry_at, p.now, "the next attempt"))
    return Reason(WaitingFor.POSITION, text, waiting.since, old, then)


def _throttled_look_up(waiting: PositionNow, broker: BrokerNow | None, now: float) -> str:
    # OffsetFetch goes to the coordinator, what follows to the leader.
    if broker is None:
        return ""
    throttle = broker.group_throttle if waiting.stage == "committed" else broker.throttle
    return throttling(throttle, waiting.asked_at, now)


def _asked(p: Picture, waiting: PositionNow) -> str:
    said = []
    if waiting.node is not None:
        broker = p.network.brokers.get(waiting.node)
        name = f"broker {waiting.node}" if broker is None else broker_name(broker)
        how_long = seconds(p.now - waiting.asked_at)
        throttle = _throttled_look_up(waiting, broker, p.now)
        if throttle:
            said.append(f"{name} {throttle}")
        elif broker is not None and broker.attempts and broker.retry_at > waiting.asked_at:
            # A broker may answer heartbeats on one connection while another one, which may be that
            # for requests like this, waits for its next attempt. So it may not have been sent.
            tried = next_attempt(broker, p.now)
            said.append(f"the request to {name} is {how_long} old")
            said.append(f"a connection to it has failed, {tried}")
        else:
            said.append(f"{name} was asked {how_long} ago and has not answered")
    trouble = waiting.trouble
    if waiting.stage == "committed":
        if (it := p.coordinator) is not None and it.known:
            said.append(f"it is asked of the coordinator, broker {it.node}, {it.address}")
        if p.commits is not None:
            trouble = p.commits.trouble or trouble
    if trouble:
        said.append(f"last: {first_line(trouble)}")
    return f" ({'; '.join(said)})" if said else ""


def _refused(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    hindrance = p.fetch.hindered.get(tp)
    if hindrance is None or hindrance.state not in ("failing", "stopped"):
        return None
    old = p.now - hindrance.since >= FAULT_AFTER
    trouble = first_line(hindrance.trouble) or "an error"
    text = f"its Fetch has been refused{for_long(hindrance.since, p.now)}: {trouble}"
    then = ""
    if hindrance.state == "failing":
        broker = None if hindrance.node is None else p.network.brokers.get(hindrance.node)
        at = "" if broker is None else f", at {broker_name(broker)},"
        then = a_sentence(made_in(hindrance.until, p.now, f"the next attempt{at}"))
    return Reason(WaitingFor.REFUSED, text, hindrance.since, old, then, only_new=True)


def _late_answer(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    node = source_of(p.fetch, p.cluster, tp)
    broker = _source(p, tp)
    since = math.inf if node is None else p.fetch.late.get(node, math.inf)
    since = max(since, p.awake_since)  # nobody could read an answer before
    if broker is not None:
        since = max(since, broker.fetch_throttle.until)  # it was not sent before
    if node is None or p.now - since < FAULT_AFTER:
        return None
    name = f"broker {node}" if broker is None else broker_name(broker)
    source, lasts = f"{_source_word(p, tp)} ({name})", for_long(since, p.now)
    if refusal := p.fetch.refusals.get(node):
        text = f"{source} has refused every Fetch{lasts}: {refusal}"
        return Reason(WaitingFor.REFUSED, text, since, fault=True, only_new=True)
    text = f"{source} has not answered a Fetch{lasts}{_how_a_fetch_failed(p, node, broker)}"
    return Reason(WaitingFor.BROKER, text, since, fault=True, only_new=True)


def _how_a_fetch_failed(p: Picture, node: int, broker: BrokerNow | None) -> str:
    """How the last Fetch ended if it has failed: it may never have been sent. And when the broker
    answered something else since, perhaps on another connection."""
    if node not in p.fetch.failed:
        return ""
    failed_at, trouble = p.fetch.failed[node]
    text = f"; the last one failed{ago(failed_at, p.now)} ({first_line(trouble)})"
    if broker is not None and broker.heard_at > failed_at:
        text += f", and it answered another request{ago(broker.heard_at, p.now)}"
    return text


def _throttled(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    broker = _source(p, tp)
    throttle = throttling(None if broker is None else broker.fetch_throttle, p.now, p.now)
    if broker is None or not throttle or it.is_here:
        return None
    text = f"{broker_name(broker)} {throttle}"
    return Reason(WaitingFor.THROTTLED, text, broker.fetch_throttle.since, fault=False)


def _unpolled(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    hindrance = p.fetch.hindered.get(tp)
    late = lateness(p)
    if hindrance is not None and hindrance.state == "unpolled":
        text = "the application has not polled since it was assigned"
        return Reason(WaitingFor.APPLICATION, text, hindrance.since, fault=False)
    if not it.is_here:
        # Its position is found, or validated: the application takes it over with its next poll. Or
        # it was read: only the next poll tells that to the fetch manager (so what its leader told
        # last, that there is nothing new, may not be true any more).
        return _unfetched(p) if hindrance is not None or tp in p.crowded else None
    if late < LATE_POLL:
        return elsewhere(p) or _its_turn(p, it)
    return Reason(WaitingFor.APPLICATION, late_text(p), p.application.polled_at, fault=False)


def _its_turn(p: Picture, it: PartitionSeen) -> Reason | None:
    """Its records are here, the application polls, and they are not given out for long."""
    if p.now - it.here_since < LONG_AGO:
        return None
    here = seconds(p.now - it.here_since)
    text = f"its records have been here for {here}, and come with one of the next polls"
    return Reason(WaitingFor.TURN, text, it.here_since, fault=False)


def _unfetched(p: Picture) -> Reason | None:
    """It is not fetched before the application polls, and that is late."""
    if lateness(p) < LATE_POLL:
        return elsewhere(p)
    text = f"{late_text(p)}; it is fetched after the next poll"
    return Reason(WaitingFor.APPLICATION, text, p.application.polled_at, fault=False)


def _asked_since(p: Picture, tp: TopicPartition) -> float | None:
    """Since when a Fetch for it is on its way, or with the broker; None: there is none."""
    node = source_of(p.fetch, p.cluster, tp)
    since, asked = (math.inf, ()) if node is None else p.asked.get(node, (math.inf, ()))
    return since if tp in asked else None


def _no_room(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    # While it is full nothing is asked for: that there was nothing new may have changed. (What is
    # buffered of paused partitions keeps no others from being fetched.)
    full, buffered = p.room * 9 // 10, p.buffered - p.buffered_of_paused
    if it.is_here or not buffered + p.untold or _asked_since(p, tp) is not None:
        return None
    if buffered < full:  # the rest was read, or is less than a Fetch needs: the next poll helps
        return _unfetched(p)
    text = f"the buffer is full ({p.buffered} of {p.room} bytes) of other partitions' records"
    return Reason(WaitingFor.BUFFER, text, -math.inf, fault=False)


def _open_transaction(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if not p.isolated or it.lag != 0 or it.buffered:
        return None
    behind = (it.high_watermark or 0) - (it.position or 0)
    if behind <= 0:
        return None
    # (Not all of them belong to it: what others wrote behind its first record waits, too.)
    waits = "waits" if behind == 1 else "wait"
    text = f"{plural(behind, 'record')} after the position {waits} for the end of a transaction"
    if it.open_at > -math.inf:
        text += f", which has been open{for_long(it.open_at, p.now)} at least"
    return Reason(WaitingFor.TRANSACTION, text, it.open_at, fault=False)


def _nothing_new(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    if it.lag != 0 or it.buffered:
        return None
    told = _source(p, tp)
    since = -math.inf if told is None else told.heard_at
    told_ago = ""
    if since > -math.inf:
        told_ago = f" ({_source_word(p, tp)} answered{ago(since, p.now)})"
    return Reason(WaitingFor.RECORDS, f"there is nothing new{told_ago}", -math.inf, fault=False)


def _too_few(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason | None:
    """There are records, and its leader has a Fetch for it that it may keep."""
    if p.min_bytes <= 1 or not it.lag or it.is_here:
        return None
    since = _asked_since(p, tp)
    if since is None:
        return None
    text = f"{_source_word(p, tp)} keeps the Fetch that was sent{ago(since, p.now)} until it has"
    text += f" {p.min_bytes} bytes (fetch_min_bytes), or {seconds(p.max_wait)} are over"
    return Reason(WaitingFor.BYTES, f"{text} (fetch_max_wait_ms)", -math.inf, fault=False)


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
    _too_few,
)


_FETCHED: Final = Reason(WaitingFor.FETCH, "it is being fetched", -math.inf, fault=False)


_HERE: Final = Reason(WaitingFor.FETCH, "its records are here for the next poll", -math.inf, False)


def of_partitions(p: Picture) -> Mapping[TopicPartition, Reason]:
    """What each assigned partition waits for."""
    if not p.partitions:
        return {}
    if (of_all := covering(p)) is not None:
        return dict.fromkeys(p.partitions, of_all)
    alike = _alike(p)
    return {
        tp: alike[tp] if tp in alike else of_partition(p, tp, p.partitions[tp])
        for tp in p.partitions
    }


#: What a partition waits for although its leader cannot tell whether there is anything new.
LEADER_CANNOT_TELL: Final = frozenset(
    {WaitingFor.BROKER, WaitingFor.LEADER, WaitingFor.POSITION, WaitingFor.REFUSED}
)


def is_or_becomes_fault(reason: Reason) -> bool:
    """Whether it is a fault, or will be one if it lasts."""
    return reason.fault or reason.waiting_for in LEADER_CANNOT_TELL


def lasting(
    p: Picture, waiting: Mapping[TopicPartition, Reason]
) -> Mapping[TopicPartition, Reason]:
    """The same, where a fault lasts from when on nothing was given out: it may have followed
    another one (a broker that did not answer leads nothing any more)."""
    longer: dict[TopicPartition, Reason] = {}
    #: Thousands of partitions may wait for the same since the same time.
    made: dict[tuple[int, float], Reason] = {}
    for tp, since in p.faulty_since.items():
        reason = waiting.get(tp)
        if (
            reason is None
            or not is_or_becomes_fault(reason)
            or not -math.inf < since < reason.since
        ):
            continue
        if p.partitions[tp].given_at > since:
            continue
        key = id(reason), since
        if key not in made:
            made[key] = _lasts(reason, since, p.now)
        longer[tp] = made[key]
    return {**waiting, **longer} if longer else waiting


def _lasts(reason: Reason, since: float, now: float) -> Reason:
    text = reason.text
    if reason.since - since >= FAULT_AFTER:
        text = f"nothing has come for {seconds(now - since)}; {text}"
    fault = reason.fault or now - since >= FAULT_AFTER
    return replace(reason, text=text, since=since, fault=fault)


def _alike(p: Picture) -> dict[TopicPartition, Reason]:
    """What most partitions wait for. Of some thousand, most are of one kind, have the same leader,
    and wait for the same since the same time: so each reason is put into words once."""
    alike: dict[TopicPartition, Reason] = {}
    reasons: dict[object, Reason] = {}
    hindered, replicas = p.fetch.hindered, p.fetch.replicas
    positions, crowded = p.positions.waiting, p.crowded
    busy = p.application.handlers.paused
    known: set[TopicPartition] = set().union(hindered, replicas, positions, crowded, busy)
    asked = {node: these for node, (_, these) in p.asked.items()}
    topics = p.cluster.topics
    for tp, kind in kinds(p.partitions):
        topic = topics.get(tp[0])
        info = None if topic is None else topic.partitions.get(tp[1])
        key: tuple[object, ...] = kind, tp[0], info is None
        if info is not None and info.leader >= 0:
            source = replicas.get(tp, info.leader)
            key = kind, info.leader, source in asked and tp in asked[source]
        if tp in known:
            hindrance, position = hindered.get(tp), positions.get(tp)
            key += (
                hindrance and _OF_HINDRANCE(hindrance),
                position and _OF_POSITION(position),
                replicas.get(tp),
                tp in crowded,
                tp in busy,
            )
        reason = reasons.get(key)
        if reason is None:
            reason = reasons[key] = of_partition(p, tp, p.partitions[tp])
        alike[tp] = reason
    return alike


#: All facts of these, as keys. (The hash of a value is Python code.)
_OF_HINDRANCE: Final = attrgetter(*Hindrance.FIELDS)
_OF_POSITION: Final = attrgetter(*PositionNow.FIELDS)


def is_fed(p: Picture, it: PartitionSeen, reason: Reason) -> bool:
    """Whether the partition's records are delivered all the same, as long as some are buffered."""
    if not reason.only_new or not it.is_here or it.paused or it.stage is not Stage.OWNED:
        return False
    return not it.error and session(p) is None and not p.application.callback


def of_partition(p: Picture, tp: TopicPartition, it: PartitionSeen) -> Reason:
    """What this partition waits for, as far as it alone is concerned."""
    for reason in OF_PARTITION:
        if (found := reason(p, tp, it)) is not None:
            return found
    return _HERE if it.is_here else _FETCHED
