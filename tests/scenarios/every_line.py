"""An interrupt at every line that the programs run of the application's half: some 77,000 lines.

    python -m tests.scenarios.every_line                        # Ctrl-C
    python -m tests.scenarios.every_line --acts all             # and all else that a signal may do
    python -m tests.scenarios.every_line --programs closing polling

A program runs once. At each line the process forks: the child is interrupted there, goes on to the
end and is judged; the parent goes on to its next line. So nothing is run twice up to a line.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from aktor.consumer.core import guard
from tests.scenarios.interrupts import Injection
from tests.scenarios.programs import ACTS, SCENARIOS, judge, lines_of, run
from tests.scenarios.world import World

#: A child that runs for longer than this hangs; most take less than a tenth of a second.
CHILD_S = 120

#: The lines of a program are dealt out to so many shares, for the processes to take.
SHARES = 8

#: What a child says of itself that has kept every promise.
GOOD = "good"


class Forking(Injection):
    """Forks at each of its lines: the child is interrupted there, the parent goes on."""

    def __init__(self, world: World, *, then: tuple[int, ...], **options: Any) -> None:
        super().__init__(world, **options)
        self.complaints: list[str] = []
        #: In a child: where it says what became of it.
        self.pipe: int | None = None
        self._then = then
        self._interrupt = self._act
        self._act = self._fork
        self._forks = guard._forks

    def _fork(self) -> None:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            self._become_child(writing)
            return
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        if said != GOOD:
            self.complaints.append(f"{self.count} ({self.where[-1]}): {said or 'it died'}")

    def _become_child(self, pipe: int) -> None:
        self.pipe = pipe
        signal.alarm(CHILD_S)
        guard._forks = self._forks  # else its consumer refuses to be used
        self._at = {self.count + later for later in self._then}
        self._act = self._interrupt
        self._interrupt()


def try_share(name: str, scenario: str, share: int) -> tuple[str, str, int, list[str]]:
    """The act, the program, how many of its lines were tried, and what was wrong."""
    act = ACTS[name]
    places = range(1 + share, len(lines_of(scenario)) + 1, SHARES)
    made: list[Forking] = []

    def inject(world: World, **options: Any) -> Forking:
        made.append(Forking(world, then=act.then, **options))
        return made[0]

    said = GOOD
    try:
        program, injection = run(scenario, places, act.happens, inject=inject)
        if made[0].pipe is not None:
            judge(act, scenario, program, injection)
    except BaseException as error:
        if made[0].pipe is None:
            raise
        said = f"{error!r:.300}"
    if made[0].pipe is not None:
        os.write(made[0].pipe, said.encode())
        os._exit(0)
    return name, scenario, made[0].hits, made[0].complaints


def main() -> int:
    """Try them all, and say where it went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--acts", nargs="+", choices=[*ACTS, "all"], default=["interrupt"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    acts = list(ACTS) if "all" in options.acts else options.acts
    began, tried, wrong = time.monotonic(), 0, 0
    with ProcessPoolExecutor(options.jobs) as pool:
        shares = [
            pool.submit(try_share, name, scenario, share)
            for name in acts
            for scenario in options.programs
            for share in range(SHARES)
        ]
        for done in as_completed(shares):
            name, scenario, count, complaints = done.result()
            tried, wrong = tried + count, wrong + len(complaints)
            for complaint in complaints:
                print(f"{name}, {scenario}, line {complaint}", flush=True)
    print(f"{tried:,} lines were tried in {time.monotonic() - began:,.0f} s, {wrong} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
