"""`python -m tests.fuzz records`: run a target on mutations of its corpus until something raises.

python -m tests.fuzz records                 with atheris, if it is installed, else hypothesis
python -m tests.fuzz fetch -- -runs=100000   what follows "--" is for libFuzzer
python -m tests.fuzz --write                 make the corpus's own inputs anew

What raises is kept in a file by libFuzzer (`crash-...`): put it into `tests/fuzz/corpus`, where
`test_corpus` runs it from then on. For the compiled reader with AddressSanitizer: build it by
CFLAGS="-fsanitize=address -g" LDFLAGS=-fsanitize=address, and run with
LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def main() -> int:
    """0 when nothing raised."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", nargs="?", choices=["records", "fetch"], default="records")
    parser.add_argument("--examples", type=int, default=20_000, help="of hypothesis (20,000)")
    parser.add_argument("--write", action="store_true", help="make the corpus's own inputs anew")
    parser.add_argument("fuzzer", nargs="*", metavar="-- ARG", help="for libFuzzer")
    arguments = parser.parse_args()
    if arguments.write:
        return _write()
    try:
        import atheris
    except ImportError:
        print(f"atheris is not installed: {arguments.examples:,} examples of hypothesis")
        return _by_hypothesis(arguments.target, arguments.examples)
    return _by_atheris(atheris, arguments.target, arguments.fuzzer)


def _write() -> int:
    from tests.fuzz.targets import CORPUS, seeds

    for target, name, content in seeds():
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        (CORPUS / target / name).write_bytes(content)
    return 0


def _by_atheris(atheris: Any, target: str, options: list[str]) -> int:
    with atheris.instrument_imports(include=["aktor.records", "aktor.protocol", "aktor.managers"]):
        from tests.fuzz.targets import CORPUS, TARGETS
    with tempfile.TemporaryDirectory() as found:  # or it would write into the corpus
        arguments = [sys.argv[0], found, str(CORPUS / target), "-max_len=4096", *options]
        atheris.Setup(arguments, TARGETS[target])
        atheris.Fuzz()
    return 0


def _by_hypothesis(target: str, examples: int) -> int:
    from tests.fuzz.targets import TARGETS, corpus

    kept = [content for _, content in corpus(target)]

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(kept), st.data())
    def run(start: bytes, draw: st.DataObject) -> None:
        data = bytearray(start)
        for _ in range(draw.draw(st.integers(1, 4))):
            at = draw.draw(st.integers(0, len(data)))
            data[at : at + draw.draw(st.integers(0, 8))] = draw.draw(st.binary(max_size=8))
        TARGETS[target](bytes(data))

    run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
