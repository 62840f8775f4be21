"""How long a group needs after a single fault, by kind of fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from aktor.cli.main import main
from aktor.simulation.faults.chaos import KINDS
from aktor.simulation.selftest.recovery import ALONE, PROTOCOLS, Distribution, recovery_time

#: By kind of fault: virtual seconds that half of the groups, and nine of ten, may need. (Of two it
#: is the quicker one, and both.)
BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "broker_crash": (1.0, 2.0),
    "broker_fenced": (0.5, 2.0),
    "broker_moved": (2.0, 3.0),
    "connections_reset": (0.3, 1.0),
    "coordinator_loading": (1.0, 2.0),
    "coordinator_move": (0.5, 1.0),
    "coordinator_refuses": (0.25, 0.3),
    "leader_move": (0.3, 1.0),
    "member_killed": (6.5, 8.0),  # until its session (6 s) is over nobody else gets its partitions
    "rights_withdrawn": (2.0, 6.0),
    "session_expired": (0.8, 1.5),
}

#: One for each protocol.
SEEDS: Final = range(len(PROTOCOLS))


@pytest.mark.gate
@pytest.mark.parametrize("kind", BOUNDS)
def test_a_group_recovers_soon_after_a_single_fault(kind: str) -> None:
    times = sorted(map(recovery_time, [kind] * len(SEEDS), SEEDS, PROTOCOLS))
    recovered = Distribution(times)

    median, p90 = BOUNDS[kind]
    assert recovered.quantile(0.5) <= median, times
    assert recovered.quantile(0.9) <= p90, times


def test_bounds_are_of_kinds_that_are_judged_alone() -> None:
    assert set(BOUNDS) <= set(ALONE) <= set(KINDS)


def test_quantiles_are_of_what_was_measured() -> None:
    ten = Distribution([float(one) for one in range(10)])

    assert [ten.quantile(share) for share in (0.0, 0.5, 0.9, 0.99, 1.0)] == [0, 4, 8, 9, 9]
    assert ten.cells() == ["4.0", "8.0", "9.0", "9.0"]


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "recovery", "--kind", "seek", "--seeds", "1", "--protocol", "classic"]) == 0

    head, _, row = capsys.readouterr().out.splitlines()
    assert head == "| fault | classic: median | classic: p90 | classic: p99 | classic: max |"
    assert row.startswith("| `seek` | 0.")


def test_the_command_knows_its_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "recovery", "--kind", "nonsense"]) == 2
    assert "there are broker_crash, broker_moved" in capsys.readouterr().err
