"""The brokers of a simulation: the embedded cluster's model, in virtual time.

What `broker.Cluster` is asked comes from the simulated network; here are its clock, the brokers
that come and go, and what a test may do to topics and groups from outside.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from aktor.broker.call import Call
from aktor.broker.cluster import Cluster
from aktor.broker.codes import Code, Refused
from aktor.broker.faults import FailWith, Fault, Faults
from aktor.broker.groups.coordinator import GroupMember
from aktor.broker.groups.settings import GroupSettings
from aktor.broker.log.log import peek_batch
from aktor.broker.log.records import build_batch, records_in
from aktor.broker.partition import NO_LEADER, Partition
from aktor.broker.settings import ClusterSettings
from aktor.broker.topics import GROUP_OFFSETS, INTERNAL_TOPICS, Topic
from aktor.broker.topology import Node
from aktor.simulation.history import History, fingerprint
from aktor.simulation.world.scheduler import Scheduler
from aktor.simulation.world.stored import Stored, offsets_of, records_of

__all__ = ["SETTINGS", "Brokers"]

#: Kafka's `broker.session.timeout.ms`: how long a crashed broker is still believed to be there.
SESSION: Final = 9.0

#: `replica.lag.time.max.ms`, shorter than Kafka's 30 s so that followers drop out in a storm.
LAG: Final = 2.0

PORT: Final = 9092

#: Where the journal's groups have their generation.
_GENERATION: Final = {"classic-group": "generation", "consumer-group": "group_epoch"}

#: What the brokers are told unless a simulation says otherwise.
SETTINGS: Final = ClusterSettings(
    offsets_topic_partitions=4,
    transactions_topic_partitions=2,
    retention_check=3600.0,
    cleaner_backoff=3600.0,
    replica_lag_max=LAG,
    groups=GroupSettings(initial_rebalance_delay=0.1),
)


class Brokers:
    """Owns the cluster's model, and which of its brokers run."""

    def __init__(
        self,
        count: int,
        *,
        seed: int,
        scheduler: Scheduler,
        history: History,
        settings: ClusterSettings | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._history = history
        self._commits = _Commits(history)
        self.model = _Model(
            self,
            [Node(node_id=n, host=f"b{n}", port=PORT) for n in range(1, count + 1)],
            now=scheduler.now,
            settings=settings or SETTINGS,
            rng=random.Random(f"{seed} brokers"),
            journal=self._commits,
        )
        #: After the last record of each partition that everybody is to read.
        self._wanted: dict[tuple[str, int], int] = {}
        #: How many partitions each topic had that there ever was, at most.
        self._known: dict[str, int] = {}
        #: Records of open transactions: (producer id, topic, partition), after the last one.
        self._open: dict[tuple[int, str, int], int] = {}
        #: Brokers that run. The others do not answer.
        self.running = set(self.model.nodes)
        #: Called with a broker's id when its process ends, and whether its sockets say so.
        self.on_end: list[Callable[[int, bool], None]] = []
        self._lives = dict.fromkeys(self.model.nodes, 1)
        #: Which consumer spoke last as the member of this id.
        self._speaks: dict[str, str] = {}
        #: What is done to requests: see `broker.faults`.
        self.faults = Faults()
        #: How batches are compressed: each in one of these ways, by the numbers that Kafka has.
        self.codecs: Sequence[int] = (0,)
        #: Partitions with a batch that is corrupt for good.
        self.spoiled: set[tuple[str, int]] = set()
        self._ways = random.Random(f"{seed} batches")
        self._tick_at = math.inf
        self._look_ahead()

    @property
    def bootstrap_servers(self) -> list[str]:
        """The first address of each broker, also of one that has moved or advertises another
        address."""
        return [f"b{node_id}:{PORT}" for node_id in self.model.nodes]

    # -- requests and time

    def receive(self, call: Call, api: str) -> None:
        """Hand a request to the model."""
        member_id = getattr(call.request, "member_id", None)
        if member_id and api != "TxnOffsetCommit":  # there a producer speaks for a member
            self._speaks[member_id] = call.client_host.removeprefix("/")
        if api in ("ConsumerGroupHeartbeat", "LeaveGroup"):
            self._note_what_is_said(call, api)
        written = list(self._batches(call)) if api == "Produce" else ()
        self.model.receive(call, api)
        for partition, before, batch in written:
            if partition.log.end_offset > before:
                self._note_written(partition, before, batch, call.client_host.removeprefix("/"))
        self._look_ahead()

    def _batches(self, call: Call) -> Iterator[tuple[Partition, int, Any]]:
        """What a producer asks to be written: where, where that would begin, and the batch."""
        for topic in call.request.topic_data:
            name = topic.name or self.model.topics.name(topic.topic_id)
            for data in topic.partition_data:
                partition = self.model.topics.partition(name or "", data.index)
                if partition is not None:
                    yield partition, partition.log.end_offset, data.records

    def _note_written(self, partition: Partition, first: int, batch: Any, by: str) -> None:
        header, end = peek_batch(batch), partition.log.end_offset
        place = partition.topic, partition.index
        if header.transactional:
            self._open[header.producer_id, *place] = end
        else:
            self._wanted[place] = end
        self._history.note(
            "records.written",
            partition=f"{partition.topic}-{partition.index}",
            first=first,
            last=end - 1,
            epoch=partition.log.epoch_at(first),
            by=by,
            contents=[
                fingerprint(
                    record.key,
                    record.value,
                    record.headers,
                    header.base_timestamp + record.timestamp_delta,
                )
                for record in records_in(header, batch)
            ],
            producer=header.producer_id if header.transactional else None,
        )

    def _note_what_is_said(self, call: Call, api: str) -> None:
        """What a member says of itself, and that it leaves."""
        said, consumer = call.request, call.client_host.removeprefix("/")
        if api == "LeaveGroup":
            self._history.note("leave.heard", consumer, group=said.group_id)
        elif said.member_epoch < 0:
            self._history.note(
                "leave.heard",
                consumer,
                group=said.group_id,
                epoch=said.member_epoch,
                instance=said.instance_id,
            )
        else:
            owned = said.topic_partitions
            self._history.note(
                "heartbeat.heard",
                consumer,
                group=said.group_id,
                member_id=said.member_id,
                epoch=said.member_epoch,
                full=said.rebalance_timeout_ms != -1,
                owned=None if owned is None else self._names(owned),
            )

    def _names(self, owned: Iterable[Any]) -> list[str]:
        """Of topics that there are."""
        names = {topic.topic_id: topic.name for topic in self.model.topics}
        return sorted(
            f"{names[topic.topic_id]}-{index}"
            for topic in owned
            if topic.topic_id in names
            for index in topic.partitions
        )

    def refuse(self, api: str, code: Code, *, client_id: str | None = None, times: int = 1) -> None:
        """So many of the next requests (of this client) are answered by an error."""
        self.faults.add(Fault(action=FailWith(code), api=api, client_id=client_id, times=times))

    def refuse_no_more(self) -> None:
        """Handle all requests from now on: take back what `refuse` has left."""
        self.faults.clear()

    def _tick(self) -> None:
        self._tick_at = math.inf
        self.model.tick(self._scheduler.now)
        self._look_ahead()

    def _look_ahead(self) -> None:
        wake_at = self.model.wake_at()
        if wake_at < self._tick_at:
            self._tick_at = wake_at
            self._scheduler.at(wake_at, self._tick)

    # -- brokers that come and go

    def crash(self, node: int, *, clean: bool = False, silent: bool = False) -> None:
        """Its process ends. `clean`: the others know at once; `silent`: its sockets say nothing
        (its machine is gone), so that clients are left with half-open connections."""
        self._check(node)
        if node not in self.running:
            return
        self.running.discard(node)
        self._lives[node] += 1
        life = self._lives[node]
        self._history.note("broker.crashed", broker=node, clean=clean, silent=silent)
        for act in self.on_end:
            act(node, silent)
        self.model.forget(lambda call: call.node == node)
        if clean:
            with self._elections():
                self.model.broker_down(node, self._scheduler.now)
        else:
            self.model.broker_silent(node, self._scheduler.now)
            self._scheduler.after(SESSION, lambda: self._give_up(node, life))
        self._look_ahead()

    def give_up(self, node: int) -> None:
        """The controller takes a broker that does not run for dead: others take over from it."""
        self._give_up(node, self._lives[node])

    def _check(self, node: int) -> None:
        if node not in self.model.nodes:
            known = ", ".join(map(str, self.model.nodes))
            raise ValueError(f"there is no broker {node!r}: {known}")

    def _check_topic(self, name: str, partition: int = 0) -> None:
        """Refuse a topic or partition that never existed. One that was deleted is allowed: a
        fault may hit a topic that another fault has deleted."""
        if name not in self._known:
            known = ", ".join(self._known) or "make one by Simulation.topic"
            raise ValueError(f"there was never a topic {name!r}: {known}")
        if not 0 <= partition < self._known[name]:
            raise ValueError(f"{name} never had more than {self._known[name]} partitions")

    def _give_up(self, node: int, life: int) -> None:
        if self._lives[node] == life and node not in self.running:
            with self._elections():
                self.model.broker_down(node, self._scheduler.now)
            self._look_ahead()

    def restart(self, node: int) -> None:
        """Start the broker again, if it does not run."""
        self._check(node)
        if node in self.running:
            return
        now = self._scheduler.now
        with self._elections():
            self.model.broker_down(node, now)
            self.running.add(node)
            self._history.note("broker.restarted", broker=node)
            self.model.broker_up(node, now)
        self._look_ahead()

    def fence(self, node: int) -> None:
        """The controller hears nothing of it: others lead what it led, and metadata leaves it out.
        It runs, and answers whoever has a connection to it."""
        self._check(node)
        if node in self.running:
            self._history.note("broker.fenced", broker=node)
            with self._elections():
                self.model.broker_fenced(node, self._scheduler.now)
            self._look_ahead()

    def unfence(self, node: int) -> None:
        """The controller gets the broker's heartbeats again, if the broker runs."""
        self._check(node)
        if node in self.running:
            self._history.note("broker.unfenced", broker=node)
            with self._elections():
                self.model.broker_up(node, self._scheduler.now)
            self._look_ahead()

    # -- followers that fall behind, and lead all the same

    def hold_follower(self, topic: str, partition: int, draw: random.Random) -> int | None:
        """A follower fetches no more; which, None if there is none. After `LAG` seconds it is out
        of sync, and what is written then counts as replicated without it."""
        self._check_topic(topic, partition)
        found = self.model.topics.partition(topic, partition)
        followers = (
            [replica for replica in found.replicas if replica != found.leader] if found else []
        )
        if found is None or found.leader == NO_LEADER or not followers:
            return None
        node = draw.choice(followers)
        self._history.note("replica.held", partition=f"{topic}-{partition}", broker=node)
        self.model.hold_replica(topic, partition, node)
        self._look_ahead()
        return node

    def release_follower(self, topic: str, partition: int, node: int) -> None:
        """The follower on this broker fetches again, if the broker runs."""
        self._check(node)
        self._check_topic(topic, partition)
        if node in self.running and self.model.topics.partition(topic, partition) is not None:
            self._history.note("replica.released", partition=f"{topic}-{partition}", broker=node)
            self.model.release_replica(topic, partition, node)
            self._look_ahead()

    def elect_uncleanly(self, topic: str, partition: int, node: int) -> None:
        """It leads, if it runs: what it does not have is lost, also what was replicated to others
        (`unclean.leader.election.enable`)."""
        self._check(node)
        self._check_topic(topic, partition)
        now = self._scheduler.now
        if node in self.running and self.model.topics.partition(topic, partition) is not None:
            with self._elections(unclean=True):
                self._move(
                    lambda: self.model.move_leader(topic, partition, node, now, unclean=True)
                )

    @contextmanager
    def _elections(self, *, unclean: bool = False) -> Iterator[None]:
        """Say which logs are shorter afterwards: the new leader did not have all of it."""
        before = {
            partition: (
                partition.log.end_offset,
                partition.log.high_watermark,
                partition.log.latest_epoch,
            )
            for partition in self._partitions_of_users()
        }
        yield
        for partition, (end, replicated, epoch) in before.items():
            # Where the next leader began: markers may have been written again since.
            _, kept = partition.log.end_offset_for_epoch(epoch)
            if 0 <= kept < end:
                self._cut_off(partition, kept, replicated, unclean=unclean)

    def _cut_off(self, partition: Partition, end: int, replicated: int, *, unclean: bool) -> None:
        place = partition.topic, partition.index
        self._history.note(
            "log.truncated",
            partition=f"{partition.topic}-{partition.index}",
            to=end,
            replicated=replicated,
            unclean=unclean,
            time=self._time,
        )
        self._wanted[place] = min(end, self._wanted.get(place, 0))
        for key in [key for key, last in self._open.items() if key[1:] == place and last > end]:
            self._open[key] = end

    def _partitions_of_users(self) -> Iterator[Partition]:
        for topic in self.model.topics:
            if topic.name not in INTERNAL_TOPICS:
                yield from topic.partitions

    @property
    def _time(self) -> int:
        """As in the timestamps of records."""
        return int(self._scheduler.now * 1000)

    # -- topics

    def create_topic(self, name: str, partitions: int) -> None:
        """A new topic, with a replica on every broker, up to three."""
        self.model.create_topic(name, partitions)
        self._look_ahead()

    def note_topic(self, name: str, partitions: int) -> None:
        """There will be one, which a test asked for or a member (`auto.create.topics.enable`)."""
        if name not in INTERNAL_TOPICS:
            self._history.note("topic.created", topic=name, partitions=partitions, time=self._time)
        self._known[name] = max(partitions, self._known.get(name, 0))

    def delete_topic(self, name: str) -> None:
        """It is gone, with all records."""
        self._check_topic(name)
        topic = self.model.topics.get(name)
        if topic is not None:
            self._history.note("topic.removed", topic=name)
            for place in [place for place in self._wanted if place[0] == name]:
                del self._wanted[place]
            for key in [key for key in self._open if key[1] == name]:
                del self._open[key]
            self.model.delete_topic(topic, self._scheduler.now)
            self._look_ahead()

    def grow_topic(self, name: str, partitions: int) -> None:
        """More partitions."""
        self._check_topic(name)
        topic = self.model.topics.get(name)
        if topic is None or partitions <= len(topic.partitions):
            return
        self._known[name] = max(partitions, self._known[name])
        self._history.note("topic.grown", topic=name, partitions=partitions)
        more = self.model.topology.assignment(partitions - len(topic.partitions), None)
        self.model.grow_topic(topic, more, self._scheduler.now)
        self._look_ahead()

    def write(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        keys: Sequence[bytes] | None = None,
        transaction: tuple[int, int, int] | None = None,
    ) -> int | None:
        """Append a batch as a producer with acks=all would; the offset after it, None if there is
        nobody to write to. In a transaction of (producer id, epoch, sequence), if one is given.
        Each record has a key of its own, unless there are `keys`."""
        self._check_topic(topic, partition)
        if self.leader(topic, partition) not in self.running:
            return None
        # No two records of a partition are alike, so that a mix-up is found.
        pairs = list(zip(keys or [b"key of " + value for value in values], values, strict=True))
        headers = [("first", pairs[0][1])] if pairs else []
        producer, epoch, sequence = transaction or (-1, -1, -1)
        batch = build_batch(
            pairs,
            timestamp=self._time,
            headers=headers,
            codec=self._ways.choice(self.codecs),
            transactional=transaction is not None,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        appended = self.model.append(topic, partition, bytes(batch), self._scheduler.now)
        self._look_ahead()
        assert appended is not None, "it has a leader"
        end = appended.last_offset + 1
        if transaction is None:
            self._wanted[topic, partition] = end
        else:
            self._open[producer, topic, partition] = end
        self._history.note(
            "records.written",
            partition=f"{topic}-{partition}",
            first=appended.base_offset,
            last=appended.last_offset,
            epoch=self._epoch_at(topic, partition, appended.last_offset),
            time=self._time,
            contents=[fingerprint(key, value, headers, self._time) for key, value in pairs],
            producer=None if transaction is None else producer,
        )
        return end

    def _epoch_at(self, topic: str, partition: int, offset: int) -> int:
        found = self.model.topics.partition(topic, partition)
        return -1 if found is None else found.log.epoch_at(offset)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """The log begins here from now on, if it has a leader that runs, and has come so far."""
        found = self.model.topics.partition(topic, partition)
        if found is None or found.leader not in self.running:
            return
        if found.log.start_offset < before <= found.log.high_watermark:
            self._history.note("log.started", partition=f"{topic}-{partition}", start=before)
            found.log.delete_before(before)
            found.settle()
            self._look_ahead()

    def compact(self, topic: str, partition: int) -> None:
        """Of the records with the same key the last one is left, as the log cleaner does it, if the
        partition has a leader that runs. And if all replicas have all of the log: here they share
        it, but one that lacks the later record has kept the earlier."""
        self._check_topic(topic, partition)
        found = self.model.topics.partition(topic, partition)
        if found is None or found.leader not in self.running:
            return
        if any(found.end_of(node) < found.log.end_offset for node in found.replicas):
            return
        before = offsets_of(found)
        found.log.compact(self._scheduler.now, force=True)
        gone = sorted(before - offsets_of(found))
        if gone:
            self._history.note("log.compacted", partition=f"{topic}-{partition}", gone=gone)

    def spoil(self, topic: str, partition: int, offset: int) -> None:
        """The batch with this offset is corrupt for good, on all replicas: whoever reads it is told
        so, and has to pass over it."""
        self._check_topic(topic, partition)
        found = self.model.topics.partition(topic, partition)
        if found is not None:
            self._history.note("batch.spoiled", partition=f"{topic}-{partition}", offset=offset)
            self.spoiled.add((topic, partition))
            found.log.spoil(offset)

    def forbid(self, topic: str) -> None:
        """No user may READ it from now on: Fetch and commits of it are refused, others are not."""
        self._check_topic(topic)
        self.model.topics.forbidden.add(topic)
        self._history.note("topic.forbidden", topic=topic)

    def hide(self, topic: str) -> None:
        """From now on no user may DESCRIBE this topic, whether it exists or not."""
        self.model.topics.hidden.add(topic)

    def permit(self, topic: str) -> None:
        """All users may READ this topic again."""
        self.model.topics.forbidden.discard(topic)
        self._history.note("topic.permitted", topic=topic)

    def is_replicated(self, topic: str, partition: int, end: int) -> bool:
        """Whether all in-sync replicas have the log up to the offset `end`."""
        return self.end(topic, partition) >= end

    # -- transactions

    def ask(self, node: int, request: Any, api: str, version: int) -> Any:
        """What this broker answers at once; None if it does not run, or takes its time."""
        if node not in self.running:
            return None
        answers: list[Any] = []
        self.receive(
            Call(
                request, answer=answers.append, version=version, now=self._scheduler.now, node=node
            ),
            api,
        )
        return answers[0] if answers else None

    def note_marker(self, partition: Partition, producer_id: int, *, commit: bool) -> None:
        """A transaction has ended here."""
        place = partition.topic, partition.index
        if commit:
            end = self._open.get((producer_id, *place), 0)
            self._wanted[place] = max(end, self._wanted.get(place, 0))
        self._history.note(
            "transaction.ended",
            partition=f"{partition.topic}-{partition.index}",
            producer=producer_id,
            commit=commit,
            marker=partition.log.end_offset - 1,
            epoch=partition.log.latest_epoch,
        )

    # -- leaders, coordinators, groups

    def move_leader(self, topic: str, partition: int, to: int | None = None) -> None:
        """Another replica in sync leads, if one can."""
        self._check_topic(topic, partition)
        if to is not None:
            self._check(to)
        with self._elections():
            self._move(lambda: self.model.move_leader(topic, partition, to, self._scheduler.now))

    def move_coordinator(self, group: str, to: int | None = None) -> None:
        """Another broker coordinates the group, if one can."""
        if to is not None:
            self._check(to)
        now = self._scheduler.now
        self._move(lambda: self.model.move_coordinator(GROUP_OFFSETS, group, to, now))

    def _move(self, act: Callable[[], int]) -> None:
        try:
            act()
        except ValueError:
            return  # no other replica is in sync
        self._look_ahead()

    def expire_somebody(self, group: str, draw: random.Random) -> None:
        """The coordinator has not heard of a member for too long."""
        members = self._members(group)
        if members:
            self._expire(group, draw.choice(members))

    def fence_somebody(self, group: str, draw: random.Random) -> None:
        """The coordinator goes by another epoch than a member: it takes it out, and says so."""
        members = self._members(group)
        if members:
            some = draw.choice(members)
            self._history.note("session.expired", group=group, consumer=self._consumer(some))
            self.model.groups.fence_member(group, some.member_id, self._scheduler.now)
            self._look_ahead()

    def expire(self, group: str, name: str) -> None:
        """The coordinator has not heard of the consumer of the member of this name for too long."""
        for member in self._members(group):
            if self._consumer(member).partition("/")[0] == name:
                self._expire(group, member)

    def _members(self, group: str) -> list[GroupMember]:
        try:
            return sorted(self.model.groups.members(group), key=lambda member: member.member_id)
        except Refused:
            return []  # nobody has joined it yet, or it went with its last member and offset

    def _expire(self, group: str, member: GroupMember) -> None:
        self._history.note("session.expired", group=group, consumer=self._consumer(member))
        self.model.groups.expire_session(group, member.member_id, self._scheduler.now)
        self._look_ahead()

    def _consumer(self, member: GroupMember) -> str:
        """Whose it is: "alice", or "alice/2" for the second consumer of alice. The simulated
        network says it where Kafka has the client's host; but a classic static member keeps the
        host of the first that had its name."""
        return self._speaks.get(member.member_id, member.client_host.removeprefix("/"))

    def members(self, group: str) -> set[str]:
        """The ids of the group's members, as its coordinator knows them."""
        return {member.member_id for member in self.model.groups.members(group)}

    def know(self, group: str, member_id: str, topics: Collection[str]) -> bool:
        """Whether the group has this member, and that as one who subscribes to these topics (or to
        a regular expression)."""
        return any(
            member.member_id == member_id and member.topics in (None, topics)
            for member in self.model.groups.members(group)
        )

    def members_by_consumer(self, group: str) -> list[tuple[str, GroupMember]]:
        """The group's members, each with the consumer whose it is."""
        return [(self._consumer(member), member) for member in self._members(group)]

    def members_of(self, group: str, consumer: str) -> list[str]:
        """The ids of those of the group's members that are this consumer's."""
        return [
            member.member_id
            for member in self._members(group)
            if self._consumer(member) == consumer
        ]

    def kept_until(self, group: str, member_id: str) -> float:
        """When the group goes on without this member, by the scheduler's clock, if the coordinator
        hears no more of it; -math.inf if it does not know it."""
        return self.model.groups.kept_until(group, member_id)

    def coordinator(self, group: str) -> int:
        """The broker that coordinates the group, -1 if none does."""
        node = self.model.coordinator(GROUP_OFFSETS, group)
        return -1 if node is None else node.node_id

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """What the group has committed."""
        return self._commits.latest.get((group, topic, partition))

    def unread(self, group: str, topic: str, partition: int) -> int:
        """How many offsets the group has not committed, up to the last record."""
        committed = self.committed(group, topic, partition) or 0
        return max(0, self.last_record(topic, partition) - committed)

    def last_record(self, topic: str, partition: int) -> int:
        """The offset after the last record that was written and that all in sync have."""
        return min(self.end(topic, partition), self._wanted.get((topic, partition), 0))

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads, or would if it ran; -1 if none does."""
        found = self.model.topics.partition(topic, partition)
        return -1 if found is None else found.leader

    def note_ends(self, topic: str) -> None:
        """Say where the topic's logs begin and end: what was written beyond is not there."""
        found = self.model.topics.get(topic)
        for partition in found.partitions if found is not None else ():
            self._history.note(
                "log.ends",
                partition=f"{topic}-{partition.index}",
                start=partition.log.start_offset,
                end=partition.log.end_offset,
            )

    def records(self, topic: str) -> Iterator[Stored]:
        """What still exists: the records that all in sync have, and no transaction has aborted or
        left open."""
        found = self.model.topics.get(topic)
        for partition in found.partitions if found is not None else ():
            yield from records_of(partition)

    def end(self, topic: str, partition: int, *, committed: bool = False) -> int:
        """The high watermark; `committed`: the last stable offset."""
        found = self.model.topics.partition(topic, partition)
        if found is None:
            return 0
        log = found.log
        return min(log.high_watermark, log.last_stable_offset) if committed else log.high_watermark


class _Model(Cluster):
    """The cluster's model; what it does by itself its brokers note."""

    def __init__(self, brokers: Brokers, nodes: Iterable[Node], **settings: Any) -> None:
        self._brokers = brokers
        super().__init__(nodes, **settings)

    def make_topic(
        self, name: str, assignment: Sequence[tuple[int, ...]], configs: Mapping[str, str]
    ) -> Topic:
        self._brokers.note_topic(name, len(assignment))
        return super().make_topic(name, assignment, configs)

    def write_marker(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        now: float,
    ) -> bool:
        """Write the transaction marker, if that was not done yet. Returns whether all in-sync
        replicas have it: until then the transaction coordinator calls this again."""
        found = self.topics.partition(topic, partition)
        if found is None:
            return True
        if found.leader not in self._brokers.running:
            return False
        if found.log.in_transaction(producer_id):
            done = super().write_marker(
                topic,
                partition,
                producer_id,
                producer_epoch,
                commit=commit,
                coordinator_epoch=coordinator_epoch,
                now=now,
            )
            if not done:
                return False
            self._brokers.note_marker(found, producer_id, commit=commit)
        return found.log.high_watermark >= found.log.end_offset


class _Commits:
    """A journal that notes committed offsets in the history, and keeps the latest; who leads
    partitions; and when a group is replaced by one that counts its generations from the beginning,
    or becomes a classic one."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.latest: dict[tuple[str | int, ...], int] = {}
        self._generations: dict[tuple[str | int, ...], int] = {}
        self._kinds: dict[tuple[str | int, ...], str] = {}
        self._leaders: dict[str, int] = {}

    def _note_leaders(self, topic: str, partitions: Iterable[Sequence[Any]]) -> None:
        for index, (_, leader, _) in enumerate(partitions):
            name = f"{topic}-{index}"
            if self._leaders.get(name) != leader:
                self._leaders[name] = leader
                self._history.note("partition.led", partition=name, broker=leader)

    def put(self, kind: str, key: tuple[str | int, ...], value: Any | None) -> None:
        if kind in _GENERATION and value is not None:
            generation = value[_GENERATION[kind]]
            if generation < self._generations.get(key, 0):
                self._history.note("group.begun", group=key[0])
            self._generations[key] = generation
            if (self._kinds.get(key), kind) == ("consumer-group", "classic-group"):
                self._history.note("group.converted", group=key[0])
            self._kinds[key] = kind
        if kind == "topic" and value is not None and key[0] not in INTERNAL_TOPICS:
            self._note_leaders(str(key[0]), value["partitions"])
        if kind != "offset":
            return
        if value is None:
            self.latest.pop(key, None)
        else:
            group, topic, partition = key
            self.latest[key] = value["offset"]
            self._history.note(
                "offset.committed",
                group=group,
                partition=f"{topic}-{partition}",
                offset=value["offset"],
                epoch=value["leader_epoch"],
            )
