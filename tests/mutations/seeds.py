"""Runs storms with whatever `aktor` is first on the path, until a promise is broken.

Says one JSON line for each seed: {"seed", "found", "by"}; `by` is what it was found by, or how the
simulation itself fell over, which finds nothing.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback

from aktor.simulation.errors import CheckFailedError, SimulationError
from aktor.simulation.selftest.storm import run_storm

#: Seconds of a storm after which its process is ended: it will not end by itself.
PATIENCE = 300


def main(first: int, last: int, protocol: str) -> None:
    """Seeds `first` to `last`, which is the last one only if nothing is found before."""
    for seed in range(first, last + 1):
        signal.alarm(PATIENCE)
        found, by = _outcome(seed, protocol)
        print(json.dumps({"seed": seed, "found": found, "by": by}), flush=True)
        if found:
            return


def _outcome(seed: int, protocol: str) -> tuple[bool, str]:
    try:
        error = run_storm(seed, protocol=protocol).error
    except BaseException:
        return False, traceback.format_exc(limit=-3)
    if isinstance(error, CheckFailedError):
        return True, ", ".join(error.checks)
    if error is None or isinstance(error, SimulationError):
        return error is not None, "" if error is None else type(error).__name__
    return False, "".join(traceback.format_exception(error, limit=-3))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
