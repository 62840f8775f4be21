"""Runs a command that dies with the process that started it, whatever kills that process.

A program of its own, which becomes the command: `python launch.py PARENT_PID COMMAND...`.
It asks the kernel for the death signal after the fork, where a `preexec_fn` would be unsafe beside
other threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: `prctl(2)`: the signal a process gets when the thread that forked it ends. It outlives the exec.
PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Become `command`, bound to the life of `parent`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent died before the command was started")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
