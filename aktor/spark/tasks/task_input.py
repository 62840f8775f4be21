"""Whether the rows of a task came to their end, or were cut off.

If an earlier step of a task fails, Spark closes its connection to the Python worker. To a writer
that looks like the end of the rows (an Arrow stream may end by the end of its connection), so it
would commit a transaction of a task that is then run again. Spark offers no call that tells the
two apart. At a true end the connection is still open, since the result is sent on it.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

__all__ = ["was_cut_off"]


def was_cut_off() -> bool:
    """Whether Spark has closed the connection. Call it when the rows have ended. It is False
    outside a worker of Spark."""
    stream = _stream_of_worker()
    if stream is None:
        return False
    with socket.socket(fileno=os.dup(stream.fileno())) as connection:
        try:
            return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True


def _stream_of_worker() -> Any:
    """The stream that `pyspark.worker.main` reads from. Only a local variable of that function has
    it."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            return frame.f_locals["infile"]
        frame = frame.f_back  # type: ignore[assignment]
    return None
