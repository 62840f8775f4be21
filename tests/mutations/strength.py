"""`python -m tests.mutations.strength`: which tests find the bugs that are put into our code.

The bugs are those of one token (`--of anywhere`, `--of table`) and the patches (`--of patches`).
Each is put, alone, into a copy of the project. First the units of the module run, then the
scenarios, then the rest of `make test` that computes, until a test fails; with `--gate` also what
is left to .ci/run and needs no broker. One line for each bug says which test found it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
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
    shutil.rmtree(copy / "aktor", ignore_errors=True)
    shutil.copytree(ROOT / "aktor", copy / "aktor")
    for name, arguments in stages(put(bug, copy), gate):
        if last is not None and NAMES.index(name) > NAMES.index(last):
            break
        environment = {**os.environ, "PYTHONPATH": str(copy)}
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
            return f"{name}: it hangs"
        if ran.returncode not in (0, 5):  # 5: no test was chosen
            found = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
            return f"{name}: {found[1] if found else ran.stdout[-200:] + ran.stderr[-200:]!r}"
    return "-"


def put(bug: OneToken | Mutation, copy: Path) -> list[Path]:
    """Put it into the copy. Returns the files that it changes."""
    if isinstance(bug, OneToken):
        return [bug.put_into(copy)]
    around = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
    subprocess.run(["git", "apply", str(bug.path)], cwd=copy, env=around, check=True)
    return [Path(one) for one in re.findall(r"^\+\+\+ b/(\S+)", bug.path.read_text(), re.MULTILINE)]


def main() -> None:
    """One line for each bug."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations.strength", description=__doc__)
    parser.add_argument("--of", choices=["anywhere", "table", "patches"], required=True)
    parser.add_argument("--first", type=int, default=0, help="from this one on (0)")
    parser.add_argument("--count", type=int, default=1000, help="so many (all)")
    parser.add_argument("--last", choices=["units", "scenarios"], help="the last stage")
    parser.add_argument("--gate", action="store_true", help="also what is left to .ci/run")
    given = parser.parse_args()
    bugs: list[OneToken | Mutation] = [one for one in one_tokens() if one.of == given.of]
    if given.of == "patches":
        bugs = [*mutations()]
    with tempfile.TemporaryDirectory(prefix="aktor-strength-") as folder:
        copy = Path(folder)
        for name in (*COPIED, *SETUP):
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name)
            else:
                shutil.copy(ROOT / name, copy / name)
        for number, bug in enumerate(bugs[given.first : given.first + given.count], given.first):
            try:
                said = found_by(bug, copy, given.gate, given.last)
            except NotThereError:
                said = "not there any more"
            what = bug.name if isinstance(bug, Mutation) else f"{bug.file}: {bug.line[:60]}"
            print(f"{number}\t{said}\t{what}", flush=True)


if __name__ == "__main__":
    main()
