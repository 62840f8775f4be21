"""The checks of `commits` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation.checks import commits
from tests.unit.simulation.checks.builders import (
    FOUND_AT_8,
    HELD_BACK,
    OUT_OF_RANGE,
    OWNED,
    UNANSWERED,
    Check,
    Step,
    Story,
    assigned,
    back,
    called_back,
    committed,
    given,
    history,
    in_group,
    later,
    leaves,
    released,
    reset_to,
    resolved,
    sought,
    succeeded,
    synced,
    to_commit,
)


def to_be_committed(*partitions: str) -> Step:
    return "x", "user.commits", {"partitions": list(partitions) or None}


def committing(member: str, offset: int) -> Story:
    return [to_commit(member, offset, "asked"), succeeded(member, offset)]


def reset(member: str, because: str) -> Step:
    return member, "position.reset", {"partitions": {"a-0": 0}, "because": because}


def written_in(epoch: int, first: int, last: int) -> Step:
    return "", "records.written", {"partition": "a-0", "first": first, "last": last, "epoch": epoch}


def marked_in(epoch: int, offset: int) -> Step:
    return "", "transaction.ended", {"partition": "a-0", "marker": offset, "epoch": epoch}


def stored(offset: int, epoch: int) -> Step:
    return "", "offset.committed", {"partition": "a-0", "offset": offset, "epoch": epoch}


NOTHING_COMMITTED = "no offset is committed"

#: A topic that gets a third partition when the group has committed for the first.
CREATED = ("", "topic.created", {"topic": "a", "partitions": 2})
GROWS = ("", "topic.grown", {"topic": "a", "partitions": 3})
GROWN = [CREATED, committed(0), GROWS]


def resets(partition: str, strategy: str, because: str = NOTHING_COMMITTED) -> Step:
    values = {"partitions": {partition: 5}, "from_offsets": {partition: None}}
    return "x", "position.reset", {**values, "strategy": strategy, "because": because}


#: A consumer that has committed what it was given; an automatic commit of something else.
COMMITTED_ALL = [*OWNED, back("x"), to_commit("x", 5, "auto"), succeeded("x", 5)]

OF_ANOTHER = ("x", "commit.sent", {"offsets": {"b-0": 1}, "kind": "auto"})

#: A consumer with automatic commits that was given records, and what lets go of them.
AUTOMATIC = [
    ("x", "consumer.made", {"enable_auto_commit": True, "group_id": "g"}),
    *(assigned("x"), given("x", 0, 4)),
]

LETS_GO = ("x", "partitions.released", {"partitions": {"a-0": 5}})

BY_HAND: Step = (
    "x",
    "partitions.assigned",
    {"partitions": ["b-0"], "by_group": False},
)

IS_CLOSED: Step = "x", "consumer.closed", {}

REMOVED: Step = "", "topic.removed", {"topic": "a"}

HEIR = [synced("y", 2), assigned("y")]

COMMITTED = ("x", "user.committed", {})

ASYNCHRONOUSLY = ("x", "user.commits", {"partitions": None, "future": 0})

COMMIT_FAILED = ("x", "commit.failed", {"partitions": ["a-0"]})
#: By who waited for it.
TOLD_AGAIN = ("x", "commit.failed", {"at": "revocation"})
FOUND = ("x", "position.resolved", {"because": "committed", "partitions": {"a-0": 4}})

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    *[
        (
            commits.an_automatic_commit_leaves_nothing_out,
            [*COMMITTED_ALL, *story, back("x"), later(2), OF_ANOTHER],
            f"leaves a-0 out, at {place}, of which 5 is committed",
        )
        for place, story in [(8, [given("x", 5, 7)]), (3, [sought("x", 2), given("x", 2, 2)])]
    ],
    (
        commits.what_has_not_moved_is_not_committed_again,
        [*2 * [to_commit("x", 5, "auto"), succeeded("x", 5), later(1)], to_commit("x", 5, "auto")],
        "commits ['a-0'] again, which did not move",
    ),
    (
        commits.nothing_is_committed_that_was_given_up,
        [*OWNED, to_be_committed(), released("x"), assigned("x"), to_commit("x", 5, "asked")],
        "commits a-0, given up since it was asked for",
    ),
    (
        commits.commits_do_not_overtake_each_other,
        [*OWNED, to_commit("x", 5, "asked"), to_commit("x", 4, "auto")],
        "commits a-0:4 (auto) after 5",
    ),
    (  # it was looked up while a commit was under way
        commits.commits_do_not_overtake_each_other,
        [*OWNED, to_commit("x", 5, "asked"), FOUND, COMMIT_FAILED, to_commit("x", 4, "auto")],
        "commits a-0:4 (auto) after 5",
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [committed(5), assigned("x"), reset("x", NOTHING_COMMITTED)],
        "takes a-0 for never committed",
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [*committing("y", 5), assigned("x"), reset("x", NOTHING_COMMITTED)],
        "takes a-0 for never committed",
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [committed(5), ("x", "user.finds_nothing_committed", {"partition": "a-0", "seconds": 0.5})],
        "is told that a-0 was never committed",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *OWNED,
            sought("x", 2),
            released("x"),
            to_commit("x", 2, "asked"),
            committed(5),
            committed(2),
        ],
        "2 after 5",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, sought("x", 2), to_commit("x", 2, "auto"), to_commit("x", 5, "auto")),
            *(committed(5), committed(2)),
        ],
        "2 after 5",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, sought("x", 2), to_commit("x", 2, "asked"), committed(2)),
            *(in_group("h", committed(5)), in_group("h", committed(2))),
        ],
        "h a-0: 2 after 5",
    ),
    (
        commits.no_commit_above_what_was_finished,
        [*OWNED, to_commit("x", 5, "auto")],
        "commits a-0:5, finished is 0",
    ),
    (
        commits.no_commit_above_what_was_finished,
        [*OWNED, back("x"), to_commit("x", 6, "asked")],
        "commits a-0:6, finished is 5",
    ),
    (
        commits.only_owners_commit,
        [*OWNED, released("x"), to_commit("x", 5, "auto")],
        "does not own",
    ),
    (commits.committed_offsets_never_go_back, [committed(5), committed(4)], "4 after 5"),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "auto"), to_commit("x", 5, "auto"), UNANSWERED),
            *(committed(5), committed(2)),
        ],
        "2 after 5",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "auto"), UNANSWERED, to_commit("x", 5, "auto")),
            *(committed(5), committed(2), committed(5), committed(2)),
        ],
        "2 after 5",
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "asked"), UNANSWERED, to_commit("x", 2, "asked")),
            *(committed(2), to_commit("x", 5, "asked"), committed(5), committed(2)),
            *(committed(5), committed(2)),
        ],
        "2 after 5",
    ),
    *[
        (
            commits.what_is_let_go_is_committed,
            [*AUTOMATIC, *before, LETS_GO, *after],
            "let go of a-0 at 5, and has not committed that",
        )
        for before, after in [
            ([], []),
            ([to_commit("x", 3, "auto")], [IS_CLOSED, to_commit("x", 5, "auto")]),
            ([to_commit("x", 5, "auto"), given("x", 5, 5)], []),
            ([], [to_commit("x", 5, "asked")]),
            ([BY_HAND], [IS_CLOSED, to_commit("x", 5, "asked")]),
        ]
    ],
    (
        commits.commits_that_succeed_never_go_back,
        [
            *(*OWNED, *HEIR, *committing("y", 7), *committing("x", 5)),
        ],
        "committed a-0:5 after 7",
    ),
    (
        commits.nothing_is_given_again_that_is_committed,
        [*OWNED, *committing("x", 5), *HEIR, resolved("y", 0), given("y", 0, 4)],
        "was given a-0:0 again, 5 was committed",
    ),
    *[
        (
            commits.a_commit_has_all_that_was_given,
            [*OWNED, *before, to_be_committed(), *stored, COMMITTED],
            "and was given everything before 5",
        )
        for before, stored in [
            ([], []),
            ([OUT_OF_RANGE, reset_to("earliest"), given("x", 0, 4)], []),
            (
                [("x", "topic.recreated", {"topic": "a"}), reset_to("earliest"), given("x", 0, 4)],
                [],
            ),
            ([], [succeeded("x", 4)]),
            ([succeeded("x", 5), released("x"), assigned("x"), given("x", 0, 4)], []),
        ]
    ],
    (
        commits.a_commit_has_all_that_was_given,
        [*OWNED, ASYNCHRONOUSLY, succeeded("x", 4), called_back()],
        "and was given everything before 5",
    ),
    (
        commits.resets_are_traced,
        [("x", "position.reset", {"partitions": {"a-0": 0}, "from_offsets": {}, "because": "?"})],
        "without saying from where",
    ),
    (
        commits.new_partitions_begin_at_their_first_record,
        [*GROWN, resets("a-2", "latest")],
        "begins at the end of a-2, which is new",
    ),
    *[
        (
            commits.no_commit_has_a_later_leader_epoch,
            [written_in(3, 0, 4), *between, written_in(5, 6, 9), stored(offset, 5)],
            f"stores a-0:{offset} with leader epoch 5: the record before it has {epoch}",
        )
        for between, offset, epoch in [([], 5, 3), ([], 3, 3), ([marked_in(4, 5)], 6, 4)]
    ],
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    *[
        (commits.no_commit_has_a_later_leader_epoch, [written_in(3, 0, 4), *story])
        for story in [
            [stored(5, 3)],
            [stored(5, -1)],
            [written_in(5, 5, 9), stored(5, 2), stored(9, 5), stored(10, 5)],
            [stored(7, 5)],  # where brokers do not tell who has written
            [("x", "position.reset", {"partitions": {"a-0": 5}}), stored(5, 4)],
            [written_in(5, 2, 9), stored(4, 5)],  # it was cut off and written again
        ]
    ],
    *[
        (commits.what_is_let_go_is_committed, [*AUTOMATIC, *before, LETS_GO, *after, IS_CLOSED])
        for before, after in [
            ([to_commit("x", 5, "auto")], []),
            ([BY_HAND], [to_commit("x", 5, "asked")]),
            ([HELD_BACK, sought("x", 5)], []),
            ([("x", "partitions.held_back", {"partitions": {"a-0": None}})], []),
            ([("x", "commit.failed", {})], []),
            ([("x", "partitions.revoking", {"partitions": {"a-0": 5}, "loss": "lost"})], []),
        ]
    ],
    (commits.what_is_let_go_is_committed, [*AUTOMATIC[1:], LETS_GO]),
    (
        commits.commits_that_succeed_never_go_back,
        [
            *(*OWNED, to_commit("x", 5, "asked"), *HEIR, to_commit("y", 7, "asked")),
            *(succeeded("y", 7), succeeded("x", 5)),
        ],
    ),
    (
        commits.commits_that_succeed_never_go_back,
        [
            *(*OWNED, *committing("x", 5), sought("x", 2), *committing("x", 2)),
        ],
    ),
    (
        commits.commits_that_succeed_never_go_back,
        [  # the answer says that of another topic it was refused
            *(*OWNED, *committing("x", 5), sought("x", 2), to_commit("x", 2, "asked")),
            *(*HEIR, *committing("y", 3)),
        ],
    ),
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [
            *(to_commit("y", 5, "asked"), REMOVED, succeeded("y", 5), assigned("x")),
            reset("x", NOTHING_COMMITTED),
        ],
    ),
    *[
        (
            commits.nothing_is_given_again_that_is_committed,
            [*OWNED, *story, resolved("y", 0), given("y", 0, 4)],
        )
        for story in [
            [to_commit("x", 5, "asked"), *HEIR],
            [to_commit("x", 5, "asked"), REMOVED, succeeded("x", 5), *HEIR],
            [*HEIR, *committing("x", 5)],
            [*committing("x", 5), sought("x", 0), to_commit("x", 0, "auto"), *HEIR],
            [*committing("x", 5), *HEIR, sought("y", 0)],
            [*[in_group("h", step) for step in committing("x", 5)], *HEIR],
        ]
    ],
    *[
        (
            commits.a_commit_has_all_that_was_given,
            [*OWNED, to_be_committed(*named), *story, COMMITTED],
        )
        for named, story in [
            ([], [succeeded("x", 5)]),
            ([], [given("x", 5, 9), succeeded("x", 5)]),
            ([], [released("x")]),
            ([], [sought("x", 0)]),
            ([], [REMOVED]),
            (["b-0"], []),
        ]
    ],
    *(
        (commits.a_commit_has_all_that_was_given, [*OWNED, ASYNCHRONOUSLY, *story])
        for story in (
            [called_back("it failed")],
            [given("x", 5, 9), succeeded("x", 5), called_back()],
        )
    ),
    (
        commits.a_commit_has_all_that_was_given,
        [
            *(*OWNED, ("x", "partitions.held_back", {"partitions": {"a-0": None}})),
            *(to_be_committed(), COMMITTED),
        ],
    ),
    (
        commits.a_commit_has_all_that_was_given,
        [
            *(*OWNED, ("x", "topic.recreated", {"topic": "a"}), given("x", 5, 5)),
            *(to_be_committed(), COMMITTED),
        ],
    ),
    (
        commits.a_commit_has_all_that_was_given,
        [*OWNED[:4], OUT_OF_RANGE, given("x", 0, 4), to_be_committed(), COMMITTED],
    ),
    (
        commits.committed_offsets_never_go_back,
        [committed(9), sought("x", 4), released("x"), to_commit("x", 5, "asked"), committed(5)],
    ),
    (
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "auto"), UNANSWERED, to_commit("x", 5, "auto")),
            *(committed(5), committed(2)),
        ],
    ),
    (  # storm 3100202: the broker applies the first one last, which was sent again
        commits.committed_offsets_never_go_back,
        [
            *(*OWNED, to_commit("x", 2, "asked"), UNANSWERED, to_commit("x", 2, "asked")),
            *(committed(2), to_commit("x", 5, "asked"), committed(5), committed(2)),
        ],
    ),
    *[
        (
            commits.an_automatic_commit_leaves_nothing_out,
            [*COMMITTED_ALL, *story, later(2), OF_ANOTHER],
        )
        for story in [
            [],
            [given("x", 5, 7)],
            [given("x", 5, 7), back("x"), later(2), to_commit("x", 8, "auto")],
            [sought("x", 2), given("x", 2, 4), back("x")],
            [sought("x", 2)],
            [given("x", 5, 7), back("x"), to_be_committed()],
            [given("x", 5, 7), back("x"), released("x"), assigned("x")],
            [  # storm 5200066: a revocation commits while an automatic commit is in flight
                *(given("x", 5, 6), back("x"), to_commit("x", 7, "auto"), given("x", 7, 7)),
                *(back("x"), to_commit("x", 8, "revocation"), succeeded("x", 7)),
                *(succeeded("x", 8), later(2)),
            ],
            # storm 5200128: since then the user waits for something else, and does not poll
            [given("x", 5, 7), back("x"), given("x", 8, 8), later(2)],
            [given("x", 5, 7), back("x"), ("x", "member.frozen", {}), later(2)],
            [  # storm 3100546: the answer to a commit of before the rebalance comes last
                *(given("x", 5, 7), back("x"), to_commit("x", 5, "auto")),
                *(released("x"), assigned("x"), FOUND_AT_8, succeeded("x", 5), back("x")),
            ],
        ]
    ],
    *[
        (
            commits.what_has_not_moved_is_not_committed_again,
            [*2 * [to_commit("x", 5, "auto"), *story], to_commit("x", 5, "auto")],
        )
        for story in [
            [later(1)],
            [succeeded("x", 5), later(3600)],
            [succeeded("x", 5), assigned("x")],
            [succeeded("x", 5), to_commit("x", 8, "auto"), succeeded("x", 8)],
        ]
    ],
    (
        commits.nothing_is_committed_that_was_given_up,
        [
            ("x", "partitions.assigned", {"partitions": ["a-0"], "by_group": False}),
            *(given("x", 0, 4), released("x"), to_commit("x", 5, "asked")),
        ],
    ),
    (
        commits.nothing_is_committed_that_was_given_up,
        [*OWNED, released("x"), to_be_committed("a-0"), to_commit("x", 5, "asked")],
    ),
    (
        commits.nothing_is_committed_that_was_given_up,
        [*OWNED, released("x"), assigned("x"), leaves(), to_commit("x", 5, "asked")],
    ),
    *[  # seed 241000076: a commit of the ownership before failed in this one
        (
            commits.commits_do_not_overtake_each_other,
            [*OWNED, to_commit("x", 5, "asked"), *told, FOUND, to_commit("x", 4, "auto")],
        )
        for told in ([COMMIT_FAILED], [COMMIT_FAILED, TOLD_AGAIN])
    ],
    *[
        (
            commits.commits_do_not_overtake_each_other,
            [*OWNED, to_commit("x", 5, "asked"), moves, to_commit("x", 4, "auto")],
        )
        for moves in (sought("x", 4), assigned("x"), to_be_committed("a-0"))
    ],
    (
        commits.nobody_is_told_that_nothing_is_committed,
        [assigned("x"), committed(5), reset("x", NOTHING_COMMITTED)],
    ),
    (  # the look-up is older than the commit
        commits.nobody_is_told_that_nothing_is_committed,
        [committed(5), ("x", "user.finds_nothing_committed", {"partition": "a-0", "seconds": 2})],
    ),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(commits.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []


def test_a_seek_excuses_a_commit_that_goes_back() -> None:
    assert (
        commits.committed_offsets_never_go_back(
            history(*OWNED, committed(5), sought("x", 2), to_commit("x", 4, "auto"), committed(4))
        )
        == []
    )


@pytest.mark.parametrize(
    "story",
    [
        [*GROWN, resets("a-1", "latest")],  # it was there when the group began
        [*GROWN, resets("a-2", "earliest")],
        [*GROWN, resets("a-2", "latest", "the application asked for it")],
        [CREATED, GROWS, committed(0), resets("a-2", "latest")],  # nobody had followed the topic
        [*GROWN, ("", "topic.removed", {"topic": "a"}), CREATED, resets("a-1", "latest")],
    ],
)
def test_what_is_not_new_to_the_group_may_begin_at_its_end(story: Story) -> None:
    assert commits.new_partitions_begin_at_their_first_record(history(*story)) == []
