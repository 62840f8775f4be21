"""One vocabulary for the members of both protocols: a test that uses it says nothing of which."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest

from aktor.events.network import Request
from aktor.managers.membership.classic import states as classic_states
from aktor.managers.membership.consumer import states as consumer_states
from tests.unit.managers.membership.builders import (
    REBALANCE_IN_PROGRESS,
    MembershipHarness,
    beaten,
    join_refused,
    left,
)
from tests.unit.managers.membership.consumer.builders import (
    HEARTBEAT,
    ConsumerHarness,
    a_leave,
    heard,
    refused,
    row,
)

#: Seconds that both believe in a session: `session_timeout_ms` of a classic member, and nine
#: heartbeats of five seconds in a KIP-848 group.
SESSION = 45.0


class GroupWords(MembershipHarness, ABC):
    """What has to be waited for in either protocol."""

    def next_beat(self) -> Request:
        """Time passes until the next heartbeat."""
        self._wait_until(lambda: self.has_beaten)
        return self.beat()

    def next_leave(self) -> Request:
        """Time passes until the next request to leave."""
        self._wait_until(lambda: self.has_asked_to_leave)
        return self.leave_request()

    def _wait_until(self, is_there: Callable[[], bool]) -> None:
        while not is_there():
            assert self.wake_at > self.now, "it asks to be woken in the past: that spins"
            self.now = self.wake_at
            self.tick()

    @abstractmethod
    def refuse_next(self, code: int) -> None:
        """The group does not know the member, in answer to what it asks next."""

    @abstractmethod
    def wait_for(self, heartbeat: Request) -> None:
        """The group knows the member, and its rebalance waits for it."""

    def is_waited_for(self, seconds: float) -> None:
        """So much time passes, and the group answers the heartbeats."""
        until = self.now + seconds
        while self.wake_at < until:
            self.now = self.wake_at
            self.tick()
            if self.has_beaten:
                self.wait_for(self.beat())
        self.now = until
        self.tick()

    @property
    @abstractmethod
    def has_beaten(self) -> bool:
        """Whether there is a heartbeat that nobody looked at."""

    @abstractmethod
    def beat(self) -> Request:
        """The heartbeat that was sent just now."""

    @property
    @abstractmethod
    def has_asked_to_leave(self) -> bool:
        """Whether there is a request to leave that nobody looked at."""

    @abstractmethod
    def leave_request(self) -> Request:
        """The request to leave that was sent just now."""


class ClassicGroup(GroupWords):
    """A member of a classic group with an eager assignor."""

    OUT = classic_states.State.UNJOINED

    def __init__(self, **settings: Any) -> None:
        strategy = {"partition_assignment_strategy": (RangePartitionAssignor,)}
        super().__init__(**{**strategy, **settings})

    # -- joining

    def is_quiet(self) -> ClassicGroup:
        """Heartbeats come at the interval: with an eager assignor they always do."""
        return self

    @property
    def has_asked_to_join(self) -> bool:
        """Whether there is a request to join that nobody looked at."""
        return self.has_sent(JoinGroupRequest)

    def join_request(self) -> Request:
        """The request to join that was sent just now."""
        return self.sent(JoinGroupRequest)

    def joins_anew(self) -> bool:
        """Whether it asks to join as a new member."""
        return bool(self.join_request().body.member_id == "")

    # -- heartbeats

    @property
    def has_beaten(self) -> bool:
        """Whether there is a heartbeat that nobody looked at."""
        return self.has_sent(HeartbeatRequest)

    def beat(self) -> Request:
        """The heartbeat that was sent just now."""
        return self.sent(HeartbeatRequest)

    def confirm(self, heartbeat: Request) -> None:
        """The group knows the member."""
        self.answer(heartbeat, beaten())

    def refuse(self, heartbeat: Request, code: int) -> None:
        """It does not, or not this broker."""
        self.answer(heartbeat, beaten(code))

    def refuse_next(self, code: int) -> None:
        """It does not, in answer to what the member asks next: it may join again."""
        if self.has_asked_to_join:
            self.answer(self.join_request(), join_refused(code))
        else:
            self.refuse(self.next_beat(), code)

    # -- a rebalance

    def wait_for(self, heartbeat: Request) -> None:
        """The group knows the member, and its rebalance waits for it."""
        self.answer(heartbeat, beaten(REBALANCE_IN_PROGRESS))

    def begins_to_revoke(self) -> None:
        """The answer to a heartbeat makes the member give partitions up, a-1 among them."""
        self.beats(REBALANCE_IN_PROGRESS)

    # -- leaving

    @property
    def has_asked_to_leave(self) -> bool:
        """Whether there is a request to leave that nobody looked at."""
        return self.has_sent(LeaveGroupRequest)

    def leave_request(self) -> Request:
        """The request to leave that was sent just now."""
        request = self.sent(LeaveGroupRequest)
        assert (request.body.member_id, request.body.members[0].member_id) == ("m", "m")
        return request

    def let_go(self, leave: Request, code: int = 0) -> None:
        """LeaveGroup is answered."""
        self.answer(leave, left(code))

    def leave(self, seconds: float = 10.0, ticket: int = 7) -> None:
        """The application leaves, and has so much time."""
        self.tell(a_leave(self.now + seconds, ticket))


class ConsumerGroup(ConsumerHarness, GroupWords):
    """A member of a KIP-848 group."""

    OUT = consumer_states.State.UNSUBSCRIBED

    # -- joining

    @property
    def has_asked_to_join(self) -> bool:
        """Whether there is a heartbeat that joins, and that nobody looked at."""
        return any(one.body.member_epoch == 0 for one in self._heartbeats())

    def join_request(self) -> Request:
        """The heartbeat that joins."""
        request = self.beat()
        assert request.body.member_epoch == 0
        return request

    def joins_anew(self) -> bool:
        """Whether it asks to join as a new member, and says all that there is to say."""
        timeout = round(self.manager.settings.max_poll_interval * 1000)
        return row(self.join_request()) == (0, timeout, ["a"], None, frozenset())

    # -- heartbeats

    def confirm(self, heartbeat: Request) -> None:
        """The group knows the member."""
        self.answer(heartbeat, heard())

    def refuse(self, heartbeat: Request, code: int) -> None:
        """It does not, or not this broker."""
        self.answer(heartbeat, refused(code))

    def refuse_next(self, code: int) -> None:
        """It does not, in answer to what the member asks next."""
        self.refuse(self.next_beat(), code)

    # -- a rebalance

    def wait_for(self, heartbeat: Request) -> None:
        """The group knows the member, and its rebalance waits for it."""
        self.confirm(heartbeat)

    def begins_to_revoke(self) -> None:
        """The answer to a heartbeat makes the member give partitions up: a-1."""
        self.is_told("a-0")

    # -- leaving

    @property
    def has_asked_to_leave(self) -> bool:
        """Whether there is a heartbeat that leaves, and that nobody looked at."""
        return any(one.body.member_epoch < 0 for one in self._heartbeats())

    def leave_request(self) -> Request:
        """The heartbeat that leaves."""
        request = self.beat()
        assert request.body.member_epoch == -1
        return request

    def let_go(self, leave: Request, code: int = 0) -> None:
        """It is answered."""
        self.answer(leave, refused(code) if code else heard(-1))

    def _heartbeats(self) -> list[Request]:
        return [one for one in self.requests if isinstance(one.body, HEARTBEAT)]


#: A member of either kind.
GroupHarness: TypeAlias = ClassicGroup | ConsumerGroup

KINDS = (ClassicGroup, ConsumerGroup)
