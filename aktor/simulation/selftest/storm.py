"""The standard simulation: a group that reads while everything goes wrong, drawn from one seed.

First a phase with faults, in which nothing may be done wrong; then everything is healed, and all
must be read.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Final

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from aktor.broker.codes import Code
from aktor.broker.sasl import Authentication, Users
from aktor.consumer.configuration.configuration import DEFAULT_CONFIG
from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.events.lifecycle import Tick
from aktor.simulation.errors import CheckFailedError
from aktor.simulation.faults.chaos import (
    COMPACTION_WEIGHTS,
    CONSUMER_WEIGHTS,
    HANDSHAKE_WEIGHTS,
    NAME_WEIGHTS,
    WEIGHTS,
    Fault,
)
from aktor.simulation.faults.refusals import CONSUMER_REFUSALS, REFUSALS
from aktor.simulation.programs.habits import (
    HIDDEN,
    LONG_POLL,
    commit_some,
    read_what_is_hidden,
    wait_long,
    waver,
)
from aktor.simulation.programs.listeners import LISTENERS
from aktor.simulation.programs.ways import WAYS, WAYS_BY_COLUMNS, WAYS_BY_TURNS
from aktor.simulation.selftest.books import Books
from aktor.simulation.selftest.protocol import CHOICES, MIX, Protocol, draw_protocol
from aktor.simulation.selftest.strangers import Strangers
from aktor.simulation.simulation import Simulation
from aktor.simulation.world.crashes import ACTORS
from aktor.simulation.world.topic import Topic

__all__ = ["CHOICES", "FAULTY", "MIX", "Outcome", "Size", "run_storm", "shrink"]

#: Virtual seconds with faults, and how long the group may take afterwards.
FAULTY: Final = 60.0
AT_MOST: Final = 100.0

#: How long a member may need to be in the group again: a first JoinGroup on a half-open connection
#: is waited for until `request_timeout_ms`.
IN_BY: Final = 60.0

#: How long what follows a single rebalance may take, with one refusal of each API, and with members
#: whose sessions (10 s at most) run out.
SHAKEN: Final = 20.0

#: A topic does not grow beyond this.
MOST_PARTITIONS: Final = 8

#: How often a group that is well is shaken once more.
AFTERSHOCKS: Final = 2

#: Records that are there at first, and that come in a second.
RECORDS: Final = 100
PER_SECOND: Final = 10.0

#: The share of storms with thousands of partitions, most of them without a record for long.
VAST: Final = 0.005
VAST_PARTITIONS: Final = (1000, 2000)

#: The share of storms with a second topic.
TWO_TOPICS: Final = 0.4

#: The share of storms whose members have little room for records.
SMALL_BUFFERS: Final = 1 / 3

#: The share of storms in whose members another thread looks on, and of those with a member that
#: assigns itself its partitions: half of these have a group, too.
LOOKED_AT: Final = 0.3
BY_HAND: Final = 0.3

#: The share of storms with compressed batches, and of those with bulky records.
COMPRESSED: Final = 0.3
NONE, GZIP, CRAMJAM = 0, 1, (2, 3, 4)
BULKY: Final = 0.25

#: The share of storms whose records have keys that come again, and how many keys a topic has; their
#: topics are compacted.
COMPACTED: Final = 0.15
KEYS: Final = (3, 30)

#: The share of storms in which batches become corrupt for good, and how many.
SPOILED: Final = 0.05
BATCHES: Final = 3

#: The share of groups, and of members without one, whose loops take columns.
COLUMNS: Final = 0.2

#: The same of members that iterate and poll by turns, and leave records.
BY_TURNS: Final = 0.05

#: The share of storms with a second group, which reads the same.
TWO_GROUPS: Final = 0.1

#: The share of storms whose brokers are in racks.
RACKS: Final = 0.2

#: The share of storms whose connections begin with a handshake, as real ones do; half log in, too.
HANDSHAKES: Final = 0.3
USER: Final[Mapping[str, str]] = {"reader": "secret of the storm"}

#: The share of storms in which brokers' names have two addresses; one of them may lead nowhere.
NAMED_TWICE: Final = 0.15

#: The share of storms at whose end more than an hour passes, if only few members run then: so many
#: parts of so many seconds.
LONG: Final = 0.01
FEW_MEMBERS: Final = 2
PARTS: Final = 14
PART: Final = 270.0

#: What is written before the long polls at the end: so many records, twice, within so many seconds.
FEW: Final = 5
SOON: Final = (0.1, 0.5)

#: The share of records that `shrink` tries to do with.
_SHARES: Final = (0.02, 0.1, 0.3, 0.6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What is left of a storm: without these faults (by number), with at most so many members, with
    this share of its records; with transactions, and readers beside its group, if it has any."""

    without: frozenset[int] = field(default_factory=frozenset)
    members: int = 4
    records: float = 1.0
    transactions: bool = True
    others: bool = True


class Outcome:
    """What became of one seed: `error` is None if all promises were kept.

    `protocol` is what the group spoke, `faults` are those that there were, `members` how many there
    were at first.
    """

    def __init__(
        self,
        simulation: Simulation,
        error: Exception | None,
        size: Size,
        members: int,
        protocol: str,
    ) -> None:
        self.seed = simulation.seed
        self.protocol = protocol
        self.error = error
        self.virtual = simulation.now
        self.history = simulation.history
        self.size = size
        self.members = members
        self.faults: list[Fault] = [
            fault for fault in simulation.faults.faults if fault.number not in size.without
        ]

    @property
    def records(self) -> int:
        """How many were written."""
        return sum(
            event["last"] - event["first"] + 1 for event in self.history.named("records.written")
        )

    def fails_like(self, other: Outcome) -> bool:
        """Whether it is the same kind of failure: one of the same checks, or the same error."""
        if isinstance(self.error, CheckFailedError) and isinstance(other.error, CheckFailedError):
            return bool(self.error.checks & other.error.checks)
        return self.error is not None and type(self.error) is type(other.error)


def run_storm(
    seed: int,
    *,
    protocol: str = MIX,
    without: Collection[int] = (),
    size: Size | None = None,
) -> Outcome:
    """One storm. `protocol` is one of `CHOICES`, what the group speaks; `without` leaves out faults
    by their numbers, `size` members and records too."""
    size = size or Size(without=frozenset(without))
    spoken = draw_protocol(seed, protocol)
    with Simulation(seed, settings=spoken.cluster, without=size.without) as sim:
        # Not the simulation's own, of which every record written takes some.
        draw = random.Random(f"{seed} storm")
        _shape_batches(sim, random.Random(f"{seed} shapes"))
        _name_brokers(sim, random.Random(f"{seed} names"))
        login = _begin_with_handshakes(sim, random.Random(f"{seed} handshakes"))
        topics = _make_topics(sim, draw, size)
        members = min(size.members, draw.randint(2, 4))
        _read(sim, topics, spoken, members, draw, login=login, others=size.others)
        Strangers(sim).watch()
        Books(sim).watch()
        _disturb(sim, topics, spoken, draw, size)
        return Outcome(sim, _go_through(sim, topics, draw), size, members, spoken.name)


def _make_topics(sim: Simulation, draw: random.Random, size: Size) -> list[Topic]:
    sim.brokers.hide(HIDDEN)
    world = random.Random(f"{sim.seed} world")
    keys = _keys(random.Random(f"{sim.seed} keys"))
    records = max(1, int(RECORDS * size.records))
    vast = random.Random(f"{sim.seed} vast")
    partitions = draw.randint(2, 6)
    if vast.random() < VAST:
        partitions = vast.randint(*VAST_PARTITIONS)
    orders = sim.topic("orders", partitions=partitions, records=records, keys=keys)
    topics = [orders]
    if world.random() < TWO_TOPICS:
        # A pattern that matches the one matches the other.
        few = orders.end() // 4
        topics.append(sim.topic("orderlines", world.randint(1, 3), records=few, keys=keys))
    if world.random() < BULKY:
        orders.bulk = world.choice([300, 20_000])
    if keys:
        for topic in topics:
            for partition in range(topic.partitions):
                sim.brokers.compact(topic, partition)
    return topics


def _keys(draw: random.Random) -> int:
    """How many keys the records of a topic have; mostly each has its own."""
    return draw.choice(KEYS) if draw.random() < COMPACTED else 0


def _disturb(
    sim: Simulation, topics: Sequence[Topic], spoken: Protocol, draw: random.Random, size: Size
) -> None:
    """What is written while there are faults, and the faults."""
    weights: Mapping[str, float] = WEIGHTS if spoken.is_classic else CONSUMER_WEIGHTS
    refusals: Mapping[str, Sequence[Code]] = REFUSALS
    if not spoken.is_classic:
        both = spoken.name == "migration"
        refusals = {**REFUSALS, **CONSUMER_REFUSALS} if both else CONSUMER_REFUSALS
    if sim.network.with_handshakes:
        weights = {**weights, **HANDSHAKE_WEIGHTS}
    if sim.network.names.addresses > 1:
        weights = {**weights, **NAME_WEIGHTS}
    if any(topic.keys for topic in topics):
        weights = {**weights, **COMPACTION_WEIGHTS}
    _spoil(sim, topics, random.Random(f"{sim.seed} spoil"))
    rate, has_transactions = draw.choice([0.1, 0.4, 1.0]), draw.random() < 0.4
    timeout = draw.choice([2.0, 8.0])
    for topic in topics:
        sim.trickle(topic, per_second=PER_SECOND * size.records / len(topics), seconds=FAULTY)
    if has_transactions:
        if size.transactions:
            sim.transactions(topics[0], FAULTY, timeout=timeout)
        # A marker that is lost leaves its transaction open for ever, in Kafka as well.
        weights = {**weights, "unclean_election": 0.0}
    sim.chaos(rate=rate, for_=FAULTY, weights=weights, refusals=refusals)


def _spoil(sim: Simulation, topics: Sequence[Topic], draw: random.Random) -> None:
    """In a few storms batches become corrupt for good, one here and one there."""
    if draw.random() >= SPOILED or any(topic.keys for topic in topics):
        return  # the cleaner would write them anew

    def spoil(topic: Topic) -> None:
        for partition in draw.sample(range(topic.partitions), min(1, topic.partitions)):
            if end := sim.brokers.end(topic, partition):
                sim.brokers.spoil(topic, partition, draw.randrange(end))

    for _ in range(draw.randint(1, BATCHES)):
        topic = draw.choice(topics)
        sim.scheduler.after(draw.uniform(0.0, FAULTY), lambda topic=topic: spoil(topic))  # type: ignore[misc]


def _go_through(sim: Simulation, topics: Sequence[Topic], draw: random.Random) -> Exception | None:
    """Through the storm and its aftershocks; what was wrong."""
    try:
        sim.run(for_=FAULTY)
        sim.heal()
        _recover(sim)
        sim.run(until=sim.now_and_then(sim.nobody_else_is_in), at_most=IN_BY)
        for member in sim.members:
            for host in member.hosts:
                host.break_swallowed()  # nobody may have noticed, and an aftershock is short
        for _ in range(AFTERSHOCKS):
            _shake(sim, topics, draw)
            _recover(sim, SHAKEN, SHAKEN)
        _let_time_pass(sim, topics, random.Random(f"{sim.seed} hours"))
        _let_polls_wait(sim, topics, random.Random(f"{sim.seed} long polls"))
        sim.check()
    except Exception as error:  # also a bug of the simulation itself, which has a seed as well
        return error
    return None


def _let_time_pass(sim: Simulation, topics: Sequence[Topic], draw: random.Random) -> None:
    """In some storms: in each part a little is written, and one actor of each member crashes."""
    if draw.random() >= LONG or sum(member.running for member in sim.members) > FEW_MEMBERS:
        return
    actor = draw.choice(ACTORS)
    for _ in range(PARTS):
        for member in sim.members:
            if member.running:
                member.crash(actor, on=Tick)
        for topic in topics:
            topic.write(3)
        sim.run(for_=PART)
    _recover(sim, SHAKEN, SHAKEN)


def _let_polls_wait(sim: Simulation, topics: Sequence[Topic], draw: random.Random) -> None:
    """Twice within a second there are a few records, and then none come for a long poll."""
    for _ in range(2):
        for topic in topics:
            topic.write(FEW)
        sim.run(for_=draw.uniform(*SOON))
    for member in sim.members:
        if member.running:
            member.does_next = wait_long
    sim.run(for_=SOON[1] + LONG_POLL)
    _recover(sim, SHAKEN, SHAKEN)


def _recover(sim: Simulation, read_by: float = AT_MOST, in_by: float = IN_BY) -> None:
    """Wait until everything is read, each member is in its group, and each position is at the end
    of its log."""
    sim.progress(at_most=read_by).run(until=sim.now_and_then(sim.everybody_is_in), at_most=in_by)
    sim.run(until=sim.now_and_then(sim.whoever_has_no_group_has_read_all), at_most=read_by)
    sim.run(until=sim.now_and_then(sim.everybody_is_at_the_end), at_most=SHAKEN)


def _shape_batches(sim: Simulation, draw: random.Random) -> None:
    """In most storms nothing is compressed, in others any batch, in any way that is installed."""
    if draw.random() < COMPRESSED:
        sim.brokers.codecs = (NONE, GZIP, *CRAMJAM) if find_spec("cramjam") else (NONE, GZIP)


def _name_brokers(sim: Simulation, draw: random.Random) -> None:
    """In some storms each name has two addresses, and of some one does not lead anywhere."""
    if draw.random() >= NAMED_TWICE:
        return
    names = sim.network.names
    names.addresses = 2
    for node in sim.brokers.model.nodes:
        if (dead := draw.choice([None, 0, 1])) is not None:
            names.dead[node] = dead


def _begin_with_handshakes(sim: Simulation, draw: random.Random) -> dict[str, Any]:
    """In some storms connections begin as real ones do. Returns what consumers have to know to log
    in, if they have to."""
    if draw.random() >= HANDSHAKES:
        return {}
    sim.network.with_handshakes = True
    mechanism = draw.choice([None, None, "PLAIN", "SCRAM-SHA-256"])
    if mechanism is None:
        return {}
    users, salts = Users(USER), random.Random(f"{sim.seed} salts")
    sim.network.log_in = lambda: Authentication(users, rng=salts)
    ((name, password),) = USER.items()
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": name,
        "sasl_plain_password": password,
    }


def _read(
    sim: Simulation,
    topics: Sequence[Topic],
    spoken: Protocol,
    members: int,
    draw: random.Random,
    *,
    login: Mapping[str, Any],
    others: bool,
) -> None:
    """The members of the group; and maybe `others`, beside it."""
    seed, kind = sim.seed, draw.choice(list(LISTENERS))
    readers = random.Random(f"{seed} readers")
    settings = _settings(draw, random.Random(f"{seed} waits"))
    fetch_wait = settings.get("fetch_max_wait_ms", DEFAULT_CONFIG["fetch_max_wait_ms"])
    settings |= _seldom_set(random.Random(f"{seed} seldom set"), fetch_wait)
    buffers = _buffers(random.Random(f"{seed} buffers"), topics)
    if settings.get("fetch_min_bytes", 0) > min(buffers.values(), default=math.inf):
        # No answer can be that large: each batch would take `fetch_max_wait_ms`, in Kafka as well,
        # and records come faster than that.
        del settings["fetch_min_bytes"]
    settings |= buffers
    settings |= {**login, **_racks(sim, random.Random(f"{seed} racks"))}

    columns = random.Random(f"{seed} columns")
    turns = random.Random(f"{seed} turns")

    def join(group: str, count: int) -> None:
        sim.consumers(
            group=group,
            topics=SubscriptionPattern("ord.*") if spoken.has_regex else topics,
            count=count,
            kind=kind,
            way=_way(readers, columns, turns),
            looked_at=readers.random() < LOOKED_AT,
            each=lambda configs, number: spoken.configs(configs, number, sim.now),
            **settings,
        )

    join("g", members)
    if readers.random() < BY_HAND and others:
        _read_by_hand(sim, topics, readers, columns, turns, login)
    if readers.random() < TWO_GROUPS and others:
        join("k", readers.randint(1, 2))


def _way(draw: random.Random, columns: random.Random, turns: random.Random) -> str:
    """How members take their records; some take columns, some leave what an iteration has here."""
    way = draw.choice(list(WAYS))
    if turns.random() < BY_TURNS:
        way = turns.choice(list(WAYS_BY_TURNS))
    return columns.choice(list(WAYS_BY_COLUMNS)) if columns.random() < COLUMNS else way


def _racks(sim: Simulation, draw: random.Random) -> dict[str, Any]:
    """In some storms brokers have racks, and consumers read from the one in theirs (KIP-392)."""
    if draw.random() >= RACKS:
        return {}
    for number, node in sim.brokers.model.nodes.items():
        node.rack = f"rack-{number}"
    return {"client_rack": f"rack-{draw.choice(sorted(sim.brokers.model.nodes))}"}


def _read_by_hand(
    sim: Simulation,
    topics: Sequence[Topic],
    draw: random.Random,
    columns: random.Random,
    turns: random.Random,
    login: Mapping[str, Any],
) -> None:
    """One more member, which assigns itself all partitions: for a group of its own, or for none."""
    sim.consumers(
        group=draw.choice(["h", None]),
        topics=topics,
        by_hand=True,
        way=_way(draw, columns, turns),
        looked_at=draw.random() < LOOKED_AT,
        enable_auto_commit=draw.random() < 0.5,
        isolation_level=draw.choice(["read_uncommitted", "read_committed"]),
        max_poll_records=draw.choice([5, 500]),
        **draw.choice(_FETCH_WAITS),
        **_buffers(draw, topics),
        **login,
    )


def _shake(sim: Simulation, topics: Sequence[Topic], draw: random.Random) -> None:
    """One rebalance in which every API refuses one request, perhaps over a partition that not
    everybody knows: no later trouble may help out."""
    for topic in topics:
        if 0 < topic.partitions < MOST_PARTITIONS and draw.random() < 0.5:
            sim.brokers.grow_topic(topic, topic.partitions + 1)
    for group in sim.groups:
        sim.brokers.expire_somebody(group, draw)
        for member in sim.members:
            if member.running and member.reads_for(group):
                member.does_next = draw.choice([waver, commit_some, read_what_is_hidden])
    for api, codes in sorted(sim.faults.refusals.items()):
        sim.network.refuse(api, [draw.choice(codes)])
    for topic in topics:
        topic.write(20)


#: By default a Fetch waits longer while nothing arrives; sessionless Fetches are sent meanwhile.
_FETCH_WAITS: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"fetch_max_wait_ms": 500},
    {"fetch_max_wait_ms": 25_000},
)


def _settings(draw: random.Random, waits: random.Random) -> dict[str, Any]:
    assignor = draw.choice([RangePartitionAssignor, CooperativeStickyAssignor])
    return {
        "partition_assignment_strategy": [assignor],
        "session_timeout_ms": draw.choice([6000, 10_000]),
        "heartbeat_interval_ms": draw.choice([500, 2000]),
        "max_poll_interval_ms": draw.choice([10_000, 300_000]),
        "max_poll_records": draw.choice([5, 500]),
        "enable_auto_commit": draw.random() < 0.6,
        "isolation_level": draw.choice(["read_uncommitted", "read_committed"]),
        **waits.choice(_FETCH_WAITS),
    }


#: Settings that most users leave alone, and what else they may be.
_SELDOM_SET: Final[Mapping[str, tuple[Any, ...]]] = {
    "allow_auto_create_topics": (False,),
    "auto_commit_interval_ms": (100, 5000),
    "bootstrap_timeout_ms": (3000,),
    "default_api_timeout_ms": (3000, 15_000),
    "enable_incremental_fetch_sessions": (False,),
    "max_in_flight_requests_per_connection": (1, 2),
    "metadata_max_age_ms": (1000, 3000),
    "metrics_enabled": (False,),
    "reconnect_backoff_max_ms": (200, 2000),
    "reconnect_backoff_ms": (0, 200),
    "retry_backoff_max_ms": (200, 3000),
    "retry_backoff_ms": (1, 20, 200),
    "socket_connection_setup_timeout_ms": (500, 3000),
}

#: How often each of them is set.
_SET: Final = 0.15


def _seldom_set(draw: random.Random, fetch_wait: int) -> dict[str, Any]:
    drawn = {
        name: draw.choice(values) for name, values in _SELDOM_SET.items() if draw.random() < _SET
    }
    if draw.random() < _SET and fetch_wait < 1000:  # it is waited for with every Fetch
        drawn["fetch_min_bytes"] = draw.choice([200, 5000])
    if draw.random() < _SET:  # each has to be larger than the one before
        drawn["request_timeout_ms"] = fetch_wait + draw.choice([3000, 10_000])
    if draw.random() < _SET:
        patience = drawn.get("request_timeout_ms", DEFAULT_CONFIG["request_timeout_ms"])
        drawn["connections_max_idle_ms"] = patience + draw.choice([1, 1000])
    return drawn


def _buffers(draw: random.Random, topics: Sequence[Topic]) -> dict[str, Any]:
    """A third has little room for records; some limits are below the size of a batch. Not where
    there are thousands of partitions: if a batch is larger than the buffer only one broker is asked
    at a time, and if that has none it may take `fetch_max_wait_ms` until the next one's turn."""
    if draw.random() > SMALL_BUFFERS or topics[0].partitions > VAST_PARTITIONS[0]:
        return {}
    return {
        "max_buffered_bytes": draw.choice([3000, 10_000]),
        "fetch_max_bytes": draw.choice([500, 3000, 1_000_000]),
        "max_partition_fetch_bytes": draw.choice([100, 1000, 1_000_000]),
    }


def shrink(outcome: Outcome, told: Callable[[Outcome, int], None] = lambda *_: None) -> Outcome:
    """Leave out faults, members and records as long as it fails in the same way; the smallest storm
    that still does. `told` hears of the smallest so far, and how many were tried."""
    assert outcome.error is not None, "there is nothing to shrink"
    best, tries = outcome, 0

    def still_fails(size: Size) -> bool:
        nonlocal best, tries
        tries += 1
        tried = run_storm(outcome.seed, protocol=outcome.protocol, size=size)
        fails = tried.fails_like(outcome)
        if fails:
            best = tried
        told(best, tries)
        return fails

    def fewer_faults() -> None:
        chunk = max(1, len(best.faults) // 2)
        while best.faults:
            numbers = [fault.number for fault in best.faults]
            for at in range(0, len(numbers), chunk):
                without = best.size.without | set(numbers[at : at + chunk])
                still_fails(replace(best.size, without=without))
            if chunk == 1:
                return
            chunk //= 2

    fewer_faults()
    still_fails(replace(best.size, transactions=False))
    still_fails(replace(best.size, others=False))
    for members in range(1, best.members):
        if still_fails(replace(best.size, members=members)):
            break
    for share in _SHARES:
        if still_fails(replace(best.size, records=share)):
            break
    if replace(best.size, without=frozenset()) != Size():
        fewer_faults()
    return best
