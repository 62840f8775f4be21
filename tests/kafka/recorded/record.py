"""What the real Kafka said, in files: one of JSON for each module of scenarios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

__all__ = ["SETTINGS", "differences", "pretty", "read", "write"]

_FOLDER: Final = Path(__file__).parent / "answers"
_WIDTH: Final = 100

#: What the real Kafka is told besides `tests.kafka.real`'s own settings: to compute the assignment
#: of a consumer group in the heartbeat that changes it, and not a second after the one before.
SETTINGS: Final = {"group.consumer.assignment.interval.ms": "0"}

Notes = dict[str, Any]


def read(module: str) -> dict[str, Notes]:
    """What was recorded: scenario -> label -> what was observed. Empty if nothing was."""
    path = _FOLDER / f"{module}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(module: str, scenarios: dict[str, Notes]) -> None:
    """Record a module's scenarios, in the place of what was recorded before."""
    _FOLDER.mkdir(exist_ok=True)
    (_FOLDER / f"{module}.json").write_text(pretty(dict(sorted(scenarios.items()))) + "\n")


def differences(expected: Notes | None, observed: Notes) -> list[str]:
    """What differs, a line each; empty if nothing does."""
    if expected is None:
        return ["nothing is recorded: run `python -m tests.kafka.recorded --record`"]
    # Through JSON and back, so that 1 and True, tuples and lists are what the file makes of them.
    found: list[str] = []
    _compare("", expected, json.loads(json.dumps(observed)), found)
    return found


def _compare(where: str, expected: Any, observed: Any, found: list[str]) -> None:
    if isinstance(expected, dict) and isinstance(observed, dict):
        for key in [*expected, *(k for k in observed if k not in expected)]:
            there = f"{where} > {key}" if where else key
            if key not in observed:
                found.append(f"{there}: Kafka says {_short(expected[key])}, here it is left out")
            elif key not in expected:
                found.append(f"{there}: Kafka leaves it out, here it is {_short(observed[key])}")
            else:
                _compare(there, expected[key], observed[key], found)
    elif (
        isinstance(expected, list) and isinstance(observed, list) and len(expected) == len(observed)
    ):
        for index, (one, other) in enumerate(zip(expected, observed, strict=True)):
            _compare(f"{where}[{index}]", one, other, found)
    elif type(expected) is not type(observed) or expected != observed:
        found.append(f"{where}: Kafka says {_short(expected)}, here it is {_short(observed)}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else f"{text[:300]}..."


def pretty(value: Any, indent: int = 0) -> str:
    """JSON in which everything that fits on a line is on one."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= _WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        lines = [
            f"{json.dumps(k, ensure_ascii=False)}: {pretty(v, indent + 1)}"
            for k, v in value.items()
        ]
        return "{\n" + ",\n".join(inner + line for line in lines) + "\n" + " " * indent + "}"
    lines = [pretty(item, indent + 1) for item in value]
    return "[\n" + ",\n".join(inner + line for line in lines) + "\n" + " " * indent + "]"
