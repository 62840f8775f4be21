"""The metadata manager: topics that a pattern finds, and the names of topics known by their ids."""

from __future__ import annotations

import re

import pytest
from kafka.errors import KafkaConnectionError

from aktor.events.metadata import (
    NameTopics,
    RefreshMetadata,
    TopicPattern,
    TopicsNamed,
    TopicsRefused,
    TrackTopics,
)
from aktor.events.network import Request
from aktor.managers.metadata.manager import MetadataManager
from aktor.managers.metadata.topics import ANSWERS, BY_ID, UNKNOWN_SECONDS
from aktor.settings import Settings
from tests.unit.managers.builders import (
    INVALID_TOPIC,
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

SETTINGS = Settings(retry_backoff=0.1, retry_backoff_max=1.0, metadata_max_age=300.0)


def tracking(pattern: str, *topics: str, internal: bool = False) -> TrackTopics:
    """The application subscribes to a pattern."""
    found = TopicPattern(pattern=re.compile(pattern), internal=internal)
    return TrackTopics(owner="application", topics=frozenset(topics), pattern=found)


def a_manager_that_found(pattern: str, *topics: object, internal: bool = False) -> MetadataManager:
    """A manager with a pattern that has just heard of these topics."""
    manager = MetadataManager(SETTINGS)
    manager.handle(tracking(pattern, internal=internal))
    answer(manager, tick(manager, 0.0).request, metadata(*topics))
    return manager


def known(manager: MetadataManager) -> set[str]:
    return set(manager.cluster.topics)


def ids(request: Request) -> list[object]:
    return [one.topic_id for one in request.body.topics]


# -- patterns


def test_with_a_pattern_all_topics_are_asked_for_and_those_that_match_are_kept() -> None:
    manager = MetadataManager(SETTINGS)
    manager.handle(tracking("a.*"))
    request = tick(manager, 0.0).request

    said = answer(manager, request, metadata(a_topic("a1"), a_topic("a2"), a_topic("b1")))

    assert request.body.topics is None
    assert set(cluster_in(said).topics) == {"a1", "a2"}


def test_a_pattern_matches_from_the_beginning_of_a_name_and_not_to_its_end() -> None:
    """As kafka-python's."""
    manager = a_manager_that_found("a", a_topic("a"), a_topic("a1"), a_topic("ba"))

    assert known(manager) == {"a", "a1"}


@pytest.mark.parametrize(("internal", "found"), [(False, {"t"}), (True, {"t", "__offsets"})])
def test_kafkas_own_topics_are_found_only_if_that_is_wanted(
    internal: bool, found: set[str]
) -> None:
    topics = [a_topic("t"), a_topic("__offsets", internal=True)]
    manager = a_manager_that_found(".*", *topics, internal=internal)

    assert known(manager) == found


def test_a_topic_that_comes_is_found_with_the_next_refresh() -> None:
    """Scenario 76."""
    manager = a_manager_that_found("a.*", a_topic("a1"))

    said = refresh(manager, metadata(a_topic("a1"), a_topic("a2"), a_topic("b")), now=1.0)

    assert set(cluster_in(said).topics) == {"a1", "a2"}


def test_a_topic_that_goes_is_forgotten_when_two_brokers_do_not_know_it() -> None:
    """One broker may lag behind the others."""
    manager = a_manager_that_found("a.*", a_topic("a1"), a_topic("a2"))

    refresh(manager, metadata(a_topic("a1")), now=1.0)
    assert known(manager) == {"a1", "a2"}
    said = refresh(manager, metadata(a_topic("a1")), now=2.0)

    assert set(cluster_in(said).topics) == {"a1"}
    assert not refusals_in(said)


def test_a_topic_that_has_gone_is_as_one_that_never_was_when_it_is_subscribed_to_by_name() -> None:
    manager = a_manager_that_found("a.*", a_topic("a1"), a_topic("a2"))
    refresh(manager, metadata(a_topic("a1")), now=1.0)
    refresh(manager, metadata(a_topic("a1")), now=2.0)

    manager.handle(TrackTopics(owner="application", topics=frozenset({"a2"})))
    said: list[object] = []
    for now in (3.0, 4.0, 4.0 + UNKNOWN_SECONDS):
        said += refresh(manager, metadata(a_topic("a2", error=UNKNOWN_TOPIC)), now=now)

    (refusal,) = refusals_in(said)
    assert refusal.topics == {"a2"}


def test_when_it_has_gone_nothing_is_asked_before_the_snapshot_is_old() -> None:
    manager = a_manager_that_found("a.*", a_topic("a1"), a_topic("a2"))
    refresh(manager, metadata(a_topic("a1")), now=1.0)
    refresh(manager, metadata(a_topic("a1")), now=2.0)

    assert tick(manager, 2.0).wake_at == pytest.approx(302.0)


def test_a_topic_that_one_broker_did_not_know_is_not_counted_when_it_is_back() -> None:
    manager = a_manager_that_found("a.*", a_topic("a1"), a_topic("a2"))
    both, one = metadata(a_topic("a1"), a_topic("a2")), metadata(a_topic("a1"))

    for now, response in enumerate([one, both, one], start=1):
        refresh(manager, response, now=float(now))

    assert known(manager) == {"a1", "a2"}


def test_a_pattern_that_matches_nothing_is_no_error_and_no_reason_to_ask_at_once() -> None:
    """KAFKA-18096."""
    manager = a_manager_that_found("a.*", a_topic("b"))

    turn = tick(manager, 0.0)

    assert known(manager) == set()
    assert turn.wake_at == pytest.approx(300.0)


@pytest.mark.parametrize("code", [TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC, UNKNOWN_TOPIC])
def test_topics_with_an_error_that_nobody_named_are_nobodys_concern(code: int) -> None:
    manager = MetadataManager(SETTINGS)
    manager.handle(tracking("a.*"))

    said = answer(
        manager, tick(manager, 0.0).request, metadata(a_topic("a1"), a_topic("a2", error=code))
    )

    assert set(cluster_in(said).topics) == {"a1"}
    assert not refusals_in(said)


def test_topics_that_another_names_are_kept_besides_and_missed_if_they_are_not_there() -> None:
    manager = a_manager_that_found("a.*", a_topic("a1"))
    manager.handle(TrackTopics(owner="membership", topics=frozenset({"b"})))

    answer(manager, tick(manager, 1.0).request, metadata(a_topic("a1")), now=1.0)
    assert tick(manager, 1.0).wake_at == pytest.approx(1.1)
    said = answer(
        manager, tick(manager, 1.1).request, metadata(a_topic("a1"), a_topic("b")), now=1.1
    )

    assert set(cluster_in(said).topics) == {"a1", "b"}


def test_a_topic_that_only_the_group_names_is_looked_for_and_its_absence_not_told() -> None:
    manager = a_manager_that_found("a.*", a_topic("a1"))
    manager.handle(TrackTopics(owner="membership", topics=frozenset({"b"})))
    said, now = [], 1.0
    while now < 1.0 + 2 * UNKNOWN_SECONDS:
        said += answer(manager, tick(manager, now).request, metadata(a_topic("a1")), now=now)
        now = tick(manager, now).wake_at

    assert not any(isinstance(one, TopicsRefused) for one in said)


def test_another_pattern_is_asked_for_at_once_and_what_only_the_first_matched_is_forgotten() -> (
    None
):
    manager = a_manager_that_found("a|b", a_topic("a"), a_topic("b"))

    said = manager.handle(tracking("b|c"))

    assert set(cluster_in(said).topics) == {"b"}
    assert tick(manager, 0.001).request.body.topics is None


def test_the_same_pattern_again_asks_for_nothing() -> None:
    manager = a_manager_that_found("a", a_topic("a"))

    assert not manager.handle(tracking("a"))

    assert not tick(manager, 0.001).requests


def test_topics_in_place_of_a_pattern_are_asked_for_by_name() -> None:
    """Scenario 74."""
    manager = a_manager_that_found("a.*", a_topic("a1"), a_topic("a2"))

    said = manager.handle(TrackTopics(owner="application", topics=frozenset({"a1", "b"})))

    assert set(cluster_in(said).topics) == {"a1"}
    request = tick(manager, 0.001).request
    assert [one.name for one in request.body.topics] == ["a1", "b"]


def test_the_answer_for_all_topics_to_a_pattern_that_was_given_up_is_read_for_what_is_named() -> (
    None
):
    manager = MetadataManager(SETTINGS)
    manager.handle(tracking("a.*"))
    request = tick(manager, 0.0).request
    manager.handle(TrackTopics(owner="application", topics=frozenset({"b"})))

    said = answer(manager, request, metadata(a_topic("a"), a_topic("b")))

    assert set(cluster_in(said).topics) == {"b"}


def test_an_answer_by_name_that_crosses_a_pattern_makes_no_topic_disappear() -> None:
    manager = MetadataManager(SETTINGS)
    manager.handle(TrackTopics(owner="application", topics=frozenset({"a"})))
    answer(manager, tick(manager, 0.0).request, metadata(a_topic("a")))
    manager.handle(RefreshMetadata(because="a test"))
    by_name = tick(manager, 1.0).request
    manager.handle(tracking("a.*|b"))

    answer(manager, by_name, metadata(a_topic("a")), now=1.0)

    assert known(manager) == {"a"}
    assert tick(manager, 1.0).request.body.topics is None


def test_an_unsubscribed_pattern_leaves_nothing_behind() -> None:
    manager = a_manager_that_found("a.*", a_topic("a1"))

    manager.handle(TrackTopics(owner="application"))

    assert known(manager) == set()


# -- names by ids


def test_names_are_asked_for_by_ids_in_a_version_that_can_and_creating_nothing() -> None:
    manager = a_manager_that_found("x", a_topic("t"))

    manager.handle(NameTopics(topic_ids=frozenset({topic_id(1), topic_id(2)})))
    request = tick(manager, 1.0).request

    assert ids(request) == [topic_id(1), topic_id(2)]
    assert request.body._min_version == BY_ID
    assert not request.body.allow_auto_topic_creation


def test_they_are_told_and_change_nothing_in_the_snapshot() -> None:
    manager = a_manager_that_found("x")
    manager.handle(NameTopics(topic_ids=frozenset({topic_id(1)})))
    before = manager.cluster

    said = answer(manager, tick(manager, 1.0).request, metadata(a_topic("t", id_number=1)))

    assert said == [TopicsNamed(names={topic_id(1): "t"})]
    assert manager.cluster is before
    assert not tick(manager, 2.0).requests


def test_what_has_no_name_yet_is_asked_for_again_with_a_growing_backoff() -> None:
    manager = a_manager_that_found("x")
    manager.handle(NameTopics(topic_ids=frozenset({topic_id(1), topic_id(2)})))
    said = answer(manager, tick(manager, 1.0).request, metadata(a_topic("t", id_number=1)), now=1.0)
    assert said == [TopicsNamed(names={topic_id(1): "t"})]

    waits, now = [], 1.0
    for _ in range(4):
        at = tick(manager, now).wake_at
        waits.append(at - now)
        request = tick(manager, at).request
        assert ids(request) == [topic_id(2)]
        assert not answer(manager, request, metadata(), now=at)
        now = at

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_a_failed_request_for_names_is_repeated() -> None:
    manager = a_manager_that_found("x")
    manager.handle(NameTopics(topic_ids=frozenset({topic_id(1)})))

    fail(manager, tick(manager, 1.0).request, KafkaConnectionError("reset"), now=1.0)

    turn = tick(manager, 1.0)
    assert (turn.requests, turn.wake_at) == ((), pytest.approx(1.1))
    assert ids(tick(manager, 1.1).request) == [topic_id(1)]


def test_there_is_one_request_for_names_at_a_time() -> None:
    manager = a_manager_that_found("x")
    manager.handle(NameTopics(topic_ids=frozenset({topic_id(1)})))
    tick(manager, 1.0)

    manager.handle(NameTopics(topic_ids=frozenset({topic_id(1), topic_id(2)})))

    assert not tick(manager, 1.0).requests


def test_what_is_not_wanted_any_more_is_not_asked_for() -> None:
    manager = a_manager_that_found("x")
    manager.handle(NameTopics(topic_ids=frozenset({topic_id(1)})))
    manager.handle(NameTopics(topic_ids=frozenset()))

    assert not tick(manager, 1.0).requests


def test_a_topic_that_may_not_be_described_goes_on_being_asked_for() -> None:
    manager = a_manager_that_found("x")
    manager.handle(NameTopics(topic_ids=frozenset({topic_id(1)})))
    refused = a_topic("t", error=TOPIC_AUTHORIZATION_FAILED)

    assert not answer(manager, tick(manager, 1.0).request, metadata(refused), now=1.0)

    assert tick(manager, 1.1).requests


# -- topics and partitions that came into being since


def had(manager: MetadataManager) -> dict[str, int | None]:
    return {name: info.had for name, info in manager.cluster.topics.items()}


def test_a_topic_that_matches_and_was_in_no_answer_before_has_come_into_being() -> None:
    manager = a_manager_that_found("orders", a_topic("orders-1"))

    refresh(manager, metadata(a_topic("orders-1"), a_topic("orders-2")), now=300.0)

    assert had(manager) == {"orders-1": 1, "orders-2": 0}


def test_what_another_pattern_finds_was_there_before() -> None:
    manager = a_manager_that_found("orders", a_topic("orders-1"), a_topic("bills"))

    manager.handle(tracking(".*"))
    refresh(manager, metadata(a_topic("orders-1"), a_topic("bills")), now=1.0)

    assert had(manager) == {"orders-1": 1, "bills": 1}


def test_what_a_question_finds_beside_a_pattern_was_there_before() -> None:
    manager = a_manager_that_found("orders", a_topic("orders-1"))

    manager.handle(TrackTopics(owner="question 1", topics=frozenset({"bills"})))
    refresh(manager, metadata(a_topic("orders-1"), a_topic("bills")), now=1.0)

    assert had(manager) == {"orders-1": 1, "bills": 1}


def test_partitions_that_come_later_do_not_change_how_many_there_were() -> None:
    manager = a_manager_that_found("orders", a_topic("orders-1"))

    grown = a_topic("orders-1", {0: (1, 5), 1: (1, 0)})
    refresh(manager, metadata(grown), now=300.0)

    info = manager.cluster.topics["orders-1"]
    assert [info.has_gained(partition) for partition in (0, 1)] == [False, True]


@pytest.mark.parametrize(("unknown", "expected"), [(0, 1), (1, 1), (2, 0), (3, 0)])
def test_a_topic_that_more_than_one_answer_did_not_know_has_come_into_being(
    unknown: int, expected: int
) -> None:
    """A single broker may lag behind the others."""
    manager = MetadataManager(SETTINGS)
    manager.handle(TrackTopics(owner="application", topics=frozenset({"orders"})))

    for turn in range(unknown):
        refresh(manager, metadata(a_topic("orders", error=UNKNOWN_TOPIC)), now=5.0 * turn)
    refresh(manager, metadata(a_topic("orders")), now=100.0)

    assert had(manager) == {"orders": expected}


@pytest.mark.parametrize(
    ("version", "id_number", "expected"),
    [(13, 1, 1), (13, 2, 0), (9, 1, 1)],
    ids=["the same", "created anew", "perhaps the same, without ids"],
)
@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_topic_that_was_known_before_comes_into_being_only_with_another_id(
    version: int, id_number: int, expected: int, by_pattern: bool
) -> None:
    """Brokers that lag behind, or restart, do not know a topic for a while."""
    if by_pattern:
        manager = a_manager_that_found("orders", a_topic("orders"))
    else:
        manager = MetadataManager(SETTINGS)
        manager.handle(TrackTopics(owner="application", topics=frozenset({"orders"})))
    refresh(manager, metadata(a_topic("orders"), version=version), now=1.0)

    for turn in range(3):
        unknown = () if by_pattern else (a_topic("orders", error=UNKNOWN_TOPIC),)
        refresh(manager, metadata(*unknown, version=version), now=100.0 + 5.0 * turn)
    assert had(manager) == {}
    again = a_topic("orders", id_number=id_number)
    refresh(manager, metadata(again, version=version), now=300.0)

    assert had(manager) == {"orders": expected}


def test_a_topic_that_was_created_anew_has_come_into_being_but_not_one_whose_id_comes_back() -> (
    None
):
    """The first to name another id may have been a broker that lags behind."""
    manager = MetadataManager(SETTINGS)
    manager.handle(TrackTopics(owner="application", topics=frozenset({"orders"})))
    old, new = a_topic("orders", id_number=1), a_topic("orders", id_number=2)
    refresh(manager, metadata(old), now=0.0)
    refresh(manager, metadata(new), now=1.0)
    assert had(manager) == {"orders": 0}

    for turn in range(ANSWERS):
        refresh(manager, metadata(old), now=2.0 + turn)

    assert had(manager) == {"orders": 1}


def test_what_a_topic_had_gained_before_it_was_unknown_for_a_while_it_still_has() -> None:
    manager = MetadataManager(SETTINGS)
    manager.handle(TrackTopics(owner="application", topics=frozenset({"orders"})))
    grown = a_topic("orders", {0: (1, 5), 1: (1, 0)})
    unknown = a_topic("orders", error=UNKNOWN_TOPIC)

    for now, told in enumerate((a_topic("orders"), grown, unknown, unknown, grown)):
        refresh(manager, metadata(told), now=10.0 * now)

    assert had(manager) == {"orders": 1}
