"""Who is given what by the assignors of a broker."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from aktor.broker.groups.consumer.assignors import ASSIGNORS, Candidate

T, U, V = (UUID(int=n) for n in (1, 2, 3))


def a_member(
    *topics: UUID, had: dict[UUID, tuple[int, ...]] | None = None, instance_id: str | None = None
) -> Candidate:
    return Candidate(topics=topics, target=had or {}, instance_id=instance_id)


def assign(
    assignor: str, partitions: dict[UUID, int], **members: Candidate
) -> dict[str, dict[UUID, tuple[int, ...]]]:
    homogeneous = len({member.topics for member in members.values()}) == 1
    return ASSIGNORS[assignor](members, partitions, homogeneous)


# What is expected here is what Kafka 4.3.1's classes answer to the same.


def test_range_gives_the_same_partitions_of_all_topics_to_the_same_member() -> None:
    assert assign("range", {T: 5, U: 3}, a=a_member(T, U), b=a_member(T, U)) == {
        "a": {T: (0, 1, 2), U: (0, 1)},
        "b": {T: (3, 4), U: (2,)},
    }


def test_range_leaves_the_last_without_when_there_are_more_members_than_partitions() -> None:
    members = {name: a_member(T) for name in "abc"}

    assert assign("range", {T: 2}, **members) == {"a": {T: (0,)}, "b": {T: (1,)}, "c": {}}


def test_range_counts_only_the_subscribers_of_a_topic() -> None:
    assert assign("range", {T: 4, U: 3}, a=a_member(T), b=a_member(T, U), c=a_member(U)) == {
        "a": {T: (0, 1)},
        "b": {T: (2, 3), U: (0, 1)},
        "c": {U: (2,)},
    }


def test_range_takes_static_members_first_by_their_names() -> None:
    assert assign(
        "range",
        {T: 3},
        a=a_member(T),
        b=a_member(T, instance_id="2"),
        c=a_member(T, instance_id="1"),
    ) == {"a": {T: (2,)}, "b": {T: (1,)}, "c": {T: (0,)}}


def test_uniform_deals_out_what_is_new_member_by_member() -> None:
    assert assign("uniform", {T: 3, U: 2}, a=a_member(T, U), b=a_member(T, U)) == {
        "a": {T: (0, 1)},
        "b": {T: (2,), U: (0, 1)},
    }


def test_uniform_leaves_each_what_it_had_as_far_as_the_others_get_their_part() -> None:
    assert assign("uniform", {T: 5}, a=a_member(T), b=a_member(T, had={T: (0, 1, 2, 3, 4)})) == {
        "a": {T: (3, 4)},
        "b": {T: (0, 1, 2)},
    }


def test_uniform_gives_the_one_too_many_to_who_has_it() -> None:
    had = {"a": (1,), "b": (0, 2)}
    members = {name: a_member(T, had={T: partitions}) for name, partitions in had.items()}

    assert assign("uniform", {T: 3}, **members) == {name: {T: ps} for name, ps in had.items()}


def test_uniform_takes_away_a_topic_that_nobody_subscribes_to_any_more() -> None:
    assert assign("uniform", {T: 2}, a=a_member(T, had={U: (0,)}), b=a_member(T)) == {
        "a": {T: (0,)},
        "b": {T: (1,)},
    }


def test_uniform_first_serves_topics_with_few_subscribers() -> None:
    assert assign("uniform", {T: 4, U: 2}, a=a_member(T, U), b=a_member(T)) == {
        "a": {U: (0, 1), T: (3,)},
        "b": {T: (0, 1, 2)},
    }


def test_uniform_moves_to_who_has_least_if_subscriptions_differ() -> None:
    assert assign(
        "uniform",
        {T: 3, U: 2, V: 1},
        a=a_member(T, U, had={T: (0, 1, 2), U: (0, 1)}),
        b=a_member(T, V),
    ) == {"a": {T: (0,), U: (0, 1)}, "b": {T: (1, 2), V: (0,)}}


def test_nobody_and_nothing_make_an_empty_assignment() -> None:
    for assignor in ASSIGNORS:
        assert ASSIGNORS[assignor]({}, {}, True) == {}
        assert assign(assignor, {}, a=a_member()) == {"a": {}}


@pytest.mark.few_cases
@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
@pytest.mark.parametrize("seed", range(60))
def test_every_partition_goes_to_exactly_one_subscriber(assignor: str, seed: int) -> None:
    rng = random.Random(seed)
    partitions, members = a_group(rng)

    assignment = assign(assignor, partitions, **members)

    given = [
        (topic, partition)
        for name, topics in assignment.items()
        for topic, owned in topics.items()
        for partition in owned
        if topic in members[name].topics
    ]
    subscribed = {topic for member in members.values() for topic in member.topics}
    assert sorted(given) == sorted((t, p) for t in subscribed for p in range(partitions[t]))


def a_group(rng: random.Random) -> tuple[dict[UUID, int], dict[str, Candidate]]:
    """Some topics and members, with what is left of some assignment before."""
    partitions = {UUID(int=n): rng.randint(1, 9) for n in range(1, rng.randint(2, 6))}
    names = [f"m{n}" for n in range(rng.randint(1, 6))]
    had: dict[str, dict[UUID, list[int]]] = {name: {} for name in names}
    for topic, count in partitions.items():
        for partition in range(count):
            owner = rng.choice([*names, None])
            if owner is not None:
                had[owner].setdefault(topic, []).append(partition)
    common = rng.sample(sorted(partitions), rng.randint(1, len(partitions)))
    members = {}
    for name in names:
        others = rng.sample(sorted(partitions), rng.randint(0, len(partitions)))
        topics = rng.choice([common, others])
        target = {topic: tuple(owned) for topic, owned in had[name].items()}
        members[name] = a_member(*sorted(topics), had=target)
    used = {topic for member in members.values() for topic in member.topics}
    return {topic: n for topic, n in partitions.items() if topic in used}, members


@pytest.mark.few_cases
@pytest.mark.parametrize("seed", range(60))
def test_uniform_differs_by_one_at_most_and_is_content_with_its_own_result(seed: int) -> None:
    rng = random.Random(seed)
    partitions = {UUID(int=n): rng.randint(1, 9) for n in range(1, rng.randint(2, 6))}
    members = {f"m{n}": a_member(*partitions) for n in range(rng.randint(1, 6))}

    first = assign("uniform", partitions, **members)
    again = assign(
        "uniform",
        partitions,
        **{name: a_member(*partitions, had=dict(owned)) for name, owned in first.items()},
    )

    sizes = [sum(map(len, owned.values())) for owned in first.values()]
    assert max(sizes) - min(sizes) <= 1
    assert again == first
