"""The command `aktor`: finds the subcommand, and ends with one line for whatever goes wrong.

A subcommand is a module with `add_arguments(parser)` and `run(arguments)`, which returns the exit
code. It imports what is heavy in `run`, so that `aktor --help` is quick.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from aktor import compiled
from aktor.version import __version__

__all__ = ["CommandLineError", "main"]

#: Subcommand, its module, what it does in a line.
_SUBCOMMANDS: Final = (
    ("broker", "aktor.cli.broker", "run an embedded Kafka cluster until Ctrl-C"),
    ("demo", "aktor.cli.demo", "show a consumer group at work, one member of which is killed"),
    ("sim", "aktor.cli.sim", "run consumers, brokers and faults in virtual time, from seeds"),
    ("why", "aktor.cli.why", "say from traces why groups rebalanced, and what stood still"),
)

_USAGE: Final = 2
#: What shells show for a process that Ctrl-C ended, and for one whose output nobody reads any more.
_INTERRUPTED: Final = 130
_NOBODY_READS: Final = 141

#: Why output cannot be written, if it goes to a file.
_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class CommandLineError(Exception):
    """What was asked for can't be done: one line for the person who asked."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the whole usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; its exit code, 2 for what can't be done, 130 for one cut off by Ctrl-C, 141
    if the reader of its output is gone (`aktor ... | head`)."""
    name = "aktor"
    try:
        try:
            asked = _parser().parse_args(arguments)
            name = f"aktor {asked.subcommand}"
            code: int = asked.run(asked)
        finally:  # also of --help, which ends by SystemExit
            if sys.stdout is not None:
                sys.stdout.flush()
    except CommandLineError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return _USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _give_up_output()
        return _NOBODY_READS
    except OSError as error:
        if error.errno not in _DISK:
            raise
        _give_up_output()
        print(f"{name}: {error.strerror}", file=sys.stderr)
        return _USAGE
    return code


def _give_up_output() -> None:
    """Python shall not complain once more when it flushes what could not be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="aktor",
        description="Apache Kafka for Python: tools of the package aktor.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"aktor {__version__}, reader: {_reader()}",
        help="show the version, and whether the compiled reader of record batches is used",
    )
    subparsers = parser.add_subparsers(
        dest="subcommand", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for name, module_name, what in _SUBCOMMANDS:
        module = importlib.import_module(module_name)
        subparser = subparsers.add_parser(name, help=what, description=what, allow_abbrev=False)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def _reader() -> str:
    """As `aktor.records.status` says it, which would take 0.3 s to import."""
    if not compiled.is_wanted():
        return f"Python, because {compiled.PURE_PYTHON} is set"
    return "compiled" if compiled.is_there() else "Python, because nothing was compiled"


if __name__ == "__main__":
    sys.exit(main())
