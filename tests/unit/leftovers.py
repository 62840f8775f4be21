"""What is open in this process: to see that something leaves nothing behind.

Compare by `after - before`: what earlier tests left may end at any moment, and is not judged.
"""

from __future__ import annotations

import contextlib
import os
import threading


def open_things() -> set[str]:
    """Files, sockets and threads, each by a name that it shares with no other."""
    threads = {f"thread {one.name} {id(one)}" for one in threading.enumerate()}
    return threads | open_files()


def open_files() -> set[str]:
    """Files and sockets."""
    found = set()
    if os.path.isdir("/proc/self/fd"):
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # the listing's own
                found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return found
