"""What `make demo-spark` says: nothing is silent for long, and no number is missing."""

from __future__ import annotations

import threading
import webbrowser
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from examples.spark_demo.__main__ import STARTS, open_in_browser, patiently
from examples.spark_demo.screen import Screen


@dataclass
class Query:
    """What is shown of a query of Spark."""

    recentProgress: list[dict[str, Any]] = field(default_factory=list)
    status: dict[str, str] = field(default_factory=lambda: {"message": "Initializing sources"})

    def did(self, *numbers: int) -> None:
        """These batches are finished."""
        for number in numbers:
            source = {"latestOffset": '{"o":{"0":9}}', "endOffset": '{"o":{"0":7}}'}
            self.recentProgress.append(
                {
                    "batchId": number,
                    "numInputRows": 5,
                    "sources": [source],
                    "stateOperators": [],
                    "durationMs": {"triggerExecution": 3},
                }
            )


def test_before_the_first_batch_it_says_every_five_seconds_what_is_awaited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    screen, query = Screen(clock=lambda: now), Query()

    for second in range(13):
        now = float(second)
        screen.progress(query)

    assert capsys.readouterr().out.splitlines() == [
        "  Initializing sources ...",
        "  Initializing sources ... 5 s",
        "  Initializing sources ... 10 s",
    ]


def test_between_two_batches_it_says_after_five_seconds_what_is_awaited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    screen, query = Screen(clock=lambda: now), Query(status={"message": "Processing new data"})
    query.did(0)

    for second in (0, 4, 6, 9, 12):
        now = float(second)
        screen.progress(query)

    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("  batch  0:")
    assert others == ["  Processing new data ...", "  Processing new data ... 6 s"]


def test_batches_that_were_not_reported_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    screen, query = Screen(), Query()
    query.did(0, 1)
    screen.progress(query)
    again = Query()
    again.did(4, 6)

    screen.progress(again)

    said = capsys.readouterr().out.splitlines()
    assert [line[:10] for line in said if line.startswith("  batch")] == [
        *("  batch  0", "  batch  1", "  batch  4", "  batch  6"),
    ]
    assert [line for line in said if "(" in line] == [
        "  (batches 2 to 3: done while the query was stopped, so Spark did not report it)",
        "  (batch 5: done while the query was stopped, so Spark did not report it)",
    ]


def test_while_something_is_awaited_each_new_stage_is_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen, shown = Screen(clock=lambda: 0.0), threading.Event()
    stages = iter(["a JVM starts", "a JVM starts", "the JVM makes a session"])

    def what() -> str:
        stage = next(stages, None)
        if stage is None:  # the ones before are shown
            shown.set()
        return stage or "the JVM makes a session"

    with screen.waiting(what):
        assert shown.wait(60)

    said = capsys.readouterr().out
    assert said == "  a JVM starts ...\n  the JVM makes a session ...\n"


@pytest.mark.parametrize("fails", range(STARTS + 1))
def test_a_query_that_spark_gave_up_is_started_again_and_in_the_end_the_reason_is_shown(
    fails: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("ModuleNotFoundError: No module named 'aktor'\n")
    starts = []

    def run() -> None:
        starts.append(1)
        if len(starts) <= fails:
            raise RuntimeError("Python worker failed to connect back.")

    if fails < STARTS:
        patiently(run, Screen(), log)
    else:
        with pytest.raises(RuntimeError, match="failed to connect back"):
            patiently(run, Screen(), log)

    said = capsys.readouterr().out
    assert len(starts) == min(fails + 1, STARTS)
    assert said.count("once more") == len(starts) - 1
    assert ("ModuleNotFoundError" in said) == (fails == STARTS)


def test_another_error_of_a_query_is_not_tried_again(tmp_path: Path) -> None:
    starts = []

    def run() -> None:
        starts.append(1)
        raise RuntimeError("DataLossError")

    with pytest.raises(RuntimeError, match="DataLossError"):
        patiently(run, Screen(), tmp_path / "log")
    assert len(starts) == 1


@pytest.mark.parametrize("is_there", [False, True])
def test_where_no_browser_is_found_it_says_so(
    is_there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = []

    def a_browser(address: str) -> bool:
        shown.append(address)
        return is_there

    monkeypatch.setattr(webbrowser, "open", a_browser)

    open_in_browser(tmp_path / "a.html", Screen())

    assert shown == [(tmp_path / "a.html").as_uri()]
    assert ("set BROWSER" in capsys.readouterr().out) == (not is_there)
