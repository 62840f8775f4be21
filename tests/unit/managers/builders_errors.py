"""Each kind of answer that a broker can refuse, and what a manager makes of any code in it.

An exception in place of a code: the request ends in it, without an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from aktor.actors.manager import RequestManager
from aktor.events.membership import (
    CallbackFinished,
    LeaveGroup,
    Loss,
    PartitionsReleased,
    RevokePartitions,
)
from aktor.events.metadata import DescribeTopics, NameTopics, RefreshMetadata, TrackTopics
from aktor.events.network import Request
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    ListOffsets,
)
from aktor.managers.metadata import MetadataManager
from aktor.managers.positions import PositionManager
from aktor.settings import Settings
from tests.unit.managers import builders_commits as commits
from tests.unit.managers import builders_fetch as fetching
from tests.unit.managers import builders_membership as classic
from tests.unit.managers import builders_positions as positions
from tests.unit.managers.builders_consumer import ConsumerScene, a_leave, refused
from tests.unit.managers.test_coordinator import coordinating
from tests.unit.managers.test_membership import a_leader_that_came_back

#: How long after the refusal we look at what is sent: longer than any backoff.
PATIENCE = 2.5


@dataclass(frozen=True)
class Outcome:
    """What came of a refusal: messages, requests at once and within `PATIENCE`, and the manager."""

    said: list[object]
    at_once: list[Any]
    later: list[Any]
    manager: Any


#: A code, or why there is no answer.
What = int | Exception

Probe = Callable[[What], Outcome]


def _outcome(manager: RequestManager, said: list[object], now: float) -> Outcome:
    """Tick at once, and again when all backoffs are over."""
    first = commits.tick(manager, now)
    second = commits.tick(manager, now + PATIENCE)
    return Outcome(
        [*said, *first.said, *second.said],
        [one.body for one in first.requests],
        [one.body for one in second.requests],
        manager,
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
        return positions.answer(manager, request, response(code), now=now)
    return positions.fail(manager, request, code, now=now)


def _of_scene(
    scene: classic.Scene, request: Request, code: What, response: Callable[[int], Any]
) -> Outcome:
    scene.forget()
    if isinstance(code, int):
        scene.answer(request, response(code))
    else:
        scene.fail(request, code)
    _let_go(scene)
    at_once = [one.body for one in scene.requests]
    scene.requests.clear()
    scene.after(PATIENCE)
    return Outcome(
        list(scene.messages), at_once, [one.body for one in scene.requests], scene.manager
    )


def _let_go(scene: classic.Scene) -> None:
    """The application gives up what it must: before that it is told of no error."""
    for step in scene.messages[:]:
        if isinstance(step, RevokePartitions) and step.loss is Loss.LOST:
            scene.tell(PartitionsReleased(rebalance=step.rebalance, positions={}))
            scene.tell(CallbackFinished(rebalance=step.rebalance, error=None))


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
    request = positions.tick(manager, 0.0).request
    positions.answer(manager, request, positions.metadata(positions.a_topic()))
    return manager


def metadata(code: What) -> Outcome:
    manager = _metadata()
    manager.handle(RefreshMetadata(because="a test"))
    request = positions.tick(manager, 1.0).request

    def refused(code: int) -> Any:
        response = positions.metadata(positions.a_topic())
        response.error_code = code
        return response

    return _outcome(manager, _end(manager, request, code, refused, now=1.0), 1.0)


def metadata_topic(code: What) -> Outcome:
    """The second such answer in a row: the first is not believed of a topic that is not there."""
    manager = MetadataManager(Settings())
    manager.handle(TrackTopics(owner="application", topics=frozenset({"t"})))
    now, said = 0.0, list[object]()
    for now in (0.0, 3.0):
        request = positions.tick(manager, now).request
        said += _end(
            manager,
            request,
            code,
            lambda code: positions.metadata(positions.a_topic(error=code)),
            now=now,
        )
        manager.handle(RefreshMetadata(because="a test"))
    return _outcome(manager, said, now)


def metadata_question(code: What) -> Outcome:
    manager = _metadata()
    manager.handle(DescribeTopics(ticket=1, topics=frozenset({"u"}), deadline=9.0))
    request = positions.tick(manager, 1.0).request

    def refused(code: int) -> Any:
        return positions.metadata(positions.a_topic("u", error=code))

    return _outcome(manager, _end(manager, request, code, refused, now=1.0), 1.0)


def metadata_name(code: What) -> Outcome:
    manager = _metadata()
    manager.handle(NameTopics(topic_ids=frozenset({positions.topic_id(7)})))
    request = positions.tick(manager, 1.0).request

    def refused(code: int) -> Any:
        answer = positions.a_topic("u", error=code)
        answer.topic_id = positions.topic_id(7)
        return positions.metadata(answer)

    return _outcome(manager, _end(manager, request, code, refused, now=1.0), 1.0)


# -- positions


def _positions() -> PositionManager:
    manager = PositionManager(Settings())
    manager.handle(positions.a_cluster())
    return manager


def _not_listed(code: int) -> Any:
    return positions.offsets(errors={positions.T0: code})


def list_offsets(code: What) -> Outcome:
    manager = _positions()
    assigned = {positions.T0: Assigned(epoch=1)}
    manager.handle(AssignmentChanged(partitions=assigned, by_group=False))
    request = positions.tick(manager, 0.0).request
    return _outcome(manager, _end(manager, request, code, _not_listed), 0.0)


def list_offsets_question(code: What) -> Outcome:
    manager = _positions()
    manager.handle(ListOffsets(ticket=1, timestamps={positions.T0: 5}, deadline=9.0))
    request = positions.tick(manager, 0.0).request
    return _outcome(manager, _end(manager, request, code, _not_listed), 0.0)


# -- commits


def _commits(asked: object, code: What, *, member_848: bool = False, **settings: Any) -> Outcome:
    manager = commits.committing(commits.T0, **settings)
    if member_848:
        manager.handle(commits.member_848(5, t=1))
        manager.handle(commits.topics(t=1))
    manager.handle(asked)
    request = commits.tick(manager, 0.0).request
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


def offset_commit_by_hand(code: What) -> Outcome:
    return _commits(commits.commit({commits.T0: 5}), code, generation=None)


def _offset_fetch(code: What, *, by_group: bool) -> Outcome:
    manager = commits.committing(commits.T0)
    manager.handle(commits.fetch(commits.T0))
    request = commits.tick(manager, 0.0).request

    def refused(code: int) -> Any:
        if by_group:
            return commits.decoded(commits.fetched({}, group_code=code))
        return commits.decoded(commits.fetched({}, codes={commits.T0: code}))

    return _outcome(manager, _end(manager, request, code, refused), 0.0)


def offset_fetch(code: What) -> Outcome:
    return _offset_fetch(code, by_group=False)


def offset_fetch_group(code: What) -> Outcome:
    return _offset_fetch(code, by_group=True)


# -- the classic group


def join_group(code: What) -> Outcome:
    scene = classic.Scene().wants_to_join()
    request = scene.sent(JoinGroupRequest)
    return _of_scene(scene, request, code, lambda code: classic.join_refused(code, member="named"))


def sync_group(code: What) -> Outcome:
    scene = classic.Scene().is_syncing()
    return _of_scene(scene, scene.sent(SyncGroupRequest), code, classic.sync_refused)


def heartbeat(code: What) -> Outcome:
    scene = classic.Scene().is_stable()
    while not scene.has_sent(HeartbeatRequest):
        scene.now = scene.wake_at
        scene.tick()
    return _of_scene(scene, scene.sent(HeartbeatRequest), code, classic.beaten)


def leave_group(code: What) -> Outcome:
    scene = classic.Scene().is_stable()
    scene.tell(LeaveGroup(ticket=7, deadline=scene.now + 10, because="close"))
    return _of_scene(scene, scene.sent(LeaveGroupRequest), code, classic.left)


def describe_groups(code: What) -> Outcome:
    scene = a_leader_that_came_back(a=3)
    request = scene.sent(DescribeGroupsRequest)
    return _of_scene(scene, request, code, lambda code: classic.described("a-0 a-1", code=code))


# -- the consumer protocol


def _why(code: int) -> Any:
    return refused(code, "why")


def consumer_join(code: What) -> Outcome:
    scene = ConsumerScene()
    scene.wants_to_join()
    return _of_scene(scene, scene.next_beat(), code, _why)


def consumer_static_join(code: What) -> Outcome:
    scene = ConsumerScene(group_instance_id="i")
    scene.wants_to_join()
    return _of_scene(scene, scene.next_beat(), code, _why)


def consumer_heartbeat(code: What) -> Outcome:
    scene = ConsumerScene().is_stable()
    return _of_scene(scene, scene.next_beat(), code, _why)


def consumer_leave(code: What) -> Outcome:
    scene = ConsumerScene().is_stable()
    scene.tell(a_leave(scene.now + 10))
    return _of_scene(scene, scene.beat(), code, _why)


# -- fetching


def _of_fetch(
    around: fetching.Around, request: Request, code: What, answer: Callable[[int], list[object]]
) -> Outcome:
    said = answer(code) if isinstance(code, int) else around.fail(request, code)
    at_once = [one.body for one in around.tick()]
    later = [one.body for one in around.tick(PATIENCE)]
    return Outcome(said, at_once, later, around.manager)


def fetch_session(code: What) -> Outcome:
    around = fetching.Around.reading({0: 1})
    around.answer(around.the_request(), fetching.of(0))
    request = around.the_request(1.0)
    return _of_fetch(around, request, code, lambda code: around.answer(request, error_code=code))


def fetch(code: What) -> Outcome:
    around = fetching.Around.reading({0: 1})
    request = around.the_request()
    return _of_fetch(
        around,
        request,
        code,
        lambda code: around.answer(request, fetching.of(0, error_code=code)),
    )


def fetch_replica(code: What) -> Outcome:
    around = fetching.Around.reading({0: 1})
    around.answer(around.the_request(), fetching.of(0, preferred_read_replica=2))
    request = around.the_request()
    return _of_fetch(
        around,
        request,
        code,
        lambda code: around.answer(request, fetching.of(0, error_code=code)),
    )


PROBES: dict[str, Probe] = {
    one.__name__: one
    for one in (
        find_coordinator,
        metadata,
        metadata_topic,
        metadata_question,
        metadata_name,
        list_offsets,
        list_offsets_question,
        offset_commit,
        offset_commit_848,
        offset_commit_async,
        offset_commit_revocation,
        offset_commit_by_hand,
        offset_fetch,
        offset_fetch_group,
        join_group,
        sync_group,
        heartbeat,
        leave_group,
        describe_groups,
        consumer_join,
        consumer_static_join,
        consumer_heartbeat,
        consumer_leave,
        fetch_session,
        fetch,
        fetch_replica,
    )
}
