"""From one generation of a classic group to the next: rebalances, sessions, the journal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import JoinGroupResponse

from aktor.broker.call import Call, Journal
from aktor.broker.codes import Code
from aktor.broker.groups.classic.answers import join_answer, sync_answer
from aktor.broker.groups.classic.member import Member, subscribed_topics
from aktor.broker.groups.classic.members import Members
from aktor.broker.groups.classic.states import TRANSITIONS, State, Trigger
from aktor.broker.groups.classic.timers import Timers
from aktor.broker.groups.settings import GroupSettings
from aktor.state_table import follow

__all__ = ["Generations"]

#: How long a new member's first JoinGroup may wait, s (`classicGroupNewMemberJoinTimeoutMs`).
NEW_MEMBER_JOIN_TIMEOUT = 300.0

#: The names of the timers; each member's session has a timer of its own.
_INITIAL = "initial rebalance"
_JOIN = "join"
_SYNC = "sync"
_SESSION = "session of "


class Generations:
    """Owns what a classic group is: members, generation, state, timers, and the answers to give.

    Answers are collected, and `send_answers` sends them when a request or a timer has been handled:
    a client that acts on an answer finds a group that is changed completely and is in the journal.
    """

    def __init__(
        self, group_id: str, *, settings: GroupSettings, journal: Journal, kept: Any, now: float
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.kept: dict[str, Any] | None = kept
        self._journal = journal
        self._answers: list[tuple[Call, Any]] = []
        self.load(now)

    def load(self, now: float) -> None:
        """Become what the journal has and nothing else (GroupMetadataManager.replay, onLoaded)."""
        kept = self.kept or {}
        self.state = State.STABLE if kept.get("members") else State.EMPTY
        self.state_since: float = kept.get("state_since", now)
        self.generation: int = kept.get("generation", 0)
        self.protocol_type: str | None = kept.get("protocol_type") or None
        self.protocol_name: str | None = kept.get("protocol")
        self.members = Members()
        self.timers = Timers()
        #: Members that have not asked for the assignment of this generation.
        self._pending_sync: set[str] = set()
        #: In the first rebalance of an empty group: the delay that runs now, and by how much it may
        #: be extended; and whether a member has joined while it ran.
        self._initial: tuple[float, float] | None = None
        self._newcomers = False
        for value in kept.get("members", ()):
            member = Member.from_json(value, self.protocol_name or "")
            self.members.add(member)
            self.renew_session(member, now)
        self.members.leader_id = kept.get("leader")
        self.topics = self._read_topics()
        if len(self.members) > self.settings.max_size:
            self.rebalance(now)

    # Answers, and the journal.

    def answer(self, call: Call, response: Any) -> None:
        """Answer when the request or timer has been handled."""
        self._answers.append((call, response))

    def send_answers(self) -> None:
        """Send the answers that were collected, in their order."""
        while self._answers:
            answers, self._answers = self._answers, []
            for call, response in answers:
                call.reply(response)

    def keep(self) -> None:
        """Write the group to the journal, with the members of its generation."""
        self.kept = {
            "generation": self.generation,
            "protocol_type": self.protocol_type or "",
            "protocol": self.protocol_name,
            "leader": self.members.leader_id,
            "state_since": self.state_since,
            "members": [member.to_json(self.protocol_name) for member in self.members],
        }
        self._journal.put("classic-group", (self.group_id,), self.kept)

    def give_up(self, code: Code) -> None:
        """Answer all waiting JoinGroup and SyncGroup requests with this error."""
        for member in self.members:
            self.answer_join(member, code)
            self.answer_sync(member, code)

    def take_over(self, members: Iterable[Member], *, generation: int, now: float) -> None:
        """Take over a consumer group whose members all use the classic protocol. This group must
        be new."""
        self.generation, self.protocol_type = generation, "consumer"
        for member in members:
            self.members.add(member)
            self.renew_session(member, now)
        self.protocol_name = self.members.choose_protocol()
        self.topics = self._read_topics()
        self.state, self.state_since = State.STABLE, now
        self.keep()

    def remove_group(self, now: float) -> None:
        """Delete the group, and what the journal has of it."""
        self.give_up(Code.NOT_COORDINATOR)
        self.members = Members()
        self.timers.clear()
        self._on(Trigger.REMOVED, now)
        self.kept = None
        self._journal.put("classic-group", (self.group_id,), None)

    def _on(self, trigger: Trigger, now: float) -> None:
        """The only place where `state` changes; `load` and `take_over` set the first one."""
        self.state = follow(TRANSITIONS, self.state, trigger)
        self.state_since = now

    def _read_topics(self) -> frozenset[str] | None:
        """See ClassicGroup.computeSubscribedTopics."""
        if self.protocol_type != "consumer":
            return None
        if not self.members:
            return frozenset()
        try:
            return frozenset(
                topic
                for member in self.members
                for topic in subscribed_topics(member.metadata(self.protocol_name))
            )
        except ValueError:
            return None

    # Sessions.

    def renew_session(self, member: Member, now: float) -> None:
        """Begin the member's session timeout anew: it has sent a request or was answered."""
        self.timers.set(_SESSION + member.member_id, now, member.session_timeout)

    def kept_until(self, member: Member) -> float:
        """When the group goes on without it, if nothing more is heard of it; math.inf: it does not.

        Its session ends, unless it cannot (`keeps_session`); or the time for its JoinGroup or
        SyncGroup does.
        """
        if member.keeps_session:
            return math.inf
        ends = self.timers.at(_SESSION + member.member_id)
        if self.state is State.PREPARING_REBALANCE and member.join_call is None:
            ends = min(ends, self.timers.at(_JOIN))
        if member.member_id in self._pending_sync:
            ends = min(ends, self.timers.at(_SYNC))
        return ends

    def admit(self, member_id: str, session_timeout: float, now: float) -> None:
        """This id was given out: wait for its JoinGroup for a session timeout (KIP-394)."""
        self.members.pending.add(member_id)
        self.timers.set(_SESSION + member_id, now, session_timeout)

    def add(self, member: Member, protocol_type: str, now: float) -> None:
        """Add a new member. It sends no heartbeats before its JoinGroup is answered: it may stay
        for NEW_MEMBER_JOIN_TIMEOUT without them."""
        if not self.members:
            self.protocol_type = protocol_type
        if self._initial is not None:
            self._newcomers = True
        self.members.add(member)
        self.timers.set(_SESSION + member.member_id, now, NEW_MEMBER_JOIN_TIMEOUT)

    def replace(self, old_id: str, member: Member, now: float) -> None:
        """A static member goes on with another member id; requests with the old id are fenced.

        The old id stays among those whose SyncGroup is awaited, as in Kafka: if it has not sent
        one, a rebalance follows when the time for SyncGroup is over.
        """
        old = self.members[old_id]
        self.answer_join(old, Code.FENCED_INSTANCE_ID)
        self.answer_sync(old, Code.FENCED_INSTANCE_ID)
        self.members.replace(old_id, member)
        self.timers.cancel(_SESSION + old_id)
        self.renew_session(member, now)

    def drop(self, member_id: str) -> None:
        """Remove a member, pending or not. The caller decides whether a rebalance follows.

        Kafka never answers the SyncGroup of a removed member; we answer every call.
        """
        member = self.members.by_id.get(member_id)
        if member is not None:
            self.answer_join(member, Code.UNKNOWN_MEMBER_ID, member_id="")
            self.answer_sync(member, Code.UNKNOWN_MEMBER_ID)
        self.members.remove(member_id)
        self._pending_sync.discard(member_id)
        self.timers.cancel(_SESSION + member_id)

    def expel(self, member_id: str, now: float) -> None:
        """Remove a member, or a pending one, and let the other members rebalance."""
        was_pending = member_id in self.members.pending
        self.drop(member_id)
        if self.state is State.PREPARING_REBALANCE:
            if self.members.all_joined():
                self._complete_join(now)
        elif not was_pending:
            self.rebalance_or_complete(now)

    def answer_join(self, member: Member, code: Code, *, member_id: str | None = None) -> None:
        """If a JoinGroup of the member waits, answer it with an error."""
        if member.join_call is not None:
            call, member.join_call = member.join_call, None
            shown = member.member_id if member_id is None else member_id
            self.answer(call, join_answer(call, code, member_id=shown))

    def answer_sync(self, member: Member, code: Code) -> None:
        """If a SyncGroup of the member waits, answer it with an error."""
        if member.sync_call is not None:
            call, member.sync_call = member.sync_call, None
            self.answer(call, sync_answer(code))

    # The first half of a rebalance: all members join.

    def rebalance_or_complete(self, now: float) -> None:
        """A member has joined, left or changed: begin a rebalance, or end the first half of the one
        that runs if all members have joined."""
        if Trigger.REBALANCE in TRANSITIONS[self.state]:
            self.rebalance(now)
        else:
            self.maybe_complete_join(now)

    def rebalance(self, now: float) -> None:
        """Begin a rebalance: heartbeats tell all members to join again."""
        if self.state is State.COMPLETING_REBALANCE:
            for member in self.members:
                member.assignment = b""
                if member.sync_call is not None:
                    self.answer_sync(member, Code.REBALANCE_IN_PROGRESS)
                    self.renew_session(member, now)
        self._pending_sync.clear()
        self.timers.cancel(_SYNC)

        was_empty = self.state is State.EMPTY
        self._on(Trigger.REBALANCE, now)
        if was_empty:
            self._begin_initial_delay(now)
        elif self.members.all_joined():
            self._complete_join(now)
        else:
            self.timers.set(_JOIN, now, self.members.rebalance_timeout())

    def maybe_complete_join(self, now: float) -> None:
        """End the first half if all members have joined and no initial delay runs."""
        if (
            self.state is State.PREPARING_REBALANCE
            and self._initial is None
            and self.members.all_joined()
        ):
            self._complete_join(now)

    def _begin_initial_delay(self, now: float) -> None:
        """The group was empty: wait for more members before the first generation (KIP-134)."""
        delay = self.settings.initial_rebalance_delay
        if delay <= 0:
            self._complete_join(now)
            return
        self._newcomers = False
        self._initial = (delay, max(self.members.rebalance_timeout() - delay, 0.0))
        self.timers.set(_INITIAL, now, delay)

    def _end_initial_delay(self, now: float) -> None:
        """The delay is over. If a member joined meanwhile, begin another one; together they last no
        longer than the rebalance timeout."""
        assert self._initial is not None, "the initial delay ended, but none was begun"
        delay, remaining = self._initial
        if not self._newcomers or remaining <= 0:
            self._complete_join(now)
            return
        self._newcomers = False
        longer = min(self.settings.initial_rebalance_delay, remaining)
        self._initial = (longer, max(remaining - delay, 0.0))
        self.timers.set(_INITIAL, now, longer)

    def _complete_join(self, now: float) -> None:
        """Begin a generation with the members that have joined; remove the dynamic ones that have
        not."""
        self.timers.cancel(_JOIN)
        self.timers.cancel(_INITIAL)
        for member in list(self.members):
            if member.join_call is None and member.group_instance_id is None:
                self.drop(member.member_id)
        if not self.members.elect() and self.members:
            # Only static members are left, and none has joined: wait until one of them joins, or
            # until their sessions end.
            self.timers.set(_JOIN, now, self.members.rebalance_timeout())
            return
        self._initial = None
        self.generation += 1
        self.protocol_name = self.members.choose_protocol() if self.members else None
        self.topics = self._read_topics()
        if self.members:
            self._begin_generation(now)
        else:
            self._on(Trigger.DESERTED, now)
            self.keep()

    def _begin_generation(self, now: float) -> None:
        """Answer the JoinGroup of each member that has joined, and wait for their SyncGroup."""
        self._on(Trigger.JOINED, now)
        for member in self.members:
            if member.join_call is not None:
                call, member.join_call = member.join_call, None
                leads = member.member_id == self.members.leader_id
                self.answer(call, self.joined(call, member, with_members=leads))
            member.is_new = False
            self._pending_sync.add(member.member_id)
            self.renew_session(member, now)
        self.timers.set(_SYNC, now, self.members.rebalance_timeout())

    def joined(
        self,
        call: Call,
        member: Member,
        *,
        with_members: bool = False,
        leader: str | None = None,
        skip_assignment: bool = False,
    ) -> Any:
        """The JoinGroupResponse that tells a member the generation. `leader` is the group's leader
        unless it is given."""
        return join_answer(
            call,
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=(self.members.leader_id or "") if leader is None else leader,
            skip_assignment=skip_assignment,
            members=self._roll() if with_members else (),
        )

    def _roll(self) -> list[Any]:
        """All members with their metadata, as the JoinGroupResponse of the leader has them."""
        return [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members
        ]

    # The second half: the leader's assignment.

    def synced(self, member_id: str) -> None:
        """A member has asked for its assignment."""
        self._pending_sync.discard(member_id)
        if not self._pending_sync:
            self.timers.cancel(_SYNC)

    def assign(self, assignments: dict[str, bytes], now: float) -> None:
        """Give each member the assignment that the leader sent for it, or none."""
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
        self._on(Trigger.ASSIGNED, now)
        self.keep()
        for member in self.members:
            if member.sync_call is not None:
                call, member.sync_call = member.sync_call, None
                self.answer(call, self.assigned(member))
                self.renew_session(member, now)

    def assigned(self, member: Member) -> Any:
        """The SyncGroupResponse with a member's assignment."""
        return sync_answer(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    # Time.

    def tick(self, now: float) -> None:
        """Do what is due."""
        while (timer := self.timers.pop(now)) is not None:
            if timer == _INITIAL:
                self._end_initial_delay(now)
            elif timer == _JOIN:
                self._complete_join(now)
            elif timer == _SYNC:
                self._expire_syncs(now)
            else:
                self._expire_session(timer.removeprefix(_SESSION), now)

    def _expire_syncs(self, now: float) -> None:
        """The time for SyncGroup is over: remove the members that have not sent one."""
        for member in list(self.members):
            if member.member_id in self._pending_sync:
                self.drop(member.member_id)
        self.rebalance(now)

    def _expire_session(self, member_id: str, now: float) -> None:
        member = self.members.by_id.get(member_id)
        known = member is not None or member_id in self.members.pending
        if known and not (member is not None and member.keeps_session):
            self.expel(member_id, now)
