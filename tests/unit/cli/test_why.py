"""`aktor why` prints what the traces of a group's members say."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aktor.cli.main import main
from aktor.trace.rebalances import Tables, tell
from tests.unit.trace.rebalances.told import BEGAN, Member


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two members join; an hour later alice leaves."""
    events: list[dict[str, Any]] = []
    alice, bob = Member(events, "alice"), Member(events, "bob")
    alice.rebalances(BEGAN, BEGAN + 1, 1, because="first join", members=2, owns=["t-0", "t-1"])
    bob.rebalances(BEGAN + 0.2, BEGAN + 1, 1, because="first join", owns=["t-2", "t-3"])
    alice.is_given(BEGAN + 3590, "t-0", 0, 9)
    alice.leaves(BEGAN + 3600, ["t-0", "t-1"])
    bob.rebalances(BEGAN + 3602, BEGAN + 3603, 2, members=1, owns=["t-0", "t-1"])
    bob.is_given(BEGAN + 3604, "t-0", 10, 20)
    bob.tells(BEGAN + 3700, "commit.failed", kind="auto", because="the disk is \x1b[31mfull")
    bob.tells(
        *(BEGAN + 3800, "position.reset"),
        partitions={"t-0": 3},
        from_offsets={"t-0": 10},
        because="the log was truncated",
    )
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert len(Tables(tell(events)[0]).rebalances) == 2
    return file


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, with one blank between words."""
    return " ".join(capsys.readouterr().out.split())


def test_it_prints_a_sentence_for_each_rebalance_with_its_time(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(log)]) == 0

    out = said(capsys)
    assert "2027-01-15 08:00:00Z g: 1.0 s, triggered by alice on host-alice: first join" in out
    assert (
        "2027-01-15 09:00:02Z g: 1.0 s, triggered by alice on host-alice: the consumer was closed"
    ) in out
    assert "g: t-0, 14.0 s, from alice on host-alice to bob on host-bob" in out
    assert "g: t-0 of bob on host-bob, from 10 to 3: the log was truncated" in out


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_sentence_is_one_line_for_grep_and_broken_for_a_terminal(
    is_terminal: bool,
    log: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    main(["why", str(log)])

    lines = capsys.readouterr().out.splitlines()
    whole = "g: 1.0 s, triggered by alice on host-alice: the consumer was closed"
    assert any(whole in line for line in lines) is not is_terminal
    assert (max(map(len, lines)) <= 70) is is_terminal


@pytest.mark.parametrize(
    "time",
    ["9:00", "09:00:30", "2027-01-15T09:00:00", "2027-01-15T10:00:00+01:00", "1800003600"],
)
def test_around_a_time_it_prints_only_what_was_under_way(
    log: Path, capsys: pytest.CaptureFixture[str], time: str
) -> None:
    assert main(["why", str(log), "--around", time]) == 0

    out = said(capsys)
    assert "the consumer was closed" in out
    assert "08:00:00Z" not in out


def test_around_a_time_of_which_there_is_nothing_it_says_so(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(log), "--around", "12:00"]) == 1

    nothing = "No rebalance and no silence is in these logs within 2 minutes of 12:00."
    assert nothing in said(capsys)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_older_part_of_a_file_is_read_too_unless_it_is_not_wanted(
    packed: bool, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    older, newer = b"".join(lines[:12]), b"".join(lines[12:])
    log.write_bytes(newer)
    name = "trace.jsonl.1.gz" if packed else "trace.jsonl.1"
    log.with_name(name).write_bytes(gzip.compress(older) if packed else older)

    assert main(["why", str(log)]) == 0
    assert capsys.readouterr().out.count("triggered by") == 2
    main(["why", "--no-rotated", str(log)])
    captured = capsys.readouterr()
    assert captured.out.count("triggered by") < 2
    assert "lines of 1 file" in captured.err


@pytest.mark.parametrize("time", ["25:00", "yesterday", "", "12:99", "1e9", "2027-13-01"])
def test_a_time_that_is_none_is_refused_in_one_line(
    log: Path, capsys: pytest.CaptureFixture[str], time: str
) -> None:
    assert main(["why", str(log), "--around", time]) == 2

    assert "is no time: write 14:03" in capsys.readouterr().err


def test_a_member_whose_trace_ends_is_one_sentence_at_the_time_of_its_last_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, owned, until in (("alice", ["t-0"], 60), ("bob", ["t-1", "t-2"], 30)):
        events: list[dict[str, Any]] = []
        member = Member(events, name)
        member.rebalances(BEGAN, BEGAN + 1, 1, because="first join", owns=owned)
        for second in range(0, until + 1, 5):
            api = "ConsumerGroupHeartbeat"
            member.tells(BEGAN + second, "request.answered", api=api, node=1)
        # (A line of aktor names the API before the event.)
        lines = (json.dumps(dict(sorted(event.items()))) + "\n" for event in events)
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))

    assert main(["why", str(tmp_path)]) == 0

    out = said(capsys)
    told = (
        "2027-01-15 08:00:30Z g: bob on host-bob was given nothing from t-1, t-2 for up to 30.0 s"
    )
    assert f"{told}, and it goes on: its trace ends there, while those of others go on" in out
    assert main(["why", str(tmp_path / "bob.jsonl")]) == 0
    assert "its trace ends" not in said(capsys)


def test_all_rows_are_printed_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(log), "--json"]) == 0

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"rebalances", "parts", "downtimes", "members"} <= {row["table"] for row in rows}


def test_a_group_is_picked(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(log), "--group", "h"]) == 1
    assert main(["why", str(log), "--group", "g"]) == 0

    assert "No rebalance" in capsys.readouterr().out


def test_what_was_not_understood_is_counted_on_stderr(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text(log.read_text() + "what is this\n" + '{"event": "member.left"}\n')

    main(["why", str(log)])

    told = "not understood, or left out: no time: 1, repeated: 0, torn: 1"
    assert told.replace("repeated: 0, ", "") in capsys.readouterr().err


def test_files_that_are_no_traces_are_named_once(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        log.with_name(f"app-{number}.log").write_text("INFO ready\n" * 7)

    assert main(["why", str(log.parent)]) == 0

    names = ", ".join(str(log.with_name(f"app-{number}.log")) for number in range(3))
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "no trace" in line)
    assert told == f"no trace is in {names}, and 2 more"
    assert main(["why", str(log.with_name("app-0.log"))]) == 1
    captured = capsys.readouterr()
    assert "torn" not in captured.err
    assert f"no trace is in {log.with_name('app-0.log')}\n" in captured.err


def test_nothing_that_a_log_holds_steers_the_terminal(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["why", str(log)])

    out = capsys.readouterr().out
    assert "the disk is \\x1b[31mfull" in out
    assert "\x1b" not in out


def test_a_file_that_does_not_exist_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(tmp_path / "nope.jsonl")]) == 2
    assert main(["why", str(tmp_path)]) == 2

    first, second = capsys.readouterr().err.splitlines()
    assert first == f"aktor why: there is no file '{tmp_path / 'nope.jsonl'}'"
    assert second == "aktor why: these folders have no file with .jsonl or .log in its name"


def test_attempts_that_come_to_nothing_again_and_again_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[dict[str, Any]] = []
    because = "after FencedInstanceIdError"
    alice, bob = Member(events, "alice"), Member(events, "bob")
    alice.rebalances(BEGAN, BEGAN + 1, 1, because="first join", members=1, owns=["t-0"])
    alice.tells(BEGAN + 9, "member.lost", because=because, partitions=["t-0"])
    for second in (10, 11, 12, 13):
        alice.tells(BEGAN + second, "rebalance.triggered", because=because, rebalance=second)
        alice.tells(BEGAN + second, "membership.moved", before="unjoined", after="joining")
        alice.tells(BEGAN + second + 0.1, "membership.moved", before="joining", after="unjoined")
        alice.tells(BEGAN + second + 0.1, "member.lost", because=because, partitions=[])
    bob.rebalances(BEGAN + 14, BEGAN + 15, 2, because="first join", members=1)
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    assert main(["why", str(file)]) == 0

    out = said(capsys)
    assert out.count(because) == 1
    assert "the same 3 times more since, the last at 2027-01-15 08:00:13Z." in out
    # Its place was given to another one: nobody has left, so bob's join is the cause.
    assert "g: 1.0 s, triggered by bob on host-bob: first join" in out


@pytest.mark.parametrize(
    ("ahead", "told"), [(0.0, False), (1.5, False), (120.0, True), (-9.0, True)]
)
def test_clocks_that_are_apart_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ahead: float, told: bool
) -> None:
    events: list[dict[str, Any]] = []
    alice, bob = Member(events, "alice"), Member(events, "bob")
    for generation in (1, 2, 3):
        at = BEGAN + 600 * generation
        ids = {"alice-1": None, "bob-1": None}
        joined = {"generation": generation, "member": "alice-1", "member_ids": ids, "members": 2}
        alice.tells(at, "rebalance.triggered", because="first join", member="alice-1")
        alice.tells(at + 1, "rebalance.joined", **joined)
        theirs = at + ahead
        # Once it stood still: that alone shows nothing.
        late = 60.0 if generation == 1 else 0.0
        bob.tells(theirs, "rebalance.triggered", because="first join", member="bob-1")
        bob.tells(
            theirs + 1 + late, "rebalance.joined", generation=generation, member="bob-1", members=2
        )
    file = tmp_path / "trace.jsonl"
    events.sort(key=lambda event: event["t"])
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    main(["why", str(file)])

    err = capsys.readouterr().err
    words = f"the clocks of alice on host-alice and bob on host-bob are {abs(ahead):.1f} s apart"
    assert (words in err) is told
    assert ("apart" in err) is told


@pytest.mark.parametrize(("ahead", "told"), [(0.0, False), (1.5, False), (30.0, True)])
def test_a_clock_is_told_to_be_ahead_if_earlier_records_come_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ahead: float, told: bool
) -> None:
    """No member of a KIP-848 group tells when the others were answered: offsets show it there."""
    events: list[dict[str, Any]] = []
    bob, carol = Member(events, "bob"), Member(events, "carol")
    owns = {"partitions": {"t-0": 1}, "by_group": True}
    bob.tells(BEGAN + ahead, "partitions.assigned", **owns)
    bob.is_given(BEGAN + ahead + 1, "t-0", 0, 9)
    bob.is_given(BEGAN + ahead + 11, "t-0", 10, 19)
    bob.tells(BEGAN + ahead + 12, "partitions.released", partitions={"t-0": 20})
    carol.tells(BEGAN + 13, "partitions.assigned", **owns)
    carol.is_given(BEGAN + 14, "t-0", 20, 29)
    file = tmp_path / "trace.jsonl"
    events.sort(key=lambda event: event["t"])
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    main(["why", str(file)])

    words = "the clock of bob on host-bob is at least 27.0 s ahead of that of carol on host-carol"
    assert (words in capsys.readouterr().err) is told


@pytest.mark.parametrize(
    ("ahead", "goes_on", "told"),
    [(0.0, True, False), (1.5, True, False), (30.0, True, True), (30.0, False, False)],
)
def test_a_clock_is_told_to_be_ahead_if_its_member_joins_with_an_epoch_that_is_over(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ahead: float,
    goes_on: bool,
    told: bool,
) -> None:
    """Unless that of bob shows that he is a member no more: then a new group may have begun."""
    events: list[dict[str, Any]] = []
    bob, carol = Member(events, "bob"), Member(events, "carol")
    bob.tells(BEGAN, "member.epoch", before=0, after=3)
    carol.tells(BEGAN + 9 + ahead, "member.epoch", before=0, after=4)
    bob.tells(BEGAN + 10, "member.epoch", before=3, after=4)
    bob.tells(BEGAN + 11, "member.epoch", before=4, after=5)
    bob.tells(BEGAN + 60, "membership.moved", after="stable" if goes_on else "fenced")
    file = tmp_path / "trace.jsonl"
    events.sort(key=lambda event: event["t"])
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    main(["why", str(file)])

    words = "the clock of carol on host-carol is at least 28.0 s ahead of that of bob on host-bob:"
    err = capsys.readouterr().err
    assert (words in err) is told
    assert ("ahead of" in err) is told


@pytest.mark.parametrize(
    ("ahead", "state", "told"),
    [
        (0.0, "stable", False),
        (2.5, "stable", False),
        (30.0, "stable", True),
        (30.0, "fenced", False),
    ],
)
def test_a_clock_is_told_to_be_ahead_if_a_member_releases_what_another_one_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ahead: float, state: str, told: bool
) -> None:
    """Unless it was expelled: then it releases what it had lost."""
    events: list[dict[str, Any]] = []
    bob, carol = Member(events, "bob"), Member(events, "carol")
    owns = {"partitions": {"t-0": 1}, "by_group": True}
    bob.tells(BEGAN, "partitions.assigned", **owns)
    bob.tells(BEGAN + 11 + ahead, "membership.moved", after=state)
    bob.tells(BEGAN + 12 + ahead, "partitions.released", partitions={"t-0": 20})
    carol.tells(BEGAN + 13, "partitions.assigned", **owns)
    file = tmp_path / "trace.jsonl"
    events.sort(key=lambda event: event["t"])
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    main(["why", str(file)])

    words = "the clock of bob on host-bob is at least 29.0 s ahead of that of carol on host-carol:"
    assert (words in capsys.readouterr().err) is told


def test_a_member_that_reads_again_from_the_start_of_its_own_is_no_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The owner before was killed, and had begun at the same offset or an earlier one."""
    events: list[dict[str, Any]] = []
    bob, carol = Member(events, "bob"), Member(events, "carol")
    owns = {"partitions": {"t-0": 1}, "by_group": True}
    bob.tells(BEGAN, "partitions.assigned", **owns)
    bob.is_given(BEGAN + 1, "t-0", 5, 9)
    carol.tells(BEGAN + 13, "partitions.assigned", **owns)
    carol.is_given(BEGAN + 14, "t-0", 5, 6)
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    main(["why", str(file)])

    assert "ahead of" not in capsys.readouterr().err


def test_a_clock_that_was_set_without_a_rebalance_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[dict[str, Any]] = []
    alice = Member(events, "alice")
    alice.rebalances(BEGAN, BEGAN + 1, 1, because="first join", members=1)
    alice.tells(BEGAN + 3660, "clock.set", seconds=3600.0)
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    main(["why", str(file)])

    err = capsys.readouterr().err
    assert "the clock of alice on host-alice was set by 3600.0 s, or its machine slept" in err
    assert "its times from 2027-01-15 09:01:00Z on are shifted" in err


def test_members_of_one_host_have_one_clock_whatever_offsets_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cluster was replaced: its offsets begin at 0 again."""
    events: list[dict[str, Any]] = []
    bob, carol = Member(events, "bob", "vm"), Member(events, "carol", "vm")
    owns = {"partitions": {"t-0": 1}, "by_group": True}
    bob.tells(BEGAN, "partitions.assigned", **owns)
    bob.is_given(BEGAN + 1, "t-0", 100, 109)
    bob.tells(BEGAN + 11, "membership.moved", after="stable")
    bob.tells(BEGAN + 30, "partitions.released", partitions={"t-0": 110})
    carol.tells(BEGAN + 13, "partitions.assigned", **owns)
    carol.is_given(BEGAN + 32, "t-0", 0, 9)
    for generation in (1, 2, 3):
        ids = {"bob-1": None, "carol-1": None}
        at = BEGAN + 100 * generation
        bob.tells(at, "rebalance.joined", generation=generation, member="bob-1", member_ids=ids)
        carol.tells(at + 30, "rebalance.joined", generation=generation, member="carol-1")
    bob.tells(BEGAN + 500, "member.epoch", before=0, after=3)
    carol.tells(BEGAN + 549, "member.epoch", before=0, after=4)
    bob.tells(BEGAN + 550, "member.epoch", before=3, after=5)
    bob.tells(BEGAN + 560, "membership.moved", after="stable")
    file = tmp_path / "trace.jsonl"
    events.sort(key=lambda event: event["t"])
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    main(["why", str(file)])

    assert "clock" not in capsys.readouterr().err


def test_commits_that_were_refused_for_one_reason_are_one_line_whatever_partitions_they_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[dict[str, Any]] = []
    alice = Member(events, "alice")
    for number in range(30):
        because = (
            f"NotCoordinatorError: the offsets of t-{number}, t-{number + 1} were not committed in"
            f" group 'g': the coordinator, broker {number % 3} at b{number % 3}:9092, moved"
        )
        alice.tells(BEGAN + number, "commit.failed", kind="auto", because=because)
    alice.tells(
        BEGAN + 40, "commit.failed", kind="auto", because="TopicAuthorizationFailedError: t"
    )
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))

    main(["why", str(file)])

    out = said(capsys)
    assert (
        "2027-01-15 08:00:00Z g: alice on host-alice, 30 times until 2027-01-15 08:00:29Z:"
        " NotCoordinatorError: the offsets of t-29, t-30 were not committed" in out
    )
    assert out.count("NotCoordinatorError") == 1
    assert "2027-01-15 08:00:40Z g: alice on host-alice: TopicAuthorizationFailedError: t" in out
