"""What an index shows of the project is the README, without a link that leads nowhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import aktor

ROOT = Path(__file__).parent.parent.parent

#: Runs setup.py with a stand-in for setuptools, which not every environment has.
PROGRAM = """
import sys, types
told = {}
stand_in = types.SimpleNamespace(Extension=object, setup=told.update)
sys.modules["setuptools"] = stand_in
source = open("setup.py").read()
exec(compile(source, sys.argv[1], "exec"), {"__file__": sys.argv[1], "__name__": "setup"})
print(told["long_description"])
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "aktor").mkdir()
    for name in ("setup.py", "setup.cfg", "README.md", "aktor/version.py"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    return tmp_path


def description(tree: Path) -> str:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tree / "setup.py")],
        env={"AKTOR_PURE_PYTHON": "1"},
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def test_without_an_address_a_link_into_the_repository_is_plain_text(tree: Path) -> None:
    said = description(tree)

    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", said) == []
    assert said.startswith("# aktor\n")


def test_with_an_address_a_link_leads_to_the_tag_of_the_version(tree: Path) -> None:
    config = tree / "setup.cfg"
    urls = "[metadata]\nproject_urls =\n    Source = https://example.org/aktor\n"
    config.write_text(config.read_text().replace("[metadata]\n", urls))
    (tree / "README.md").write_text("[Groups](docs/groups.md) ![speed](a.svg) [x](https://x.org)")

    assert description(tree).strip() == (
        f"[Groups](https://example.org/aktor/blob/v{aktor.__version__}/docs/groups.md)"
        f" ![speed](https://example.org/aktor/raw/v{aktor.__version__}/a.svg) [x](https://x.org)"
    )
