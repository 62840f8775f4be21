"""What goes wrong: faults drawn from the seed, each with a beginning and an end.

A fault's number, time, kind and duration are drawn in advance, its targets from a seed of its own
when it begins: so leaving one out (to shrink a failing history) changes the others as little as
possible.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aktor.actors.runtime.dispatcher import CooperativeActor
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
    Throttle,
    Truncate,
)
from aktor.broker.partition import NO_LEADER
from aktor.consumer.configuration.checks import did_you_mean, nearest
from aktor.events.membership import PartitionsReleased
from aktor.simulation.errors import SimulationError
from aktor.simulation.programs.habits import go_back
from aktor.simulation.world.cluster import SESSION
from aktor.simulation.world.crashes import Crash
from aktor.simulation.world.host import SimulatedHost
from aktor.simulation.world.interrupts import HANDLERS
from aktor.simulation.world.member import Member
from aktor.simulation.world.network import NOWHERE, Direction
from aktor.simulation.world.topic import Topic
from aktor.simulation.world.world import World

__all__ = [
    "ALL_REFUSALS",
    "COMPACTION_WEIGHTS",
    "CONSUMER_REFUSALS",
    "CONSUMER_WEIGHTS",
    "HANDSHAKE_WEIGHTS",
    "KINDS",
    "LOSSY",
    "NAME_WEIGHTS",
    "REFUSALS",
    "STANDING",
    "SURVIVABLE",
    "WEIGHTS",
    "Chaos",
    "Fault",
]

End = Callable[[], object]

_OF_COORDINATORS: Final = (
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
)
#: Requests of which it matters most whether they were handled before they failed.
_OF_MEMBERS: Final = (*("ConsumerGroupHeartbeat",) * 8, *("OffsetCommit",) * 3)

#: Requests of anybody, which may be under way at any time.
_OF_ALL: Final = ("Metadata", *("Fetch",) * 4)

_OF_LEADERS: Final = (
    Code.KAFKA_STORAGE_ERROR,
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.OFFSET_NOT_AVAILABLE,
)

#: What brokers may say to the first requests of a connection: those of old ones, or while
#: passwords are changed.
_OF_HANDSHAKES: Final[Mapping[str, Code]] = {
    "ApiVersions": Code.UNSUPPORTED_VERSION,
    "SaslAuthenticate": Code.SASL_AUTHENTICATION_FAILED,
}

#: What they may say of one partition only, by API.
_PARTLY: Final[Mapping[str, tuple[Code, ...]]] = {
    "Fetch": _OF_LEADERS,
    "ListOffsets": _OF_LEADERS,
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

#: A signal comes within so many lines, as a power of two: some 200 are run for a poll.
MOST_LINES: Final = 13

#: The first byte of an answer that says which request it answers.
_CORRELATION: Final = 0

#: What brokers may say, by API, to a request that succeeds a little later.
REFUSALS: Final[Mapping[str, tuple[Code, ...]]] = {
    "Fetch": _OF_LEADERS,
    "FindCoordinator": (Code.COORDINATOR_NOT_AVAILABLE,),
    "Heartbeat": _OF_COORDINATORS,
    "JoinGroup": _OF_COORDINATORS,
    "LeaveGroup": _OF_COORDINATORS,
    "ListOffsets": _OF_LEADERS,
    "OffsetCommit": _OF_COORDINATORS,
    "OffsetFetch": (*_OF_COORDINATORS, Code.UNSTABLE_OFFSET_COMMIT),
    "SyncGroup": _OF_COORDINATORS,
}

#: The same where the members speak the consumer protocol (KIP-848). Two tables, so that storms of
#: the classic protocol remain those that they were.
CONSUMER_REFUSALS: Final[Mapping[str, tuple[Code, ...]]] = {
    **{
        api: codes
        for api, codes in REFUSALS.items()
        if api not in ("Heartbeat", "JoinGroup", "LeaveGroup", "SyncGroup")
    },
    "ConsumerGroupHeartbeat": _OF_COORDINATORS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong: `seconds` after its beginning it is over."""

    number: int
    at: float
    kind: str
    seconds: float


class Disturbed(World, Protocol):
    """The simulation whose faults these are."""

    @property
    def faults(self) -> Chaos:
        """It notes whom each fault hits."""


def _nothing() -> None:
    pass


def _broker_crash(sim: Disturbed, draw: random.Random) -> End:
    brokers = sim.brokers
    node = draw.choice(sorted(brokers.model.nodes))
    if node not in brokers.running or len(brokers.running) < len(brokers.model.nodes) - 1:
        return _nothing
    sim.brokers.crash(node, clean=draw.random() < 0.5, silent=draw.random() < 0.3)
    return lambda: sim.brokers.restart(node)


def _broker_moved(sim: Disturbed, draw: random.Random) -> End:
    """The broker is started again at another address, as a container may be. In one simulation it
    is always the same broker: a consumer without connections knows only the bootstrap addresses,
    and those of the other brokers must still work."""
    brokers, network = sim.brokers, sim.network
    node = next(iter(network.moved), None) or draw.choice(sorted(brokers.model.nodes))
    if len(brokers.running) < len(brokers.model.nodes):
        return _nothing
    brokers.crash(node, clean=draw.random() < 0.5, silent=draw.random() < 0.3)

    def start() -> None:
        network.move_broker(node)
        brokers.restart(node)

    return start


def _broker_fenced(sim: Disturbed, draw: random.Random) -> End:
    """Alive, and not for the controller. One at a time, and only while no other is gone."""
    brokers = sim.brokers
    if not all(broker.up for broker in brokers.model.nodes.values()):
        return _nothing
    node = draw.choice(sorted(brokers.model.nodes))
    brokers.fence(node)
    return lambda: brokers.unfence(node)


def _log_start_moved(sim: Disturbed, draw: random.Random) -> End:
    """Retention, or DeleteRecords: of what every group has committed."""
    topic = draw.choice(sim.topics)
    for partition in range(topic.partitions):
        committed = [sim.brokers.committed(group, topic, partition) or 0 for group in sim.groups]
        sim.brokers.delete_records(topic, partition, min(committed, default=0))
    return _nothing


def _log_compacted(sim: Disturbed, draw: random.Random) -> End:
    """The log cleaner was here: of one key a topic's logs have one record."""
    topic = draw.choice([topic for topic in sim.topics if topic.keys] or sim.topics)
    for partition in range(topic.partitions):
        sim.brokers.compact(topic, partition)
    return _nothing


def _leader_move(sim: Disturbed, draw: random.Random) -> End:
    topic = draw.choice(sim.topics)
    if topic.partitions:
        sim.brokers.move_leader(topic, _some_partition(sim, topic, draw))
    return _nothing


def _coordinator_move(sim: Disturbed, draw: random.Random) -> End:
    if sim.groups:
        sim.brokers.move_coordinator(draw.choice(sim.groups))
    return _nothing


def _link_cut(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    node = draw.choice(sorted(sim.brokers.model.nodes))
    sim.network.cut_link(member.name, node)
    return lambda: sim.network.mend_link(member.name, node)


def _link_half_cut(sim: Disturbed, draw: random.Random) -> End:
    """One direction between a member and a broker is cut; the other one works."""
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    node = draw.choice(sorted(sim.brokers.model.nodes))
    ways: tuple[Direction, Direction] = ((member.name, node), (node, member.name))
    sim.network.cut_way(draw.choice(ways))
    return lambda: sim.network.mend_link(member.name, node)


def _torn_frames(sim: Disturbed, draw: random.Random) -> End:
    sim.network.tearing = draw.uniform(0.1, 0.6)
    return lambda: setattr(sim.network, "tearing", 0.0)


def _member_cut_off(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    nodes = sorted(sim.brokers.model.nodes)
    for node in nodes:
        sim.network.cut_link(member.name, node)

    def mend() -> None:
        for node in nodes:
            sim.network.mend_link(member.name, node)

    return mend


def _connections_reset(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is not None:
        for host in member.hosts:
            host.break_connections(draw.choice([None, *sorted(sim.brokers.model.nodes)]))
        if member.producers.connected:
            nodes = sorted(sim.brokers.model.nodes)
            member.producers.break_connections(draw.choice([None, *nodes]))
    return _nothing


def _connection_half_open(sim: Disturbed, draw: random.Random) -> End:
    """A firewall forgets a connection, and tells neither end: often that to a coordinator."""
    member = _some_member(sim, draw)
    if member is not None:
        node = draw.choice(sorted(sim.brokers.model.nodes))
        name = draw.choice(["coordinator-", "join-", f"{node}#", f"{node}-fetch#"])
        for host in member.hosts:
            host.swallow(name)
        member.producers.swallow(node)
    return _nothing


def _loss(sim: Disturbed, draw: random.Random) -> End:
    sim.network.loss = draw.uniform(0.01, 0.2)
    return lambda: setattr(sim.network, "loss", 0.0)


def _slow_network(sim: Disturbed, draw: random.Random) -> End:
    sim.network.slower = draw.choice([0.01, 0.1, 1.0])
    return lambda: setattr(sim.network, "slower", 0.0)


def _requests_refused(sim: Disturbed, draw: random.Random) -> End:
    refusals = sim.faults.refusals
    api = draw.choice(sorted(refusals))
    return sim.network.refuse(api, draw.choices(refusals[api], k=draw.randint(1, 3)))


def _answers_lost(sim: Disturbed, draw: random.Random) -> End:
    """Requests are handled, and their answers are lost."""
    api = draw.choice([*sorted(sim.faults.refusals), *_OF_MEMBERS])
    lost = Drop(before=False)
    return sim.network.disturb(rules.Fault(action=lost, api=api, times=draw.randint(1, 3)))


def _answers_spoiled(sim: Disturbed, draw: random.Random) -> End:
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


def _handshakes_spoiled(sim: Disturbed, draw: random.Random) -> End:
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


def _versions_unknown(sim: Disturbed, draw: random.Random) -> End:
    """A broker, or a proxy before it, closes the connection at a version of ApiVersions that it
    does not know, where it should answer UNSUPPORTED_VERSION; connections to it break first."""
    node = _some_broker(sim, draw)
    for member in sim.members:
        if member.running:
            for host in member.hosts:
                host.break_connections(node)
    above = draw.choice([3, 2, 0])
    return sim.network.disturb(
        rules.Fault(action=Drop(), api="ApiVersions", node=node, above=above, times=None)
    )


def _partly_refused(sim: Disturbed, draw: random.Random) -> End:
    """The last partition of an answer is refused, the others are not."""
    api = draw.choice(sorted(_PARTLY))
    code = draw.choice(_PARTLY[api])
    return sim.network.disturb(
        rules.Fault(action=FailPartly(code), api=api, times=draw.randint(1, 5))
    )


def _broker_slow(sim: Disturbed, draw: random.Random) -> End:
    """A broker takes its time for everything."""
    node = _some_broker(sim, draw)
    slow = Delay(draw.choice([0.05, 0.3, 1.0, 3.0]))
    return sim.network.disturb(rules.Fault(action=slow, node=node, times=None))


def _clients_throttled(sim: Disturbed, draw: random.Random) -> End:
    """A quota is used up, of an API or of everything that is asked of a broker."""
    node = _some_broker(sim, draw)
    throttle = Throttle(draw.choice([0.1, 1.0, 4.0]))
    api = draw.choice([None, "Fetch", "Fetch", "OffsetCommit", "Metadata"])
    return sim.network.disturb(
        rules.Fault(action=throttle, node=node, api=api, times=draw.randint(1, 20))
    )


def _rights_withdrawn(sim: Disturbed, draw: random.Random) -> End:
    """READ on all topics, on one of several, or on the group; given back in the end."""
    if draw.random() >= 0.6:
        return _refuse_all(sim, Code.GROUP_AUTHORIZATION_FAILED, _OF_THE_GROUP)
    if len(sim.topics) == 1 or draw.random() < 0.3:
        return _refuse_all(sim, Code.TOPIC_AUTHORIZATION_FAILED, _OF_READING)
    topic = draw.choice(sim.topics)
    if topic in sim.brokers.model.topics.forbidden:
        return _nothing  # it is given back by the end of another fault
    sim.faults.hit("topics", topic)
    sim.brokers.forbid(topic)
    return lambda: sim.brokers.permit(topic)


def _coordinator_loading(sim: Disturbed, draw: random.Random) -> End:
    """A broker reads the state of its groups from its log, and that takes long."""
    node = sim.brokers.coordinator(draw.choice(sim.groups)) if sim.groups else NO_LEADER
    if node == NO_LEADER:
        return _nothing
    return _refuse_all(sim, Code.COORDINATOR_LOAD_IN_PROGRESS, _OF_THE_GROUP, node)


def _refuse_all(sim: Disturbed, code: Code, apis: Sequence[str], node: int | None = None) -> End:
    refuse = FailWith(code)
    return sim.network.disturb(
        *(rules.Fault(action=refuse, api=api, node=node, times=None) for api in apis)
    )


def _records_corrupted(sim: Disturbed, draw: random.Random) -> End:
    """Fetch answers of a broker are corrupted on the way; the log on its disk is sound."""
    node = _some_broker(sim, draw)
    return sim.network.disturb(
        rules.Fault(action=CorruptRecords(), api="Fetch", node=node, times=draw.randint(1, 3))
    )


def _broker_outdated(sim: Disturbed, draw: random.Random) -> End:
    """A broker hears nothing new about leaders and coordinators, and tells what it knows."""
    node = draw.choice(sorted(sim.brokers.model.nodes))
    sim.network.outdated.setdefault(node, {})
    return lambda: sim.network.outdated.pop(node, None)


def _address_nowhere(sim: Disturbed, draw: random.Random) -> End:
    """What a broker advertises drops all packets; connections that are there go on."""
    node = sim.brokers.model.nodes[draw.choice(sorted(sim.brokers.model.nodes))]
    node.host = NOWHERE
    return lambda: setattr(node, "host", sim.network.address(node.node_id))


def _address_lost(sim: Disturbed, draw: random.Random) -> End:
    """One of the addresses of a broker's name leads nowhere; so do connections by it, until they
    are reset in the end. From then on all its addresses lead there."""
    names, node = sim.network.names, _some_broker(sim, draw)
    if names.addresses == 1:
        return _nothing
    names.dead[node] = draw.randrange(names.addresses)
    for host in _hosts(sim):
        host.swallow_what_is_dead()

    def find() -> None:
        names.dead.pop(node, None)
        for host in _hosts(sim):
            host.break_swallowed(node)

    return find


def _coordinator_silent(sim: Disturbed, draw: random.Random) -> End:
    """The broker that coordinates a group is paused, for less time than makes it dead."""
    node = sim.brokers.coordinator(draw.choice(sim.groups)) if sim.groups else NO_LEADER
    if node == NO_LEADER:
        return _nothing
    sim.network.silence(node)
    sim.scheduler.after(SESSION - 1.0, lambda: sim.network.speak(node))
    return lambda: sim.network.speak(node)


def _coordinator_refuses(sim: Disturbed, draw: random.Random) -> End:
    """The broker that coordinates a group dies and stays dead: connections to it are refused, and
    the others name it as the coordinator, until the controller gives it up. It is started again
    long after that, when another one is the coordinator."""
    brokers = sim.brokers
    node = brokers.coordinator(draw.choice(sim.groups)) if sim.groups else NO_LEADER
    if node not in brokers.running or len(brokers.running) < len(brokers.model.nodes):
        return _nothing
    brokers.crash(node)

    def give_up() -> None:
        brokers.give_up(node)
        sim.scheduler.after(SESSION, lambda: brokers.restart(node))

    return give_up


def _frozen_while_handing_back(sim: Disturbed, draw: random.Random) -> End:
    """The next member that releases partitions in a rebalance is frozen at that moment and
    expelled. When it goes on, it cannot reach its coordinator for a while. The rebalance may come
    long after the fault was drawn."""
    if not sim.groups:
        return _nothing
    group = draw.choice(sim.groups)
    stands, unheard = draw.choice([0.5, 5.0, 10.0]), draw.choice([0.0, 2.0, 5.0])
    watched = [member for member in sim.members if member.running and member.before_each is None]

    def stop(member: Member) -> None:
        if not member.running or not sim.faults.raging:
            return
        member.freeze(hands_back=True)
        sim.scheduler.after(stands, member.thaw)
        node = sim.brokers.coordinator(group)
        if node != NO_LEADER:
            sim.network.cut_link(member.name, node)
            sim.scheduler.after(stands + unheard, lambda: sim.network.mend_link(member.name, node))
        sim.brokers.expire(group, member.name)

    def watch(member: Member) -> None:
        def before(actor: CooperativeActor, message: object) -> None:
            if isinstance(message, PartitionsReleased) and message.positions:
                for candidate in watched:
                    candidate.before_each = None
                sim.scheduler.after(0.0, lambda: stop(member))

        member.before_each = before

    for member in watched:
        watch(member)
    sim.brokers.expire_somebody(group, draw)  # who comes back to have a part again
    return _nothing


def _member_frozen(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    member.freeze()
    return member.thaw


def _member_suspended(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    member.freeze()
    return lambda: member.thaw(asleep=True)


def _clock_jump(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is not None:
        member.jump_clock(draw.choice([0.3, 3.0, 20.0, 600.0]))
    return _nothing


def _member_killed(sim: Disturbed, draw: random.Random) -> End:
    """At once, or at any of its next turns: in the middle of whatever it does then."""
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    if draw.random() < 0.3:
        member.kill()
    else:
        member.kill_after(draw.randint(0, 300))

    return lambda: _replace(sim, member)


def _interrupted(sim: Disturbed, draw: random.Random) -> End:
    """A signal in the middle of one of a consumer's methods, of a poll or of many."""
    member = _some_member(sim, draw)
    if member is not None:
        lines = int(2 ** draw.uniform(0.0, MOST_LINES))
        member.interrupt(lines, draw.choice(list(HANDLERS)))
    return _nothing


def _killed_at_line(sim: Disturbed, draw: random.Random) -> End:
    """In place of one of the next lines of its own code, mostly of those after it was given
    records: between the work and the commit, say."""
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    if draw.random() < 0.2:
        member.kill_at_line(draw.randint(0, 100))
    else:
        member.kill_at_work(draw.random())

    return lambda: _replace(sim, member)


def _replace(sim: Disturbed, member: Member) -> None:
    """Start a new process in the place of a killed one: one, however many faults have killed it.

    Two with the name of one static member would fight for ever, and two drivers of one streaming
    query would both write its checkpoint.
    """
    member.kill()
    if not member.replaced:
        member.replaced = True
        sim.replace(member)


def _actor_crash(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    left = [draw.randint(0, 60)]

    def before(actor: CooperativeActor, message: object) -> None:
        if actor.name == "supervisor":
            return
        left[0] -= 1
        if left[0] < 0:
            member.before_each = None
            raise Crash(f"{actor.name} on {type(message).__name__}")

    member.before_each = before
    return lambda: setattr(member, "before_each", None)


def _busy_member(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is not None:
        member.busy_for = draw.choice([1.0, 5.0, 15.0])
    return _nothing


def _slow_listener(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is None:
        return _nothing
    member.slow_listener = draw.choice([0.5, 3.0, 12.0])
    return lambda: setattr(member, "slow_listener", 0.0)


def _session_expired(sim: Disturbed, draw: random.Random) -> End:
    if sim.groups:
        sim.brokers.expire_somebody(draw.choice(sim.groups), draw)
    return _nothing


def _member_fenced(sim: Disturbed, draw: random.Random) -> End:
    if sim.groups:
        sim.brokers.fence_somebody(draw.choice(sim.groups), draw)
    return _nothing


def _topic_grown(sim: Disturbed, draw: random.Random) -> End:
    topic = draw.choice(sim.topics)
    if 0 < topic.partitions < 8:
        sim.brokers.grow_topic(topic, topic.partitions + 1)
    return _nothing


def _topic_recreated(sim: Disturbed, draw: random.Random) -> End:
    """Deleted, and created anew under another id when the fault is over, maybe smaller; or before,
    with one partition, by a member that looks for it."""
    topic = draw.choice(sim.topics)
    count = topic.partitions
    if not count:
        return _nothing
    sim.brokers.delete_topic(topic)
    again = draw.randint(max(1, count - 1), count)

    def create() -> None:
        if topic.partitions:
            sim.brokers.grow_topic(topic, again)
        else:
            sim.brokers.create_topic(topic, again)

    return create


def _follower_held(sim: Disturbed, draw: random.Random) -> End:
    """While the follower is in the ISR, the high watermark waits for it; and if it becomes the
    leader, it truncates the log to what it has."""
    topic, partition, node = _some_follower(sim, draw)
    if node is None:
        return _nothing
    return lambda: sim.brokers.release_follower(topic, partition, node)


def _unclean_election(sim: Disturbed, draw: random.Random) -> End:
    """A follower falls behind, and leads in the end: what was replicated without it is lost."""
    topic, partition, node = _some_follower(sim, draw)
    if node is None:
        return _nothing

    def elect() -> None:
        sim.brokers.elect_uncleanly(topic, partition, node)
        sim.brokers.release_follower(topic, partition, node)

    return elect


def _some_follower(sim: Disturbed, draw: random.Random) -> tuple[str, int, int | None]:
    topic = draw.choice(sim.topics)
    if not topic.partitions:
        return topic, 0, None
    partition = _some_partition(sim, topic, draw)
    return topic, partition, sim.brokers.hold_follower(topic, partition, draw)


def _sought(sim: Disturbed, draw: random.Random) -> End:
    member = _some_member(sim, draw)
    if member is not None:
        member.does_next = go_back
    return _nothing


def _some_member(sim: Disturbed, draw: random.Random) -> Member | None:
    running = [member for member in sim.members if member.running]
    if not running:
        return None
    member = draw.choice(running)
    sim.faults.hit("members", member.name)
    return member


def _hosts(sim: Disturbed) -> list[SimulatedHost]:
    return [host for member in sim.members for host in member.hosts]


def _some_broker(sim: Disturbed, draw: random.Random) -> int:
    """One that is all that the fault hits: of partitions that it leads, groups it coordinates."""
    node = draw.choice(sorted(sim.brokers.model.nodes))
    sim.faults.hit("brokers", node)
    return node


def _some_partition(sim: Disturbed, topic: Topic, draw: random.Random) -> int:
    partition = draw.randrange(topic.partitions)
    sim.faults.hit("partitions", f"{topic}-{partition}")
    return partition


#: What begins each kind; it returns what ends it.
KINDS: Final[Mapping[str, Callable[[Disturbed, random.Random], End]]] = {
    "broker_crash": _broker_crash,
    "broker_moved": _broker_moved,
    "broker_fenced": _broker_fenced,
    "log_start_moved": _log_start_moved,
    "log_compacted": _log_compacted,
    "leader_move": _leader_move,
    "coordinator_move": _coordinator_move,
    "link_cut": _link_cut,
    "link_half_cut": _link_half_cut,
    "torn_frames": _torn_frames,
    "member_cut_off": _member_cut_off,
    "connections_reset": _connections_reset,
    "connection_half_open": _connection_half_open,
    "loss": _loss,
    "slow_network": _slow_network,
    "requests_refused": _requests_refused,
    "answers_lost": _answers_lost,
    "answers_spoiled": _answers_spoiled,
    "handshakes_spoiled": _handshakes_spoiled,
    "versions_unknown": _versions_unknown,
    "partly_refused": _partly_refused,
    "rights_withdrawn": _rights_withdrawn,
    "coordinator_loading": _coordinator_loading,
    "records_corrupted": _records_corrupted,
    "broker_outdated": _broker_outdated,
    "address_nowhere": _address_nowhere,
    "address_lost": _address_lost,
    "broker_slow": _broker_slow,
    "clients_throttled": _clients_throttled,
    "coordinator_silent": _coordinator_silent,
    "coordinator_refuses": _coordinator_refuses,
    "frozen_while_handing_back": _frozen_while_handing_back,
    "member_fenced": _member_fenced,
    "member_frozen": _member_frozen,
    "member_suspended": _member_suspended,
    "clock_jump": _clock_jump,
    "member_killed": _member_killed,
    "interrupted": _interrupted,
    "killed_at_line": _killed_at_line,
    "actor_crash": _actor_crash,
    "busy_member": _busy_member,
    "slow_listener": _slow_listener,
    "session_expired": _session_expired,
    "topic_grown": _topic_grown,
    "topic_recreated": _topic_recreated,
    "follower_held": _follower_held,
    "unclean_election": _unclean_election,
    "seek": _sought,
}

#: How often each kind is drawn, unless a simulation says otherwise.
WEIGHTS: Final[Mapping[str, float]] = {
    "broker_crash": 2,
    "leader_move": 3,
    "coordinator_move": 3,
    "link_cut": 2,
    "member_cut_off": 1,
    "connections_reset": 3,
    "connection_half_open": 2,
    "loss": 1,
    "slow_network": 1,
    "requests_refused": 4,
    "member_frozen": 3,
    "member_suspended": 1,
    "clock_jump": 1,
    "member_killed": 2,
    "interrupted": 4,
    "actor_crash": 3,
    "busy_member": 2,
    "slow_listener": 1,
    "session_expired": 2,
    "topic_grown": 0.5,
    "topic_recreated": 0.3,
    "follower_held": 1,
    "unclean_election": 0.5,
    "seek": 2,
    "broker_fenced": 1,
    "log_start_moved": 1,
    "link_half_cut": 1,
    "torn_frames": 1,
    "answers_spoiled": 3,
    "partly_refused": 2,
    "rights_withdrawn": 0.5,
    "coordinator_loading": 1,
    "records_corrupted": 1,
    "broker_outdated": 1,
    "address_nowhere": 0.5,
    "broker_moved": 1,
    "broker_slow": 1,
    "clients_throttled": 1,
}

#: The same where members speak the consumer protocol, or may come to speak it.
CONSUMER_WEIGHTS: Final[Mapping[str, float]] = {
    **WEIGHTS,
    "answers_lost": 3,
    "coordinator_silent": 1,
    "coordinator_refuses": 1,
    "frozen_while_handing_back": 2,
    "member_fenced": 2,
}

#: The same where connections begin with handshakes (`Network.with_handshakes`).
HANDSHAKE_WEIGHTS: Final[Mapping[str, float]] = {"handshakes_spoiled": 4, "versions_unknown": 2}

#: The same where records have keys that come again (`Topic.keys`).
COMPACTION_WEIGHTS: Final[Mapping[str, float]] = {"log_compacted": 4}

#: The same where the names of brokers have several addresses (`Names`).
NAME_WEIGHTS: Final[Mapping[str, float]] = {"address_lost": 4}

#: Faults that lose data by definition: of what is gone nobody can promise anything.
LOSSY: Final[Mapping[str, float]] = {
    kind: CONSUMER_WEIGHTS[kind] for kind in ("topic_recreated", "unclean_election")
}

#: Kinds that need error handling in the worker: `poll` raises an error of a record batch, perhaps
#: until a seek (records_corrupted), or a call raises the exception of the user's signal handler
#: (interrupted). Few workers have that.
STANDING: Final = frozenset({"records_corrupted", "interrupted"})

#: What a correct worker survives without losing a record, whichever protocol it speaks.
SURVIVABLE: Final[Mapping[str, float]] = {
    **{
        kind: weight
        for kind, weight in CONSUMER_WEIGHTS.items()
        if kind not in STANDING | LOSSY.keys()
    },
    "killed_at_line": 15,
}

#: What brokers may say to members of either protocol.
ALL_REFUSALS: Final[Mapping[str, tuple[Code, ...]]] = {**REFUSALS, **CONSUMER_REFUSALS}


def _check(rate: float, weights: Mapping[str, float]) -> None:
    if not rate > 0:
        raise ValueError(f"rate is {rate}, but must be a number of faults a second above 0")
    for kind, weight in weights.items():
        if kind not in KINDS:
            raise ValueError(f"there is no fault {kind!r}{did_you_mean(nearest(kind, KINDS))}")
        if weight < 0:
            raise ValueError(f"the weight of {kind} is {weight}, but must not be below 0")
    if not sum(weights.values()) > 0:
        raise ValueError("no kind of fault has a weight above 0")


class Chaos:
    """Owns the faults of a simulation: which there will be, and which are under way."""

    def __init__(self, simulation: Disturbed, without: Collection[int]) -> None:
        self.faults: list[Fault] = []
        #: What brokers may say, by API: see `REFUSALS`.
        self.refusals: Mapping[str, Sequence[Code]] = REFUSALS
        self._simulation = simulation
        self._without = without
        self._under_way: dict[int, End] = {}
        #: Whom the fault that begins hits, by kind; nobody: everybody.
        self._hit: dict[str, Any] = {}
        self._over = False

    def draw(self, rate: float, seconds: float, weights: Mapping[str, float]) -> None:
        """From now on, for so long, `rate` faults a second on average."""
        simulation = self._simulation
        _check(rate, weights)
        if not simulation.topics:
            raise SimulationError("chaos hits what is there: make a topic first")
        draw = random.Random(f"{simulation.seed} chaos {len(self.faults)}")
        kinds, odds = list(weights), list(weights.values())
        at = 0.0
        while (at := at + draw.expovariate(rate)) < seconds:
            fault = Fault(
                number=len(self.faults),
                at=at,
                kind=draw.choices(kinds, odds)[0],
                seconds=draw.choice([0.5, 2.0, 5.0, 15.0]),
            )
            self.faults.append(fault)
            if fault.number not in self._without:
                simulation.scheduler.after(at, lambda fault=fault: self._begin(fault))  # type: ignore[misc]

    def begin(self, kind: str, seconds: float) -> bool:
        """One fault of this kind, now, for so long; returns whether it has an end, as a move of a
        leader has none. It is not drawn, so loops do nothing besides reading (see `raging`)."""
        _check(1.0, {kind: 1.0})
        self._begin(Fault(number=0, at=self._simulation.now, kind=kind, seconds=seconds))
        return self._under_way[0] is not _nothing

    def _begin(self, fault: Fault) -> None:
        if self._over:
            return
        simulation = self._simulation
        draw = random.Random(f"{simulation.seed} fault {fault.number}")
        simulation.history.note(
            "fault.began", number=fault.number, kind=fault.kind, seconds=fault.seconds
        )
        self._hit = {}
        self._under_way[fault.number] = KINDS[fault.kind](simulation, draw)
        if self._hit:
            simulation.history.note("fault.hits", number=fault.number, **self._hit)
        simulation.scheduler.after(fault.seconds, lambda: self._end(fault.number))

    def hit(self, what: str, which: str | int) -> None:
        """The fault that begins now concerns only these "members", "brokers", "topics" or
        "partitions"."""
        self._hit.setdefault(what, []).append(which)

    def _end(self, number: int) -> None:
        end = self._under_way.pop(number, None)
        if end is not None:
            self._simulation.history.note("fault.ended", number=number)
            end()

    @property
    def raging(self) -> bool:
        """Whether there are faults, and they are not all healed."""
        return bool(self.faults) and not self._over

    def heal(self) -> None:
        """All that is under way ends, and no more begins."""
        self._over = True
        for number in list(self._under_way):
            self._end(number)
