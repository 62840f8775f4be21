"""`python -m tests.changed COMMIT`: which tests `make check` runs: the units of what has changed.

They are the modules of tests that changed, and `tests/unit/a/test_b*` for each `aktor/a/b`; where
no module is named so, all of `tests/unit/a`, or, without that folder, `tests/unit/test_a*`. What
has no units of its own is left to `make test`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

#: Tests on brokers, and those in virtual time: `make test` has them.
SLOW: Final = ("kafka", "clients", "simulation", "spark")


def changed_since(commit: str) -> set[str]:
    """The files that differ from the commit's, and those that git does not know yet."""
    asked = (["diff", "--name-only", commit, "--"], ["ls-files", "--others", "--exclude-standard"])
    said = [subprocess.check_output(["git", *one], cwd=ROOT, text=True) for one in asked]
    return {line for one in said for line in one.splitlines()}


def units_of(files: Iterable[str], root: Path = ROOT) -> list[str]:
    """The paths of their tests, sorted."""
    return sorted({test for file in files for test in _units_of(Path(file), root)})


def _units_of(file: Path, root: Path) -> Iterator[str]:
    parts = file.parts
    if file.suffix not in {".py", ".pyx", ".pyi"} or len(parts) < 2:
        return
    if parts[0] == "tests" and file.name.startswith("test_") and parts[1] not in SLOW:
        if (root / file).exists():
            yield str(file)
    elif parts[0] == "aktor":
        folder = Path("tests/unit", *parts[1:-1])
        named = [*(root / folder).glob(f"test_{file.stem}*.py")]
        if named:
            yield from (str(one.relative_to(root)) for one in named)
        elif len(parts) > 2 and (root / folder).is_dir():
            yield str(folder)
        elif len(parts) > 2:
            whole = (root / folder.parent).glob(f"test_{folder.name}*.py")
            yield from (str(one.relative_to(root)) for one in whole)


if __name__ == "__main__":
    print(*units_of(changed_since(sys.argv[1])), sep="\n")
