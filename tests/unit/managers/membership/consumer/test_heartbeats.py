"""What a heartbeat says: all at first and after a failure, otherwise what is new."""

from __future__ import annotations

from typing import Any

import pytest

from aktor.managers.membership.consumer.heartbeats import (
    Report,
    SentFields,
    assignment_of,
    leave_heartbeat,
)
from aktor.settings import Settings
from tests.unit.managers.commits.builders import at_every_version
from tests.unit.managers.membership.consumer.builders import IDS, heard

A, B = IDS["a"], IDS["b"]
MINE = {A: frozenset({0, 1})}


def a_told(**settings: Any) -> SentFields:
    return SentFields(Settings(group_id="g", max_poll_interval=60.0, **settings))


def a_report(epoch: int = 1, **said: Any) -> Report:
    known = {"member_id": "m", "topics": frozenset({"a"}), "regex": "", "owned": MINE, "target": 1}
    return Report(epoch=epoch, **{**known, **said})


def a_join(**said: Any) -> Report:
    return a_report(0, **{"owned": {}, "target": 0, **said})


def a_told_that_heard(*reports: Report, **settings: Any) -> SentFields:
    told = a_told(**settings)
    for report in reports:
        told.heartbeat(report)
    return told


def owned(body: Any) -> dict[Any, list[int]] | None:
    if body.topic_partitions is None:
        return None
    return {one.topic_id: one.partitions for one in body.topic_partitions}


def fields(body: Any) -> set[str]:
    """Which of the fields that may be left out are said."""
    said = {
        "timeout": body.rebalance_timeout_ms != -1,
        "names": body.subscribed_topic_names is not None,
        "regex": body.subscribed_topic_regex is not None,
        "assignor": body.server_assignor is not None,
        "rack": body.rack_id is not None,
        "owned": body.topic_partitions is not None,
    }
    return {name for name, is_said in said.items() if is_said}


ALL = {"timeout", "names", "regex", "assignor", "rack", "owned"}
EVERYTHING: dict[str, Any] = {"group_remote_assignor": "range", "client_rack": "r1"}


def test_who_joins_says_everything_and_that_nothing_is_owned() -> None:
    told = a_told(**EVERYTHING)

    body = told.heartbeat(a_join(regex="x.*"))

    assert fields(body) == ALL
    assert owned(body) == {}
    assert body.rebalance_timeout_ms == 60_000


def test_what_is_not_configured_is_not_said_either() -> None:
    body = a_told().heartbeat(a_join())

    assert fields(body) == {"timeout", "names", "owned"}
    assert (body.instance_id, body.rack_id, body.server_assignor) == (None, None, None)


def test_what_was_said_is_left_out() -> None:
    told = a_told_that_heard(a_join(regex="x.*"), a_report(regex="x.*"), **EVERYTHING)

    assert fields(told.heartbeat(a_report(regex="x.*"))) == set()


def test_an_epoch_that_grows_is_no_reason_to_say_more() -> None:
    told = a_told_that_heard(a_join(), a_report(1))

    body = told.heartbeat(a_report(2))

    assert (fields(body), body.member_epoch) == (set(), 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topics": frozenset({"a", "b"})}, "names"),
        ({"regex": "y.*"}, "regex"),
        ({"owned": {B: frozenset({0})}}, "owned"),
        ({"owned": {}}, "owned"),
        ({"target": 2}, "owned"),
    ],
)
def test_what_changed_is_said_alone(change: dict[str, Any], said: str) -> None:
    """Scenario 53: also the same partitions, of another target."""
    told = a_told_that_heard(a_join(), a_report())

    body = told.heartbeat(a_report(**change))

    assert fields(body) == {said}


def test_after_a_failure_everything_is_said_but_the_rack() -> None:
    told = a_told_that_heard(a_join(regex="x.*"), a_report(regex="x.*"), **EVERYTHING)

    told.forget()
    body = told.heartbeat(a_report(regex="x.*"))

    assert fields(body) == ALL - {"rack"}
    assert owned(body) == {A: [0, 1]}


def test_after_that_nothing_is_repeated() -> None:
    told = a_told_that_heard(a_join(), a_report())
    told.forget()
    told.heartbeat(a_report())

    assert fields(told.heartbeat(a_report())) == set()


def test_each_try_to_join_says_everything() -> None:
    told = a_told_that_heard(a_join(), **EVERYTHING)

    assert fields(told.heartbeat(a_join())) == ALL - {"regex"}


def test_a_pattern_is_taken_back_by_an_empty_one_and_once() -> None:
    """Scenario 78."""
    told = a_told_that_heard(a_join(regex="x.*"), a_report(regex="x.*"))

    body = told.heartbeat(a_report())

    assert body.subscribed_topic_regex == ""
    assert body._min_version == 1
    assert told.heartbeat(a_report()).subscribed_topic_regex is None


def test_whoever_had_a_pattern_takes_it_back_whenever_it_is_not_known_what_arrived() -> None:
    told = a_told_that_heard(a_join(regex="x.*"), a_report(regex="x.*"), a_report())

    told.forget()

    assert told.heartbeat(a_report()).subscribed_topic_regex == ""


def test_without_a_pattern_the_first_version_will_do() -> None:
    bodies = [a_told().heartbeat(a_join()), a_told_that_heard(a_join()).heartbeat(a_report())]

    for body in bodies:
        assert [one.member_epoch for one in at_every_version(body, range(2))] == (
            [body.member_epoch] * 2
        )
        assert not body._min_version


def test_a_report_is_known_when_its_partitions_and_their_target_were_said() -> None:
    told = a_told_that_heard(a_join())
    assert not told.knows(a_report())

    told.heartbeat(a_report())
    assert told.knows(a_report(epoch=7))

    assert not told.knows(a_report(target=2))
    told.forget()
    assert not told.knows(a_report())


@pytest.mark.parametrize(("stays", "epoch"), [(False, -1), (True, -2)])
def test_the_last_heartbeat_says_no_more_than_who_goes(stays: bool, epoch: int) -> None:
    settings = Settings(group_id="g", group_instance_id="i", **EVERYTHING)

    body = leave_heartbeat(settings, "m", stays=stays)

    assert (body.group_id, body.member_id, body.instance_id) == ("g", "m", "i")
    assert (body.member_epoch, fields(body)) == (epoch, set())


def test_no_target_in_an_answer_is_not_an_empty_one() -> None:
    assert assignment_of(heard(1)) is None
    assert assignment_of(heard(1, "")) == {}
    assert assignment_of(heard(1, "a-1 a-0 b-0")) == {A: frozenset({0, 1}), B: frozenset({0})}
