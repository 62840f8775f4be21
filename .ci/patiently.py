"""Run a command, and say every fifteen seconds that it still runs: `patiently.py COMMAND ...`."""

import subprocess
import sys
import time

began = time.monotonic()
try:
    with subprocess.Popen(sys.argv[1:]) as child:
        while True:
            try:
                sys.exit(child.wait(15))
            except subprocess.TimeoutExpired:
                print(f"  {time.monotonic() - began:.0f} s ...", flush=True)
except KeyboardInterrupt:
    sys.exit(130)
