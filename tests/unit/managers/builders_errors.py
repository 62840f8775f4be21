"""Each kind of answer that a broker can refuse, and what we make of any code in it: the managers,
and the handshake on a connection.

An exception in place of a code: the request ends in it, without an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from aktor.actors.runtime.manager import RequestManager
from aktor.actors.sockets.diagnosis import Diagnosis
from aktor.actors.sockets.handshake import Ask, Handshake, Steps, Work, mechanism_of
from aktor.events.commits import FindStartingOffsets
from aktor.events.coordinator import SuspectCoordinator
from aktor.events.membership import (
    CallbackFinished,
    LeaveGroup,
    PartitionsReleased,
    RevokePartitions,
)
from aktor.events.message import Message
from aktor.events.metadata import (
    Cluster,
    ClusterChanged,
    DescribeTopics,
    NameTopics,
    RefreshMetadata,
    TopicInfo,
    TrackTopics,
)
from aktor.events.network import Request
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    FollowEnds,
    ListOffsets,
    Position,
    ValidatePositions,
)
from aktor.managers.metadata.manager import MetadataManager
from aktor.managers.positions.manager import PositionManager
from aktor.protocol.api_versions import ApiVersions
from aktor.settings import Settings
from tests.unit.managers import builders as managing
from tests.unit.managers.builders_coordinator import coordinating
from tests.unit.managers.commits import builders as commits
from tests.unit.managers.fetch import builders as fetching
from tests.unit.managers.membership import builders as classic
from tests.unit.managers.membership.builders import (
    a_leader_that_came_back,
    a_stable_cooperative_member,
)
from tests.unit.managers.membership.consumer.builders import (
    UNRELEASED_INSTANCE_ID,
    AutoHarness,
    ConsumerHarness,
    a_leave,
    refused,
)
from tests.unit.managers.metadata import builders as describing
from tests.unit.managers.positions import builders as positions

#: How long after the refusal we look at what is sent: longer than any backoff.
PATIENCE = 2.5


@dataclass(frozen=True)
class Outcome:
    """What came of a refusal: messages, requests at once and within `PATIENCE`, and those after the
    application has polled again (of a member); `wakes_in` so many seconds (of a Fetch)."""

    said: list[object]
    at_once: list[Any]
    later: list[Any]
    polled: list[Any] = field(default_factory=list)
    wakes_in: float = 0.0

    @property
    def soon(self) -> list[Any]:
        """The requests until `PATIENCE` is over."""
        return [*self.at_once, *self.later]

    @property
    def sent(self) -> list[Any]:
        """All requests."""
        return [*self.soon, *self.polled]


#: A code, or why there is no answer.
What = int | Exception

Probe = Callable[[What], Outcome]


def _outcome(manager: RequestManager, said: list[object], now: float) -> Outcome:
    """Tick at once, and again when all backoffs are over. A coordinator is found if need be."""
    first = commits.tick(manager, now)
    if any(isinstance(one, SuspectCoordinator) for one in said):
        manager.handle(commits.found())
    second = commits.tick(manager, now + PATIENCE)
    return Outcome(
        [*said, *first.said, *second.said],
        [one.body for one in first.requests],
        [one.body for one in second.requests],
    )


def _end(
    manager: RequestManager,
    request: Request,
    code: What,
    response: Callable[[int], Any],
    now: float = 0.0,
) -> list[object]:
    """The request is answered with the code, or fails; returns what the manager says."""
    if isinstance(code, int):
        return managing.answer(manager, request, response(code), now=now)
    return managing.fail(manager, request, code, now=now)


def _of_harness(
    harness: classic.MembershipHarness, request: Request, code: What, response: Callable[[int], Any]
) -> Outcome:
    _refuse(harness, request, code, response)
    _let_go(harness)
    at_once = _bodies(harness)
    harness.after(PATIENCE)
    later = _bodies(harness)
    said = list(harness.messages)
    harness.poll()
    return Outcome(said, at_once, later, _bodies(harness))


def _refuse(
    harness: classic.MembershipHarness, request: Request, code: What, response: Callable[[int], Any]
) -> None:
    harness.forget()
    if isinstance(code, int):
        harness.answer(request, response(code))
    else:
        harness.fail(request, code)


def _bodies(harness: classic.MembershipHarness) -> list[Any]:
    """What was sent since the last look."""
    bodies = [one.body for one in harness.requests]
    harness.requests.clear()
    return bodies


def _let_go(harness: classic.MembershipHarness) -> None:
    """The application gives up what it must: before that it is told of no error."""
    for step in harness.messages[:]:
        if isinstance(step, RevokePartitions):
            harness.tell(PartitionsReleased(rebalance=step.rebalance, positions={}))
            harness.tell(CallbackFinished(rebalance=step.rebalance, error=None))


# -- the handshake


def _of_handshake(steps: Steps[Any], *responses: Any) -> Outcome:
    """The broker answers with these, one after the other. What ends the connection is said."""
    said: list[object] = []
    asked: list[Any] = []
    try:
        step = steps.send(None)
        for response in responses:
            step = steps.send(response)
            while isinstance(step, Work):
                step = steps.send(step.work())
        asked += [step.body] if isinstance(step, Ask) else []
    except KafkaError as refusal:
        said.append(refusal)
    return Outcome(said, asked, [])


def _handshake() -> Handshake:
    login = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "p"}
    settings = Settings(security_protocol="SASL_PLAINTEXT", connection=login)
    diagnosis = Diagnosis(
        "b:9092",
        security_protocol=settings.security_protocol,
        mechanism=mechanism_of(settings),
        config=settings.connection,
    )
    return Handshake(settings, diagnosis)


def api_versions(code: What) -> Outcome:
    response = ApiVersions(error_code=code, spoken={})
    return _of_handshake(_handshake().learn_versions(), response)


def _shaken(code: What) -> Any:
    return SaslHandshakeResponse(version=1, error_code=code, mechanisms=["PLAIN"])


def sasl_handshake(code: What) -> Outcome:
    return _of_handshake(_handshake().log_in("b"), _shaken(code))


def sasl_authenticate(code: What) -> Outcome:
    response = SaslAuthenticateResponse(
        version=1, error_code=code, error_message=None, auth_bytes=b"", session_lifetime_ms=0
    )
    return _of_handshake(_handshake().log_in("b"), _shaken(0), response)


# -- the coordinator


def find_coordinator(code: What) -> Outcome:
    manager = coordinating()
    request = commits.tick(manager, 0.0).request
    said = _end(manager, request, code, lambda code: commits.decoded(commits.no_coordinator(code)))
    return _outcome(manager, said, 0.0)


# -- metadata


def _metadata() -> MetadataManager:
    manager = MetadataManager(Settings())
    manager.handle(TrackTopics(owner="application", topics=frozenset({"t"})))
    request = managing.tick(manager, 0.0).request
    managing.answer(manager, request, describing.metadata(describing.a_topic()))
    return manager


def _of_metadata(asked: Message, code: What, refused: Callable[[int], Any]) -> Outcome:
    manager = _metadata()
    manager.handle(asked)
    request = managing.tick(manager, 1.0).request
    return _outcome(manager, _end(manager, request, code, refused, now=1.0), 1.0)


def _whole(code: int) -> Any:
    response = describing.metadata(describing.a_topic())
    response.error_code = code
    return response


REFRESH = RefreshMetadata(because="a test")
QUESTION = DescribeTopics(ticket=1, topics=frozenset({"u"}), deadline=9.0)
NAMES = NameTopics(topic_ids=frozenset({managing.topic_id(7)}))


def metadata(code: What) -> Outcome:
    return _of_metadata(REFRESH, code, _whole)


def metadata_of_question(code: What) -> Outcome:
    return _of_metadata(QUESTION, code, _whole)


def metadata_of_names(code: What) -> Outcome:
    return _of_metadata(NAMES, code, _whole)


def metadata_question(code: What) -> Outcome:
    def refused(code: int) -> Any:
        return describing.metadata(describing.a_topic("u", error=code))

    return _of_metadata(QUESTION, code, refused)


def metadata_name(code: What) -> Outcome:
    def refused(code: int) -> Any:
        answer = describing.a_topic("u", error=code)
        answer.topic_id = managing.topic_id(7)
        return describing.metadata(answer)

    return _of_metadata(NAMES, code, refused)


def metadata_topic(code: What) -> Outcome:
    """The second such answer in a row: the first is not believed of a topic that is not there."""
    manager = MetadataManager(Settings())
    manager.handle(TrackTopics(owner="application", topics=frozenset({"t"})))
    now, said = 0.0, list[object]()
    for now in (0.0, 3.0):
        manager.handle(REFRESH)
        request = managing.tick(manager, now).request
        said += _end(
            manager,
            request,
            code,
            lambda code: describing.metadata(describing.a_topic(error=code)),
            now=now,
        )
    return _outcome(manager, said, now)


# -- positions


def _positions() -> PositionManager:
    manager = PositionManager(Settings())
    manager.handle(positions.a_cluster())
    return manager


def _not_listed(code: int) -> Any:
    return positions.offsets(errors={managing.T0: code})


def list_offsets(code: What) -> Outcome:
    manager = _positions()
    assigned = {managing.T0: Assigned(epoch=1)}
    manager.handle(AssignmentChanged(partitions=assigned, by_group=False))
    request = managing.tick(manager, 0.0).request
    return _outcome(manager, _end(manager, request, code, _not_listed), 0.0)


def list_offsets_question(code: What) -> Outcome:
    manager = _positions()
    manager.handle(ListOffsets(ticket=1, timestamps={managing.T0: 5}, deadline=9.0))
    request = managing.tick(manager, 0.0).request
    return _outcome(manager, _end(manager, request, code, _not_listed), 0.0)


def list_ends(code: What) -> Outcome:
    manager = _positions()
    assigned = {managing.T0: Assigned(epoch=1, position=Position(offset=9))}
    manager.handle(AssignmentChanged(partitions=assigned, by_group=False))
    manager.handle(FollowEnds(partitions=frozenset({managing.T0}), now=0.0))
    request = managing.tick(manager, 0.0).request
    return _outcome(manager, _end(manager, request, code, _not_listed), 0.0)


def _no_epoch(code: int) -> Any:
    return positions.epochs({}, errors={managing.T0: code})


def offset_for_leader_epoch(code: What) -> Outcome:
    manager = _positions()
    assigned = {managing.T0: Assigned(epoch=1, position=Position(offset=9, leader_epoch=3))}
    manager.handle(AssignmentChanged(partitions=assigned, by_group=False))
    manager.handle(ValidatePositions(partitions=assigned))
    request = managing.tick(manager, 0.0).request
    return _outcome(manager, _end(manager, request, code, _no_epoch), 0.0)


# -- commits


def _commits(
    asked: Message,
    code: What,
    *,
    member_848: bool = False,
    before: Message | None = None,
    meanwhile: Message | None = None,
    **settings: Any,
) -> Outcome:
    manager = commits.committing(commits.T0, **settings)
    if before is not None:
        manager.handle(before)
    if member_848:
        manager.handle(commits.member_848(5, t=1))
        manager.handle(commits.topics(t=1))
    manager.handle(asked)
    request = commits.tick(manager, 0.0).request
    if meanwhile is not None:
        manager.handle(meanwhile)
    said = _end(
        manager, request, code, lambda code: commits.decoded(commits.committed(request, code))
    )
    return _outcome(manager, said, 0.0)


def offset_commit(code: What) -> Outcome:
    return _commits(commits.commit({commits.T0: 5}), code)


def offset_commit_848(code: What) -> Outcome:
    return _commits(commits.commit({commits.T0: 5}), code, member_848=True)


def offset_commit_async(code: What) -> Outcome:
    return _commits(commits.commit_async({commits.T0: 5}), code)


def offset_commit_revocation(code: What) -> Outcome:
    return _commits(commits.before_revocation({commits.T0: 5}), code)


def offset_commit_next_generation(code: What) -> Outcome:
    """The answer comes when the member is in the next generation already."""
    asked = commits.commit({commits.T0: 5})
    return _commits(asked, code, meanwhile=commits.member(6))


def offset_commit_with_note(code: What) -> Outcome:
    """The commit says how many partitions its topic had."""
    topic = TopicInfo(topic_id=None, partitions={}, had=3)
    known = ClusterChanged(cluster=Cluster(topics={commits.T0.topic: topic}))
    asked = commits.commit({commits.T0: 5})
    return _commits(asked, code, before=known, auto_offset_reset="latest")


def offset_commit_by_hand(code: What) -> Outcome:
    return _commits(commits.commit({commits.T0: 5}), code, generation=None)


def _offset_fetch(code: What, asked: Message, *, by_group: bool = False) -> Outcome:
    """What is asked again at once gets the same answer."""
    manager = commits.committing(commits.T0)
    manager.handle(asked)

    def refused(code: int) -> Any:
        if by_group:
            return commits.decoded(commits.fetched({}, group_code=code))
        return commits.decoded(commits.fetched({}, codes={commits.T0: code}))

    said: list[object] = []
    for _ in range(2):
        turn = commits.tick(manager, 0.0)
        said += turn.said
        for request in turn.requests:
            said += _end(manager, request, code, refused)
    return _outcome(manager, said, 0.0)


def offset_fetch(code: What) -> Outcome:
    return _offset_fetch(code, commits.fetch(commits.T0))


def offset_fetch_group(code: What) -> Outcome:
    return _offset_fetch(code, commits.fetch(commits.T0), by_group=True)


def offset_fetch_last_attempt(code: What) -> Outcome:
    """The deadline of the call comes before the backoff is over."""
    return _offset_fetch(code, commits.fetch(commits.T0, deadline=0.01))


def offset_fetch_start(code: What) -> Outcome:
    """It is asked where to begin to read."""
    return _offset_fetch(code, FindStartingOffsets(partitions=frozenset({commits.T0})))


# -- the classic group


def join_group(code: What) -> Outcome:
    harness = classic.MembershipHarness().wants_to_join()
    request = harness.sent(JoinGroupRequest)
    return _of_harness(
        harness, request, code, lambda code: classic.join_refused(code, member="named")
    )


def join_group_again(code: What) -> Outcome:
    """A member that has partitions."""
    harness = _rebalances()
    request = harness.sent(JoinGroupRequest)
    return _of_harness(
        harness, request, code, lambda code: classic.join_refused(code, member="named")
    )


def _rebalances() -> classic.MembershipHarness:
    """A member that keeps its partitions while its group rebalances."""
    harness = a_stable_cooperative_member()
    harness.beats(classic.REBALANCE_IN_PROGRESS)
    return harness


def sync_group_again(code: What) -> Outcome:
    """A member that has partitions."""
    harness = _rebalances()
    joined = classic.joined(generation=2, assignor="cooperative-sticky")
    harness.answer(harness.sent(JoinGroupRequest), joined)
    return _of_harness(harness, harness.sent(SyncGroupRequest), code, classic.sync_refused)


def sync_group(code: What) -> Outcome:
    harness = classic.MembershipHarness().is_syncing()
    return _of_harness(harness, harness.sent(SyncGroupRequest), code, classic.sync_refused)


def heartbeat(code: What) -> Outcome:
    harness = classic.MembershipHarness().is_stable()
    while not harness.has_sent(HeartbeatRequest):
        harness.now = harness.wake_at
        harness.tick()
    return _of_harness(harness, harness.sent(HeartbeatRequest), code, classic.beaten)


def leave_group(code: What) -> Outcome:
    harness = classic.MembershipHarness().is_stable()
    harness.tell(LeaveGroup(ticket=7, deadline=harness.now + 10, because="close"))
    return _of_harness(harness, harness.sent(LeaveGroupRequest), code, classic.left)


def describe_groups(code: What) -> Outcome:
    """Later the topic gets more partitions."""
    harness = a_leader_that_came_back(a=3)
    request = harness.sent(DescribeGroupsRequest)
    _refuse(harness, request, code, lambda code: classic.described("a-0 a-1", code=code))
    harness.after(PATIENCE)
    harness.see(a=4)
    return Outcome(list(harness.messages), _bodies(harness), [])


# -- the consumer protocol


def _why(code: int) -> Any:
    return refused(code, "why")


def consumer_join(code: What) -> Outcome:
    harness = ConsumerHarness()
    harness.wants_to_join()
    return _of_harness(harness, harness.next_beat(), code, _why)


def consumer_join_and_close(code: What) -> Outcome:
    harness = ConsumerHarness()
    harness.wants_to_join()
    return _closed(harness, code)


def consumer_static_join(code: What) -> Outcome:
    harness = ConsumerHarness(group_instance_id="i")
    harness.wants_to_join()
    return _of_harness(harness, harness.next_beat(), code, _why)


def consumer_auto_join(code: What) -> Outcome:
    """With `group_protocol="auto"`."""
    harness = AutoHarness()
    harness.wants_to_join()
    return _of_harness(harness, harness.next_beat(), code, _why)


def consumer_free(code: What) -> Outcome:
    harness = ConsumerHarness(group_instance_id="i")
    harness.wants_to_join()
    harness.is_refused(UNRELEASED_INSTANCE_ID)
    return _of_harness(harness, harness.next_beat(), code, _why)


def consumer_heartbeat(code: What) -> Outcome:
    harness = ConsumerHarness().is_stable()
    return _of_harness(harness, harness.next_beat(), code, _why)


def consumer_heartbeat_and_close(code: What) -> Outcome:
    return _closed(ConsumerHarness().is_stable(), code)


def _closed(harness: ConsumerHarness, code: What) -> Outcome:
    """The application leaves at once, before the member can come back."""
    _refuse(harness, harness.next_beat(), code, _why)
    harness.leave()
    return Outcome(list(harness.messages), _bodies(harness), [])


def consumer_leave(code: What) -> Outcome:
    harness = ConsumerHarness().is_stable()
    harness.tell(a_leave(harness.now + 10))
    return _of_harness(harness, harness.beat(), code, _why)


# -- fetching


def _of_fetch(
    harness: fetching.FetchHarness,
    request: Request,
    code: What,
    answer: Callable[[int], list[object]],
) -> Outcome:
    said = answer(code) if isinstance(code, int) else harness.fail(request, code)
    at_once = [one.body for one in harness.tick()]
    wakes_in = harness.wake_at - harness.now
    later = [one.body for one in harness.tick(PATIENCE)]
    return Outcome(said, at_once, later, wakes_in=wakes_in)


def fetch_session(code: What) -> Outcome:
    harness = fetching.FetchHarness.reading({0: 1})
    harness.answer(harness.the_request(), fetching.of(0))
    request = harness.the_request(1.0)
    return _of_fetch(harness, request, code, lambda code: harness.answer(request, error_code=code))


def fetch(code: What) -> Outcome:
    harness = fetching.FetchHarness.reading({0: 1})
    request = harness.the_request()
    return _of_fetch(
        harness,
        request,
        code,
        lambda code: harness.answer(request, fetching.of(0, error_code=code)),
    )


def fetch_replica(code: What) -> Outcome:
    harness = fetching.FetchHarness.reading({0: 1})
    harness.answer(harness.the_request(), fetching.of(0, preferred_read_replica=2))
    request = harness.the_request()
    return _of_fetch(
        harness,
        request,
        code,
        lambda code: harness.answer(request, fetching.of(0, error_code=code)),
    )
