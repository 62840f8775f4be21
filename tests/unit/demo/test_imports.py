"""`make demo` installs little: what the demo imports must be there."""

from __future__ import annotations

import subprocess
import sys

#: What a checkout or `make test` has, and an installed package with the extra `demo` has not.
MISSING = ("tests", "examples", "benchmarks", "cramjam", "cryptography", "greenlet", "pyarrow")


def test_the_demo_runs_with_what_its_extra_installs() -> None:
    program = f"""
import sys
sys.modules.update(dict.fromkeys({MISSING}))  # to import one of these is an ImportError
import aktor.cli.demo, aktor.demo.live, aktor.demo.member, aktor.demo.producer, aktor.demo.show
"""

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.returncode == 0, run.stderr
