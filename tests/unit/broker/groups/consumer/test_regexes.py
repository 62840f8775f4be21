"""Members that subscribe by a pattern, which the broker matches."""

from __future__ import annotations

from aktor.broker.codes import Code
from tests.unit.broker.groups.consumer.world import ConsumerWorld, told
from tests.unit.broker.harness import Topics


def a_world() -> ConsumerWorld:
    return ConsumerWorld(Topics(**{"orders-eu": 2, "orders-us": 2, "users": 2}))


def test_a_pattern_is_resolved_after_the_first_answer() -> None:
    world = a_world()
    alice = world.member("alice", regex="orders-.*")

    assert (told(alice.join()), alice.epoch) == ([], 1)
    alice.beat()

    assert alice.partitions == {"orders-eu": [0, 1], "orders-us": [0, 1]}
    assert (alice.epoch, world.group.group_epoch) == (2, 2)
    assert world.group.subscribed_topics() == {"orders-eu", "orders-us"}


def test_a_pattern_matches_whole_names() -> None:
    world = a_world()
    alice = world.member("alice", regex="orders")
    alice.join()

    alice.beat()

    assert alice.partitions == {}


def test_who_joins_with_a_known_pattern_is_assigned_at_once() -> None:
    world = a_world()
    alice, bob = (world.member(name, regex="users") for name in ("alice", "bob"))
    alice.join()
    alice.beat()

    bob.join()
    world.settle(alice, bob)

    assert (alice.partitions, bob.partitions) == ({"users": [0]}, {"users": [1]})


def test_names_and_a_pattern_add_up() -> None:
    world = a_world()
    alice = world.member("alice", topics=["users"], regex="orders-eu")
    alice.join()

    alice.beat()

    assert alice.partitions == {"users": [0, 1], "orders-eu": [0, 1]}


def test_a_new_topic_is_found_ten_seconds_after_the_last_look() -> None:
    world = a_world()
    alice = world.member("alice", regex="orders-.*")
    alice.join()
    alice.beat()

    world.topics.create("orders-jp", 1)
    world.pass_time(10)
    assert told(alice.beat()) is None
    world.pass_time(0.1)
    alice.beat()

    assert told(alice.beat()) == [0, 1, 0, 1, 0]


def test_intervals_can_be_shorter_for_quick_tests() -> None:
    world = ConsumerWorld(Topics(a=1), consumer_regex_min_interval=0.0)
    alice = world.member("alice", regex=".")
    alice.join()
    alice.beat()

    world.topics.create("b", 1)
    world.pass_time(0.1)
    alice.beat()
    alice.beat()

    assert alice.partitions == {"a": [0], "b": [0]}


def test_a_deleted_topic_is_given_up_without_a_look() -> None:
    world = a_world()
    alice = world.member("alice", regex="orders-.*")
    alice.join()
    alice.beat()

    world.topics.delete("orders-eu")

    alice.beat()
    assert alice.partitions == {"orders-us": [0, 1]}


def test_an_empty_pattern_ends_the_subscription_by_pattern() -> None:
    world = a_world()
    alice = world.member("alice", topics=["users"], regex="orders-eu")
    alice.join()
    alice.beat()

    alice.beat(subscribed_topic_regex="")

    assert alice.partitions == {"users": [0, 1]}
    assert world.group.snapshot()["regexes"] == {"at": None, "topics": {}}


def test_what_is_no_pattern_of_re2_is_refused_and_leaves_nothing() -> None:
    world = a_world()

    answer = world.member("alice", regex="orders(?!-eu)").join()

    assert answer.error_code == Code.INVALID_REGULAR_EXPRESSION
    assert answer.error_message == (
        "SubscribedTopicRegex `orders(?!-eu)` is not a valid regular expression: invalid or "
        "unsupported Perl syntax."
    )
    assert world.group.state == "Empty"
    assert world.kept() is None


def test_different_patterns_share_what_both_match() -> None:
    world = a_world()
    alice = world.member("alice", regex="orders-.*")
    bob = world.member("bob", regex="orders-us|users")
    alice.join()
    bob.join()
    world.pass_time(11)

    world.settle(alice, bob)

    assert alice.partitions == {"orders-eu": [0, 1], "orders-us": [0]}
    assert bob.partitions == {"orders-us": [1], "users": [0, 1]}
