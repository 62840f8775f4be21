"""Temporary folders of clusters, also the removal of those whose owner was killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO

_PREFIX = "aktor-kafka-"
_LOCK = "owner.lock"
#: A folder this young may belong to somebody who hasn't locked it yet.
_GRACE_S = 60


class ClusterFolder:
    """A temporary folder for one cluster. Its lock is held as long as the owner lives."""

    def __init__(self) -> None:
        _sweep()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = _lock(self.path)

    def remove(self) -> None:
        """Delete all of it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def _sweep() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            young = time.time() - folder.stat().st_mtime < _GRACE_S
            orphaned = None if young else _lock(folder)
        except OSError:  # removed meanwhile, or somebody else's
            continue
        if orphaned is not None:
            shutil.rmtree(folder, ignore_errors=True)
            orphaned.close()


def _lock(folder: Path) -> IO[str] | None:
    """Lock `folder`; None if its owner lives."""
    file = (folder / _LOCK).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
