"""The first example of docs/simulation.md finds its bug; mended as the page says, it passes a
thousand seeds.

The tests take a sample of them: AKTOR_FRONT_PAGE_SEEDS=1000 takes all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aktor.simulation import CheckFailedError
from tests.gate import all_but_the_first

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
SEEDS = int(os.environ.get("AKTOR_FRONT_PAGE_SEEDS", "3"))

#: How the example ends.
THE_LOOP = "\nfor seed in range(20):\n    judge(seed)\n"
TOO_EARLY = "                consumer.commit()  # too early\n"
LAST = "                    invoices.put(record)\n"
BELOW = "            consumer.commit()\n"


def front_page() -> str:
    """The example, without the loop over seeds at its end."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    [example] = [one for one in blocks if "def judge(seed)" in one]
    assert example.endswith(THE_LOOP)
    return example.removesuffix(THE_LOOP)


def judge_of(source: str) -> Callable[[int], None]:
    names: dict[str, Any] = {"__name__": "front_page"}
    exec(compile(source, str(PAGE), "exec"), names)
    judge: Callable[[int], None] = names["judge"]
    return judge


def mended() -> str:
    source = front_page()
    assert source.count(TOO_EARLY) == source.count(LAST) == 1
    return source.replace(TOO_EARLY, "").replace(LAST, LAST + BELOW)


def test_the_bug_of_the_front_page_is_found() -> None:
    with pytest.raises(CheckFailedError, match="never had its effect") as found:
        exec(compile(front_page() + THE_LOOP, str(PAGE), "exec"), {"__name__": "front_page"})

    assert found.value.checks == {"at-least-once"}


@pytest.mark.parametrize("seed", all_but_the_first(1, range(SEEDS)))
def test_the_mended_loop_of_the_front_page_passes(seed: int) -> None:
    judge_of(mended())(seed)
