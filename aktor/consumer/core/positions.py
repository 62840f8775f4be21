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
from aktor.protocol.group_protocols import assigns_topic_ids
from aktor.protocol.refusals import named_node

__all__ = ["Positions"]

#: Why a position is reset after an unclean election.
TRUNCATED: Final = "the log was truncated"


class Positions:
    """Owns nothing: `Delivery` has the partitions, and `Subscription` the ids of their topics."""

    def __init__(self, core: Core) -> None:
        self._core = core
        #: What `drain_buffer` and `follows_topics` look at in each poll.
        self._port, self._topic_ids = core.port, core.subscription.topic_ids

    # -- which partitions

    def assign(
        self, partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]
    ) -> None:
        """`assign()`: the user assigns these partitions, some with an offset to begin at.

        The offset goes with the assignment. With a seek after it, the position manager would
        already have asked the brokers for a position.
        """
        core = self._core
        core.delivery.assign(partitions, offsets)
        if offsets:
            core.delivery.tell_sought(dict(offsets))
        core.subscription.track_topics(core.delivery.partitions)
        self.say()

    def assign_everything(self) -> None:
        """Own all partitions of the topics: without a group, subscribing means that, as in
        kafka-python."""
        core = self._core
        cluster = self._port.cluster
        wanted = [
            TopicPartition(topic, partition)
            for topic in sorted(core.subscription.topics)
            for partition in sorted(cluster.partitions_for_topic(topic) or ())
        ]
        if set(wanted) != core.delivery.partitions.keys():
            core.delivery.assign(wanted)
            self.say()

    def follow_cluster(self) -> bool:
        """Topics have come or gone, or have more partitions: the subscription follows. True if the
        topics that its pattern matches have changed."""
        subscription = self._core.subscription
        changed = subscription.match_topics()
        if subscription.is_subscribed and subscription.group_id is None:
            self.assign_everything()
        return changed

    def follow_subscription(self) -> None:
        """Topics may not be subscribed any more: drop what is buffered of their partitions, and
        give out none of their records. As in Java's AsyncKafkaConsumer (`FetchBuffer.retainAll`).

        The group revokes these partitions later, and their positions are committed then. If the
        topics are subscribed again before that, the partitions are read on from their positions.
        """
        core = self._core
        changed = core.delivery.follow_subscription(core.subscription.wants)
        for state in changed:
            self.renew(state)
        if not changed:
            return
        because = "the subscription has changed"
        self.say()
        self.say_resets(because)
        partitions = [state.topic_partition for state in changed]
        wanted = core.delivery.fetchable(partitions)
        core.publish(PausePartitions(partitions=frozenset(partitions) - wanted, resumed=wanted))
        if dropped := [state.topic_partition for state in changed if not state.subscribed]:
            aside = core.log.aside()  # it is an effect: the subscription leads to what follows
            aside.info("buffer.dropped", partitions=dropped, because="not subscribed any more")

    def say(self) -> None:
        """Tell the background what is assigned, in which epochs and at which positions."""
        core = self._core
        self._topic_ids.note(core.delivery.topics)
        assigned = core.delivery.as_assigned()
        by_group = core.subscription.in_group
        everything = core.subscription.is_subscribed and not by_group
        core.publish(
            AssignmentChanged(partitions=assigned, by_group=by_group, all_of_topics=everything)
        )
        # Partitions that are assigned by hand are fetched from the next Poll on.
        core.poll_heartbeat.hurry()

    def renew(self, state: Partition) -> None:
        """Give a partition a new epoch; its position, or the reset it waits for, is kept."""
        core = self._core
        if (reset := state.reset) is None:
            core.delivery.renew(state)
        else:
            core.delivery.reset(state.topic_partition, reset.strategy, reset.from_offset)

    # -- positions

    def seek(
        self, topic_partition: TopicPartition, position: Position, *, anew: bool = False
    ) -> None:
        """Read on from here.

        If the offset is in what is buffered, at the position or later, what is fetched stays, and
        the background need not be told. `anew`: it is fetched again all the same. With a leader
        epoch it is, too: the brokers have to see it (KIP-320).
        """
        core = self._core
        self.follow_topics()
        self.drain_buffer()  # otherwise chunks of old epochs would pile up until the next poll
        delivery = core.delivery
        stays = False
        if not anew and position.leader_epoch < 0:
            stays = delivery.pass_to(topic_partition, position.offset)
        if not stays:
            delivery.seek(topic_partition, position)
        delivery.tell_sought({topic_partition: position.offset})
        if not stays:
            assigned = delivery.partitions[topic_partition].assigned
            core.publish(SeekPartitions(partitions={topic_partition: assigned}))

    def read_again(self, state: Partition) -> None:
        """Fetch again what is behind the position, also what is buffered."""
        assert state.position is not None, "what was decoded is behind a position"
        self.seek(state.topic_partition, state.position, anew=True)

    def reset(self, topic_partitions: Iterable[TopicPartition], strategy: ResetStrategy) -> None:
        """Go to the beginning or the end; the offset is looked up later."""
        core = self._core
        self.follow_topics()
        self.drain_buffer()
        resets = {
            partition: core.delivery.reset(partition, strategy) for partition in topic_partitions
        }
        core.delivery.tell_sought(dict.fromkeys(resets))
        core.publish(ResetPositions(partitions=resets, because="the application asked for it"))

    def say_resets(self, because: str) -> None:
        """Ask again for every reset that has no answer. To ask twice for one does no harm."""
        core = self._core
        resets = {
            partition: state.reset
            for partition, state in core.delivery.partitions.items()
            if state.reset is not None
        }
        if resets:
            core.publish(ResetPositions(partitions=resets, because=because))

    def refetch_offset_gaps(self) -> None:
        """Fetch partitions again from their positions, if their chunks had an offset gap."""
        core = self._core
        for partition in list(core.delivery.offset_gaps):
            self.read_again(core.delivery.partitions[partition])
        core.delivery.forget_offset_gaps()

    def follow_truncations(self) -> None:
        """Logs were truncated by unclean elections (KIP-320): set positions back, or raise it if
        the policy for offsets out of range is "none".

        A bounded range (`to_table`) follows no policy: its rows would be of two logs.

        Fetches run ahead: if only records were lost that were not given out, nothing changes for
        the application, and the buffered records are fetched again.
        """
        core = self._core
        sought: dict[TopicPartition, Assigned] = {}
        resets: dict[TopicPartition, Reset] = {}
        rewinds = core.call.follows_policy and core.settings.out_of_range_policy != "none"
        for told in core.delivery.truncations:
            for partition, found in told.partitions.items():
                state = core.delivery.partitions.get(partition)
                if state is None or state.fetch_epoch != found.epoch or state.offset is None:
                    continue  # it was sought, reset or revoked meanwhile
                to = state.common_with(found.end)
                if to is not None and to.offset == state.offset:
                    core.log.info("position.kept", partition=partition, offset=to.offset)
                    sought[partition] = core.delivery.seek(partition, to).assigned
                elif not rewinds:
                    self._raise_truncation(state, found, told.committed.get(partition))
                elif to is not None:
                    core.log.warning(
                        "position.reset",
                        partitions={partition: to.offset},
                        from_offsets={partition: state.offset},
                        strategy=None,
                        because=TRUNCATED,
                    )
                    sought[partition] = core.delivery.seek(partition, to).assigned
                else:
                    offset = state.offset
                    resets[partition] = core.delivery.reset(partition, from_offset=offset)
        core.delivery.forget_truncations()
        if sought:
            core.publish(SeekPartitions(partitions=sought))
        if resets:
            core.publish(ResetPositions(partitions=resets, because=TRUNCATED))

    def _raise_truncation(
        self, state: Partition, found: Divergence, committed: OffsetAndMetadata | None
    ) -> None:
        core = self._core
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
        core.log.warning(
            "position.truncated",
            partition=state.topic_partition,
            offset=error.position,
            diverges_at=error.diverging_offset,
            committed=error.committed,
        )
        core.delivery.refuse_truncated(state, error)

    def apply_found(self) -> None:
        """Take over positions that were found."""
        self._port.take_positions(self._core.delivery.apply)

    def drain_buffer(self) -> None:
        """Take over the positions and chunks that came, without waiting."""
        if self._port.positions:
            self.apply_found()
        if self._port.chunks:
            self._port.take_chunks(self._core.delivery.put)
            self._core.delivery.all_put()

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The consumed positions in topics that still exist under their ids."""
        self.follow_topics()
        return self._core.delivery.consumed()

    # -- topics that are deleted and created again

    def follow_topics(self) -> None:
        """Reset partitions of a topic that was deleted and created again, by `auto_offset_reset`.
        If new partitions are read from their first records, so are these of a subscription, unless
        the application has set a policy for offsets out of range: that one decides then.

        An offset of the old topic means nothing in the new one: records below it would be skipped.
        A seek that comes later wins. Members of a KIP-848 group are assigned the new topic by their
        coordinator. Until they have lost the old one, their positions are of that one, and are
        committed for its id only.
        """
        core = self._core
        ids = self._topic_ids
        if self.follows_topics:
            return
        cluster, anew = ids.created_anew()
        if not self._is_assigned_by_name:
            anew = {}
        resets = {}
        settings = core.settings
        is_new = core.subscription.is_subscribed and settings.reads_new_partitions_from_start
        is_new = is_new and settings.auto_offset_reset_out_of_range is None
        strategy = ResetStrategy.EARLIEST if is_new else None
        for partition, state in core.delivery.partitions.items():
            if partition.topic in anew:
                offset = state.offset
                if state.reset is not None:  # the new reset replaces the one under way
                    offset = state.reset.from_offset
                resets[partition] = core.delivery.reset(partition, strategy, from_offset=offset)
        if resets:
            because = "the topic was deleted and created anew"
            core.publish(ResetPositions(partitions=resets, because=because))
        # These come last: if an interrupt comes before them, all of the above is done again.
        ids.learn(anew)
        self._topic_ids.note(core.delivery.topics)
        ids.follow(cluster)

    @property
    def follows_topics(self) -> bool:
        """Whether the changes of the latest cluster were acted on."""
        return self._topic_ids.followed is self._port.cluster

    @property
    def _is_assigned_by_name(self) -> bool:
        """Whether partitions are assigned by topic name; KIP-848 groups assign them by topic id."""
        spoken = self._port.membership.spoken
        return not (self._core.subscription.in_group and assigns_topic_ids(spoken))

    # -- pausing

    def pause(
        self, topic_partitions: Iterable[TopicPartition], *, because: str | None = None
    ) -> None:
        """Pause: give out no records of these. `because`: why, if the user has not asked for it."""
        core = self._core
        in_order = tuple(topic_partitions)
        core.delivery.pause(in_order, paused=True)
        if core.log.hears_debug():
            offsets = core.delivery.offsets(in_order)
            core.log.debug("partitions.paused", partitions=offsets, because=because)
        core.publish(PausePartitions(partitions=frozenset(in_order)))
        self._drop_surplus(in_order)

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Resume: give out records of these again."""
        core = self._core
        in_order = tuple(topic_partitions)
        core.delivery.pause(in_order, paused=False)
        if core.log.hears_debug():
            core.log.debug("partitions.resumed", partitions=core.delivery.offsets(in_order))
        core.publish(PausePartitions(resumed=core.delivery.fetchable(in_order)))

    def _drop_surplus(self, just_paused: Iterable[TopicPartition]) -> None:
        """If the buffer is beyond its bound, drop records of paused partitions: they are fetched
        again later.

        While records of paused partitions fill the buffer, the others are fetched beyond the bound
        (see `FetchRoom.for_session`). An application that reads a little of each partition and then
        pauses it would make the buffer grow each time.
        """
        core = self._core
        self.drain_buffer()
        bound, delivery = core.settings.max_buffered_bytes, core.delivery
        dropped = {}
        paused = iter([delivery.partitions[partition] for partition in just_paused])
        while delivery.buffered_bytes > bound:
            state = next(paused, None) or delivery.next_idle()
            if state is None:
                break
            # (A position that was found may still be on its way when its first records are here. A
            # seek without a position would end the look-up, and nothing would be fetched.)
            if state.chunks and state.offset is not None:
                self.renew(state)
                dropped[state.topic_partition] = state.assigned
        if dropped:
            core.log.info("buffer.dropped", partitions=list(dropped), because="they are paused")
            core.publish(SeekPartitions(partitions=dropped))
