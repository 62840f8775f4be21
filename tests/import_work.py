"""`python -m tests.import_work`: how many functions each module of tests calls when it is imported.

All processes import all modules of tests, whichever tests they run: what is computed there is
computed in each of them. Functions are counted, and not seconds, which differ from run to run.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final

HERE: Final = Path(__file__).parent


def calls_at_import() -> Counter[str]:
    """By name of module of tests: the calls of functions when it is executed, without imports.

    All modules are imported twice: what they import from elsewhere is there at the second time.
    """
    paths = sorted([*HERE.rglob("test_*.py"), *HERE.rglob("conftest.py")])
    names = [".".join(path.relative_to(HERE.parent).with_suffix("").parts) for path in paths]
    for name in names:
        importlib.import_module(name)
    for name in [one for one in sys.modules if one.startswith("tests.") and one != __name__]:
        del sys.modules[name]
    calls: Counter[str] = Counter()
    executed: list[str] = []

    def count(frame: FrameType, event: str, _: Any) -> None:
        is_module = frame.f_code.co_name == "<module>"
        if event == "call" and is_module:
            executed.append(frame.f_globals["__name__"])
        elif event == "return" and is_module:
            executed.pop()
        elif event in ("call", "c_call") and executed and not is_of_import(frame):
            calls[executed[-1]] += 1

    sys.setprofile(count)
    try:
        for name in names:
            importlib.import_module(name)
    finally:
        sys.setprofile(None)
    return calls


def is_of_import(frame: FrameType) -> bool:
    """Whether it is Python's own code for imports."""
    return "importlib" in frame.f_code.co_filename


if __name__ == "__main__":
    for module, count in calls_at_import().most_common():
        print(count, module)
