"""Faults of requests: refused, answered late, in part, or never; rights and quotas."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from aktor.broker import faults as rules
from aktor.broker.codes import Code
from aktor.broker.faults import (
    Corrupt,
    CorruptRecords,
    Delay,
    Drop,
    FailPartly,
    FailWith,
    Swallow,
    Truncate,
)
from aktor.broker.partition import NO_LEADER
from aktor.simulation.faults.disturbed import (
    Disturbed,
    End,
    nothing,
    some_broker,
)
from aktor.simulation.faults.refusals import OF_LEADERS, OF_TOPIC_IDS

__all__ = [
    "answers_lost",
    "answers_spoiled",
    "coordinator_loading",
    "handshakes_spoiled",
    "partly_refused",
    "records_corrupted",
    "requests_refused",
    "rights_withdrawn",
    "versions_unknown",
]

#: Requests of which it matters most whether they were handled before they failed.
_OF_MEMBERS: Final = (*("ConsumerGroupHeartbeat",) * 8, *("OffsetCommit",) * 3)


#: Requests of anybody, which may be under way at any time.
_OF_ALL: Final = ("Metadata", *("Fetch",) * 4)


#: What brokers may say to the first requests of a connection: those of old ones, or while
#: passwords are changed.
_OF_HANDSHAKES: Final[Mapping[str, Code]] = {
    "ApiVersions": Code.UNSUPPORTED_VERSION,
    "SaslAuthenticate": Code.SASL_AUTHENTICATION_FAILED,
}


#: What they may say of one partition only, by API.
_PARTLY: Final[Mapping[str, tuple[Code, ...]]] = {
    "Fetch": (*OF_LEADERS, *OF_TOPIC_IDS),
    "ListOffsets": OF_LEADERS,
}


#: What a client needs which right for.
_OF_READING: Final = ("Fetch", "OffsetCommit")


_OF_THE_GROUP: Final = (
    "ConsumerGroupHeartbeat",
    "Heartbeat",
    "JoinGroup",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "SyncGroup",
)


#: The first byte of an answer that says which request it answers.
_CORRELATION: Final = 0


def requests_refused(sim: Disturbed, draw: random.Random) -> End:
    """The next requests of an API are answered by errors."""
    refusals = sim.faults.refusals
    api = draw.choice(sorted(refusals))
    return sim.network.refuse(api, draw.choices(refusals[api], k=draw.randint(1, 3)))


def answers_lost(sim: Disturbed, draw: random.Random) -> End:
    """Requests are handled, and their answers are lost."""
    api = draw.choice([*sorted(sim.faults.refusals), *_OF_MEMBERS])
    lost = Drop(before=False)
    return sim.network.disturb(rules.Fault(action=lost, api=api, times=draw.randint(1, 3)))


def answers_spoiled(sim: Disturbed, draw: random.Random) -> End:
    """Requests are handled, and their answers come late, in part, as answers to others, or never.

    A bit that is wrong in the middle of an answer is not among it: TCP's checksum finds it, and
    nothing but a record batch has one of its own.
    """
    ways: tuple[rules.Action, ...] = (
        Swallow(),
        Delay(draw.choice([0.1, 1.0, 5.0, 12.0])),
        Truncate(draw.choice([0, 3, 5, 30])),
        Corrupt(position=_CORRELATION),
    )
    how = draw.choice(ways)
    api = draw.choice([*sorted(sim.faults.refusals), *_OF_ALL])
    return sim.network.disturb(rules.Fault(action=how, api=api, times=draw.randint(1, 3)))


def handshakes_spoiled(sim: Disturbed, draw: random.Random) -> End:
    """Connections break, and what is asked first on new ones is refused, or answered late, in part,
    as if it were another question, or never; or passwords are refused for a time."""
    running = [member for member in sim.members if member.running]
    if running:  # others, too, begin connections meanwhile: it hits everybody
        for host in draw.choice(running).hosts:
            host.break_connections()
    logs_in = sim.network.log_in is not None
    api = draw.choice(["ApiVersions", *(["SaslHandshake", "SaslAuthenticate"] if logs_in else [])])
    ways: list[rules.Action] = [
        Drop(before=True),
        Drop(before=False),
        Swallow(),
        Delay(draw.choice([0.1, 1.0, 5.0, 12.0])),
        Truncate(draw.choice([0, 3, 5, 30])),
        Corrupt(position=_CORRELATION),
    ]
    if api != "SaslHandshake":
        refusal = FailWith(_OF_HANDSHAKES[api])
        ways += [refusal, refusal]
    return sim.network.disturb(
        rules.Fault(action=draw.choice(ways), api=api, times=draw.choice([1, 3, 20]))
    )


def versions_unknown(sim: Disturbed, draw: random.Random) -> End:
    """A broker, or a proxy before it, closes the connection at a version of ApiVersions that it
    does not know, where it should answer UNSUPPORTED_VERSION; connections to it break first."""
    node = some_broker(sim, draw)
    for member in sim.members:
        if member.running:
            for host in member.hosts:
                host.break_connections(node)
    above = draw.choice([3, 2, 0])
    return sim.network.disturb(
        rules.Fault(action=Drop(), api="ApiVersions", node=node, above=above, times=None)
    )


def partly_refused(sim: Disturbed, draw: random.Random) -> End:
    """The last partition of an answer is refused, the others are not."""
    api = draw.choice(sorted(_PARTLY))
    code = draw.choice(_PARTLY[api])
    return sim.network.disturb(
        rules.Fault(action=FailPartly(code), api=api, times=draw.randint(1, 5))
    )


def rights_withdrawn(sim: Disturbed, draw: random.Random) -> End:
    """READ on all topics, on one of several, or on the group; given back in the end."""
    if draw.random() >= 0.6:
        return _refuse_all(sim, Code.GROUP_AUTHORIZATION_FAILED, _OF_THE_GROUP)
    if len(sim.topics) == 1 or draw.random() < 0.3:
        return _refuse_all(sim, Code.TOPIC_AUTHORIZATION_FAILED, _OF_READING)
    topic = draw.choice(sim.topics)
    if topic in sim.brokers.model.topics.forbidden:
        return nothing  # it is given back by the end of another fault
    sim.faults.hit("topics", topic)
    sim.brokers.forbid(topic)
    return lambda: sim.brokers.permit(topic)


def coordinator_loading(sim: Disturbed, draw: random.Random) -> End:
    """A broker reads the state of its groups from its log, and that takes long."""
    node = sim.brokers.coordinator(draw.choice(sim.groups)) if sim.groups else NO_LEADER
    if node == NO_LEADER:
        return nothing
    return _refuse_all(sim, Code.COORDINATOR_LOAD_IN_PROGRESS, _OF_THE_GROUP, node)


def _refuse_all(sim: Disturbed, code: Code, apis: Sequence[str], node: int | None = None) -> End:
    refuse = FailWith(code)
    return sim.network.disturb(
        *(rules.Fault(action=refuse, api=api, node=node, times=None) for api in apis)
    )


def records_corrupted(sim: Disturbed, draw: random.Random) -> End:
    """Fetch answers of a broker are corrupted on the way; the log on its disk is sound."""
    node = some_broker(sim, draw)
    return sim.network.disturb(
        rules.Fault(action=CorruptRecords(), api="Fetch", node=node, times=draw.randint(1, 3))
    )
