"""Which aktor this is, so that a seed can be found again: a seed means something only with it."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from aktor import __version__

__all__ = ["revision"]


@functools.cache
def revision() -> str:
    """`git describe` of the checkout that this package lies in, else its version."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return __version__
    command = ["git", "-C", str(here), "describe", "--always", "--dirty"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=5.0, check=True)
    except (OSError, subprocess.SubprocessError):
        return __version__
    return told.stdout.strip() or __version__
