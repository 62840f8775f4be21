"""Look-ups of committed offsets: calls that ask for the same partitions share one OffsetFetch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from typing import Any

from kafka.errors import UnknownError
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.actors.runtime.exchange import Exchange, attempt_time
from aktor.actors.runtime.manager import NEVER
from aktor.events.answers import Answered, Failed
from aktor.events.commits import (
    FetchCommittedOffsets,
    FindStartingOffsets,
    StartingOffsetsFailed,
    StartingOffsetsFound,
)
from aktor.events.membership import ConfirmSession, MemberChanged, MemberState
from aktor.events.message import Message
from aktor.events.metadata import RefreshMetadata
from aktor.events.network import Destination, Request
from aktor.managers.commits.consumed import Consumed
from aktor.managers.commits.errors import CommitErrors, Coordinator
from aktor.managers.commits.look_up import Asker, LookUp, OffsetFetchSent, Outcome
from aktor.managers.commits.requests import (
    TopicIds,
    committed,
    offset_fetch,
    offset_fetch_answers,
)
from aktor.protocol.commit_note import without_note
from aktor.protocol.error_codes import Answer, Do, error_of, forbids_topic, means, name_of
from aktor.protocol.partitions import listed
from aktor.protocol.refusals import explained, topics_refused
from aktor.settings import Settings
from aktor.trace import Trace

__all__ = ["LookUps"]


class LookUps:
    """Owns the look-ups of committed offsets, waiting and in flight, and their questions.

    `request` makes a request of the manager's; `log` is the manager's. Only partitions with a
    retriable error (UNSTABLE_OFFSET_COMMIT, for example) are asked for again.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        consumed: Consumed,
        request: Callable[..., Request],
        say: Callable[[Message], None],
        log: Trace,
    ) -> None:
        self._log = log
        self._say = say
        self._settings = settings
        self._errors = CommitErrors(settings.group_id)
        self._consumed = consumed
        self._attempt = attempt_time(settings)
        self._request = request
        self._under_way: list[LookUp] = []
        self._member = MemberChanged(member_id="", generation=-1, state=MemberState.UNJOINED)
        self._topic_ids: TopicIds = {}
        self._described: Set[str] | None = None
        #: Of each partition whose starting offset waits until the metadata describes its topic: how
        #: often it had changed hands, and whether the offset must be stable.
        self._undescribed: dict[TopicPartition, tuple[int, bool]] = {}

    def know(
        self, member: MemberChanged, topic_ids: TopicIds, described: Set[str] | None, log: Trace
    ) -> None:
        """Ask as this member from now on, and name topics by these ids. The trace names it, too.
        `described`: the topics that the metadata describes; None: nothing was heard of it yet."""
        self._member = member
        self._topic_ids = topic_ids
        self._described = described
        self._log = log
        self._begin([each for each in self._undescribed if self._may_ask_for(each.topic)])

    def __bool__(self) -> bool:
        return bool(self._under_way)

    # -- what others want

    def ask(self, asked: FetchCommittedOffsets) -> None:
        """Look these up, or join a look-up of the same partitions that can answer the question."""
        if self._settings.group_id is None:
            error = self._errors.no_group("look up committed offsets")
            self._say(Failed(ticket=asked.ticket, error=error))
            return
        if not asked.partitions:
            self._say(Answered(ticket=asked.ticket, value={}))
            return
        look_up = self._joinable(asked.partitions) or self._add(asked.partitions)
        look_up.asked_by(Asker(asked.ticket, asked.deadline))

    def find_starting(self, asked: FindStartingOffsets) -> None:
        """Look up these starting offsets until they are found, unless that is under way already."""
        if self._settings.group_id is None:
            self._say(StartingOffsetsFound(offsets=dict.fromkeys(asked.partitions)))
            return
        for partition in asked.partitions:
            ownership = self._consumed.ownership(partition)
            if not self._is_being_found(partition, ownership):
                self._undescribed[partition] = ownership, asked.stable
        self._begin([each for each in asked.partitions if self._may_ask_for(each.topic)])

    def _begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Look up those of them that have waited."""
        by_stable: defaultdict[bool, dict[TopicPartition, int]] = defaultdict(dict)
        for partition in partitions:
            if partition in self._undescribed:
                ownership, stable = self._undescribed.pop(partition)
                if not self._consumed.changed_hands(partition, ownership):
                    by_stable[stable][partition] = ownership
        for stable, wanted in by_stable.items():
            self._find_together(wanted, stable=stable)

    def _find_together(self, wanted: Mapping[TopicPartition, int], *, stable: bool) -> None:
        partitions = frozenset(wanted)
        look_up = self._joinable(partitions, stable=stable)
        if look_up is None or look_up.as_of is not None:
            # A look-up that was sent before the partition was assigned to us may bring an old
            # offset: the former owner of the partition may have committed a later one.
            look_up = self._add(partitions, stable=stable)
        look_up.find_for_positions(wanted)

    def _is_being_found(self, partition: TopicPartition, ownership: int) -> bool:
        """Whether a look-up that is fresh enough finds this partition's offset already.

        The partition is taken out of older look-ups: their answer may be out of date.
        """
        for look_up in self._under_way:
            if partition not in look_up.for_positions:
                continue
            if look_up.for_positions[partition] == ownership and self._is_fresh(look_up):
                return True
            look_up.forget_positions([partition])
        return False

    @property
    def trouble(self) -> str:
        """How the last attempt ended of a look-up for which positions wait."""
        for look_up in self._under_way:
            if look_up.for_positions and look_up.last_error is not None:
                return str(look_up.last_error)
        return ""

    def _is_fresh(self, look_up: LookUp) -> bool:
        return look_up.as_of is None or look_up.as_of == self._consumed.commits_stored

    def _joinable(
        self, partitions: frozenset[TopicPartition], *, stable: bool = True
    ) -> LookUp | None:
        """A look-up of exactly these partitions that has not ended, and is not older than our last
        commit; None if there is none.

        A look-up leaves the list when it ends, so no call can join an ended one (KAFKA-20765).
        """
        for look_up in self._under_way:
            joinable = not look_up.by_name and look_up.stable is stable and self._is_fresh(look_up)
            if look_up.partitions == partitions and joinable:
                return look_up
        return None

    def _add(
        self,
        partitions: frozenset[TopicPartition],
        askers: Iterable[Asker] = (),
        *,
        by_name: bool = False,
        stable: bool = True,
    ) -> LookUp:
        look_up = LookUp(
            partitions=partitions,
            wanted=partitions,
            askers=list(askers),
            by_name=by_name,
            stable=stable,
            exchange=Exchange(self._settings),
        )
        self._under_way.append(look_up)
        return look_up

    def forget_positions(self) -> None:
        """A restarted position manager asks again: forget what the old one asked."""
        self._undescribed.clear()
        for look_up in list(self._under_way):
            look_up.forget_positions(list(look_up.for_positions))
            self._drop_unless_needed(look_up)

    def _drop_unless_needed(self, look_up: LookUp) -> None:
        if not look_up.exchange.in_flight and not look_up.needed and look_up in self._under_way:
            self._under_way.remove(look_up)

    # -- when

    def askers(self) -> Iterator[Asker]:
        """All application calls that wait for committed offsets."""
        for look_up in self._under_way:
            yield from look_up.askers

    @property
    def deadline(self) -> float:
        """When the first of the calls that wait fails."""
        return min((asker.deadline for asker in self.askers()), default=NEVER)

    @property
    def due(self) -> float:
        """When the first OffsetFetch may be sent."""
        return min((look_up.due for look_up in self._under_way), default=NEVER)

    def _may_ask_for(self, topic: str) -> bool:
        """Whether a starting offset in this topic may be looked up: not before the metadata
        describes the topic.

        Without the topic's id it is asked for by name. If the topic was created anew, the answer
        may be what was committed in the old one: the coordinator forgets that only in time, and
        records of the new topic would be skipped. Reading cannot begin without the description.
        """
        described = self._described
        return described is None or topic in described or topic in self._topic_ids

    def end_overdue(self, now: float, coordinator: Coordinator) -> None:
        """Answer the calls whose deadline has come."""
        for look_up in list(self._under_way):
            for asker in [asker for asker in look_up.askers if asker.deadline <= now]:
                look_up.dismiss(asker)
                waited = look_up.waited(asker.since, now, coordinator)
                error = self._errors.look_up_timeout(look_up.wanted, waited)
                self._say(Failed(ticket=asker.ticket, error=error))
            self._drop_unless_needed(look_up)

    def why_not_found(self, tp: TopicPartition, now: float, coordinator: Coordinator) -> str:
        """Why the committed offset that the position manager needs is not found yet."""
        if tp in self._undescribed:
            return "no broker has described its topic yet"
        for look_up in self._under_way:
            if tp in look_up.for_positions:
                return look_up.waited(None, now, coordinator).because
        return "it was not looked up in time"

    # -- on the way

    def to_send(
        self,
        now: float,
        node: int | None,
        unanswered: Collection[TopicPartition],
    ) -> list[Request]:
        """An OffsetFetch for each look-up that is due; `node`: the coordinator, None if unknown.

        `unanswered` are the partitions of commits that are on their way.
        """
        for look_up in list(self._under_way):
            self._forget_lost(look_up)
        if node is None:
            return []
        for look_up in self._under_way:
            if now >= look_up.exchange.due:
                look_up.hold(unanswered, until=now + self._attempt)
        return [self._send(look_up, node, now) for look_up in self._under_way if now >= look_up.due]

    def _forget_lost(self, look_up: LookUp) -> None:
        """The starting offset of a lost partition is not needed any more."""
        look_up.forget_positions(
            [
                partition
                for partition, ownership in look_up.for_positions.items()
                if self._consumed.changed_hands(partition, ownership)
            ]
        )
        if not look_up.askers and not look_up.exchange.in_flight:
            look_up.ask_only_for_positions()
        self._drop_unless_needed(look_up)

    def _send(self, look_up: LookUp, node: int, now: float) -> Request:
        look_up.sent(now, self._consumed.commits_stored)
        self._log.debug("offsets.requested", partitions=look_up.wanted, node=node)
        ids: TopicIds = {} if look_up.by_name else self._topic_ids
        return self._request(
            offset_fetch(
                self._settings.group_id, look_up.wanted, self._member, ids, stable=look_up.stable
            ),
            to=Destination.COORDINATOR,
            deadline=now + self._attempt,
            context=OffsetFetchSent(look_up=look_up, partitions=look_up.wanted, node=node),
        )

    # -- the outcome

    def read(
        self, response: Any, request: Any, partitions: frozenset[TopicPartition], by: str
    ) -> Outcome:
        """Sort an answer by partition. What an error code means is decided once for all partitions
        that have it. `by` is the coordinator that has given it."""
        group_code, answers = offset_fetch_answers(response, request)
        by_code: defaultdict[int, list[TopicPartition]] = defaultdict(list)
        for partition in sorted(partitions):
            answer = answers.get(partition)
            code = UnknownError.errno if answer is None else answer.error_code
            by_code[group_code or code].append(partition)
        outcome = Outcome()
        for code, those in by_code.items():
            error_type = error_of(code)
            meaning = means(Answer.OFFSET_FETCH, error_type)
            if Do.DONE in meaning:
                outcome.found.update((each, committed(answers[each])) for each in those)
                continue
            errors = self._errors_of(error_type, those, by)
            (outcome.again if Do.RETRY in meaning else outcome.refused).update(errors)
        return outcome

    def _errors_of(
        self, error_type: type[Exception], partitions: list[TopicPartition], by: str
    ) -> dict[TopicPartition, Exception]:
        """Why the committed offsets of these partitions were not told, for each of them."""
        if forbids_topic(error_type):
            topics = {partition.topic for partition in partitions}
            error = topics_refused(error_type, topics, Answer.OFFSET_FETCH, by=by)
        else:
            error = self._errors.look_up_refused(error_type, partitions, by)
        return dict.fromkeys(partitions, error)

    def failed(self, asked: OffsetFetchSent, error: Exception, now: float, jitter: float) -> None:
        """No answer will come to an OffsetFetch."""
        meaning = means(Answer.OFFSET_FETCH, type(error))
        if Do.RETRY in meaning:
            outcome = Outcome(again=dict.fromkeys(asked.partitions, error))
            if Do.RAISE in meaning:
                self._fail_askers(asked.look_up, error)
        else:
            error = explained(error, listed(asked.partitions), Answer.OFFSET_FETCH)
            outcome = Outcome(refused=dict.fromkeys(asked.partitions, error))
        self.settle(asked.look_up, outcome, now, jitter)

    def refuse(self, error: Exception) -> None:
        """We may not use the group: fail all look-ups that are not in flight."""
        self._begin(list(self._undescribed))
        for look_up in list(self._under_way):
            if not look_up.exchange.in_flight:
                outcome = Outcome(refused=dict.fromkeys(look_up.wanted, error))
                self.settle(look_up, outcome)

    def settle(
        self, look_up: LookUp, outcome: Outcome, now: float = 0.0, jitter: float = 0.5
    ) -> None:
        """Answer the calls that the outcome completes; ask again later for the rest."""
        look_up.answered(outcome)
        if outcome.found:
            self._log.info("offsets.fetched", partition_count=len(outcome.found))
        if outcome.again:
            retry_at = look_up.failed(next(iter(outcome.again.values())), now, jitter)
            self._log.info(
                "offsets.retried",
                partitions=look_up.wanted,
                because=look_up.last_error,
                wait_ms=round((retry_at - now) * 1000),
            )
        meanings = [_meaning(error) for error in outcome.again.values()]
        if any(Do.CONFIRM_MEMBERSHIP in meaning for meaning in meanings):
            # The heartbeat would find out too, but only when its interval is over.
            self._say(ConfirmSession())
        stale = [
            error for error in outcome.again.values() if Do.REFRESH_METADATA in _meaning(error)
        ]
        if stale:
            self._say(RefreshMetadata(because=f"{name_of(type(stale[0]))} on OffsetFetch"))
            self._ask_by_name(look_up)
        self._tell_positions(look_up, outcome)
        self._tell_askers(look_up, outcome)
        if outcome.refused:
            look_up.drop_answers()
        self._drop_unless_needed(look_up)

    def _ask_by_name(self, look_up: LookUp) -> None:
        """Look up by name what `committed()` asks for: the id that we know is not the topic's.

        The user means the topic that has this name now. A starting offset is looked up by the id
        alone: a partition that the group has given us belongs to the topic with that id.
        """
        if look_up.askers and not look_up.by_name:
            self._add(look_up.partitions, look_up.dismiss_all(), by_name=True)

    def _tell_positions(self, look_up: LookUp, outcome: Outcome) -> None:
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        refused: dict[TopicPartition, Exception] = {}
        for partition, ownership in list(look_up.for_positions.items()):
            if partition in outcome.again:
                continue
            look_up.forget_positions([partition])
            if self._consumed.changed_hands(partition, ownership):
                self._log.debug("offset.dropped", partition=partition, because="it changed hands")
            elif partition in outcome.refused:
                refused[partition] = outcome.refused[partition]
            else:
                found[partition] = look_up.found[partition]
        self._consumed.found({each: without_note(value) for each, value in found.items()})
        if found:
            self._say(StartingOffsetsFound(offsets=found))
        for error in {id(error): error for error in refused.values()}.values():
            partitions = frozenset(partition for partition, its in refused.items() if its is error)
            self._log.warning("offsets.failed", partitions=partitions, because=error)
            self._say(StartingOffsetsFailed(partitions=partitions, error=error))

    def _tell_askers(self, look_up: LookUp, outcome: Outcome) -> None:
        if outcome.refused:
            self._fail_askers(look_up, next(iter(outcome.refused.values())))
            return
        only_unknown = all(Do.AWAIT_TOPIC in _meaning(error) for error in outcome.again.values())
        for asker in list(look_up.askers):
            no_time = only_unknown and look_up.exchange.retry_at >= asker.deadline
            if outcome.again and not no_time:
                continue
            look_up.dismiss(asker)
            value = {
                partition: without_note(look_up.found.get(partition))
                for partition in look_up.partitions
            }
            self._say(Answered(ticket=asker.ticket, value=value))

    def _fail_askers(self, look_up: LookUp, error: Exception) -> None:
        askers = look_up.dismiss_all()
        if askers:
            self._log.warning("offsets.failed", partitions=look_up.partitions, because=error)
        for asker in askers:
            self._say(Failed(ticket=asker.ticket, error=error))


def _meaning(error: Exception) -> Do:
    return means(Answer.OFFSET_FETCH, type(error))
