"""The checks of `records` complain of a promise that is broken, and of nothing else."""

from __future__ import annotations

import pytest

from aktor.simulation import checks
from aktor.simulation.checks import records
from tests.unit.simulation.checks.builders import (
    ALL,
    OWNED,
    Check,
    Step,
    Story,
    assigned,
    at_position,
    back,
    committed,
    given,
    history,
    released,
    reset_to,
    resolved,
    sought,
    synced,
    to_commit,
    written,
)


def wants(to: str) -> Step:
    """The user asks for the beginning or the end."""
    return "x", "user.asked", {"told_as": "position.sought", "partitions": {"a-0": None}, "to": to}


def taken_back(member: str, offset: int) -> Step:
    return member, "records.taken_back", {"partition": "a-0", "offset": offset}


def asked(told_as: str, offset: int | None = None) -> Step:
    return "x", "user.asked", {"told_as": told_as, "partitions": {"a-0": offset}}


def arrived(member: str, *offsets: int) -> Step:
    return member, "user.given", {"partition": "a-0", "offsets": list(offsets)}


def truncated(to: int, *, unclean: bool, replicated: int = 10) -> Step:
    values = {"to": to, "replicated": replicated, "unclean": unclean, "time": 100}
    return "", "log.truncated", {"partition": "a-0", **values}


def in_transaction(first: int, last: int) -> Step:
    return "", "records.written", {"partition": "a-0", "first": first, "last": last, "producer": 7}


def ended(*, commit: bool, marker: int) -> Step:
    values = {"partition": "a-0", "producer": 7, "commit": commit, "marker": marker}
    return "", "transaction.ended", values


def committed_only(member: str) -> Step:
    _, event, values = assigned(member)
    return member, event, {**values, "isolation": "read_committed"}


def with_contents(story: Step, *contents: int) -> Step:
    member, event, values = story
    return member, event, {**values, "contents": list(contents)}


LOST = {"partition": "a-0", "first": 3, "last": 9, "time": 100}

#: What breaks a promise, and what the check says of it.
BROKEN: list[tuple[Check, Story, str]] = [
    (
        records.a_reset_is_carried_out,
        [*OWNED, wants("latest"), resolved("x", 5), given("x", 5, 5)],
        "was given a-0:5, and asked for the latest offset before",
    ),
    (
        records.a_reset_is_carried_out,
        [*OWNED, wants("earliest"), reset_to("latest"), given("x", 5, 5)],
        "asked for the earliest offset before",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, given("x", 4, 6)],
        "a-0:4 again",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, given("x", 6, 7)],
        "skips from 5",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, sought("x", 8), resolved("x", 0), given("x", 0, 1)],
        "a-0:0 again",
    ),
    (records.every_record_is_finished, [*OWNED, ALL], "never finished a-0"),
    (
        records.every_record_is_finished,
        [committed_only("x"), in_transaction(0, 3), ended(commit=True, marker=4), ALL],
        "never finished a-0:[0, 1, 2, 3]",
    ),
    (
        records.positions_are_after_what_was_given,
        [*OWNED, at_position("x", 6)],
        "is at a-0:6, and was given everything before 5",
    ),
    (
        records.positions_are_after_what_was_given,
        [*OWNED, ("x", "partitions.released", {"partitions": {"a-0": 4}})],
        "is at a-0:4",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, truncated(3, unclean=True), ("", "records.written", LOST), given("x", 9, 9)],
        "skips from 5",
    ),
    (
        records.every_record_is_finished,
        [*OWNED, back("x"), truncated(3, unclean=True), ("", "records.written", LOST), ALL],
        "never finished a-0:[3, 4, 5, 6, 7] and 2 more",
    ),
    (
        records.read_committed_sees_committed_records_only,
        [in_transaction(0, 3), committed_only("x"), given("x", 0, 0)],
        "a-0:0, which is open",
    ),
    (
        records.read_committed_sees_committed_records_only,
        [
            in_transaction(0, 3),
            ended(commit=False, marker=4),
            committed_only("x"),
            given("x", 2, 2),
        ],
        "a-0:2, which is aborted",
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [
            *(in_transaction(0, 3), ended(commit=True, marker=4), written(5, 6)),
            *(committed_only("x"), resolved("x", 0), given("x", 5, 6)),
        ],
        "skips from 0",
    ),
    (
        records.nothing_replicated_is_lost,
        [written(0, 9), truncated(3, unclean=False)],
        "a-0 lost 3 to 9",
    ),
    (
        records.the_trace_tells_what_is_asked,
        [sought("x", 4), asked("position.sought", 3)],
        "the trace tells {'a-0': 4}",
    ),
    (
        records.the_trace_tells_what_is_given,
        [given("x", 5, 6), arrived("x", 5, 6, 7)],
        "the trace tells of [5, 6]",
    ),
    (
        records.what_is_given_is_what_was_written,
        [
            assigned("x"),
            with_contents(written(0, 2), 10, 11, 12),
            with_contents(arrived("x", 0, 1), 10, 12),
        ],
        "another record at a-0:1",
    ),
]

#: What nobody can help.
FORGIVEN: list[tuple[Check, Story]] = [
    *[
        (records.positions_are_after_what_was_given, [*OWNED, moves, at_position("x", 7)])
        for moves in (sought("x", 7), taken_back("x", 7), released("x"), given("x", 5, 6))
    ],
    (records.every_record_is_finished, [committed_only("x"), in_transaction(0, 3), ALL]),
    (
        records.a_reset_is_carried_out,
        [*OWNED, wants("earliest"), reset_to("earliest"), given("x", 0, 4)],
    ),
    (
        records.a_reset_is_carried_out,
        [*OWNED, wants("latest"), asked("position.sought", 5), given("x", 5, 5)],
    ),
    (records.the_trace_tells_what_is_asked, [sought("x", 3), asked("position.sought", 3)]),
    (
        records.the_trace_tells_what_is_given,
        [given("x", 5, 6), taken_back("x", 5), given("x", 5, 5), arrived("x", 5)],
    ),
    (
        records.no_gap_no_step_back_no_duplicate_inside_an_ownership,
        [*OWNED, given("x", 5, 6), taken_back("x", 5), given("x", 5, 5)],
    ),
]


@pytest.mark.parametrize(("check", "story", "complaint"), BROKEN)
def test_a_broken_promise_is_found(check: Check, story: Story, complaint: str) -> None:
    assert any(complaint in one for one in check(history(*story)))


def test_each_of_these_checks_is_shown_to_find_something() -> None:
    assert {check for check, _, _ in BROKEN} == set(records.CHECKS)


@pytest.mark.parametrize(("check", "story"), FORGIVEN)
def test_what_nobody_can_help_is_not_complained_about(check: Check, story: Story) -> None:
    assert check(history(*story)) == []


def test_a_seek_that_is_out_of_range_is_reset() -> None:
    moved = {"partitions": {"a-0": 0}, "from_offsets": {"a-0": 90}, "because": "out of range"}
    story = [*OWNED, sought("x", 90), ("x", "position.reset", moved), given("x", 0, 4)]

    check = records.no_gap_no_step_back_no_duplicate_inside_an_ownership
    assert check(history(*story)) == []


def test_a_seek_to_a_marker_is_reset_from_behind_it() -> None:
    """Seed 21004944: the topic was created anew while nothing but a marker had been read."""
    moved = {"partitions": {"a-0": 0}, "from_offsets": {"a-0": 91}, "because": "out of range"}
    story = [sought("x", 90), ("x", "position.reset", moved), given("x", 0, 4)]

    check = records.no_gap_no_step_back_no_duplicate_inside_an_ownership
    marked = [in_transaction(80, 89), ended(commit=True, marker=90), *OWNED]
    assert check(history(*marked, *story)) == []
    assert check(history(*OWNED, *story)) != []


def test_a_reader_passes_over_what_was_aborted_and_over_markers() -> None:
    story = [
        *(in_transaction(0, 3), ended(commit=False, marker=4), written(5, 6)),
        *(synced("x", 1), committed_only("x"), resolved("x", 0)),
        *(given("x", 5, 6), back("x"), to_commit("x", 7, "auto"), committed(7), ALL),
    ]

    assert checks.broken_promises(history(*story)) == []


def test_a_reader_passes_over_what_was_compacted_away_and_over_nothing_else() -> None:
    story = [written(0, 9), ("", "log.compacted", {"partition": "a-0", "gone": [2, 3, 8]})]
    story += [synced("x", 1), assigned("x"), resolved("x", 0), given("x", 0, 1)]
    rest = [back("x"), to_commit("x", 9, "auto"), committed(9)]
    end = [given("x", 9, 9), back("x"), to_commit("x", 10, "auto"), committed(10), ALL]

    assert checks.broken_promises(history(*story, given("x", 4, 7), *rest, *end)) == []
    skipped = str(checks.broken_promises(history(*story, given("x", 5, 7), *rest, *end)))
    assert "a-0:5, which skips from 2" in skipped
    assert "never finished a-0:[4]" in skipped
    too_far = str(checks.broken_promises(history(*story, given("x", 4, 6), *rest, *end)))
    assert "commits a-0:9, finished is 7" in too_far


def test_what_could_not_be_read_and_was_passed_over_is_finished_and_nothing_else() -> None:
    passed = "x", "user.passes_over", {"partition": "a-0", "offset": 5}
    rest = [sought("x", 6), given("x", 6, 9), back("x"), ALL]

    assert checks.broken_promises(history(*OWNED, back("x"), passed, *rest)) == []
    (complaint,) = checks.broken_promises(history(*OWNED, back("x"), *rest))
    assert "never finished a-0:[5]" in complaint


def test_what_is_written_where_records_were_compacted_away_and_cut_off_is_to_be_read() -> None:
    again = ("", "records.written", LOST)
    story = [written(0, 9), ("", "log.compacted", {"partition": "a-0", "gone": [4, 5]})]
    story += [truncated(3, unclean=True), again, synced("x", 1), assigned("x"), resolved("x", 0)]
    runs = {"offsets": [[0, 2], [3, 3], [6, 9]], "times": [0, 100, 100]}

    (complaint,) = checks.broken_promises(
        history(*story, ("x", "records.delivered", {"partition": "a-0", **runs}))
    )
    assert "a-0:6, which skips from 4" in complaint


def test_what_an_unclean_election_left_is_to_be_read_by_who_went_further() -> None:
    """At position 5, of which 3 and 4 are other records now (KIP-320)."""
    cut = [*OWNED, back("x"), truncated(3, unclean=True), ("", "records.written", LOST)]
    moved = {"partitions": {"a-0": 3}, "from_offsets": {"a-0": 5}, "strategy": None}
    rewound = "x", "position.reset", {**moved, "because": "the log was truncated"}
    end = [back("x"), to_commit("x", 10, "auto"), committed(10), ALL]

    assert checks.broken_promises(history(*cut, rewound, given("x", 3, 9), *end)) == []
    (complaint,) = checks.broken_promises(history(*cut, given("x", 5, 9), *end))
    assert "never finished a-0:[3, 4]" in complaint


@pytest.mark.parametrize("first", [4, 5])
def test_who_may_have_passed_a_marker_when_its_topic_is_created_anew_goes_on_there_or_after_it(
    first: int,
) -> None:
    anew = ("", "topic.removed", {"topic": "a"}), ("", "topic.created", {"topic": "a", "time": 100})
    values = {"partition": "a-0", "offsets": [[first, 9]], "times": [100]}
    given_anew = ("x", "records.delivered", values)
    story = [
        *(in_transaction(0, 3), ended(commit=True, marker=4)),
        *(committed_only("x"), resolved("x", 0), given("x", 0, 3), *anew, written(0, 9)),
    ]
    check = records.no_gap_no_step_back_no_duplicate_inside_an_ownership

    assert check(history(*story, given_anew)) == []
    without_marker = check(history(*story[:1], *story[2:], given_anew))
    assert ["skips from 4" in one for one in without_marker] == [True] * (first - 4)


def test_who_has_come_far_skips_nothing_of_a_topic_that_was_created_anew() -> None:
    """Not by a commit of the position in the old one, either."""
    anew = ("", "topic.removed", {"topic": "a"}), ("", "topic.created", {"topic": "a", "time": 100})
    values = {"partition": "a-0", "offsets": [[5, 9]], "times": [100]}
    story = [
        *(in_transaction(0, 3), ended(commit=True, marker=4)),
        *(committed_only("x"), resolved("x", 0), given("x", 0, 3), back("x"), *anew, written(0, 9)),
        *(to_commit("x", 5, "auto"), committed(5)),
        *(("x", "records.delivered", values), back("x"), ALL),
    ]

    (complaint,) = records.every_record_is_finished(history(*story))
    assert "a-0:[0, 1, 2, 3, 4]" in complaint


def test_what_was_given_to_who_died_is_finished_if_the_next_one_seeks_behind_it() -> None:
    """Who keeps offsets in a database finds there how far the one before has come."""
    heir = [synced("y", 2), assigned("y"), resolved("y", 0)]
    rest = [given("y", 5, 9), back("y"), ALL]

    assert records.every_record_is_finished(history(*OWNED, *heir, sought("y", 5), *rest)) == []
    left = str(records.every_record_is_finished(history(*OWNED, *heir, sought("y", 3), *rest)))
    assert "a-0:[3, 4]" in left
