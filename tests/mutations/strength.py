"""`python -m tests.mutations.strength`: which tests find the bugs that are put into our code.

The bugs are those of one token (`--of anywhere`, `--of table`) and the patches (`--of patches`).
Each is put, alone, into a copy of the project. First the units of the module run, then the
scenarios, then the rest of `make test` that computes, until a test fails; with `--gate` also what
is left to .ci/run and needs no broker. One line for each bug says which test found it.

`--of known` takes the bugs of all three lists, runs only the test that is known to find each, and
prints the table of docs/testing.md: minutes in place of hours. It fails if a test finds its bug no
more.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.changed import units_of
from tests.mutations.one_token import ROOT, NotThereError, OneToken, one_tokens
from tests.mutations.run import Mutation, mutations

#: Seconds after which tests are taken to hang, which finds a bug, too.
PATIENCE: Final = 1800

#: The units of the table of error codes, which has no module of tests of its own name.
OF_TABLE: Final = ("tests/unit/managers/test_error_codes.py", "tests/unit/protocol")

COPIED: Final = ("aktor", "tests", "examples", "docs", "pyspark_aktor", "README.md", "CHANGELOG.md")
SETUP: Final = ("pyproject.toml", "setup.cfg", "setup.py")


#: The stages, from the cheapest to the dearest.
NAMES: Final = ("units", "scenarios", "make test", ".ci/run")


#: They start Spark's JVM.
LEFT_OUT: Final = ("--ignore", "tests/spark/rebalances")

#: The lists, by what the table calls them.
LISTS: Final = {
    "table": "the table of error codes",
    "patches": "put back",
    "anywhere": "one token, anywhere",
}

#: What becomes of a bug whose test is known: the columns of the table.
MAKE_TEST, GATE, EQUIVALENT, OPEN = "`make test`", "only by `.ci/run`", "equivalent", "not found"
COLUMNS: Final = (MAKE_TEST, GATE, EQUIVALENT, OPEN)

#: pytest's exit codes.
PASSED: Final = 0
NO_TEST: Final = 5


def stages(files: Sequence[Path], gate: bool) -> Iterator[tuple[str, list[str]]]:
    """By name: arguments of pytest, from the cheapest to the dearest tests."""
    units = units_of([file.as_posix() for file in files], ROOT)
    if any(file.name == "error_codes.py" for file in files):
        units = [*OF_TABLE, *units]
    for part in ("spark", "simulation"):  # most of their tests are not among the units
        if any(file.parts[1] == part for file in files):
            units.append(f"tests/{part}")
    if units:
        yield "units", [*units, "-m", "not gate", *LEFT_OUT]
    yield "scenarios", ["tests/scenarios", "-m", "not gate"]
    others = ["tests/unit", "tests/simulation", "tests/spark", "tests/fuzz"]
    others += [f"tests/kafka/recorded/test_{one}.py" for one in ("embedded", "observing")]
    yield "make test", [*others, "-m", "not gate", *LEFT_OUT]
    if gate:
        yield ".ci/run", [*others, "-m", "gate", *LEFT_OUT]


def found_by(bug: OneToken | Mutation, copy: Path, gate: bool, last: str | None) -> str:
    """The stage and the test that find it, or "-"."""
    for name, arguments in stages(put(bug, copy), gate):
        if last is not None and NAMES.index(name) > NAMES.index(last):
            break
        found = failure(bug, copy, arguments)
        if found:
            return f"{name}: {found}"
    return "-"


def failure(bug: OneToken | Mutation, copy: Path, arguments: Sequence[str]) -> str | None:
    """The first test of these that fails in the copy; "" if none does, None if there is none."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    # The modules of tests stay as they are: they are compiled for the first bug, not for each.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if isinstance(bug, Mutation):
        environment["AKTOR_PURE_PYTHON"] = "1"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    try:
        ran = subprocess.run(
            [*command, *arguments],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    if ran.returncode in (PASSED, NO_TEST):
        return "" if ran.returncode == PASSED else None
    found = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", ran.stdout, re.MULTILINE)
    return found[1] if found else repr(ran.stdout[-200:] + ran.stderr[-200:])


def outcome(bug: OneToken | Mutation, copy: Path) -> str:
    """Which column of the table a bug belongs to, now."""
    if isinstance(bug, OneToken) and bug.equivalent:
        return EQUIVALENT
    if not bug.found_by:
        return OPEN
    put(bug, copy)
    if failure(bug, copy, [bug.found_by, "-m", "not gate"]):
        return MAKE_TEST
    # With all examples of Hypothesis, too.
    return GATE if failure(bug, copy, [bug.found_by, "-m", ""]) else OPEN


def put(bug: OneToken | Mutation, copy: Path) -> list[Path]:
    """Put it, alone, into the copy. Returns the files that it changes."""
    shutil.rmtree(copy / "aktor", ignore_errors=True)
    shutil.copytree(ROOT / "aktor", copy / "aktor")
    if isinstance(bug, OneToken):
        return [bug.put_into(copy)]
    around = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
    subprocess.run(["git", "apply", str(bug.path)], cwd=copy, env=around, check=True)
    return [Path(one) for one in re.findall(r"^\+\+\+ b/(\S+)", bug.path.read_text(), re.MULTILINE)]


def bugs_of(name: str) -> list[OneToken | Mutation]:
    """The bugs of a list, by its name in `LISTS`."""
    if name == "patches":
        return [*mutations()]
    return [one for one in one_tokens() if one.of == name]


def what(bug: OneToken | Mutation) -> str:
    """How a line of what is printed calls it."""
    return bug.name if isinstance(bug, Mutation) else f"{bug.file}: {bug.line[:60]}"


def fill(copy: Path) -> None:
    """Copy the project."""
    for name in (*COPIED, *SETUP):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name)
        else:
            shutil.copy(ROOT / name, copy / name)


def of_known(copy: Path) -> int:
    """Print the table. Returns how many bugs have a test that does not find them any more."""
    lost, rows = 0, []
    for name, title in LISTS.items():
        bugs, counts = bugs_of(name), Counter[str]()
        for number, bug in enumerate(bugs):
            try:
                came = outcome(bug, copy)
            except NotThereError:
                came = "not there any more"
            counts[came] += 1
            lost += came == OPEN and bool(bug.found_by)
            print(f"{name}\t{number}\t{came}\t{bug.found_by or '-'}\t{what(bug)}", flush=True)
        rows.append(f"| {title}, {len(bugs)} | {' | '.join(str(counts[one]) for one in COLUMNS)} |")
    print(f"| bugs | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|", *rows, sep="\n")
    return lost


def main() -> int:
    """One line for each bug."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.strength", description=__doc__)
    parser.add_argument("--of", choices=[*LISTS, "known"], required=True)
    parser.add_argument("--first", type=int, default=0, help="from this one on (0)")
    parser.add_argument("--count", type=int, default=1000, help="so many (all)")
    parser.add_argument("--last", choices=["units", "scenarios"], help="the last stage")
    parser.add_argument("--gate", action="store_true", help="also what is left to .ci/run")
    given = parser.parse_args()
    if not any((ROOT / "aktor").rglob("*.so")):
        parser.error("nothing is compiled, and some tests compare the two readers: make build")
    with tempfile.TemporaryDirectory(prefix="aktor-strength-") as folder:
        copy = Path(folder)
        fill(copy)
        if given.of == "known":
            return 1 if of_known(copy) else 0
        bugs = bugs_of(given.of)[given.first : given.first + given.count]
        for number, bug in enumerate(bugs, given.first):
            try:
                said = found_by(bug, copy, given.gate, given.last)
            except NotThereError:
                said = "not there any more"
            print(f"{number}\t{said}\t{what(bug)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
