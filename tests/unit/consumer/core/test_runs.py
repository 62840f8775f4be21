"""Records as the trace tells of them: by runs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from aktor.consumer.core.runs import RUNS_MAX, runs


@dataclass
class Record:
    offset: int
    leader_epoch: int = 1

    @property
    def timestamp(self) -> int:
        return 1000 + self.offset


@pytest.mark.parametrize(
    ("records", "offsets"),
    [
        ([Record(5)], [[5, 5]]),
        ([Record(5), Record(6), Record(7)], [[5, 7]]),
        ([Record(5), Record(7), Record(8)], [[5, 5], [7, 8]]),
        ([Record(5), Record(6, leader_epoch=2), Record(7, leader_epoch=2)], [[5, 5], [6, 7]]),
    ],
    ids=["one", "all in a row", "a gap", "another leader"],
)
def test_what_follows_on_in_one_leader_epoch_is_a_run(
    records: list[Record], offsets: list[list[int]]
) -> None:
    (run,) = runs(records)

    assert run == {"offsets": offsets, "times": [1000 + first for first, _ in offsets]}


def test_no_part_has_more_runs_than_an_event_can_hold() -> None:
    parts = list(runs([Record(offset) for offset in range(0, 2 * RUNS_MAX + 2, 2)]))

    assert [len(part["offsets"]) for part in parts] == [RUNS_MAX, 1]
