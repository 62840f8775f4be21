"""`python -m tests.kafka.told [fault ...]`: cause each on a real Kafka, and print what is said."""

from __future__ import annotations

import argparse
import sys
import tempfile
import textwrap
import time
import traceback
from pathlib import Path

from tests.kafka.real import KafkaCluster
from tests.kafka.told.faults import FAULTS, SETTINGS
from tests.kafka.told.group import Case


def main() -> int:
    """Print both sentences of each fault, and OK or BAD; 1 if anything is BAD."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.told", description=__doc__)
    parser.add_argument("faults", nargs="*", metavar="fault", help=f"of: {', '.join(FAULTS)}")
    parser.add_argument("--protocol", choices=["classic", "consumer"], help="only this one")
    parser.add_argument("--traces", type=Path, help="a new folder in which the traces are kept")
    parser.add_argument("--all", action="store_true", help="print all that aktor why says")
    arguments = parser.parse_args()
    if unknown := [one for one in arguments.faults if one not in FAULTS]:
        parser.error(f"there is no fault {', '.join(unknown)}: {', '.join(FAULTS)}")
    bad = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaCluster(3, security=True, settings=SETTINGS) as kafka,
    ):
        for name in arguments.faults or FAULTS:
            for protocol in FAULTS[name][1]:
                if arguments.protocol not in (None, protocol):
                    continue
                case = Case(kafka, name, protocol, arguments.traces or Path(folder))
                bad += not _tell(case, whole=arguments.all)
                kafka.heal()
    print(f"{bad} of the faults are told badly" if bad else "all are told well")
    return 1 if bad else 0


def _tell(case: Case, *, whole: bool) -> bool:
    """Cause it, and print what is said; whether all of it is there."""
    began = time.monotonic()
    try:
        FAULTS[case.name][0](case)
    except Exception:
        case.said.append(("", traceback.format_exc(limit=-3), ["(it could not be caused)"]))
    finally:
        case.close()
    good = not any(lacks for _, _, lacks in case.said)
    took = time.monotonic() - began
    print(f"\n{'OK ' if good else 'BAD'} {case.name}, {case.protocol} ({took:.0f} s)")
    for when, sentence, lacks in case.said:
        _print(f"{when}: {sentence}")
        if lacks:
            _print(f"BAD, it lacks: {'; '.join(lacks)}")
    for line in case.lines if whole else ():
        _print(f"  | {line}")
    sys.stdout.flush()
    return good


def _print(text: str) -> None:
    print(textwrap.fill(text, 120, initial_indent="    ", subsequent_indent="      "))


if __name__ == "__main__":
    sys.exit(main())
