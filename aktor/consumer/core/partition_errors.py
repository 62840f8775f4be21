"""Errors of partitions: which one a poll raises, and when; what is looked up or fetched again.

If the next data of a partition cannot be given out, the reason is kept (`Partition.error`), and the
next poll raises it before it gives out more of any partition. An error that was raised and still
stands takes turns with the records of the other partitions.

An error that only a seek ends (a record that is not deserialized, no position and no policy) stays,
and is raised again and again. An error that may pass (a refused topic) is raised once for each
attempt, and its position is looked up again. The error of a corrupt batch stays, too, while the
batch is fetched again: if the bytes were damaged on the way, the next ones are sound. If the bytes
of `TRIES` more Fetches are corrupt, too, the batch is not fetched any more, until the application
seeks.
"""

from __future__ import annotations

import math
from typing import Final

from kafka.structs import TopicPartition

from aktor.actors.runtime.manager import Backoff
from aktor.consumer.core.core import Core
from aktor.consumer.core.partition import Partition
from aktor.consumer.core.positions import Positions
from aktor.events.positions import SeekPartitions
from aktor.protocol.error_codes import Answer, Do, is_corrupt, means, only_a_seek_helps
from aktor.values import Mutable

__all__ = ["POSITION_RETRY", "TRIES", "CorruptBatches", "PositionErrors"]

#: How soon a position is looked up again after an error that may pass, in seconds.
POSITION_RETRY: Final = 1.0


class PositionErrors:
    """Owns which errors of partitions were raised, and when they are raised again."""

    def __init__(self, core: Core, positions: Positions) -> None:
        self._core = core
        self._positions = positions
        #: Partitions whose position could not be found in this attempt, and the errors of this
        #: attempt that were raised.
        self._unresolved: set[TopicPartition] = set()
        self._raised: set[str] = set()
        #: When these positions are looked up again.
        self.look_up_at = math.inf
        #: The last poll raised an error of a partition: records of the others come before the next
        #: error.
        self._was_last = False
        #: From this time on an error that stands until a seek may be raised again, even if the
        #: deadline of the poll has not come.
        self._again_at = -math.inf

    def raise_before_records(self) -> None:
        """Raise an error that is due before records of other partitions are given out."""
        self._raise_next(again=not self._was_last)

    def raise_in_place_of_records(self, now: float, deadline: float) -> None:
        """Raise an error that is due because there are no records."""
        self._raise_next(again=now >= min(self._again_at, deadline))

    def give_way(self) -> None:
        """Records were given out, or there is no error left."""
        self._was_last = False

    def due_after(self, now: float) -> float:
        """When a poll that waits has an error to raise again, or positions to look up again."""
        return min(self.look_up_at, self._again_at if self._again_at > now else math.inf)

    def _raise_next(self, *, again: bool) -> None:
        """Raise an error of a partition, if there is one to be raised now.

        An error that was raised before and still stands takes turns with the records of the other
        partitions (`again`): an application that catches it and polls on gets both. If the others
        have no records, the error is raised again at the poll's deadline, or after
        `retry_backoff_ms`: a loop that catches it without a seek does not keep the processor busy.
        """
        core = self._core
        if core.call.follows_policy:
            self._reset_out_of_range()
        while (due := core.delivery.next_error(again=again)) is not None:
            self.raise_error_of(*due)

    def _reset_out_of_range(self) -> None:
        """An offset out of range is reset by `auto_offset_reset`; only "none" raises it."""
        core = self._core
        refused = [
            state
            for state in core.delivery.failed()
            if state.offset is not None and _resets_position(state.error)
        ]
        for state in refused:
            core.delivery.reset(state.topic_partition, from_offset=state.offset)
        if refused:
            self._positions.say_resets("the offset is out of range")

    def raise_error_of(self, state: Partition, error: Exception) -> None:
        """Raise the error of a partition: each time if only a seek helps, otherwise once.

        Positions that could not be found are looked up again, all of them together. Each error of
        one attempt is raised once, however many partitions have it. `_forget` does the same for
        refusals.
        """
        core = self._core
        if not only_a_seek_helps(error):
            if state.offset is not None:
                self._forget(error)
            elif self._is_told(state, error):
                return
        else:
            self._again_at = core.clock() + core.settings.retry_backoff
        self._was_last = True
        raise core.call.own_told(error, owed=True)

    def _forget(self, error: Exception) -> None:
        """Forget this error, which is raised now, for all partitions that have the same one.

        When we are no longer authorized for a topic, each of its partitions gets the same error. A
        poll raises one error; without this method one poll per partition would fail.
        """
        core = self._core
        for state in core.delivery.failed():
            if state.offset is not None and repr(state.error) == repr(error):
                core.delivery.forget_error(state)

    def _is_told(self, state: Partition, error: Exception) -> bool:
        """Look the position up again later; True if this attempt's error was raised already."""
        raised = repr(error) in self._raised and state.topic_partition not in self._unresolved
        self._raised.add(repr(error))
        self._note_unresolved()
        if not raised:
            self.look_up_at = self._core.clock() + POSITION_RETRY
        return raised

    def _note_unresolved(self) -> None:
        for state in self._core.delivery.failed():
            if state.offset is not None or state.error is None:
                continue
            if repr(state.error) in self._raised and not only_a_seek_helps(state.error):
                state.forget_error()
                self._unresolved.add(state.topic_partition)

    def look_up_anew(self, now: float) -> None:
        """Look up again the positions that were not found: we may have been authorized since."""
        if now < self.look_up_at:
            return
        core = self._core
        self.look_up_at = math.inf
        self._positions.apply_found()
        self._note_unresolved()
        for partition in sorted(self._unresolved & core.delivery.partitions.keys()):
            state = core.delivery.partitions[partition]
            if state.offset is None:
                self._positions.renew(state)
        self._unresolved.clear()
        self._raised.clear()
        self._positions.say()
        self._positions.say_resets("the last attempt failed")

    def forget(self) -> None:
        """The managers are told the whole assignment again: forget the errors of the attempt."""
        self._unresolved.clear()
        self._raised.clear()
        self.look_up_at = math.inf


#: How often a corrupt batch is fetched again.
TRIES: Final = 3

#: The application thread has no randomness: use the middle of the backoff's jitter.
_NO_JITTER: Final = 0.5


class _Attempts(Mutable, kw_only=False):
    """The attempts to fetch the corrupt batch at `offset` of one partition."""

    offset: int
    #: The partition's epoch since the last attempt.
    epoch: int
    backoff: Backoff
    tries: int = 0
    #: The last error that was counted.
    error: Exception | None = None
    due_at: float = math.inf

    def failed(self, error: Exception | None, now: float) -> None:
        """The batch is corrupt: for the first time, or still."""
        self.error = error
        if self.tries < TRIES:
            self.due_at = self.backoff.failed(now, _NO_JITTER)

    def begin(self, epoch: int) -> None:
        """The batch is fetched again, in this epoch."""
        self.tries += 1
        self.epoch = epoch
        self.due_at = math.inf


class CorruptBatches:
    """Owns how often each corrupt batch was fetched again, and when the next attempt is due.

    After a seek, or anything else that gives a partition a new epoch, the count begins at zero.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._attempts: dict[TopicPartition, _Attempts] = {}
        self._due_at = math.inf

    def due_after(self, now: float) -> float:
        """When a poll that waits has a batch to fetch again."""
        return self._due_at if self._due_at > now else math.inf

    def may_heal(self, partition: TopicPartition) -> bool:
        """Whether the corrupt batch that a poll has raised for this partition is fetched again."""
        attempts = self._attempts.get(partition)
        state = self._core.delivery.partitions.get(partition)
        if attempts is None or state is None:
            return False
        return attempts.due_at < math.inf or state.fetched_anew

    def fetch_anew(self, now: float) -> None:
        """Note which batches are corrupt, and fetch those again that are due."""
        self._forget_healed()
        self._due_at = math.inf
        core, due = self._core, []
        for state in core.delivery.failed():
            if not is_corrupt(state.error) or not state.all_given_out:
                continue
            attempts = self._attempts_of(state)
            if attempts.error is not state.error:
                attempts.failed(state.error, now)
                self._tell(attempts, state, now)
            if attempts.due_at <= now:
                due.append(state)
            else:
                self._due_at = min(self._due_at, attempts.due_at)
        if due:
            sought = {}
            for state in due:
                core.delivery.fetch_anew(state)
                sought[state.topic_partition] = state.assigned
            core.publish(SeekPartitions(partitions=sought))
            for state in due:
                self._attempts[state.topic_partition].begin(state.epoch)

    def _attempts_of(self, state: Partition) -> _Attempts:
        core = self._core
        known = self._attempts.get(state.topic_partition)
        if known is None or (known.epoch, known.offset) != (state.epoch, state.offset):
            assert state.offset is not None, "it has been given out up to its error"
            backoff = Backoff(core.settings.retry_backoff, core.settings.retry_backoff_max)
            known = _Attempts(state.offset, state.epoch, backoff)
            self._attempts[state.topic_partition] = known
        return known

    def _tell(self, attempts: _Attempts, state: Partition, now: float) -> None:
        """Trace that the batch is corrupt, and when it is fetched again."""
        wait = attempts.due_at - now
        self._core.log.warning(
            "batch.corrupt",
            partition=state.topic_partition,
            offset=attempts.offset,
            because=state.error,
            attempts=attempts.tries,
            wait_ms=None if wait == math.inf else round(wait * 1000),
        )

    def _forget_healed(self) -> None:
        """Forget batches that were read meanwhile, and partitions that have another epoch."""
        core = self._core
        for partition, attempts in list(self._attempts.items()):
            state = core.delivery.partitions.get(partition)
            if state is None or state.epoch != attempts.epoch:
                del self._attempts[partition]
            elif state.offset != attempts.offset:
                del self._attempts[partition]
                core.log.info(
                    "batch.healed",
                    partition=partition,
                    offset=attempts.offset,
                    attempts=attempts.tries,
                )


def _resets_position(error: Exception | None) -> bool:
    """Whether the error is OFFSET_OUT_OF_RANGE from the leader: `auto_offset_reset` decides."""
    return error is not None and Do.RESET_POSITION in means(Answer.FETCH_PARTITION, type(error))
