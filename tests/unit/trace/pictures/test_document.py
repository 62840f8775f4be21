"""docs/rebalances.md: its sentences and its pictures are those of the incidents that it replays."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from aktor.trace.rebalances import read_files
from examples import incidents
from tests.gate import all_but_the_first

DOCUMENTS = Path(__file__).parents[4] / "docs"


#: What the sentence of each incident says. (How many milliseconds it took, and which of two members
#: that began together was first, changes with each message that a consumer sends.)
SAID = {
    "slow-callback": "bob on host-bob held it: its revoked callback took 4.0 s, its assigned",
    "late-poll": "triggered by bob on host-bob: no poll for 4.000 s (max_poll_interval_ms)",
    "dead-coordinator": "s for the coordinator, broker 2 at b2:9092: connection refused",
    "killed-member": "triggered by bob on host-bob: the coordinator took it out of the group",
}


@pytest.mark.parametrize("name", all_but_the_first(1, incidents.INCIDENTS))
def test_an_incident_is_as_the_page_tells_it(name: str, tmp_path: Path) -> None:
    incidents.replay(name, tmp_path)

    sentences = [row.sentence for row in read_files([str(tmp_path)]).rebalances]

    assert any(SAID[name] in sentence for sentence in sentences)
    assert SAID[name] in " ".join((DOCUMENTS / "rebalances.md").read_text().split())
    picture = (DOCUMENTS / "rebalances" / f"{name}.svg").read_text()
    words = "".join(ElementTree.fromstring(picture).itertext())
    assert re.sub(r"\W", "", SAID[name]) in re.sub(r"\W", "", words)


def test_each_picture_is_shown_and_small() -> None:
    page = (DOCUMENTS / "rebalances.md").read_text()

    pictures = sorted((DOCUMENTS / "rebalances").iterdir())
    assert len(pictures) == 5
    for picture in pictures:
        assert f"](rebalances/{picture.name})" in page
        assert picture.stat().st_size < 150_000
