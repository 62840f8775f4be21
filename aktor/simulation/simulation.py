"""A simulation: members, brokers, a network and their faults, in one thread and virtual time.

    with Simulation(seed=7, brokers=3) as sim:
        orders = sim.topic("orders", partitions=4, records=500)
        alice, bob = sim.consumers(group="g", topics=[orders], count=2)
        sim.run(until=lambda: orders.lag("g") == 0, at_most=600.0)

Members are real consumers that run unchanged code; only clock, thread and sockets are simulated.
Same seed, same history.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Self

from aktor.broker.codes import Code
from aktor.broker.settings import ClusterSettings
from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.simulation.checks import broken_promises
from aktor.simulation.checks.records import every_record_is_finished
from aktor.simulation.errors import (
    CheckFailedError,
    DeadlockError,
    MemberFailedError,
    SimulationError,
    TimeIsUpError,
)
from aktor.simulation.faults.chaos import LOSSY, SURVIVABLE, Chaos
from aktor.simulation.faults.refusals import ALL_REFUSALS
from aktor.simulation.history import History
from aktor.simulation.programs.reader import Reader
from aktor.simulation.programs.writer import TransactionalWriter
from aktor.simulation.progress import Progress
from aktor.simulation.revision import revision
from aktor.simulation.shrink import enter
from aktor.simulation.sink import Guarantee, Origin, Sink, TopicSink, by_value
from aktor.simulation.world.cluster import Brokers
from aktor.simulation.world.crashes import Crashes
from aktor.simulation.world.member import Member
from aktor.simulation.world.network import Network
from aktor.simulation.world.scheduler import START, Scheduler
from aktor.simulation.world.stored import Stored
from aktor.simulation.world.topic import Topic

__all__ = ["Simulation"]

#: Seconds between two looks at a condition that takes its time.
LOOK_EVERY: Final = 0.05

#: Seconds that everything may take when there are no faults any more.
AT_MOST: Final = 120.0

_NAMES: Final = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")


class Simulation:
    """Owns everything that happens. `seed` decides all that is not said."""

    def __init__(
        self,
        seed: int = 0,
        *,
        brokers: int = 3,
        settings: ClusterSettings | None = None,
        without: Collection[int] = (),
    ) -> None:
        self.seed = seed
        self.random = random.Random(f"{seed} simulation")
        self.scheduler = Scheduler(seed)
        self.history = History(lambda: self.scheduler.now, START)
        self.brokers = Brokers(
            brokers,
            seed=seed,
            scheduler=self.scheduler,
            history=self.history,
            settings=settings,
        )
        self.network = Network(self.scheduler, self.brokers, self.history, seed)
        self.members: list[Member] = []
        self.topics: list[Topic] = []
        self.groups: list[str] = []
        #: Where the code under test puts its results.
        self.sinks: list[Sink] = []
        self._progress = Progress(self)
        self.faults = Chaos(self, frozenset(without) | enter(self))
        #: Crashes that were asked for and have not all happened yet.
        self.crashes: list[Crashes] = []
        self._names = itertools.count()
        self.scheduler.look = self._look

    def _look(self) -> None:
        """Note what a probe would be told of each consumer."""
        for member in self.members:
            for host in member.hosts if member.running else ():
                host.note_status()

    # -- members and topics

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.scheduler.now - START

    @property
    def bootstrap_servers(self) -> list[str]:
        """What a member gives its consumer."""
        return self.brokers.bootstrap_servers

    def topic(self, name: str, partitions: int = 1, *, records: int = 0, keys: int = 0) -> Topic:
        """A new topic, with so many records; of so many `keys`, 0: each has its own."""
        self.brokers.create_topic(name, partitions)
        topic = Topic.of(self.brokers, name, self.random, keys=keys)
        self.topics.append(topic)
        topic.write(records)
        return topic

    def trickle(self, topic: Topic, per_second: float, seconds: float) -> None:
        """From now on, for so long, records are written at random moments."""
        for _ in range(int(per_second * seconds)):
            self.scheduler.after(
                self.random.uniform(0.0, seconds), lambda: self._write_one(topic, 1)
            )

    def transactions(
        self, topic: Topic, seconds: float, *, writers: int = 2, timeout: float = 5.0
    ) -> None:
        """From now on, for so long, this many producers write transactions: most are committed,
        some aborted, some left open by a death until their `timeout`."""
        for number in range(writers):
            TransactionalWriter(self, topic, f"writer-{number}", timeout).run(seconds)

    def _write_one(self, topic: Topic, count: int) -> None:
        if topic.partitions:
            topic.write(count)

    def sink(
        self,
        topic: Topic,
        guarantee: Guarantee | str = Guarantee.AT_LEAST_ONCE,
        *,
        takes: float = 0.02,
        into: Topic | None = None,
        of: Callable[[Stored], Origin] = by_value,
    ) -> Sink:
        """Where a loop puts its results for the records of a topic, by `put(record)`.

        `guarantee` is what `check` demands: "at-least-once" (the default), "at-most-once" or
        "exactly-once". A `put` takes `takes` seconds on average.

        `into` is a topic to which the loop sends its results instead, by a `KafkaProducer`. `of`
        tells of a record there which one it is the result of: its value, or (partition, offset);
        if nothing is said, the values are the same.
        """
        if guarantee not in set(Guarantee):
            known = ", ".join(map(repr, map(str, Guarantee)))
            raise ValueError(f"there is no guarantee {guarantee!r}: {known}")
        if not isinstance(topic, Topic):
            raise TypeError(f"a sink is for a topic that Simulation.topic made, not {topic!r}")
        number = len(self.sinks)
        if into is None:
            sink = Sink(self, number, topic, Guarantee(guarantee), takes)
        elif isinstance(into, Topic):
            sink = TopicSink(self, number, topic, Guarantee(guarantee), into, of)
        else:
            raise TypeError(f"results go into a topic that Simulation.topic made, not {into!r}")
        self.sinks.append(sink)
        return sink

    def member(self, work: Callable[..., Any], *args: Any, name: str = "", **kwargs: Any) -> Member:
        """A process that runs `work(*args, **kwargs)`, with any KafkaConsumer it makes.

        `work` may be a coroutine function: it runs in an event loop of its own, in virtual time.
        """
        taken = {member.name for member in self.members}
        if name in taken:
            raise ValueError(f"there is a member {name!r} already")
        spare = self._next_name()
        while not name and spare in taken:
            spare = self._next_name()
        member = Member(self, name or spare, lambda: work(*args, **kwargs))
        self.members.append(member)
        return member

    def _next_name(self) -> str:
        number = next(self._names)
        return f"{_NAMES[number % len(_NAMES)]}{number // len(_NAMES) or ''}"

    def consumers(
        self,
        *,
        group: str | None,
        topics: Sequence[str] | SubscriptionPattern,
        count: int = 1,
        kind: str = "quiet",
        way: str = "polls",
        by_hand: bool = False,
        looked_at: bool = False,
        each: Callable[[dict[str, Any], int], dict[str, Any]] = lambda configs, _: configs,
        **configs: Any,
    ) -> list[Member]:
        """So many members of a group that poll, finish what they got, and poll again.

        `kind` is one of `listeners.LISTENERS`: what their rebalance listener does. `way` is one of
        `ways.WAYS`: how they take their records; or "asyncio": they are `service.Service`s.
        `by_hand`: they assign themselves all partitions; then there may be no group. `looked_at`:
        another thread of theirs looks at the consumer.
        `each` is asked for the settings of every consumer, with those of all and the number of its
        member from 0 on.
        """
        if isinstance(topics, str):
            raise TypeError(f"topics is a list of topics, as [{str(topics)!r}]")
        if group is not None:
            self.learn(group, None if isinstance(topics, SubscriptionPattern) else topics)
        reader = Reader(
            self,
            group,
            topics,
            configs,
            kind=kind,
            way=way,
            by_hand=by_hand,
            looked_at=looked_at,
            each=each,
        )
        return [self.member(reader.run, number) for number in range(count)]

    def replace(self, gone: Member) -> Member:
        """A new process in the place of one that is gone."""
        return self.member(gone.work)

    # -- what goes wrong

    def chaos(
        self,
        rate: float = 0.5,
        *,
        for_: float = 60.0,
        losing_data: bool = False,
        weights: Mapping[str, float] = SURVIVABLE,
        refusals: Mapping[str, Sequence[Code]] = ALL_REFUSALS,
        **more: float,
    ) -> Self:
        """From now on, for so many seconds, `rate` faults a second, of kinds drawn by `weights`.

        By default they are what a correct at-least-once worker must survive. With `losing_data`
        also those that lose data by definition: topics that are created anew, unclean elections.
        `more` changes the weights: `chaos(broker_crash=10, seek=0)`. `refusals` are what
        "requests_refused" draws from.
        """
        self.faults.refusals = refusals
        lossy = LOSSY if losing_data else {}
        self.faults.draw(rate, for_, {**weights, **lossy, **more})
        return self

    def crash(self, actor: str, on: type, *, times: int = 1) -> Crashes:
        """Crash this actor, of any member, at the next messages of this type.

        `actor` is a name as in `consumer.status()`. Returns what counts how often it happened.
        """
        crashes = Crashes(actor, on, times)
        self.crashes.append(crashes)
        return crashes

    def heal(self) -> Self:
        """All faults end: what is asked for from now on must happen."""
        self.faults.heal()
        self.network.mend()
        self.brokers.refuse_no_more()
        for node in self.brokers.model.nodes:
            self.brokers.restart(node)
        for member in self.members:
            member.thaw()
        return self

    def progress(self, *, at_most: float | None = None) -> Self:
        """Go on until every group has finished and committed all records of the topics that it
        reads, which is demanded from now on.

        `at_most` is in seconds: two minutes, and as long as a consumer may not know of partitions
        that were added (`metadata_max_age_ms`), if nothing is said. Raises TimeIsUpError, which
        says what is left, or that no consumer has a group.
        """
        if at_most is None:
            at_most = AT_MOST + self._progress.until_all_partitions_are_known()
        deadline = self.now + at_most
        self._wait(lambda: bool(self.groups), at_most, lambda: "no consumer has a group")
        while True:
            committed = self.now_and_then(self._progress.is_made)
            self._wait(committed, deadline - self.now, self._progress.missing)
            for topic in self.topics:
                self.brokers.note_ends(topic)
            # A group that committed what an unclean election lost has yet to hear of it.
            if self.now >= deadline or not every_record_is_finished(self.history):
                break
            self.run(for_=min(5.0, deadline - self.now))
        self._let_sinks_settle()
        return self

    def _let_sinks_settle(self) -> None:
        """A member that commits first may still work; so may one that was frozen meanwhile."""
        for sink in self.sinks:
            sink.expect()
        while not all(sink.has_settled for sink in self.sinks):
            self.run(for_=1.0)

    def learn(self, group: str, topics: Collection[str] | None = ()) -> None:
        """There is this group, and it reads these topics, too; None: those of a pattern."""
        self._progress.learn(group, topics)

    def now_and_then(self, condition: Callable[[], bool]) -> Callable[[], bool]:
        """The condition, looked at no more often than twenty times a second: it takes its time."""
        looked_at = [-math.inf]

        def holds() -> bool:
            if self.now - looked_at[0] < LOOK_EVERY:
                return False
            looked_at[0] = self.now
            return condition()

        return holds

    def everybody_is_in(self) -> bool:
        """Whether the coordinators know each running consumer that wants to be in a group, and what
        it subscribes to."""
        return all(
            self.brokers.know(group, host.port.membership.member.member_id, host.subscription)
            for member in self.members
            if member.running
            for host in member.hosts[-1:]
            for group in [host.group]
            if group is not None
        )

    def whoever_has_no_group_has_read_all(self) -> bool:
        """Whether each running consumer without a group has come to the ends of all topics."""
        return all(
            host.has_read_all
            for member in self.members
            if member.running
            for host in member.hosts[-1:]
            if host.consumer.config["group_id"] is None
        )

    def everybody_is_at_the_end(self) -> bool:
        """Whether the position of each running consumer is the end of each partition that it owns:
        markers of transactions and what was compacted lie behind it, and its lag is 0."""
        return all(
            host.is_at_the_end
            for member in self.members
            if member.running
            for host in member.hosts[-1:]
        )

    def nobody_else_is_in(self) -> bool:
        """Whether the coordinators know nobody but running consumers: who died keeps its partitions
        until its session is over."""
        alive = {
            host.port.membership.member.member_id
            for member in self.members
            if member.running
            for host in member.hosts
        }
        return all(alive.issuperset(self.brokers.members(group)) for group in self.groups)

    def check(self) -> Self:
        """All promises (see `checks`), and what was demanded of sinks: that no record was lost only
        after `progress`. Raises CheckFailedError."""
        judged = next(self.history.named("progress.demanded"), None) is not None
        effects = [
            complaint
            for sink in self.sinks
            for complaint in sink.complaints(all_is_committed=judged)
        ]
        broken = broken_promises(self.history)
        if broken or effects:
            names = [complaint.partition(":")[0] for complaint in broken + effects]
            told = "\n".join(effects + broken[:10])
            # A story of its own says more than what happened last.
            raise CheckFailedError(self._told(told) if broken else self._headed(told), names)
        return self

    @property
    def me(self) -> Member:
        """For a member's code: the member whose code it is."""
        running = self.scheduler.running
        for member in self.members:
            if running in member.tasks:
                return member
        raise SimulationError("only the code of a member is somebody")

    def sleep(self, seconds: float) -> None:
        """For a member's code: it is busy for so long, as by `time.sleep`. For the test around it:
        go on for so long."""
        task = self.scheduler.running
        if task is None:
            self.run(for_=seconds)
        else:
            task.sleep(seconds)

    # -- going on

    def run(
        self,
        for_: float = math.inf,
        *,
        until: Callable[[], bool] | None = None,
        at_most: float = 3600.0,
    ) -> Self:
        """Go on for so many virtual seconds, or until something is so: if nothing is said, until
        the code of all members has ended.

        Raises TimeIsUpError if it is not so within `at_most`, MemberFailedError if a member's code
        raised, SpinError, BlockingCallError; and, if nothing is said, DeadlockError if all code
        that has not ended waits for ever.
        """
        if until is None and for_ == math.inf:
            self._wait(self._all_code_has_ended, at_most, self.scheduler.who_waits)
        elif until is not None:
            self._wait(until, at_most, lambda: f"what was waited for; {self.scheduler.who_waits()}")
        else:
            self.scheduler.run(self.scheduler.now + for_, lambda: self._over(None))
            self._raise_failures()
        return self

    def _all_code_has_ended(self) -> bool:
        going = [member.task for member in self.members if not member.gone and not member.task.over]
        if going and all(task.waits_for_ever for task in going):
            raise DeadlockError(self._told(self.scheduler.who_waits()))
        return not going

    def _wait(self, until: Callable[[], bool], at_most: float, missing: Callable[[], str]) -> None:
        """Go on until it is so. `missing` says what is not, should time be up."""
        came = self.scheduler.run(self.scheduler.now + at_most, lambda: self._over(until))
        self._raise_failures()
        if not came:
            raise TimeIsUpError(self._told(f"not so within {at_most:g} s: {missing()}"))

    def _over(self, until: Callable[[], bool] | None) -> bool:
        if self.scheduler.failed:
            return True
        return until is not None and until()

    def _raise_failures(self) -> None:
        self.scheduler.failed = False
        for member in self.members:
            for task in member.tasks:
                error, task.error = task.error, None
                if error is None:
                    continue
                if isinstance(error, SimulationError | KeyboardInterrupt | SystemExit):
                    raise error
                raise MemberFailedError(self._told(f"{member} failed: {error!r}")) from error

    def _headed(self, what: str) -> str:
        return f"seed {self.seed}, aktor {revision()}, {self.now:.3f} s: {what}"

    def _told(self, what: str) -> str:
        return f"{self._headed(what)}\n{self.history.last()}"

    # -- the end

    def end(self) -> None:
        """All processes are gone; what their code does about it is no part of the history."""
        self.history.end()
        for member in self.members:
            member.producers.end()
            for host in member.hosts:
                host.end()
        self.scheduler.end()
        for member in self.members:
            member.producers.forget()
            for host in member.hosts:
                host.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
