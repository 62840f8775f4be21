"""The metadata manager: what is asked when, what the snapshot becomes, and who is told what."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from kafka.errors import (
    InvalidTopicError,
    KafkaConnectionError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import TopicPartition

from aktor.events.answers import Answered, Failed
from aktor.events.lifecycle import ActorsRestarted
from aktor.events.metadata import (
    Broker,
    DescribeTopics,
    LeaderEpochsUnknown,
    LeadersMoved,
    NameTopics,
    PartitionInfo,
    RefreshMetadata,
    TopicInfo,
    TrackTopics,
)
from aktor.events.network import Destination, Rebootstrap, Request
from aktor.managers.metadata.manager import MetadataManager
from aktor.managers.metadata.topics import ANSWERS
from aktor.settings import Settings
from aktor.trace import recording
from tests.unit.managers.builders import (
    INVALID_TOPIC,
    LEADER_NOT_AVAILABLE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC,
    answer,
    fail,
    tick,
    topic_id,
)
from tests.unit.managers.metadata.builders import (
    a_topic,
    cluster_in,
    metadata,
    refresh,
    refusals_in,
)

REBOOTSTRAP_REQUIRED = 129

#: With jitter 0.5 a backoff is exactly its nominal length.
SETTINGS = Settings(
    retry_backoff=0.1, retry_backoff_max=1.0, metadata_max_age=300.0, request_timeout=30.0
)


def a_manager(*, tracking: Iterable[str] = (), **settings: Any) -> MetadataManager:
    """A manager that tracks these topics for the application."""
    manager = MetadataManager(Settings(**settings) if settings else SETTINGS)
    if tracking:
        manager.handle(TrackTopics(owner="application", topics=frozenset(tracking)))
    return manager


def a_manager_that_knows(*topics: Any, now: float = 0.0) -> MetadataManager:
    """A manager that tracks these topics and has just heard about them."""
    manager = a_manager(tracking=[one.name for one in topics])
    answer(manager, tick(manager, now).request, metadata(*topics), now=now)
    return manager


def moved_to(
    leaders: Mapping[int, PartitionInfo], *brokers: Broker, id_number: int = 1
) -> LeadersMoved:
    """A Fetch answer names these leaders of partitions of the topic t, and where they are."""
    return LeadersMoved(
        leaders={TopicPartition("t", number): leader for number, leader in leaders.items()},
        topic_ids={"t": topic_id(id_number)},
        brokers={broker.node_id: broker for broker in brokers},
    )


def names(request: Request) -> list[str]:
    """The topics that a Metadata request asks for."""
    return [topic.name for topic in request.body.topics]


# -- when it asks


def test_a_broker_may_send_the_client_back_to_its_bootstrap_servers() -> None:
    """KIP-1102: the known brokers are forgotten at once, and asked for after the backoff. Topics
    stay: their positions must not be lost."""
    manager = a_manager_that_knows(a_topic())
    response = metadata(a_topic())
    response.error_code = REBOOTSTRAP_REQUIRED

    said = refresh(manager, response, 10.0)

    assert said[0] == Rebootstrap(because="REBOOTSTRAP_REQUIRED")
    cluster = cluster_in(said)
    assert (cluster.brokers, set(cluster.topics)) == ({}, {"t"})
    assert tick(manager, 10.05).requests == ()
    assert tick(manager, 10.11).request.to is Destination.ANY


def test_a_question_may_be_answered_by_being_sent_back_to_the_bootstrap_servers() -> None:
    manager = a_manager_that_knows(a_topic())
    manager.handle(DescribeTopics(ticket=1, topics=frozenset({"t"}), deadline=60.0))
    response = metadata(a_topic())
    response.error_code = REBOOTSTRAP_REQUIRED

    said = answer(manager, tick(manager, 10.0).request, response, now=10.0)

    assert Rebootstrap(because="REBOOTSTRAP_REQUIRED") in said
    assert [one for one in said if isinstance(one, Failed)] == []
    again = [one for one in tick(manager, 10.2).requests if one.body.topics]
    assert [[one.name for one in request.body.topics] for request in again] == [["t"], ["t"]]


def test_a_fresh_consumer_asks_any_broker_for_the_brokers_alone() -> None:
    manager = a_manager()

    request = tick(manager, 0.0).request

    assert request.to is Destination.ANY
    assert request.body.topics == []
    assert request.body.encode(version=1) == b"\x00\x00\x00\x00"


def test_the_first_answer_tells_the_brokers() -> None:
    manager = a_manager()

    said = answer(manager, tick(manager, 0.0).request, metadata(brokers=(1, 2)))

    cluster = cluster_in(said)
    assert cluster.version == 1
    assert cluster.cluster_id == "c"
    assert cluster.brokers[2] == Broker(node_id=2, host="b2", port=9092)


def test_an_idle_manager_sleeps_until_the_snapshot_is_old() -> None:
    manager = a_manager_that_knows(a_topic(), now=10.0)

    turn = tick(manager, 10.0)

    assert turn.requests == ()
    assert turn.wake_at == 310.0
    assert names(tick(manager, 310.0).request) == ["t"]


def test_a_snapshot_is_never_older_than_it_may_be_before_the_backoff_is_over() -> None:
    """Java: Metadata.timeToNextUpdate. One request would follow the other."""
    manager = a_manager(metadata_max_age=0.0, retry_backoff=0.1, tracking=["t"])
    answer(manager, tick(manager, 0.0).request, metadata(a_topic()), now=0.0)

    turn = tick(manager, 0.0)

    assert (turn.requests, turn.wake_at) == ((), 0.1)


def test_only_one_refresh_is_in_flight_and_nothing_is_woken_for_it() -> None:
    manager = a_manager(tracking=["t"])
    tick(manager, 0.0)

    manager.handle(RefreshMetadata(because="a test"))
    turn = tick(manager, 1.0)

    assert turn.requests == ()
    assert turn.wake_at == math.inf


def test_topics_of_all_owners_are_asked_for_by_name() -> None:
    manager = a_manager(tracking=["b"])
    manager.handle(TrackTopics(owner="membership", topics=frozenset({"a", "b"})))

    request = tick(manager, 0.0).request

    assert names(request) == ["a", "b"]


@pytest.mark.parametrize("allowed", [True, False])
def test_topics_are_created_by_asking_only_as_far_as_the_settings_allow(allowed: bool) -> None:
    manager = a_manager(tracking=["t"], allow_auto_create_topics=allowed)

    request = tick(manager, 0.0).request

    assert request.body.allow_auto_topic_creation is allowed


def test_a_new_topic_is_asked_for_at_once() -> None:
    manager = a_manager_that_knows(a_topic("a"), now=0.0)

    manager.handle(TrackTopics(owner="application", topics=frozenset({"a", "b"})))

    assert names(tick(manager, 0.001).request) == ["a", "b"]


def test_a_topic_tracked_while_a_request_is_in_flight_is_asked_for_after_it() -> None:
    manager = a_manager(tracking=["a"])
    first = tick(manager, 0.0).request

    manager.handle(TrackTopics(owner="membership", topics=frozenset({"b"})))
    assert tick(manager, 0.01).requests == ()
    answer(manager, first, metadata(a_topic("a")), now=0.02)

    assert names(tick(manager, 0.02).request) == ["a", "b"]


def test_refreshes_asked_for_by_many_are_one_request_no_sooner_than_the_backoff() -> None:
    manager = a_manager_that_knows(a_topic(), now=0.0)

    for _ in range(3):
        manager.handle(RefreshMetadata(because="not the leader"))

    assert tick(manager, 0.05).wake_at == pytest.approx(0.1)
    assert len(tick(manager, 0.1).requests) == 1
    assert tick(manager, 0.1).requests == ()


def test_a_refresh_asked_for_during_a_request_leads_to_another_one() -> None:
    manager = a_manager_that_knows(a_topic(), now=0.0)
    manager.handle(RefreshMetadata(because="first"))
    first = tick(manager, 1.0).request

    manager.handle(RefreshMetadata(because="second"))
    answer(manager, first, metadata(a_topic()), now=1.5)

    assert tick(manager, 1.5).wake_at == pytest.approx(1.6)
    assert tick(manager, 1.6).requests


def test_an_unknown_topic_is_asked_for_with_a_growing_backoff_of_at_most_a_second() -> None:
    manager = a_manager(tracking=["t"])
    now, waits = 0.0, []

    for _ in range(7):
        request = tick(manager, now).request
        answer(manager, request, metadata(a_topic(error=UNKNOWN_TOPIC)), now=now)
        waits.append(tick(manager, now).wake_at - now)
        now = tick(manager, now).wake_at

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])


def test_the_backoff_for_an_old_unknown_topic_does_not_hold_up_a_new_one() -> None:
    manager = a_manager(tracking=["t"])
    now = 0.0
    for _ in range(5):
        answer(manager, tick(manager, now).request, metadata(a_topic(error=UNKNOWN_TOPIC)), now=now)
        now = tick(manager, now).wake_at

    manager.handle(TrackTopics(owner="membership", topics=frozenset({"u"})))
    unknown = metadata(a_topic("t", error=UNKNOWN_TOPIC), a_topic("u", error=UNKNOWN_TOPIC))
    answer(manager, tick(manager, now).request, unknown, now=now)

    assert tick(manager, now).wake_at == pytest.approx(now + 0.1)


def test_a_topic_created_later_is_found() -> None:
    manager = a_manager(tracking=["t"])
    answer(manager, tick(manager, 0.0).request, metadata(a_topic(error=UNKNOWN_TOPIC)))

    said = answer(manager, tick(manager, 0.1).request, metadata(a_topic()), now=0.1)

    assert cluster_in(said).topics["t"].partitions == {0: PartitionInfo(leader=1, leader_epoch=5)}
    assert tick(manager, 0.1).wake_at == pytest.approx(300.1)


def test_a_partition_without_a_leader_is_asked_for_until_it_has_one() -> None:
    manager = a_manager_that_knows(a_topic(leaders={0: (-1, 5)}), now=0.0)

    assert tick(manager, 0.0).wake_at == pytest.approx(0.1)
    answer(manager, tick(manager, 0.1).request, metadata(a_topic(leaders={0: (2, 6)})), now=0.1)

    assert tick(manager, 0.1).wake_at == pytest.approx(300.1)


def test_a_leader_that_is_not_among_the_brokers_is_asked_for_again() -> None:
    manager = a_manager_that_knows(a_topic(leaders={0: (3, 5)}), now=0.0)

    assert tick(manager, 0.0).wake_at == pytest.approx(0.1)


# -- when it is not answered


def test_a_broker_may_be_silent_for_some_seconds_and_not_for_the_request_timeout() -> None:
    manager = a_manager()

    deadlines = []
    now = 0.0
    for _ in range(6):
        request = tick(manager, now).request
        deadlines.append(request.deadline - now)
        fail(manager, request, KafkaTimeoutError("silence"), now=now)
        now = tick(manager, now).wake_at

    assert deadlines == [3.0, 6.0, 12.0, 24.0, 30.0, 30.0]


def test_a_failed_refresh_is_tried_again_after_the_backoff_and_not_before() -> None:
    manager = a_manager(tracking=["t"])

    said = fail(manager, tick(manager, 0.0).request, KafkaConnectionError("gone"), now=2.0)

    assert said == []
    assert tick(manager, 2.05).wake_at == pytest.approx(2.1)
    assert names(tick(manager, 2.1).request) == ["t"]


def test_a_refresh_that_somebody_wants_does_not_shorten_the_backoff_of_a_failure() -> None:
    manager = a_manager(tracking=["t"])
    fail(manager, tick(manager, 0.0).request, KafkaConnectionError("gone"), now=0.0)

    manager.handle(RefreshMetadata(because="a test"))

    assert tick(manager, 0.05).requests == ()


def test_an_answer_without_brokers_is_ignored_and_asked_for_again() -> None:
    manager = a_manager_that_knows(a_topic(), now=0.0)

    said = refresh(manager, metadata(brokers=()), now=1.0)

    assert said == []
    assert tick(manager, 1.0).wake_at == pytest.approx(1.1)


# -- what the snapshot becomes


def test_an_answer_that_says_nothing_new_is_not_told() -> None:
    manager = a_manager_that_knows(a_topic())

    assert refresh(manager, metadata(a_topic()), now=1.0) == []


@pytest.mark.parametrize(
    "news",
    [
        metadata(a_topic(), brokers=(1, 2, 3)),
        metadata(a_topic(leaders={0: (2, 6)})),
        metadata(a_topic(leaders={0: (1, 6)})),
        metadata(a_topic(leaders={0: (1, 5), 1: (2, 0)})),
        metadata(a_topic(), cluster_id="another"),
        metadata(a_topic(id_number=2)),
    ],
    ids=["brokers", "leader", "epoch", "partitions", "cluster id", "topic id"],
)
def test_every_kind_of_news_makes_a_new_version(news: Any) -> None:
    manager = a_manager_that_knows(a_topic())

    said = refresh(manager, news, now=1.0)

    assert cluster_in(said).version == 2


def test_topics_that_nobody_tracks_are_not_kept() -> None:
    manager = a_manager(tracking=["a"])

    said = answer(manager, tick(manager, 0.0).request, metadata(a_topic("a"), a_topic("b")))

    assert set(cluster_in(said).topics) == {"a"}


def test_a_topic_leaves_the_snapshot_when_its_last_owner_drops_it() -> None:
    manager = a_manager_that_knows(a_topic("a"), a_topic("b"))
    manager.handle(TrackTopics(owner="membership", topics=frozenset({"a"})))

    said = manager.handle(TrackTopics(owner="application", topics=frozenset()))

    assert set(cluster_in(said).topics) == {"a"}


def test_an_older_answer_from_a_broker_that_lags_does_not_bring_the_old_leader_back() -> None:
    manager = a_manager_that_knows(a_topic(leaders={0: (2, 6), 1: (1, 1)}))

    said = refresh(manager, metadata(a_topic(leaders={0: (1, 5), 1: (2, 2)})), now=1.0)

    assert cluster_in(said).topics["t"].partitions == {
        0: PartitionInfo(leader=2, leader_epoch=6),
        1: PartitionInfo(leader=2, leader_epoch=2),
    }


def test_a_partition_does_not_disappear_from_the_same_topic() -> None:
    manager = a_manager_that_knows(a_topic(leaders={0: (1, 5), 1: (2, 0)}))

    said = refresh(manager, metadata(a_topic(leaders={0: (1, 5)})), now=1.0)

    assert said == []


def test_the_snapshot_says_which_topics_do_not_exist_until_they_do() -> None:
    manager = a_manager(tracking=["t"])

    said = refresh(manager, metadata(a_topic(error=UNKNOWN_TOPIC)), now=1.0)
    again = refresh(manager, metadata(a_topic()), now=2.0)

    assert cluster_in(said).unknown == {"t"}
    assert cluster_in(again).unknown == frozenset()


def test_a_recreated_topic_begins_anew_with_lower_epochs_and_fewer_partitions() -> None:
    manager = a_manager_that_knows(a_topic(leaders={0: (2, 6), 1: (1, 1)}, id_number=1))

    said = refresh(manager, metadata(a_topic(leaders={0: (1, 0)}, id_number=2)), now=1.0)

    assert cluster_in(said).topics["t"] == TopicInfo(
        topic_id=topic_id(2), partitions={0: PartitionInfo(leader=1, leader_epoch=0)}
    )


def test_an_earlier_id_of_a_topic_is_told_by_a_broker_that_lags_and_not_taken_again() -> None:
    manager = a_manager_that_knows(a_topic(id_number=1))
    refresh(manager, metadata(a_topic(id_number=2)), now=1.0)

    said = refresh(manager, metadata(a_topic(id_number=1)), now=2.0)
    asks_again = tick(manager, 2.1).request

    assert said == []
    assert manager.cluster.topics["t"].topic_id == topic_id(2)
    answer(manager, asks_again, metadata(a_topic(id_number=2)), now=2.1)
    assert manager.cluster.topics["t"].topic_id == topic_id(2)


def test_an_earlier_id_of_a_topic_is_taken_again_if_the_brokers_stay_with_it() -> None:
    """The first to name the other one was out of date, not those that come after it."""
    manager = a_manager_that_knows(a_topic(id_number=2))
    refresh(manager, metadata(a_topic(id_number=1)), now=1.0)

    for number in range(ANSWERS):
        was = manager.cluster.topics["t"].topic_id
        refresh(manager, metadata(a_topic(id_number=2)), now=2.0 + number)

    assert was == topic_id(1)
    assert manager.cluster.topics["t"].topic_id == topic_id(2)


def test_a_deleted_topic_disappears_with_the_second_answer_that_does_not_know_it() -> None:
    manager = a_manager_that_knows(a_topic())
    deleted = metadata(a_topic(error=UNKNOWN_TOPIC))

    assert refresh(manager, deleted, now=1.0) == []
    said = answer(manager, tick(manager, 1.1).request, deleted, now=1.1)

    assert cluster_in(said).topics == {}


def test_one_broker_that_lags_does_not_make_a_topic_disappear() -> None:
    manager = a_manager_that_knows(a_topic())

    refresh(manager, metadata(a_topic(error=UNKNOWN_TOPIC)), now=1.0)
    said = answer(manager, tick(manager, 1.1).request, metadata(a_topic()), now=1.1)

    assert said == []
    assert tick(manager, 1.1).wake_at == pytest.approx(301.1)


def test_a_topic_that_is_moving_keeps_what_is_known_of_it() -> None:
    manager = a_manager_that_knows(a_topic())

    said = refresh(manager, metadata(a_topic(error=LEADER_NOT_AVAILABLE)), now=1.0)

    assert said == []


def the_leader_does_not_know(manager: MetadataManager, epoch: int, *times: float) -> None:
    """The leader of t-0 refuses this epoch at these times."""
    for now in times:
        manager.handle(LeaderEpochsUnknown(epochs={TopicPartition("t", 0): epoch}, now=now))


def test_an_older_epoch_counts_if_the_leader_has_not_known_the_newer_one_for_a_second() -> None:
    """A broker has told an epoch that never was, or a topic without an id was created anew: all
    requests would be refused for ever."""
    manager = a_manager_that_knows(a_topic(leaders={0: (1, 900)}))

    the_leader_does_not_know(manager, 900, 1.0, 1.4, 2.0)
    asked = tick(manager, 2.2).request
    said = answer(manager, asked, metadata(a_topic(leaders={0: (1, 5)})), now=2.2)

    assert cluster_in(said).topics["t"].partitions[0] == PartitionInfo(leader=1, leader_epoch=5)


@pytest.mark.parametrize(
    ("epoch", "times"),
    [(900, (1.0,)), (900, (1.0, 1.9)), (900, (1.0, 60.0)), (899, (1.0, 2.0)), (901, (1.0, 2.0))],
    ids=["once", "for less than a second", "an hour ago, too", "an older one", "a newer one"],
)
def test_an_older_epoch_is_dropped_unless_the_leader_stays_with_it(
    epoch: int, times: tuple[float, ...]
) -> None:
    manager = a_manager_that_knows(a_topic(leaders={0: (1, 900)}))

    the_leader_does_not_know(manager, epoch, *times)
    said = refresh(manager, metadata(a_topic(leaders={0: (1, 5)})), now=61.0)

    assert said == []


def test_a_leader_that_lags_is_not_right_against_a_broker_that_knows_its_epoch() -> None:
    manager = a_manager_that_knows(a_topic(leaders={0: (1, 6)}))

    the_leader_does_not_know(manager, 6, 1.0, 2.0)
    refresh(manager, metadata(a_topic(leaders={0: (1, 6)})), now=2.2)
    said = refresh(manager, metadata(a_topic(leaders={0: (2, 5)})), now=2.5)

    assert said == []


def test_leader_epochs_of_old_brokers_are_not_believed() -> None:
    """KAFKA-9212: before Metadata v9 they may lag behind and would be fenced for ever."""
    manager = a_manager(tracking=["t"])

    said = answer(manager, tick(manager, 0.0).request, metadata(a_topic(), version=8))

    assert cluster_in(said).topics["t"] == TopicInfo(
        topic_id=None, partitions={0: PartitionInfo(leader=1, leader_epoch=-1)}
    )


def test_the_oldest_answer_is_understood() -> None:
    manager = a_manager(tracking=["t"])

    said = answer(manager, tick(manager, 0.0).request, metadata(a_topic(), version=1))

    assert cluster_in(said).cluster_id is None
    assert cluster_in(said).topics["t"].partitions[0].leader == 1


def test_an_internal_topic_is_marked() -> None:
    manager = a_manager_that_knows(a_topic("i", internal=True), a_topic("t"))

    assert manager.cluster.topics["i"].internal
    assert not manager.cluster.topics["t"].internal


def test_a_newer_leader_named_by_a_fetch_answer_is_taken_over_at_once() -> None:
    """Scenario 104 (KIP-951)."""
    manager = a_manager_that_knows(a_topic(leaders={0: (1, 5), 1: (1, 5)}))
    moved = PartitionInfo(leader=2, leader_epoch=6)

    said = manager.handle(moved_to({0: moved}))

    assert cluster_in(said).leader("t", 0) == moved
    assert cluster_in(said).leader("t", 1) == PartitionInfo(leader=1, leader_epoch=5)


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_leader_named_by_a_fetch_answer_that_is_not_newer_is_dropped(epoch: int) -> None:
    manager = a_manager_that_knows(a_topic())

    moved = PartitionInfo(leader=2, leader_epoch=epoch)

    assert manager.handle(moved_to({0: moved, 7: moved})) == []


def test_a_newer_leader_that_is_no_broker_we_know_leads_to_a_refresh() -> None:
    manager = a_manager_that_knows(a_topic(), now=0.0)

    said = manager.handle(moved_to({0: PartitionInfo(leader=9, leader_epoch=6)}))

    assert said == []
    assert tick(manager, 0.1).requests


def test_a_newer_leader_is_taken_with_the_address_that_the_answer_names() -> None:
    manager = a_manager_that_knows(a_topic(leaders={0: (1, 5), 1: (1, 5)}))
    new, moved = Broker(node_id=9, host="b9", port=9), Broker(node_id=2, host="moved", port=9)
    leaders = {
        0: PartitionInfo(leader=9, leader_epoch=6),
        1: PartitionInfo(leader=2, leader_epoch=6),
    }

    said = manager.handle(moved_to(leaders, new, moved))

    assert cluster_in(said).topics["t"].partitions == leaders
    assert (cluster_in(said).brokers[9], cluster_in(said).brokers[2]) == (new, moved)
    assert cluster_in(said).brokers[1].host != "moved"
    assert not tick(manager, 1.0).requests  # metadata is not asked anew: this is enough


def test_the_address_of_a_leader_that_is_not_newer_is_dropped() -> None:
    manager = a_manager_that_knows(a_topic())
    old = Broker(node_id=1, host="long.ago", port=9)

    said = manager.handle(moved_to({0: PartitionInfo(leader=1, leader_epoch=5)}, old))

    assert said == []


def test_a_leader_of_a_topic_that_was_created_anew_since_is_dropped() -> None:
    """Its epochs begin again: the old one's would stay above them for ever."""
    manager = a_manager_that_knows(a_topic(leaders={0: (1, 0)}, id_number=2))
    old = PartitionInfo(leader=2, leader_epoch=7)

    assert manager.handle(moved_to({0: old}, id_number=1)) == []

    assert manager.handle(moved_to({0: old}, id_number=2)) != []


# -- topics that cannot be read


def test_an_unauthorised_topic_is_told_once_and_asked_for_until_the_right_is_granted() -> None:
    manager = a_manager(tracking=["a", "t"])
    refused = metadata(a_topic("a"), a_topic(error=TOPIC_AUTHORIZATION_FAILED))

    told = answer(manager, tick(manager, 0.0).request, refused)
    (first,) = refusals_in(told)
    again = answer(manager, tick(manager, 0.1).request, refused, now=0.1)
    granted = answer(manager, tick(manager, 0.5).request, metadata(a_topic()), now=0.5)

    assert first.topics == cluster_in(told).forbidden == {"t"}
    assert cluster_in(granted).forbidden == frozenset()
    assert isinstance(first.error, TopicAuthorizationFailedError)
    assert first.error.args == ({"t"},)
    assert again == []
    assert "t" in cluster_in(granted).topics


def test_a_right_that_is_taken_away_again_is_told_again() -> None:
    manager = a_manager_that_knows(a_topic())
    refused = metadata(a_topic(error=TOPIC_AUTHORIZATION_FAILED))

    first = refresh(manager, refused, now=1.0)
    refresh(manager, metadata(a_topic()), now=2.0)
    second = refresh(manager, refused, now=3.0)

    assert len(refusals_in(first)) == len(refusals_in(second)) == 1
    assert cluster_in(second).topics == {}


def test_who_subscribes_again_to_what_was_refused_is_told_again_though_its_group_reads_it() -> None:
    manager = a_manager(tracking=["a", "t"])
    manager.handle(TrackTopics(owner="membership", topics=frozenset({"a", "t"})))
    refused = metadata(a_topic("a"), a_topic(error=TOPIC_AUTHORIZATION_FAILED))
    answer(manager, tick(manager, 0.0).request, refused)

    manager.handle(TrackTopics(owner="application", topics=frozenset({"a"})))
    manager.handle(TrackTopics(owner="application", topics=frozenset({"a", "t"})))
    told = answer(manager, tick(manager, 0.0).request, refused)

    assert [one.topics for one in refusals_in(told)] == [{"t"}]


def test_an_invalid_topic_is_told_once_and_not_asked_for_again() -> None:
    manager = a_manager(tracking=["a", "not valid"])
    response = metadata(a_topic("a"), a_topic("not valid", error=INVALID_TOPIC))

    said = answer(manager, tick(manager, 0.0).request, response)

    (refused,) = refusals_in(said)
    assert isinstance(refused.error, InvalidTopicError)
    assert tick(manager, 0.0).wake_at == 300.0
    assert names(tick(manager, 300.0).request) == ["a"]


def test_a_topic_that_never_existed_is_told_once_after_two_seconds() -> None:
    manager = a_manager(tracking=["t"])
    unknown = metadata(a_topic(error=UNKNOWN_TOPIC))
    now, told = 0.0, []

    while now < 6.0:
        for one in refusals_in(answer(manager, tick(manager, now).request, unknown, now=now)):
            told.append((now, one))
        now = tick(manager, now).wake_at

    ((when, refused),) = told
    assert 2.0 <= when < 3.0
    assert isinstance(refused.error, UnknownTopicOrPartitionError)
    assert "topic t;" in str(refused.error)
    assert "allow_auto_create_topics" in str(refused.error)


def test_a_single_slow_answer_is_not_enough_to_call_a_topic_unknown() -> None:
    manager = a_manager(tracking=["t"])
    unknown = metadata(a_topic(error=UNKNOWN_TOPIC))

    said = answer(manager, tick(manager, 0.0).request, unknown, now=10.0)

    assert refusals_in(said) == []


@pytest.mark.parametrize("owner", ["membership", "question 7"])
def test_an_unknown_topic_of_another_owner_is_not_told(owner: str) -> None:
    manager = a_manager()
    manager.handle(TrackTopics(owner=owner, topics=frozenset({"t"})))
    unknown = metadata(a_topic(error=UNKNOWN_TOPIC))

    said = []
    for now in (0.0, 1.0, 2.0, 3.0, 4.0):
        said += answer(manager, tick(manager, now).request, unknown, now=now)

    assert refusals_in(said) == []


def test_a_topic_that_existed_once_is_not_called_unknown() -> None:
    """Scenario 19: polling goes on after a topic was deleted."""
    manager = a_manager_that_knows(a_topic())
    unknown = metadata(a_topic(error=UNKNOWN_TOPIC))

    said = refresh(manager, unknown, now=1.0)
    for now in (2.0, 3.0, 4.0, 5.0):
        said += answer(manager, tick(manager, now).request, unknown, now=now)

    assert refusals_in(said) == []


# -- questions


def a_question(
    topics: Iterable[str] | None = ("t",), deadline: float = 10.0, ticket: int = 7
) -> DescribeTopics:
    return DescribeTopics(
        ticket=ticket, topics=None if topics is None else frozenset(topics), deadline=deadline
    )


def a_manager_with(question: DescribeTopics) -> MetadataManager:
    manager = a_manager_that_knows(a_topic("other"))
    manager.handle(question)
    return manager


def test_a_question_is_a_request_of_its_own_that_creates_nothing() -> None:
    manager = a_manager_with(a_question())

    request = tick(manager, 0.0).request

    assert names(request) == ["t"]
    assert request.body.allow_auto_topic_creation is False


def test_all_topics_are_asked_for_with_a_null_list() -> None:
    manager = a_manager_with(a_question(None))

    assert tick(manager, 0.0).request.body.topics is None


def test_a_question_is_answered_with_the_topics_that_exist() -> None:
    manager = a_manager_with(a_question(["t", "u"]))
    response = metadata(a_topic("t"), a_topic("u", error=UNKNOWN_TOPIC))

    (said,) = answer(manager, tick(manager, 0.0).request, response)

    info = TopicInfo(topic_id=topic_id(1), partitions={0: PartitionInfo(leader=1, leader_epoch=5)})
    assert said == Answered(ticket=7, value={"t": info})
    assert tick(manager, 0.0).requests == ()


def test_questions_do_not_change_the_snapshot() -> None:
    manager = a_manager_with(a_question())
    before = manager.cluster

    answer(manager, tick(manager, 0.0).request, metadata(a_topic("t"), brokers=(1,)))

    assert manager.cluster is before


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailedError),
        (INVALID_TOPIC, InvalidTopicError),
    ],
)
def test_a_refused_topic_fails_its_question(code: int, kind: type[Exception]) -> None:
    manager = a_manager_with(a_question(["t", "u"]))
    response = metadata(a_topic("u"), a_topic("t", error=code))

    (said,) = answer(manager, tick(manager, 0.0).request, response)

    assert isinstance(said, Failed)
    assert isinstance(said.error, kind)
    assert said.error.args == ({"t"},)


def test_a_topic_that_is_being_created_is_asked_for_again() -> None:
    manager = a_manager_with(a_question())
    response = metadata(a_topic("t", error=LEADER_NOT_AVAILABLE))

    assert answer(manager, tick(manager, 0.0).request, response) == []
    assert tick(manager, 0.05).wake_at == pytest.approx(0.1)
    (said,) = answer(manager, tick(manager, 0.1).request, metadata(a_topic("t")), now=0.1)

    assert isinstance(said, Answered)


def test_two_questions_are_answered_each_for_itself() -> None:
    manager = a_manager_with(a_question(["t"], ticket=1))
    manager.handle(a_question(["u"], ticket=2))
    first, second = tick(manager, 0.0).requests

    (of_second,) = answer(manager, second, metadata(a_topic("u")))
    (of_first,) = answer(manager, first, metadata(a_topic("t")))

    assert isinstance(of_second, Answered)
    assert of_second.ticket == 2
    assert isinstance(of_first, Answered)
    assert set(of_first.value) == {"t"}


def test_a_question_ends_at_its_deadline_with_what_happened_last() -> None:
    manager = a_manager_with(a_question(deadline=0.25))
    now = 0.0
    said: list[object] = []

    while not said:
        request = tick(manager, now).request
        assert request.deadline <= 0.25
        said = fail(manager, request, KafkaConnectionError("b1:9092 is down"), now=now)
        now = tick(manager, now).wake_at

    (failed,) = said
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, KafkaTimeoutError)
    assert "the topics t within 0.1 s (2 attempts)" in str(failed.error)
    assert "b1:9092 is down" in str(failed.error)


# -- restarts


def test_what_a_restarted_member_had_tracked_is_tracked_no_more() -> None:
    manager = a_manager()
    manager.handle(TrackTopics(owner="application", topics=frozenset({"a"})))
    manager.handle(TrackTopics(owner="membership", topics=frozenset({"b"})))

    manager.handle(ActorsRestarted(actors=("membership", "commits"), because=ValueError()))

    assert names(tick(manager, 0.0).request) == ["a"]


def test_names_that_a_restarted_member_had_asked_for_are_asked_for_no_more() -> None:
    manager = a_manager_that_knows(a_topic())
    manager.handle(NameTopics(topic_ids=frozenset({topic_id(7)})))

    manager.handle(ActorsRestarted(actors=("membership", "commits"), because=ValueError()))

    assert tick(manager, 1.0).requests == ()


def test_a_restarted_manager_waits_to_hear_what_is_tracked_and_its_versions_go_on_growing() -> None:
    before = a_manager_that_knows(a_topic()).cluster
    manager = MetadataManager(SETTINGS, incarnation=2)

    assert tick(manager, 50.0).requests == ()
    manager.handle(TrackTopics(owner="application", topics=frozenset({"t"})))
    said = answer(manager, tick(manager, 50.0).request, metadata(a_topic()), now=50.0)

    assert cluster_in(said).version > before.version


def test_the_trace_tells_what_changed() -> None:
    trace, events = recording()
    manager = MetadataManager(SETTINGS, trace=trace)
    manager.handle(TrackTopics(owner="application", topics=frozenset({"t"})))

    answer(manager, tick(manager, 0.0).request, metadata(a_topic()))
    refresh(manager, metadata(a_topic(leaders={0: (2, 6)})), now=1.0)

    appeared, moved = (one for one in events if one["event"] == "cluster.changed")
    assert appeared["topics_added"] == ["t"]
    assert moved["leaders"] == {"t-0": 2}
