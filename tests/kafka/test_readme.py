"""Each program of the README runs as it is printed, against the broker that it starts."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aktor.broker import EmbeddedKafka

README = Path(__file__).parents[2] / "README.md"

pytestmark = pytest.mark.embedded("the README starts it itself")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.S | re.M)


@pytest.fixture
def address() -> Iterator[str]:
    """The broker of the README's command line, on a free port."""
    [command] = [one for one in blocks("") if one.startswith("aktor broker")]
    arguments = [*shlex.split(command)[1:], "--port", "0"]
    broker = subprocess.Popen(
        [sys.executable, "-m", "aktor.cli", *arguments], stdout=subprocess.PIPE, text=True
    )
    assert broker.stdout is not None
    first = broker.stdout.readline()
    yield first.split()[-1]
    broker.send_signal(signal.SIGTERM)
    broker.communicate(timeout=30)


def test_the_programs_run_one_after_the_other_as_they_are_printed(
    address: str, capfd: pytest.CaptureFixture[str], embedded_kafka: EmbeddedKafka
) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    said = []
    for number, block in enumerate(blocks("python")):
        # All that is changed: where the broker is. (For how long nothing may come is as printed:
        # to join the group takes its time, too.)
        program = block.replace("localhost:9092", address)
        exec(compile(program, f"{README}, program {number}", "exec"), names)
        said.append(capfd.readouterr().out)
    names["test_a_new_topic_is_empty"](embedded_kafka)

    first, columns, several, test = said
    assert len(first.splitlines()) == 1000
    assert len(names["orders"]) == 1000
    assert "partition" in columns
    assert several.count("bill customer-") == 1000
    assert test == ""


def test_the_page_is_short_and_its_links_lead_somewhere() -> None:
    page = README.read_text()
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page)

    assert len(page.splitlines()) <= 120
    assert links
    assert [one for one in links if not (README.parent / one).exists()] == []
