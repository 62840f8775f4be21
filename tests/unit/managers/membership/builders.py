"""A membership manager and the world around it, in as few words as a test needs."""

from __future__ import annotations

from typing import Any, TypeVar

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.protocol.admin import DescribeGroupsResponse
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from aktor.events.commits import CommitBeforeRevocation, RevocationCommitted
from aktor.events.coordinator import CoordinatorFound
from aktor.events.membership import (
    AssignPartitions,
    CallbackFinished,
    PartitionsReleased,
    RevokePartitions,
    RunRevokedCallback,
    SubscriptionChanged,
)
from aktor.events.metadata import Broker, Cluster, ClusterChanged, PartitionInfo, TopicInfo
from aktor.events.network import Request, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.managers.membership.classic.manager import ClassicMembershipManager
from aktor.settings import Settings
from aktor.trace import Trace, recording
from aktor.values import replace

T = TypeVar("T")

COORDINATOR = Broker(node_id=1, host="kafka-1", port=9092)

#: Seconds that are lost in sums of floats.
ROUNDING = 1e-6

OK = 0
COORDINATOR_LOADING = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
INVALID_SESSION_TIMEOUT = 26
REBALANCE_IN_PROGRESS = 27
GROUP_AUTHORIZATION_FAILED = 30
MEMBER_ID_REQUIRED = 79
GROUP_MAX_SIZE_REACHED = 81
FENCED_INSTANCE_ID = 82


EAGER = {"partition_assignment_strategy": (RangePartitionAssignor,)}
COOPERATIVE = {"partition_assignment_strategy": (CooperativeStickyAssignor,)}


def partitions(text: str) -> frozenset[TopicPartition]:
    """ "a-0 a-1" as partitions."""
    split = [one.rsplit("-", 1) for one in text.split()]
    return frozenset(TopicPartition(topic, int(number)) for topic, number in split)


def a_cluster(**topics: int) -> Cluster:
    """Topics with so many partitions each."""
    leader = PartitionInfo(leader=1, leader_epoch=0)
    return Cluster(
        version=1,
        brokers={1: COORDINATOR},
        topics={
            name: TopicInfo(topic_id=None, partitions=dict.fromkeys(range(count), leader))
            for name, count in topics.items()
        },
    )


def a_subscription(*topics: str) -> bytes:
    """Another member's subscription, encoded."""
    return bytes(ConsumerProtocolSubscription(0, list(topics), b"").encode())


def an_assignment(text: str) -> bytes:
    """ "a-0 a-1" as SyncGroup carries it."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions(text)):
        by_topic.setdefault(topic, []).append(partition)
    return bytes(ConsumerProtocolAssignment(0, list(by_topic.items()), b"").encode())


def joined(
    generation: int = 1,
    member: str = "m",
    leader: str = "somebody",
    assignor: str = "range",
    members: dict[str, bytes] | None = None,
    skip_assignment: bool = False,
) -> Any:
    """JoinGroup's answer: a new generation."""
    return JoinGroupResponse(
        error_code=OK,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=assignor,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member,
        members=[
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=one, group_instance_id=None, metadata=metadata
            )
            for one, metadata in (members or {}).items()
        ],
    )


def join_refused(code: int, member: str = "") -> Any:
    """JoinGroup's answer: no."""
    return JoinGroupResponse(error_code=code, member_id=member, members=[])


def synced(text: str) -> Any:
    """SyncGroup's answer: these are yours."""
    return SyncGroupResponse(
        error_code=OK, protocol_type=None, protocol_name=None, assignment=an_assignment(text)
    )


def sync_refused(code: int) -> Any:
    """SyncGroup's answer: no."""
    return SyncGroupResponse(error_code=code, assignment=b"")


def described(*assignments: str, state: str = "Stable", code: int = OK) -> Any:
    """DescribeGroups' answer: what each member is assigned."""
    group = DescribeGroupsResponse.DescribedGroup
    return DescribeGroupsResponse(
        groups=[
            group(
                error_code=code,
                group_id="g",
                group_state=state,
                members=[
                    group.DescribedGroupMember(member_assignment=an_assignment(one))
                    for one in assignments
                ],
            )
        ]
    )


def beaten(code: int = OK) -> Any:
    """Heartbeat's answer."""
    return HeartbeatResponse(error_code=code)


def left(code: int = OK) -> Any:
    """LeaveGroup's answer."""
    return LeaveGroupResponse(error_code=code, members=[])


class MembershipHarness:
    """A manager, the time, and what it sent and said since the last look.

    `tell` and `at` are followed by a tick, as in the runtime. `sent(kind)` and `said(kind)` give
    the only thing of that kind and forget it; `nothing_sent` and `nothing_said` look without
    forgetting.
    """

    def __init__(self, **settings: Any) -> None:
        trace, self.events = recording()
        made = settings.pop("settings", None) or Settings(group_id="g")
        incarnation = settings.pop("incarnation", 1)
        self.manager = self.make_manager(replace(made, **settings), incarnation, trace)
        self.now = 100.0
        self.requests: list[Request] = []
        self.messages: list[Any] = []
        self.wake_at = float("inf")

    def make_manager(self, settings: Settings, incarnation: int, trace: Trace) -> Any:
        """The manager under test."""
        return ClassicMembershipManager(settings, incarnation=incarnation, trace=trace)

    # -- what happens to it

    def tell(self, *messages: object) -> None:
        """Deliver these, then tick."""
        for message in messages:
            self.messages += self.manager.handle(message)
        self.tick()

    def tick(self) -> None:
        """One round of the supervisor's."""
        result = self.manager.poll(now=self.now, jitter=0.5)
        self.requests += result.requests
        self.messages += result.said
        self.wake_at = result.wake_at

    def after(self, seconds: float) -> None:
        """Let time pass, waking whenever the manager asked for it."""
        until = self.now + seconds
        while self.wake_at <= until + ROUNDING:
            assert self.wake_at > self.now, "it asks to be woken in the past: that spins"
            self.now = self.wake_at
            self.tick()
        self.now = max(self.now, until)

    def answer(self, request: Request, response: Any, node: int = 1) -> None:
        """The broker answers."""
        self.tell(
            ResponseReceived(
                request=request, response=response, node=node, now=self.now, jitter=0.5
            )
        )

    def fail(self, request: Request, error: Exception | None = None, node: int | None = 1) -> None:
        """No answer will come."""
        error = error or KafkaConnectionError("reset by peer")
        self.tell(RequestFailed(request=request, error=error, node=node, now=self.now, jitter=0.5))

    def time_out(self, request: Request) -> None:
        """Nothing came before the deadline."""
        self.now = max(self.now, request.deadline)
        self.fail(request, KafkaTimeoutError("no answer"))

    def poll(self) -> None:
        """The application polls."""
        self.tell(Poll(now=self.now, positions={}, freed_bytes=0))

    def subscribe(self, *topics: str, member_id: str = "") -> None:
        """The application subscribes."""
        self.tell(SubscriptionChanged(topics=frozenset(topics), member_id=member_id))

    def find_coordinator(self, broker: Broker = COORDINATOR) -> None:
        """The coordinator is known."""
        self.tell(CoordinatorFound(broker=broker))

    def see(self, **topics: int) -> None:
        """The metadata manager has news."""
        self.tell(ClusterChanged(cluster=a_cluster(**topics)))

    # -- what it did

    def sent(self, kind: type) -> Request:
        """The only request of this kind since the last look."""
        found = [one for one in self.requests if isinstance(one.body, kind)]
        assert len(found) == 1, f"{len(found)} of {kind.__name__} in {self.requests}"
        self.requests.remove(found[0])
        return found[0]

    def has_sent(self, kind: type) -> bool:
        """Whether there is a request of this kind that nobody looked at."""
        return any(isinstance(one.body, kind) for one in self.requests)

    def said(self, kind: type[T]) -> T:
        """The only message of this kind since the last look."""
        found = [one for one in self.messages if isinstance(one, kind)]
        assert len(found) == 1, f"{len(found)} of {kind.__name__} in {self.messages}"
        self.messages.remove(found[0])
        return found[0]

    def last_said(self, kind: type[T]) -> T:
        """The last of this kind; forgets all of them."""
        found = [one for one in self.messages if isinstance(one, kind)]
        assert found, f"no {kind.__name__} in {self.messages}"
        self.messages = [one for one in self.messages if not isinstance(one, kind)]
        return found[-1]

    def has_said(self, kind: type) -> bool:
        """Whether there is a message of this kind that nobody looked at."""
        return any(isinstance(one, kind) for one in self.messages)

    def forget(self) -> None:
        """Look away from everything so far."""
        self.requests.clear()
        self.messages.clear()

    def traced(self, event: str) -> list[dict[str, Any]]:
        """The events of this name so far."""
        return [one for one in self.events if one["event"] == event]

    # -- the application's part

    def release(self, **offsets: int) -> RevokePartitions:
        """Answer RevokePartitions; `a=7` is the position of all of topic a's partitions."""
        step = self.said(RevokePartitions)
        positions = {
            one: OffsetAndMetadata(offsets[one.topic], "", -1)
            for one in step.partitions
            if one.topic in offsets
        }
        self.tell(PartitionsReleased(rebalance=step.rebalance, positions=positions))
        return step

    def run_revoked_callback(self, error: Exception | None = None) -> RunRevokedCallback:
        """Answer RunRevokedCallback."""
        step = self.said(RunRevokedCallback)
        self.tell(CallbackFinished(rebalance=step.rebalance, error=error))
        return step

    def revoke(self, **offsets: int) -> RevokePartitions:
        """The whole way of partitions out of the application's hands."""
        step = self.release(**offsets)
        if self.has_said(CommitBeforeRevocation):
            commit = self.said(CommitBeforeRevocation)
            self.tell(RevocationCommitted(rebalance=commit.rebalance))
        self.run_revoked_callback()
        return step

    def apply(self, error: Exception | None = None) -> AssignPartitions:
        """Answer AssignPartitions."""
        step = self.said(AssignPartitions)
        self.tell(CallbackFinished(rebalance=step.rebalance, error=error, assigned=True))
        return step

    # -- longer stretches

    def wants_to_join(self, *topics: str) -> MembershipHarness:
        """Subscribed, polled, coordinator known."""
        self.find_coordinator()
        self.subscribe(*topics or ("a",))
        self.poll()
        return self

    def is_syncing(self, *topics: str, **answer: Any) -> MembershipHarness:
        """JoinGroup is answered."""
        self.wants_to_join(*topics)
        self.answer(self.sent(JoinGroupRequest), joined(**answer))
        return self

    def is_assigning(self, owned: str = "a-0 a-1", **answer: Any) -> MembershipHarness:
        """SyncGroup is answered; the application has not applied it yet."""
        self.is_syncing(*sorted({one.topic for one in partitions(owned)}), **answer)
        self.answer(self.sent(SyncGroupRequest), synced(owned))
        return self

    def is_stable(self, owned: str = "a-0 a-1", **answer: Any) -> MembershipHarness:
        """A member with its partitions; everything until here is forgotten."""
        self.is_assigning(owned, **answer)
        self.apply()
        self.forget()
        return self

    def rejoins(self, generation: int = 2, assigned: str = "", **answer: Any) -> MembershipHarness:
        """JoinGroup and SyncGroup once more, both answered."""
        self.answer(self.sent(JoinGroupRequest), joined(generation=generation, **answer))
        self.answer(self.sent(SyncGroupRequest), synced(assigned))
        return self

    def beats(self, code: int = OK) -> Request:
        """Time passes until the next heartbeat, which is answered at once."""
        while not self.has_sent(HeartbeatRequest):
            assert self.wake_at > self.now, "it asks to be woken in the past: that spins"
            self.now = self.wake_at
            self.tick()
        request = self.sent(HeartbeatRequest)
        self.answer(request, beaten(code))
        return request

    def left_the_group(self) -> Request:
        """The LeaveGroup that was sent, answered."""
        request = self.sent(LeaveGroupRequest)
        self.answer(request, left())
        return request


class StaticSettings(Settings):
    """Settings of a static member (KIP-345)."""

    group_instance_id: str | None = "instance-1"


def a_member(**settings: object) -> MembershipHarness:
    return MembershipHarness(**{**EAGER, **settings})


def a_cooperative_member(**settings: object) -> MembershipHarness:
    return MembershipHarness(**{**COOPERATIVE, **settings})


def a_stable_cooperative_member(owned: str = "a-0 a-1", **settings: object) -> MembershipHarness:
    return a_cooperative_member(**settings).is_stable(owned, assignor="cooperative-sticky")


def a_static_member(**settings: object) -> MembershipHarness:
    return MembershipHarness(settings=StaticSettings(group_id="g"), **{**EAGER, **settings})


def a_leader_that_came_back(**topics: int) -> MembershipHarness:
    """A static leader that is told to keep the assignment (KIP-814): a-0 and a-1 are its own."""
    harness = a_static_member()
    harness.see(**topics)
    members = {"m": a_subscription("a"), "n": a_subscription("a")}
    harness.is_syncing("a", leader="m", members=members, skip_assignment=True)
    if not topics:
        harness.after(2)  # it waits no longer for metadata
    request = harness.sent(SyncGroupRequest)
    assert list(request.body.assignments) == []
    harness.answer(request, synced("a-0 a-1"))
    harness.apply()
    return harness
