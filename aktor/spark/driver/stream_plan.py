"""Which offsets each micro-batch of a stream has.

No PySpark here: dicts as in Spark's log go in and out, so that the plan runs in tests and
simulations without a JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition

from aktor.errors import ConfigurationError
from aktor.spark.driver.outages import Outages
from aktor.spark.driver.record_sizes import RecordSizes
from aktor.spark.offsets import data_loss, ranges
from aktor.spark.offsets.bounds import EARLIEST, LookUps, Offsets
from aktor.spark.offsets.checkpoint import from_json, start_of, to_json
from aktor.spark.offsets.limits import Delay, limited
from aktor.spark.offsets.ranges import OffsetRange, name_of
from aktor.spark.options.source import SourceOptions

if TYPE_CHECKING:
    from aktor.spark.driver.cluster import TopicIds

__all__ = ["PlanCluster", "StreamPlan"]

#: A query without new records waits for one, and then asks where the partitions end. If they end
#: where they did (a wait that failed), it asks again after so many seconds, and then the less often
#: the longer nothing has come, in parts of that time.
_IDLE_ASK: Final = 0.05
_IDLE_SHARE: Final = 0.1

#: A query that is quiet for long waits longer than `idleWaitMs` before it returns to Spark: so long
#: at last, in seconds.
_IDLE_LONGEST: Final = 1.0

#: How often it asks then which partitions there are, in seconds.
_IDLE_LOOK_UP: Final = 1.0

#: How old the last answer to an idle query may be when Spark asks again at once, in seconds.
_IDLE_FRESH: Final = 0.1

#: How long such an answer may take, in seconds.
_IDLE_PATIENCE: Final = 5.0

Json = dict[str, Any]


class PlanCluster(LookUps, Protocol):
    """What a plan asks of a cluster: `aktor.spark.driver.cluster` has it."""

    def partitions(self, known: Collection[str] = ()) -> tuple[list[TopicPartition], TopicIds]: ...

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout: float | None = None
    ) -> Offsets: ...

    def await_record(self, offsets: Offsets, seconds: float) -> None: ...

    def bytes_per_offset(self, partition: TopicPartition, offset: int) -> float | None: ...


@dataclass(slots=True)
class _Quiet:
    """While a query has nothing to read: up to which offsets it has read, which partitions there
    were, since when it is so, and when the two questions were answered last."""

    offsets: Offsets
    partitions: tuple[list[TopicPartition], TopicIds]
    since: float
    looked_up: float
    asked: float


class StreamPlan:
    """Owns the state of a running query that is not in its checkpoint: the initial offsets until
    they are logged, the target of AvailableNow, the topic ids, the topics that were warned of, and
    while nothing comes: since when, and what was answered last. `wanted`: see `Outages`.
    """

    def __init__(
        self,
        options: SourceOptions,
        cluster: PlanCluster,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        sleep: Callable[[float], Any],
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._clock = clock
        self._wall_clock = wall_clock
        self._sleep = sleep
        self._outages = Outages(clock=clock, sleep=sleep, wanted=wanted)
        self._initial: Offsets | None = None
        self._refused: ConfigurationError | None = None
        self._pinned = False
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._topic_ids: dict[str, str | None] = {}
        self._missed: set[str] = set()
        self._sizes = RecordSizes(cluster.bytes_per_offset, clock)
        self._quiet: _Quiet | None = None
        minimum = options.min_offsets
        self._delay = (
            None if minimum is None else Delay(minimum=minimum, longest=options.max_trigger_delay)
        )

    def initial(self) -> Json:
        """Where a new query begins. The same answer each time: Spark asks twice.

        Spark also asks after a restart, if the first batch was not finished. Meanwhile a partition
        may have been added, or records deleted, so that the options would be refused now, or come
        to other offsets. Then `tasks` comes next, and the end of the batch says where it begins.
        In a new query `latest` comes next: it raises the refusal.
        """
        if self._initial is None:
            there, ids = self._cluster.partitions()
            now = int(self._wall_clock() * 1000)
            starting = self._options.starting
            try:
                self._initial = starting.resolve(there, self._cluster, now)
            except ConfigurationError as error:
                self._initial, self._refused = starting.offsets, error
            self._topic_ids.update(ids)
        return to_json(self._initial)

    def pin(self) -> None:
        """Trigger AvailableNow: the query ends where the partitions end at the first batch."""
        self._pinned = True

    def report(self) -> Json | None:
        """Where the partitions ended when that was last asked, for the progress of the query."""
        return None if self._latest is None else to_json(self._latest)

    def latest(self, start: Json, *, everything: bool) -> Json:
        """The end of the next batch; `start` itself while there is nothing to read.

        `everything`: no limits (trigger Once). Raises DataLossError if a topic was deleted and
        created anew since the last batch, unless `failOnDataLoss` is false, and ConfigurationError
        in a new query whose start the options do not say. While no broker answers, it waits as
        `Outages` says.
        """
        return self._outages.wait_out(lambda: self._end_of_next(start, everything))

    def _end_of_next(self, start: Json, everything: bool) -> Json:
        if self._refused is not None and self._is_initial(start):
            raise self._refused
        before = from_json(start)
        now, quiet = self._clock(), self._quiet
        if quiet is not None and quiet.offsets != before:
            quiet = None
        if quiet is None or now - quiet.looked_up > _IDLE_LOOK_UP:
            partitions = self._partitions(before)
        else:
            partitions = quiet.partitions
        there, ids = partitions
        recreated = self._recreated(before, ids)
        begins = {
            partition: at for partition, at in before.items() if partition.topic not in recreated
        }
        begins |= self._cluster.beginning_offsets(
            [partition for partition in there if partition not in begins]
        )
        answered = quiet is not None and now - quiet.asked <= _IDLE_FRESH
        ends = before if answered and before.keys() == set(there) else self._ends(there, begins)
        moving_start = self._is_initial(start) and self._start_moves()
        if not moving_start and not recreated:
            ends = self._await_news(before, ends, partitions)
        if not everything:
            if self._delay is not None and self._delay.holds(begins, ends, self._clock()):
                # Without a wait Spark would ask again at once, for up to `maxTriggerDelay`.
                self._sleep(self._options.idle_wait)
                return start
            ends = self._limited(begins, ends)
        self._topic_ids.update(ids)
        if ends == before and not recreated and not moving_start:
            return start
        said = {partition: begins[partition] for partition in there if partition.topic in recreated}
        if self._is_initial(start):
            said = self._said_of_first(before, there, recreated) | said
        return to_json(ends, said)

    def tasks(self, start: Json, end: Json) -> list[tuple[OffsetRange, ...]]:
        """The ranges of each task of the batch.

        Raises DataLossError for lost records, unless `failOnDataLoss` is false. While no broker
        answers, it waits as `Outages` says.
        """
        return self._outages.wait_out(lambda: self._ranges_of_tasks(start, end))

    def _ranges_of_tasks(self, start: Json, end: Json) -> list[tuple[OffsetRange, ...]]:
        self._refused = None  # a batch is planned, so the query is not a new one
        begins, ends = from_json(start), from_json(end)
        said = start_of(end)
        if self._is_initial(start):
            begins = self._begins_of_first(begins, said, ends)
        begins |= said
        begins |= self._begins_of_added(begins, ends)
        ends = self._without_lost(begins, ends)
        ids = self._ids_of({partition.topic for partition in ends})
        return ranges.tasks(
            (
                OffsetRange(
                    partition.topic,
                    partition.partition,
                    begins[partition],
                    end_,
                    ids.get(partition.topic),
                )
                for partition, end_ in sorted(ends.items())
            ),
            self._options.range_limits,
        )

    def _begins_of_added(self, begins: Offsets, ends: Offsets) -> Offsets:
        """Where the partitions begin that no batch before this one had."""
        added = ends.keys() - begins.keys()
        if added:
            # Offsets of a partition that was deleted since cannot be looked up.
            there, _ = self._cluster.partitions(
                self._known({partition.topic for partition in ends})
            )
            added &= set(there)
        found = self._cluster.beginning_offsets(sorted(added))
        for partition in sorted(added):
            if found[partition]:
                self._lost(
                    f"{name_of(partition)} is new and begins with offset {found[partition]},"
                    " not with 0"
                )
        return found

    def _without_lost(self, begins: Offsets, ends: Offsets) -> Offsets:
        """The ends of the partitions that are there; records that are not are reported."""
        gone = sorted(begins.keys() ^ ends.keys())
        if gone:
            self._lost(
                f"{', '.join(map(name_of, gone))} do not exist any more, or the options do not"
                " name them any more"
            )
        left = {partition: at for partition, at in ends.items() if partition in begins}
        for partition, at in sorted(left.items()):
            if at < begins[partition]:
                self._lost(
                    f"{name_of(partition)} was read up to offset {begins[partition]} and now ends"
                    f" at {at}"
                )
        return left

    # -- which partitions there are

    def _partitions(self, before: Offsets) -> tuple[list[TopicPartition], TopicIds]:
        """The partitions to read now; looked up again while one that was read before is missing.

        A broker that is behind the controller's metadata (it has just started, or is overloaded)
        leaves out what it has not heard of. Taken for a deleted partition, that would end the query
        with DataLossError, or read the partition from its beginning when it is seen again.

        A topic that was planned before may be missing for longer: it is not a mistake in the
        options, and it may be created anew.
        """
        known = self._known({partition.topic for partition in before})
        there, ids = self._cluster.partitions(known)
        for _ in range(self._options.look_up_retries):
            if before.keys() <= set(there):
                break
            self._sleep(self._options.look_up_wait)
            there, ids = self._cluster.partitions(known)
        for topic in sorted(known - self._topic_ids.keys() - ids.keys() - self._missed):
            self._missed.add(topic)
            if all(partition.topic != topic for partition in before):  # else `tasks` tells of it
                self._lost(f"the options name {topic}, and there is no such topic")
        return there, ids

    def _known(self, topics: Collection[str]) -> set[str]:
        """The topics that may be missing without a mistake in the options: these, and those that
        were planned before.

        A checkpoint does not tell which topics were deleted while the query ran without them. So in
        a query that goes on from a checkpoint with failOnDataLoss=false, any topic of the options
        may be missing.
        """
        known = {*topics, *self._topic_ids}
        if self._initial is None and not self._options.fail_on_data_loss:
            wanted = self._options.subscription
            known.update(wanted.topics, (partition.topic for partition in wanted.partitions))
        return known

    # -- where the partitions end

    def _ends(
        self, there: Collection[TopicPartition], begins: Mapping[TopicPartition, int]
    ) -> Offsets:
        """Where the partitions end, or the target of AvailableNow."""
        if self._target is None:
            found = self._asked_again_if_lower(there, begins)
            self._latest = found
            if not self._pinned:
                return found
            self._target = found
        return {
            partition: self._target[partition] for partition in there if partition in self._target
        }

    def _asked_again_if_lower(
        self, there: Collection[TopicPartition], begins: Mapping[TopicPartition, int]
    ) -> Offsets:
        """The ends; they are looked up again while one is below the offset that was read.

        A broker that has just become leader may answer with an old high watermark for a moment
        (KIP-207). Without another look-up each leader election could end the query with
        DataLossError.
        """
        found = self._cluster.end_offsets(there)
        for _ in range(self._options.look_up_retries):
            if all(found[partition] >= begins[partition] for partition in there):
                break
            self._sleep(self._options.look_up_wait)
            found = self._cluster.end_offsets(there)
        return found

    def _await_news(
        self, before: Offsets, ends: Offsets, partitions: tuple[list[TopicPartition], TopicIds]
    ) -> Offsets:
        """Wait for new records up to `idleWaitMs`, or a tenth of the time in which none has come.
        Without the wait Spark would call `latestOffset` 65 times a second while the query is idle.
        """
        if ends != before or self._target is not None or not ends:
            self._quiet = None
            return ends
        now = self._clock()
        quiet = self._quiet
        if quiet is None or quiet.offsets != before:
            quiet = self._quiet = _Quiet(before, partitions, now, now, now)
        elif quiet.partitions is not partitions:
            quiet.partitions, quiet.looked_up = partitions, now
        share = (now - quiet.since) * _IDLE_SHARE
        deadline = now + max(self._options.idle_wait, min(share, _IDLE_LONGEST))
        while ends == before and now < deadline:
            began = now
            self._cluster.await_record(before, deadline - now)
            try:
                ends = self._latest = self._cluster.end_offsets(list(ends), _IDLE_PATIENCE)
            except KafkaTimeoutError:
                # A topic may have been deleted. The next plan asks which partitions there are.
                self._quiet = None
                break
            now = quiet.asked = self._clock()
            pause = began + max(_IDLE_ASK, share) - now
            if ends == before and pause > 0 and now < deadline:
                self._sleep(min(pause, deadline - now))
                now = self._clock()
        return ends

    # -- how much of it

    def _limited(self, begins: Mapping[TopicPartition, int], ends: Offsets) -> Offsets:
        options = self._options
        if options.max_offsets is not None:
            ends = limited(begins, ends, options.max_offsets)
        if options.max_bytes is not None:
            sizes = self._sizes.of_backlog(begins, ends)
            ends = limited(
                begins, ends, options.max_bytes, lambda partition: sizes[partition.topic]
            )
        return ends

    # -- differences from the checkpoint

    def _start_moves(self) -> bool:
        """Whether the start of a new query would be a later one if it were looked up again, also
        if nothing was deleted. Then the first batch is logged at once, even without records."""
        starting = self._options.starting
        return not starting.exact and not (starting.default == EARLIEST and not starting.given)

    def _said_of_first(
        self, before: Offsets, there: Collection[TopicPartition], recreated: Collection[str]
    ) -> Offsets:
        """Where the first batch begins, as far as its end must say it.

        Spark does not store it, and asks for it again after a restart. Until then records may have
        been deleted, so that "earliest" comes to a later offset, or the options may have been
        changed. So a partition begins at 0 unless the end says another offset: then most
        checkpoints that begin at "earliest" are the same as those of Spark's own source. A
        partition that does not exist any more is said, too: a restart would not hear of it.

        A partition that was added since the query began must be read from 0 on.
        """
        if self._start_moves():
            return dict.fromkeys(there, 0) | {
                partition: at
                for partition, at in before.items()
                if partition.topic not in recreated
            }
        return {
            partition: at
            for partition, at in before.items()
            if partition.topic not in recreated and (at > 0 or partition not in there)
        }

    def _begins_of_first(
        self, looked_up: Offsets, said: Mapping[TopicPartition, int], ends: Offsets
    ) -> Offsets:
        """Where the partitions begin for which the end of the first batch does not say it: at 0.

        `looked_up` is what the options come to now. It also has the partitions that were added
        after the batch was planned: the next batch reads them from their beginning.
        """
        found = {
            partition: min(at, ends[partition])
            for partition, at in looked_up.items()
            if partition in ends and partition not in said
        }
        unknown = [partition for partition in sorted(found) if found[partition]]
        if unknown:
            option = self._options.starting.option
            now = ", ".join(str(looked_up[partition]) for partition in unknown)
            self._lost(
                "the first batch of this query was planned and not finished. By its checkpoint it"
                f" begins with offset 0 of {', '.join(map(name_of, unknown))}, and now {option}"
                f" comes to offset {now}. If {option} was changed, set it as it was. If Spark's own"
                " source planned the batch, let it finish the batch"
            )
        return found

    def _is_initial(self, start: Json) -> bool:
        """Whether this is the answer of `initial`, not the end of a batch."""
        return from_json(start) == self._initial and not start_of(start)

    def _recreated(self, before: Offsets, ids: TopicIds) -> set[str]:
        """The topics that were deleted and created anew since they were last planned."""
        found = set()
        for topic in sorted({partition.topic for partition in before}):
            old, new = self._topic_ids.get(topic), ids.get(topic)
            if old is not None and new is not None and old != new:
                self._lost(f"topic {topic} was deleted and created anew")
                found.add(topic)
        return found

    def _ids_of(self, topics: set[str]) -> TopicIds:
        if not topics <= self._topic_ids.keys():
            _, ids = self._cluster.partitions(self._known(topics))
            self._topic_ids.update(ids)
        return self._topic_ids

    def _lost(self, text: str) -> None:
        data_loss.report(text, fail=self._options.fail_on_data_loss)
