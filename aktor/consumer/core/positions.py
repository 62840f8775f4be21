"""Positions and pauses: assign, seek, reset, pause and resume, and what follows from them.

Every change is applied to `Delivery` first and then told to the background, with the partition's
epoch: messages with an older epoch are stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.consumer.core.core import Core
from aktor.consumer.core.partition import Partition
from aktor.errors import LogTruncationError
from aktor.events.fetching import PausePartitions
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    Divergence,
    Position,
    Reset,
    ResetPositions,
    ResetStrategy,
    SeekPartitions,
)
from aktor.protocol.refusals import named_node

__all__ = ["Positions"]

#: Why a position is reset after an unclean election.
TRUNCATED: Final = "the log was truncated"


class Positions:
    """Owns nothing: `Delivery` has the partitions, and `Subscription` the ids of their topics."""

    def __init__(self, core: Core) -> None:
        self._delivery = core.delivery
        self._subscription = core.subscription
        self._topic_ids = core.subscription.topic_ids
        self._heartbeat = core.heartbeat
        self._port = core.port
        self._publish = core.publish
        self._log = core.log
        self._call = core.call
        self._max_buffered_bytes = core.settings.max_buffered_bytes
        settings = core.settings
        #: A topic that is created anew is new to us: where its partitions are to be read from their
        #: first records, and would begin at their ends.
        self._reads_new_from_start = (
            settings.auto_offset_reset == "latest"
            and settings.auto_offset_reset_out_of_range is None
            and settings.auto_offset_reset_new_partitions == "earliest"
        )

    # -- which partitions

    def assign(
        self, partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]
    ) -> None:
        """`assign()`: the user assigns these partitions, some with an offset to begin at.

        The offset goes with the assignment. With a seek after it, the position manager would
        already have asked the brokers for a position.
        """
        self._delivery.assign(partitions, offsets)
        if offsets and self._log.hears_debug:
            self._log.debug("position.sought", partitions=dict(offsets))
        self._subscription.track_topics(self._delivery.partitions)
        self.say()

    def assign_everything(self) -> None:
        """Own all partitions of the topics: without a group, subscribing means that, as in
        kafka-python."""
        cluster = self._port.cluster
        wanted = [
            TopicPartition(topic, partition)
            for topic in sorted(self._subscription.topics)
            for partition in sorted(cluster.partitions_for_topic(topic) or ())
        ]
        if set(wanted) != self._delivery.partitions.keys():
            self._delivery.assign(wanted)
            self.say()

    def follow_cluster(self) -> bool:
        """Topics have come or gone, or have more partitions: the subscription follows. True if the
        topics that its pattern matches have changed."""
        subscription = self._subscription
        changed = subscription.match_topics()
        if subscription.is_subscribed and subscription.group_id is None:
            self.assign_everything()
        return changed

    def follow_subscription(self) -> None:
        """Give out nothing of topics that are not subscribed any more, from now on: what is
        buffered of them is dropped. As in Java's AsyncKafkaConsumer (`FetchBuffer.retainAll`).

        The group revokes their partitions later, and the positions are committed then. Until then
        they may be subscribed again: they are read on from their positions.
        """
        changed = self._delivery.follow_subscription(self._subscription.wants)
        for state in changed:
            self.renew(state)
        if not changed:
            return
        because = "the subscription has changed"
        self.say()
        self.say_resets(because)
        partitions = [state.topic_partition for state in changed]
        wanted = self._delivery.fetchable(partitions)
        self._publish(PausePartitions(partitions=frozenset(partitions) - wanted, resumed=wanted))
        if dropped := [state.topic_partition for state in changed if not state.subscribed]:
            self._log.info("buffer.dropped", partitions=dropped, because="not subscribed any more")

    def say(self) -> None:
        """Tell the background what is assigned, in which epochs and at which positions."""
        self._topic_ids.note(self._delivery.topics)
        assigned = self._delivery.as_assigned()
        by_group = self._subscription.in_group
        everything = self._subscription.is_subscribed and not by_group
        self._publish(
            AssignmentChanged(partitions=assigned, by_group=by_group, all_of_topics=everything)
        )
        self._heartbeat.hurry()  # partitions assigned by hand are fetched from the next Poll on

    def renew(self, state: Partition) -> None:
        """Give a partition a new epoch; its position, or the reset it waits for, is kept."""
        if (reset := state.reset) is None:
            self._delivery.renew(state)
        else:
            self._delivery.reset(state.topic_partition, reset.strategy, reset.from_offset)

    # -- positions

    def seek(
        self, topic_partition: TopicPartition, position: Position | None, *, anew: bool = False
    ) -> None:
        """Read on from here; None looks the position up again.

        If the offset is in what is buffered, at the position or later, what is fetched stays, and
        the background need not be told. `anew`: it is fetched again all the same. With a leader
        epoch it is, too: the brokers have to see it (KIP-320).
        """
        self.follow_topics()
        self.drain_buffer()  # otherwise chunks of old epochs would pile up until the next poll
        delivery = self._delivery
        stays = False
        if not anew and position is not None and position.leader_epoch < 0:
            stays = delivery.pass_to(topic_partition, position.offset)
        if not stays:
            delivery.seek(topic_partition, position)
        if self._log.hears_debug:
            sought = None if position is None else position.offset
            self._log.debug("position.sought", partitions={topic_partition: sought})
        if not stays:
            assigned = delivery.partitions[topic_partition].assigned
            self._publish(SeekPartitions(partitions={topic_partition: assigned}))

    def reset(self, topic_partitions: Iterable[TopicPartition], strategy: ResetStrategy) -> None:
        """Go to the beginning or the end; the offset is looked up later."""
        self.follow_topics()
        self.drain_buffer()
        resets = {
            partition: self._delivery.reset(partition, strategy) for partition in topic_partitions
        }
        if self._log.hears_debug:
            self._log.debug("position.sought", partitions=dict.fromkeys(resets))
        self._publish(ResetPositions(partitions=resets, because="the application asked for it"))

    def say_resets(self, because: str) -> None:
        """Ask again for every reset that has no answer. To ask twice for one does no harm."""
        resets = {
            partition: state.reset
            for partition, state in self._delivery.partitions.items()
            if state.reset is not None
        }
        if resets:
            self._publish(ResetPositions(partitions=resets, because=because))

    def refetch_offset_gaps(self) -> None:
        """Fetch partitions again from their positions, if their chunks had an offset gap."""
        for partition in list(self._delivery.offset_gaps):
            self.seek(partition, self._delivery.partitions[partition].position, anew=True)
        self._delivery.forget_offset_gaps()

    def follow_truncations(self) -> None:
        """Logs were truncated by unclean elections (KIP-320): set positions back, or raise it.

        A bounded range (`to_table`) follows no policy: its rows would be of two logs.

        Fetches run ahead: if only records were lost that were not given out, nothing changes for
        the application, and the buffered records are fetched again.
        """
        sought: dict[TopicPartition, Assigned] = {}
        resets: dict[TopicPartition, Reset] = {}
        for told in self._delivery.truncations:
            for partition, found in told.partitions.items():
                state = self._delivery.partitions.get(partition)
                if state is None or state.fetch_epoch != found.epoch or state.offset is None:
                    continue  # it was sought, reset or revoked meanwhile
                to = state.common_with(found.end)
                if to is not None and to.offset == state.offset:
                    self._log.info("position.kept", partition=partition, offset=to.offset)
                    sought[partition] = self._delivery.seek(partition, to).assigned
                elif not (told.rewinds and self._call.follows_policy):
                    self._raise_truncation(state, found, told.committed.get(partition))
                elif to is not None:
                    self._log.warning(
                        "position.reset",
                        partitions={partition: to.offset},
                        from_offsets={partition: state.offset},
                        strategy=None,
                        because=TRUNCATED,
                    )
                    sought[partition] = self._delivery.seek(partition, to).assigned
                else:
                    offset = state.offset
                    resets[partition] = self._delivery.reset(partition, from_offset=offset)
        self._delivery.forget_truncations()
        if sought:
            self._publish(SeekPartitions(partitions=sought))
        if resets:
            self._publish(ResetPositions(partitions=resets, because=TRUNCATED))

    def _raise_truncation(
        self, state: Partition, found: Divergence, committed: OffsetAndMetadata | None
    ) -> None:
        assert state.offset is not None, "a truncation without a position"
        to = state.common_with(found.end)
        error = LogTruncationError(
            topic=state.topic_partition.topic,
            partition=state.topic_partition.partition,
            position=state.offset,
            epoch=state.leader_epoch,
            diverging_offset=None if to is None else to.offset,
            diverging_epoch=None if to is None else to.leader_epoch,
            broker=named_node(found.node, self._port.cluster.brokers),
            committed=None if committed is None else committed.offset,
        )
        self._log.warning(
            "position.truncated",
            partition=state.topic_partition,
            offset=error.position,
            diverges_at=error.diverging_offset,
            committed=error.committed,
        )
        self._delivery.refuse_truncated(state, error)

    def apply_found(self) -> None:
        """Take over positions that were found."""
        self._port.take_positions(self._delivery.apply)

    def drain_buffer(self) -> None:
        """Take over the positions and chunks that came, without waiting."""
        if self._port.positions:
            self.apply_found()
        if self._port.chunks:
            self._port.take_chunks(self._delivery.put)
            self._delivery.all_put()

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The consumed positions in topics that still exist under their ids."""
        self.follow_topics()
        return self._delivery.consumed()

    # -- topics that are deleted and created again

    def follow_topics(self) -> None:
        """Reset partitions of a topic that was deleted and created again, by `auto_offset_reset`;
        with "latest" a subscription reads the new topic from its first records.

        An offset of the old topic means nothing in the new one: records below it would be skipped.
        A seek that comes later wins. Members of a KIP-848 group are assigned the new topic by their
        coordinator.
        """
        ids = self._topic_ids
        if self.follows_topics:
            return
        cluster, anew = ids.created_anew()
        resets = {}
        is_new = self._reads_new_from_start and self._subscription.is_subscribed
        strategy = ResetStrategy.EARLIEST if is_new else None
        for partition, state in (
            self._delivery.partitions.items() if self._is_assigned_by_name else ()
        ):
            if partition.topic in anew:
                offset = state.offset
                if state.reset is not None:  # the new reset replaces the one under way
                    offset = state.reset.from_offset
                resets[partition] = self._delivery.reset(partition, strategy, from_offset=offset)
        if resets:
            because = "the topic was deleted and created anew"
            self._publish(ResetPositions(partitions=resets, because=because))
        # These come last: if an interrupt comes before them, all of the above is done again.
        ids.learn(anew)
        self._topic_ids.note(self._delivery.topics)
        ids.follow(cluster)

    @property
    def follows_topics(self) -> bool:
        """Whether the changes of the latest cluster were acted on."""
        return self._topic_ids.followed is self._port.cluster

    @property
    def _is_assigned_by_name(self) -> bool:
        """Whether partitions are assigned by topic name; KIP-848 groups assign them by topic id."""
        return not (self._subscription.in_group and self._port.membership.spoken == "consumer")

    # -- pausing

    def pause(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Pause: give out no records of these."""
        in_order = tuple(topic_partitions)
        self._delivery.pause(in_order, paused=True)
        if self._log.hears_debug:
            self._log.debug("partitions.paused", partitions=self._delivery.offsets(in_order))
        self._publish(PausePartitions(partitions=frozenset(in_order)))
        self._drop_surplus(in_order)

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Resume: give out records of these again."""
        in_order = tuple(topic_partitions)
        self._delivery.pause(in_order, paused=False)
        if self._log.hears_debug:
            self._log.debug("partitions.resumed", partitions=self._delivery.offsets(in_order))
        self._publish(PausePartitions(resumed=self._delivery.fetchable(in_order)))

    def _drop_surplus(self, just_paused: Iterable[TopicPartition]) -> None:
        """If the buffer is beyond its bound, drop records of paused partitions: they are fetched
        again later.

        While records of paused partitions fill the buffer, the others are fetched beyond the bound
        (see `FetchRoom.part`). An application that reads a little of each partition and then pauses
        it would make the buffer grow each time.
        """
        self.drain_buffer()
        bound, delivery = self._max_buffered_bytes, self._delivery
        dropped = {}
        paused = iter([delivery.partitions[partition] for partition in just_paused])
        while delivery.buffered_bytes > bound:
            state = next(paused, None) or delivery.next_idle()
            if state is None:
                break
            if state.chunks:
                self.renew(state)
                dropped[state.topic_partition] = state.assigned
        if dropped:
            self._log.info("buffer.dropped", partitions=list(dropped), because="they are paused")
            self._publish(SeekPartitions(partitions=dropped))
