"""Committing and fetching offsets, as clients of all versions see it."""

from __future__ import annotations

from uuid import UUID

import pytest

from aktor.broker.codes import Code, Refused
from tests.unit.broker.groups.coordinator_world import CoordinatorWorld

ORDERS_0 = ("orders", 0)
ORDERS_1 = ("orders", 1)
BILLS_0 = ("bills", 0)
UNKNOWN_ID = UUID(int=999)


@pytest.mark.parametrize("version", range(2, 11))
def test_what_is_committed_in_any_version_can_be_fetched(version: int) -> None:
    world = CoordinatorWorld()

    code = world.commit("g", {ORDERS_0: 5, BILLS_0: 7}, version=version)

    assert code is Code.NONE
    assert world.fetch("g", [ORDERS_0, BILLS_0]) == {ORDERS_0: 5, BILLS_0: 7}


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_can_be_fetched_in_any_version(version: int) -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5})

    assert world.fetch("g", [ORDERS_0, ORDERS_1], version=version) == {ORDERS_0: 5, ORDERS_1: -1}


@pytest.mark.parametrize("version", range(2, 11))
def test_who_names_no_topics_gets_all_that_is_committed(version: int) -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_1: 6, BILLS_0: 7, ORDERS_0: 5})

    found = world.fetch("g", version=version)

    assert found == {BILLS_0: 7, ORDERS_0: 5, ORDERS_1: 6}


@pytest.mark.parametrize("version", [1, 7, 9, 10])
def test_a_group_that_is_unknown_has_committed_nothing_and_that_is_no_error(version: int) -> None:
    world = CoordinatorWorld()

    assert world.fetch("nobody", [ORDERS_0], version=version) == {ORDERS_0: -1}
    assert world.list() == []


def test_leader_epoch_and_metadata_come_back() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5}, metadata="by hand", leader_epoch=3)

    for version in (5, 7, 9, 10):
        (topic,) = world.fetch_answer("g", [ORDERS_0], version=version).topics
        (partition,) = topic.partitions
        assert (partition.committed_leader_epoch, partition.metadata) == (3, "by hand")


def test_no_metadata_is_the_same_as_an_empty_one() -> None:
    world = CoordinatorWorld()
    world.commit("g", metadata=None)

    (topic,) = world.fetch_answer("g", [ORDERS_0]).topics

    assert topic.partitions[0].metadata == ""


def test_metadata_that_is_too_long_is_refused_for_its_partition_only() -> None:
    world = CoordinatorWorld(offset_metadata_max_bytes=3)

    assert world.commit("g", {ORDERS_0: 5}, metadata="abcd") is Code.OFFSET_METADATA_TOO_LARGE
    assert world.commit("g", {ORDERS_1: 5}, metadata="äöü") is Code.NONE
    assert world.fetch("g") == {ORDERS_1: 5}


def test_partitions_that_do_not_exist_are_refused_and_the_others_are_kept() -> None:
    world = CoordinatorWorld()

    codes = world.commit("g", {ORDERS_0: 5, ("orders", 3): 1, ("nothing", 0): 1})

    assert codes == {
        ORDERS_0: Code.NONE,
        ("orders", 3): Code.UNKNOWN_TOPIC_OR_PARTITION,
        ("nothing", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert world.fetch("g") == {ORDERS_0: 5}


def test_topics_that_may_not_be_read_are_refused_and_the_others_are_kept() -> None:
    world = CoordinatorWorld()
    world.topics.forbidden.add("bills")

    codes = world.commit("g", {ORDERS_0: 5, BILLS_0: 7})

    assert codes == {ORDERS_0: Code.NONE, BILLS_0: Code.TOPIC_AUTHORIZATION_FAILED}
    assert world.fetch("g", [ORDERS_0, BILLS_0]) == {ORDERS_0: 5, BILLS_0: -1}


def test_a_commit_of_nothing_that_exists_makes_no_group() -> None:
    world = CoordinatorWorld()

    world.commit("g", {("nothing", 0): 1})

    assert world.list() == []


@pytest.mark.parametrize("topic_id", [UNKNOWN_ID, UUID(int=0)])
def test_an_unknown_topic_id_is_said_to_be_one(topic_id: UUID) -> None:
    world = CoordinatorWorld()

    commit = world.commit("g", version=10, topic_id=topic_id)
    fetch = world.fetch_codes("g", [ORDERS_0, ORDERS_1], version=10, topic_id=topic_id)

    assert commit is Code.UNKNOWN_TOPIC_ID
    assert fetch == [Code.UNKNOWN_TOPIC_ID] * 2


def test_topic_ids_come_back_as_they_were_sent() -> None:
    world = CoordinatorWorld()

    answer = world.fetch_answer("g", [ORDERS_0], version=10, topic_id=UNKNOWN_ID)

    assert answer.topics[0].topic_id == UNKNOWN_ID


def test_the_empty_group_id_is_a_group_for_commits() -> None:
    world = CoordinatorWorld()

    assert world.commit("") is Code.NONE
    assert world.fetch("") == {ORDERS_0: 5}


# Who may commit.


def test_a_commit_without_a_member_makes_a_simple_group() -> None:
    world = CoordinatorWorld()

    world.commit("g")

    assert world.list() == [("g", "", "Empty", "classic")]


@pytest.mark.parametrize(
    ("version", "code"), [(8, Code.ILLEGAL_GENERATION), (9, Code.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_an_unknown_group_is_told_so(version: int, code: Code) -> None:
    world = CoordinatorWorld()

    assert world.commit("g", member_id="m", epoch=1, version=version) is code
    assert world.list() == []


def test_only_members_of_the_generation_commit_in_a_stable_classic_group() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g")

    assert world.commit("g", member_id=member_id, epoch=1) is Code.NONE
    assert world.commit("g", member_id=member_id, epoch=2) is Code.ILLEGAL_GENERATION
    assert world.commit("g", member_id="other", epoch=1) is Code.UNKNOWN_MEMBER_ID
    assert world.commit("g") is Code.UNKNOWN_MEMBER_ID


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    world = CoordinatorWorld()
    old_id = world.join("g", instance="i", version=5).answer.member_id
    world.sync("g", old_id)
    world.join("g", instance="i", version=5)

    assert world.commit("g", member_id=old_id, epoch=1, instance="i") is Code.FENCED_INSTANCE_ID


def test_while_the_assignment_is_awaited_nobody_commits() -> None:
    world = CoordinatorWorld()
    member_id = world.join("g", version=3).answer.member_id

    assert world.commit("g", member_id=member_id, epoch=1) is Code.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life_of_a_classic_member() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g", session=10.0)

    world.pass_time(8.0)
    world.commit("g", member_id=member_id, epoch=1)
    world.pass_time(8.0)

    assert world.heartbeat("g", member_id) is Code.NONE


def test_only_members_commit_in_a_consumer_group_and_only_from_v9_on() -> None:
    world = CoordinatorWorld()
    epoch = world.enter("c", "m")

    assert world.commit("c", member_id="m", epoch=epoch) is Code.NONE
    assert world.commit("c", member_id="m", epoch=epoch + 1) is Code.STALE_MEMBER_EPOCH
    assert world.commit("c", member_id="x", epoch=epoch) is Code.UNKNOWN_MEMBER_ID
    assert world.commit("c") is Code.UNKNOWN_MEMBER_ID
    assert world.commit("c", member_id="m", epoch=epoch, version=8) is Code.UNSUPPORTED_VERSION


def test_an_older_epoch_is_good_enough_for_what_the_member_has_had_since_then() -> None:
    world = CoordinatorWorld()
    before = world.enter("c", "m", topics=("orders",))
    world.beat("c", "other", topics=("bills",))
    after = world.beat("c", "m", before).answer.member_epoch
    assert after > before

    late = world.commit("c", {ORDERS_0: 5}, member_id="m", epoch=before)
    both = world.commit("c", {ORDERS_0: 6, BILLS_0: 6}, member_id="m", epoch=before)

    assert (late, both) == (Code.NONE, Code.STALE_MEMBER_EPOCH)
    assert world.fetch("c") == {ORDERS_0: 5}


def test_an_empty_consumer_group_lets_anybody_commit() -> None:
    world = CoordinatorWorld()
    world.enter("c", "m")
    world.beat("c", "m", -1)

    assert world.commit("c", version=8) is Code.NONE


# Who may fetch.


def test_members_of_a_consumer_group_fetch_with_their_epoch() -> None:
    world = CoordinatorWorld()
    epoch = world.enter("c", "m")
    world.commit("c", member_id="m", epoch=epoch)

    answers = [
        world.fetch_answer("c", [ORDERS_0], member_id=member_id, epoch=its_epoch)
        for member_id, its_epoch in [("m", epoch), (None, -1), ("m", epoch + 1), ("x", epoch)]
    ]

    codes = [Code.NONE, Code.NONE, Code.STALE_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID]
    assert [answer.error_code for answer in answers] == codes
    assert [len(answer.topics) for answer in answers] == [1, 1, 0, 0]


def test_a_classic_group_does_not_care_which_member_fetches() -> None:
    world = CoordinatorWorld()
    world.commit("g")

    assert world.fetch("g", member_id="x", epoch=4) == {ORDERS_0: 5}


# Transactions.


def test_what_a_transaction_commits_counts_when_it_is_committed() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5})

    assert world.commit_in_transaction("g", {ORDERS_0: 9}) is Code.NONE
    before = world.fetch("g", [ORDERS_0])
    world.end("g", commit=True)

    assert before == {ORDERS_0: 5}
    assert world.fetch("g", [ORDERS_0], stable=True) == {ORDERS_0: 9}


def test_what_an_aborted_transaction_has_committed_never_was() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5})
    world.commit_in_transaction("g", {ORDERS_0: 9, ORDERS_1: 9})

    world.end("g", commit=False)

    assert world.fetch("g", [ORDERS_0, ORDERS_1], stable=True) == {ORDERS_0: 5, ORDERS_1: -1}


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_who_wants_stable_offsets_is_told_which_are_not(version: int) -> None:
    world = CoordinatorWorld()
    world.commit_in_transaction("g", {ORDERS_0: 9})

    codes = world.fetch_codes("g", [ORDERS_0, ORDERS_1], stable=True, version=version)

    assert codes == [Code.UNSTABLE_OFFSET_COMMIT, Code.NONE]
    assert world.fetch_codes("g", [ORDERS_0], version=version) == [Code.NONE]


def test_a_partition_is_stable_when_the_last_of_its_transactions_has_ended() -> None:
    world = CoordinatorWorld()
    world.commit_in_transaction("g", {ORDERS_0: 9}, producer_id=1)
    world.commit_in_transaction("g", {ORDERS_0: 8}, producer_id=2)

    world.end("g", 1, commit=True)
    between = world.fetch_codes("g", [ORDERS_0], stable=True)
    world.end("g", 2, commit=True)

    assert between == [Code.UNSTABLE_OFFSET_COMMIT]
    assert world.fetch("g", [ORDERS_0], stable=True) == {ORDERS_0: 8}


def test_an_earlier_commit_does_not_undo_a_later_one_when_its_transaction_ends() -> None:
    world = CoordinatorWorld()
    world.commit_in_transaction("g", {ORDERS_0: 9})
    world.commit("g", {ORDERS_0: 20})

    world.end("g", commit=True)

    assert world.fetch("g", stable=True) == {ORDERS_0: 20}


def test_to_end_a_transaction_twice_does_no_harm() -> None:
    world = CoordinatorWorld()
    world.commit_in_transaction("g", {ORDERS_0: 9})
    world.end("g", commit=True)
    world.commit("g", {ORDERS_0: 20})

    world.end("g", commit=True)
    world.end("unknown", commit=False)

    assert world.fetch("g") == {ORDERS_0: 20}


def test_a_transaction_may_commit_without_saying_for_which_member() -> None:
    world = CoordinatorWorld()
    world.stable("g")
    world.enter("c")

    assert world.commit_in_transaction("g", version=0) is Code.NONE
    assert world.commit_in_transaction("c", version=0) is Code.NONE
    assert world.commit_in_transaction("new", version=0) is Code.NONE


def test_a_transaction_that_names_a_member_must_be_right_about_it() -> None:
    world = CoordinatorWorld()
    member_id = world.stable("g")
    epoch = world.enter("c", "m")
    commit = world.commit_in_transaction

    assert commit("g", member_id=member_id, epoch=1) is Code.NONE
    assert commit("g", member_id=member_id, epoch=2) is Code.ILLEGAL_GENERATION
    assert commit("g", member_id="x", epoch=1) is Code.UNKNOWN_MEMBER_ID
    assert commit("c", member_id="m", epoch=epoch) is Code.NONE
    assert commit("c", member_id="m", epoch=epoch + 1) is Code.ILLEGAL_GENERATION
    assert commit("c", member_id="x", epoch=epoch) is Code.UNKNOWN_MEMBER_ID
    assert commit("new", member_id="m", epoch=1) is Code.ILLEGAL_GENERATION
    assert commit("") is Code.INVALID_GROUP_ID


def test_what_is_not_in_the_transaction_is_not_kept() -> None:
    world = CoordinatorWorld()

    def verify() -> None:
        raise Refused(Code.INVALID_TXN_STATE)

    assert world.commit_in_transaction("g", verify=verify) is Code.INVALID_TXN_STATE
    assert world.fetch_codes("g", [ORDERS_0], stable=True) == [Code.NONE]
    assert world.list() == []


# Topics that go.


def test_offsets_go_with_their_topic_pending_ones_too() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5, BILLS_0: 7})
    world.commit_in_transaction("g", {ORDERS_1: 9})

    world.delete_topic("orders")
    world.end("g", commit=True)

    assert world.fetch("g") == {BILLS_0: 7}


def test_a_topic_of_the_same_name_does_not_inherit_offsets() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5})

    world.topics.delete("orders")  # and the coordinator never hears of it
    world.topics.create("orders", 3)

    assert world.fetch("g", [ORDERS_0]) == {ORDERS_0: -1}
    assert world.fetch("g", version=10) == {}


# OffsetDelete.


def test_offsets_can_be_deleted_where_nobody_subscribes() -> None:
    world = CoordinatorWorld()
    world.stable("g", topics=("orders",))
    world.enter("c", topics=("orders",))

    for group in ("g", "c"):
        codes = world.delete_offsets(group, ORDERS_0, BILLS_0, ("bills", 9))
        assert codes == {
            ORDERS_0: Code.GROUP_SUBSCRIBED_TO_TOPIC,
            BILLS_0: Code.NONE,
            ("bills", 9): Code.UNKNOWN_TOPIC_OR_PARTITION,
        }


def test_deleted_offsets_are_gone_pending_ones_too() -> None:
    world = CoordinatorWorld()
    world.commit("g", {ORDERS_0: 5, ORDERS_1: 6})
    world.commit_in_transaction("g", {ORDERS_0: 9})

    assert world.delete_offsets("g", ORDERS_0) is Code.NONE
    world.end("g", commit=True)

    assert world.fetch("g", stable=True) == {ORDERS_1: 6}


def test_offsets_of_groups_that_do_not_allow_it_are_not_deleted() -> None:
    world = CoordinatorWorld()
    world.stable("workers", protocol_type="connect")

    assert world.delete_offsets("nobody", ORDERS_0) is Code.GROUP_ID_NOT_FOUND
    assert world.delete_offsets("", ORDERS_0) is Code.INVALID_GROUP_ID
    assert world.delete_offsets("workers", ORDERS_0) is Code.NON_EMPTY_GROUP


def test_consumers_that_have_not_told_their_topics_are_taken_to_want_all() -> None:
    world = CoordinatorWorld(initial_rebalance_delay=3.0)
    assert world.join("g", version=3).waits

    assert world.delete_offsets("g", BILLS_0) is Code.GROUP_SUBSCRIBED_TO_TOPIC
