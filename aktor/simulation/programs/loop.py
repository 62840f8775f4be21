"""The loop of an ordinary consumer: take records, do something with them, take the next ones.

It goes on after errors, as a service that wants to live would.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    KafkaError,
    UnknownError,
    UnreleasedInstanceIdError,
)
from kafka.structs import TopicPartition

from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.consumer.facade import KafkaConsumer
from aktor.errors import (
    ActorCrashedError,
    ConsumerClosedError,
    CorruptBatchError,
    UserCallbackError,
)
from aktor.simulation.world.interrupts import INTERRUPTS
from aktor.simulation.world.member import Member
from aktor.simulation.world.world import World

__all__ = ["Act", "Loop", "LoopByHand", "Manner"]

#: How often the loop does something besides, per turn.
HABIT_SHARE: Final = 0.04

#: Seconds within which an error that is due is raised, with one refusal of each API.
RAISED_WITHIN: Final = 10.0

#: Seconds between two looks from another thread.
LOOKS: Final = 1.0

#: Seconds between two looks of who has assigned itself partitions whether these are all.
COUNTS: Final = 5.0

#: How often a batch that is corrupt is read before its records are passed over, one by one.
TRIES: Final = 5

#: How often the consumer fetches it anew by itself.
REFETCHES: Final = 3

#: While there are faults, half of the readers only poll on for so many seconds before they seek:
#: the partitions that can be read must have their turn all the same.
PATIENT: Final = 20.0

#: After these a new consumer is made. The `group_instance_id` belongs to an earlier process until
#: its session ends (UnreleasedInstanceIdError, FencedInstanceIdError). The group became classic
#: when its only member of the consumer protocol was expelled (GroupIdNotFoundError). The member may
#: not READ the group (GroupAuthorizationFailedError). Kafka answers UNKNOWN_SERVER_ERROR to a
#: member that would convert a group whose first members are still joining (UnknownError).
ONLY_A_NEW_ONE_HELPS: Final = (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    UnknownError,
    UnreleasedInstanceIdError,
)


#: Something that a loop does with its consumer.
Act = Callable[["Loop", KafkaConsumer], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What the loops of a group have in common.

    topics: what they read.
    listener: makes the rebalance listener of a new consumer.
    way: how they take their records.
    habits: what they do now and then besides, while there are faults, and how often each.
    elsewhere: the database in which they may keep their offsets, by topic id and partition.
    """

    topics: Sequence[str] | SubscriptionPattern
    listener: Callable[[Loop, KafkaConsumer], ConsumerRebalanceListener]
    way: Act
    habits: Mapping[Act, float]
    elsewhere: dict[Any, int]


class Loop:
    """One process that reads: its consumer, and what it remembers."""

    def __init__(
        self, simulation: World, manner: Manner, config: Callable[[], dict[str, Any]]
    ) -> None:
        self._simulation = simulation
        self._manner = manner
        self._config = config
        self._member: Member = self._simulation.me
        self.draw = random.Random(f"{self._simulation.seed} reader {self._member.name}")
        #: Given out, and to be written elsewhere when it is done.
        self._in_hand: dict[TopicPartition, int] = {}
        #: What is done in so many turns.
        self._later: list[tuple[int, Callable[[], object]]] = []
        #: Something may not be committed, and nobody would hear of it.
        self._unsure = False
        #: Where a batch could not be read, and how often.
        self._unreadable: dict[TopicPartition, tuple[int, int]] = {}
        #: Until when it only polls on, by partition with a corrupt batch.
        self._polls_on: dict[TopicPartition, float] = {}
        self._patience = random.Random(
            f"{self._simulation.seed} patience {self._member.name}"
        ).choice([0.0, PATIENT])
        #: The one that it made last.
        self._consumer: KafkaConsumer
        #: A signal came, and its handler raised; while the consumer was to be closed.
        self._interrupted = self._closing = False

    def run(self) -> None:
        """Take records, finish, take the next ones."""
        while True:
            try:
                self._take_turn()
            except INTERRUPTS as interrupt:
                self._hear(interrupt)
                self._interrupted = True

    def _take_turn(self) -> None:
        member = self._member
        try:
            if self._interrupted:
                self._interrupted = False
                self._go_on_after_an_interrupt()
            if not self._has_consumer:
                self.begin()
            if member.does_next is not None:
                habit, member.does_next = member.does_next, None
                habit(self, self._consumer)
            self._do_what_is_due()
            self._besides()
            self.turn()
        except (ActorCrashedError, ConsumerClosedError):
            # This consumer is beyond help, or a handler has closed it: a service would start anew.
            self._give_up()
        except ONLY_A_NEW_ONE_HELPS as error:
            self._hear(error)
            self._give_up()
            self.sleep(1.0)
        except KafkaError as error:
            self._hear(error)
            if isinstance(error, CorruptBatchError):
                self._later.insert(0, (0, partial(self._read_again_or_pass_over, error)))
            self.sleep(0.1)
        if member.busy_for:
            busy, member.busy_for = member.busy_for, 0.0
            self.sleep(busy)

    def _go_on_after_an_interrupt(self) -> None:
        """After a signal: close the consumer, or subscribe again and go on. The signal may have cut
        off any call of the consumer, its constructor as well."""
        if not self._has_consumer:
            return
        if self._closing or self.draw.random() < 0.3:
            self._give_up()
        else:
            self._later.insert(0, (0, self._subscribe_again))

    def _subscribe_again(self) -> None:
        """And resume what is paused: it may be a `resume` that was interrupted."""
        self.subscribe(self._consumer)
        if paused := self._consumer.paused():
            self._consumer.resume(*sorted(paused))

    @property
    def _has_consumer(self) -> bool:
        return "_consumer" in vars(self)

    def _give_up(self) -> None:
        """The next turn begins with a new one, and meets its errors."""
        if self._has_consumer:
            self.close(self._consumer)
            del self._consumer

    def _read_again_or_pass_over(self, error: CorruptBatchError) -> None:
        """A seek fetches it again: the next time the bytes may be sound. If they never are, it does
        without this record; and without the next, if that cannot be read either."""
        consumer = self._consumer
        partition, offset = TopicPartition(error.topic, error.partition), error.offset
        if partition not in consumer.assignment() or self._only_polls_on(partition):
            return
        before, tries = self._unreadable.get(partition, (offset, 0))
        tries = tries + 1 if offset == before else 1
        if tries > TRIES:
            self._simulation.history.note(
                "user.passes_over",
                self._member.name,
                group=self._config()["group_id"],
                partition=f"{partition.topic}-{partition.partition}",
                offset=offset,
            )
            offset += 1
        self._unreadable[partition] = offset, tries
        consumer.seek(partition, offset)

    def _only_polls_on(self, partition: TopicPartition) -> bool:
        """Whether it leaves the corrupt batch for later, and is content with other partitions."""
        simulation = self._simulation
        until = self._polls_on.setdefault(partition, simulation.now + self._patience)
        if simulation.now >= until or not simulation.faults.raging:
            return False
        if self._is_corrupt_for_good(partition):
            simulation.history.note(
                "user.polls_on",
                self._member.name,
                partition=f"{partition.topic}-{partition.partition}",
            )
        return True

    def _is_corrupt_for_good(self, partition: TopicPartition) -> bool:
        """Whether the reader may do without these records: the batch is corrupt at the broker, or
        each repeated Fetch of it was damaged, too. A batch that was damaged once on its way must be
        fetched again and read."""
        if (partition.topic, partition.partition) in self._simulation.brokers.spoiled:
            return True
        name = f"{partition.topic}-{partition.partition}"
        return any(
            told["partition"] == name and told["attempts"] >= REFETCHES
            for told in self._simulation.history.named("batch.corrupt")
        )

    def _hear(self, error: BaseException) -> None:
        self._simulation.history.note("user.hears", self._member.name, error=repr(error))
        if not self._config().get("enable_auto_commit", True):
            self._unsure = True  # what failed may have been a commit

    # -- its consumer

    def begin(self) -> None:
        """Make a new consumer, and subscribe."""
        config = self._config()
        number = len(self._member.hosts) + 1
        name = self._member.name
        # Each consumer is told from the one before it.
        config.setdefault("client_id", name if number == 1 else f"{name}/{number}")
        self._later.clear()
        self._closing = False
        self._consumer = KafkaConsumer(**config)
        self._join(self._consumer)

    def _join(self, consumer: KafkaConsumer) -> None:
        self.subscribe(consumer)

    def subscribe(self, consumer: KafkaConsumer) -> None:
        """To what it is to read."""
        listener, topics = self._manner.listener(self, consumer), self._manner.topics
        if isinstance(topics, SubscriptionPattern):
            consumer.subscribe(pattern=topics, listener=listener)
        else:
            consumer.subscribe([str(topic) for topic in topics], listener=listener)

    def subscribe_otherwise(self, consumer: KafkaConsumer) -> None:
        """To something else: one topic, or a pattern that matches some."""
        listener = self._manner.listener(self, consumer)
        topic = self.draw.choice(self._simulation.topics)
        if self.draw.random() < 0.5:
            consumer.subscribe([str(topic)], listener=listener)
        else:
            consumer.subscribe(pattern=f"^{topic[:6]}.*", listener=listener)

    def subscribe_too(self, consumer: KafkaConsumer, topic: str) -> bool:
        """To what it is to read, and to this topic; False if it subscribes to nothing."""
        topics = [str(other) for other in self._simulation.topics]
        consumer.subscribe([*topics, topic], listener=self._manner.listener(self, consumer))
        return True

    def turn(self) -> None:
        """Take records, and finish those of before."""
        self._manner.way(self, self._consumer)

    def turns_until(self, kind: type[KafkaError]) -> None:
        """Go on until this is raised; AssertionError if it is not, for long."""
        until = self.now + RAISED_WITHIN
        while self.now < until:
            try:
                self.turn()
            except kind as error:
                self._hear(error)
                return
        raise AssertionError(f"{kind.__name__} was not raised within {RAISED_WITHIN} s")

    def close(self, consumer: KafkaConsumer, **options: Any) -> None:
        """The reader is not needed any more."""
        self._closing = True
        try:
            consumer.close(**options)
        except UserCallbackError as error:
            self._hear(error)

    # -- records

    def take(self, partition: TopicPartition, offset: int) -> None:
        """It was given the records up to this one."""
        self._in_hand[partition] = offset + 1

    def finish(self) -> None:
        """What was in hand is done."""
        for partition, offset in self._in_hand.items():
            self._manner.elsewhere[self._key(partition)] = offset
        self._in_hand.clear()

    def settle(self, consumer: KafkaConsumer, *, has_read: bool) -> None:
        """Commit by hand if nobody else does."""
        if has_read:
            self._commit(consumer)
        elif self._unsure and self.has_group:
            consumer.commit(timeout_ms=5000)
            self._unsure = False

    def _commit(self, consumer: KafkaConsumer) -> None:
        if consumer.config["enable_auto_commit"] or not self.has_group:
            return
        self._unsure = True
        if self._simulation.random.random() < 0.5:
            consumer.commit(timeout_ms=5000)
            self._unsure = False
        else:
            consumer.commit_async()

    def commit_unheard(self, consumer: KafkaConsumer, offsets: Any) -> None:
        """Whether it succeeds nobody asks; so it is done once more when there is time."""
        consumer.commit_async(offsets)
        self._unsure = True

    def go_where_it_was(
        self, consumer: KafkaConsumer, partitions: Collection[TopicPartition]
    ) -> None:
        """As far as it is known elsewhere."""
        for partition in sorted(partitions):
            offset = self._manner.elsewhere.get(self._key(partition))
            if offset is not None:
                consumer.seek(partition, offset)
                self._unsure = True

    def _key(self, partition: TopicPartition) -> Any:
        topic = self._simulation.brokers.model.topics.get(partition.topic)
        return None if topic is None else topic.topic_id, partition

    # -- what it does besides

    @property
    def has_group(self) -> bool:
        """Whether it can commit."""
        return self._config()["group_id"] is not None

    @property
    def now(self) -> float:
        """Seconds since the simulation began."""
        return self._simulation.now

    @property
    def wall_ms(self) -> int:
        """The time of records."""
        return int(self._member.task.wall() * 1000)

    def sleep(self, seconds: float) -> None:
        """It is busy."""
        self._simulation.sleep(seconds)

    def takes_time(self) -> None:
        """Called by a listener: sleep, if a fault makes listeners slow."""
        if self._member.slow_listener:
            self.sleep(self._member.slow_listener)

    def draws(self, share: float) -> bool:
        """Whether something happens that happens so often, while there are faults."""
        return self._simulation.faults.raging and self.draw.random() < share

    def later(self, turns: int, act: Callable[[], object]) -> None:
        """Do this in so many turns, if this is still the same consumer."""
        self._later.append((turns, act))

    def _do_what_is_due(self) -> None:
        self._later = [(turns - 1, act) for turns, act in self._later]
        while due := next((entry for entry in self._later if entry[0] < 0), None):
            self._later.remove(due)
            due[1]()

    def _besides(self) -> None:
        """Now and then, while there are faults, something that applications do."""
        if self.draws(HABIT_SHARE):
            habits = self._manner.habits
            (habit,) = self.draw.choices(list(habits), list(habits.values()))
            habit(self, self._consumer)

    def look_on(self) -> None:
        """What a second thread of its process does: show how the consumer is."""
        draw = random.Random(f"{self._simulation.seed} onlooker {self._member.name}")
        while True:
            self.sleep(draw.uniform(0.0, 2 * LOOKS))
            for host in self._member.hosts[-1:]:
                if not host.started:
                    continue
                consumer = host.consumer
                assert isinstance(consumer, KafkaConsumer), "its loop made it"
                str(consumer.status())
                consumer.metrics()
                with contextlib.suppress(ConsumerClosedError):
                    consumer.assignment()
                    consumer.paused()
                    consumer.subscription()


class LoopByHand(Loop):
    """Assigns itself all partitions of its topics, and looks now and then for more."""

    def __init__(
        self, simulation: World, manner: Manner, config: Callable[[], dict[str, Any]]
    ) -> None:
        super().__init__(simulation, manner, config)
        self._counts_at = 0.0

    def _join(self, consumer: KafkaConsumer) -> None:
        self._counts_at = 0.0  # to look may fail, and is then done again

    def subscribe(self, consumer: KafkaConsumer) -> None:
        self._counts_at = self._simulation.now + COUNTS
        every = self._every(consumer)
        news = every - consumer.assignment()
        if news or every != consumer.assignment():
            consumer.assign(sorted(every))
            if not self.has_group:
                self.go_where_it_was(consumer, news)

    def subscribe_otherwise(self, consumer: KafkaConsumer) -> None:
        """To some of its partitions."""
        every = sorted(self._every(consumer))
        if every:
            some = set(self.draw.sample(every, self.draw.randint(1, len(every))))
            news = some - consumer.assignment()
            consumer.assign(sorted(some))
            if not self.has_group:
                self.go_where_it_was(consumer, news)
        self._counts_at = self._simulation.now + COUNTS

    def subscribe_too(self, consumer: KafkaConsumer, topic: str) -> bool:
        return False

    def _besides(self) -> None:
        if self._simulation.now >= self._counts_at:
            self.subscribe(self._consumer)
        super()._besides()

    def _every(self, consumer: KafkaConsumer) -> set[TopicPartition]:
        topics = self._manner.topics
        assert not isinstance(topics, SubscriptionPattern), "partitions are those of topics"
        return {
            TopicPartition(str(topic), number)
            for topic in topics
            for number in consumer.partitions_for_topic(str(topic))
        }
