"""Puts each bug into our code, alone, and runs storms until one finds it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aktor.compiled import PURE_PYTHON

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = Path(__file__).parent
DOCUMENT: Final = ROOT / "docs" / "simulation.md"
BEGIN: Final = "<!-- the table of `make mutations`: begin -->"
END: Final = "<!-- the table of `make mutations`: end -->"

#: How many may stay unfound.
MAY_STAY: Final = 2


class PatchError(Exception):
    """A patch that cannot be used as it is."""


class StormsError(Exception):
    """Storms can't be run here; the message ends with what Python said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One bug, a historic or a gross one: `bug` says which, `seen` what its users saw, and
    `found_by` which test finds it ("" if that is not known)."""

    path: Path
    bug: str
    seen: str
    found_by: str = ""

    @property
    def name(self) -> str:
        """As people read it: "lost wakeup after empty fetch"."""
        return self.path.stem.partition("_")[2].replace("_", " ")

    @property
    def number(self) -> str:
        """Its place in the list."""
        return self.path.stem.partition("_")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one mutation: the seed that found it, if any, and by which check."""

    mutation: Mutation
    seeds: int
    found_by: str | None
    crashes: int = 0


def mutations() -> list[Mutation]:
    """All patches, in order."""
    return [read(path) for path in sorted(FOLDER.glob("*.patch"))]


def read(path: Path) -> Mutation:
    """A patch with its header: "Bug: ...", "Seen: ...", and perhaps "Found by: ...".

    Raises PatchError without the first two.
    """
    header, _, _ = path.read_text().partition("diff --git ")
    told = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
    if not {"Bug", "Seen"} <= told.keys():
        raise PatchError(f"{path.name} does not say which bug it is, and what users saw")
    found_by = told.get("Found by", "")
    return Mutation(path=path, bug=told["Bug"], seen=told["Seen"], found_by=found_by)


@contextlib.contextmanager
def mutated(mutation: Mutation, *, whole: bool = True) -> Iterator[Path]:
    """A folder with a copy of `aktor` in which the bug is back; not `whole`: only of the files that
    it changes. Raises PatchError."""
    with tempfile.TemporaryDirectory(prefix="aktor-mutation-") as folder:
        if whole:
            shutil.copytree(ROOT / "aktor", Path(folder, "aktor"))
        else:
            for file in re.findall(r"^--- a/(.+)$", mutation.path.read_text(), re.MULTILINE):
                copy = Path(folder, file)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, copy)
        done = subprocess.run(
            ["git", "apply", str(mutation.path)],
            cwd=folder,
            # A repository around the folder would make git leave the files alone.
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PatchError(f"{mutation.path.name} does not apply: {done.stderr.strip()}")
        yield Path(folder)


def storms(
    folder: Path, first: int, last: int, protocol: str = "classic"
) -> Iterator[dict[str, object]]:
    """What `tests.mutations.seeds` says of these seeds, with the `aktor` in this folder.

    Raises StormsError if it can't even begin, or falls over; a seed that hangs just ends it.
    """
    # The patches change Python: with the compiled twins their bugs would not be there.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment[PURE_PYTHON] = "1"
    seeds = [str(first), str(last), protocol]
    command = [sys.executable, "-P", str(FOLDER / "seeds.py"), *seeds]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None, "it was asked for"
        try:
            for line in process.stdout:
                yield json.loads(line)
            if process.wait() not in (0, -signal.SIGALRM):
                errors.seek(0)
                raise StormsError(f"storms fell over: {errors.read().strip()}")
        finally:
            process.kill()


class Search:
    """Looks for seeds that find mutations; a seed counts only if it passes without the mutation."""

    def __init__(self, seeds: int, protocol: str) -> None:
        self._seeds = seeds
        self._protocol = protocol
        self._sound: dict[int, bool] = {}
        self._lock = threading.Lock()

    def verdict(self, mutation: Mutation) -> Verdict:
        """Storms from seed 0 on, until one finds it or there are no more."""
        first, crashes = 0, 0
        with mutated(mutation) as folder:
            while first < self._seeds:
                came = first
                for said in storms(folder, first, self._seeds - 1, self._protocol):
                    came = int(str(said["seed"])) + 1
                    if said["found"] and self._is_sound(came - 1):
                        return Verdict(
                            mutation=mutation,
                            seeds=came,
                            found_by=str(said["by"]),
                            crashes=crashes,
                        )
                    crashes += not said["found"] and bool(said["by"])
                if came == first:  # its process ended without a word
                    crashes, came = crashes + 1, came + 1
                first = came
        return Verdict(mutation=mutation, seeds=self._seeds, found_by=None, crashes=crashes)

    def _is_sound(self, seed: int) -> bool:
        """Whether the code as it is passes."""
        with self._lock:
            if seed not in self._sound:
                said = list(storms(ROOT, seed, seed, self._protocol))
                self._sound[seed] = len(said) == 1 and not said[0]["found"] and not said[0]["by"]
            return self._sound[seed]


def table(verdicts: list[Verdict]) -> str:
    """As Markdown."""
    lines = ["| | bug put back | seeds needed | found by |", "|---|---|---|---|"]
    for one in verdicts:
        found = "not found" if one.found_by is None else ", ".join(map(_code, _names(one)))
        seeds = f"> {one.seeds}" if one.found_by is None else str(one.seeds)
        mutation = one.mutation
        lines.append(f"| {mutation.number} | {mutation.name}: {mutation.bug} | {seeds} | {found} |")
    return "\n".join(lines)


def _names(verdict: Verdict) -> list[str]:
    return (verdict.found_by or "").split(", ")[:2]


def _code(name: str) -> str:
    return f"`{name}`"


def write(text: str) -> None:
    """Replace the table in the document."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main() -> int:
    """0 if all but two mutations are found, 1 if not or if a patch does not apply."""
    arguments = _arguments()
    chosen = [
        one
        for one in mutations()
        if not arguments.only or any(word in one.path.stem for word in arguments.only)
    ]
    search, verdicts = Search(arguments.seeds, arguments.protocol), []
    try:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            for one in pool.map(search.verdict, chosen):
                verdicts.append(one)
                crashed = f", the simulation fell over {one.crashes} times" if one.crashes else ""
                print(
                    f"{len(verdicts):2}/{len(chosen)} {one.mutation.path.stem}:"
                    f" {one.found_by or 'NOT FOUND'} ({one.seeds} seeds{crashed})",
                    flush=True,
                )
    except (PatchError, StormsError) as error:
        print(error, file=sys.stderr)
        return 1
    found = sum(one.found_by is not None for one in verdicts)
    print(f"\n{table(verdicts)}\n\n{found} of {len(verdicts)} found")
    if arguments.write:
        write(table(verdicts))
    return 0 if found >= len(verdicts) - MAY_STAY else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of names of patches (all)")
    parser.add_argument("--seeds", type=int, default=500, help="seeds to try on each (500)")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time (1)")
    parser.add_argument(
        "--protocol",
        default="classic",
        help="what the storms' groups speak: classic (the bugs are of its code, and of what all"
        " share), consumer, auto, migration or mix",
    )
    parser.add_argument("--write", action="store_true", help="put the table into the documents")
    return parser.parse_args()
