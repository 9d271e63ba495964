"""The fuzzer: ``python -m polyloop.testing.fuzz --pairs 1000 --seed 0``.

Random kernels through random transforms (``pairs.py``); failing cases are reduced and written as scripts.  The exit
status is 1 if something failed.  With ``--breaks`` each chain ends with changes that no transform makes
(``broken_pairs.py``): the prover has to refuse them, unless the program computes the same.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from polyloop.progress import progress
from polyloop.testing.broken_pairs import check_broken
from polyloop.testing.drawing.draws import drawn_source
from polyloop.testing.pairs import Failure, Pair, Tally, check_pairs
from polyloop.testing.reduce import reduced

__all__ = ["fuzz", "main", "report"]

Progress: TypeAlias = Callable[[Tally, Tally, float], None]
Check: TypeAlias = Callable[[Sequence[int]], Tally]

_CHUNK: Final = 40
"""Pairs that one task makes; their programs are compiled together."""
_TASKS: Final = 10
"""Tasks that one process does; ISL leaks a little with each call."""


def fuzz(
    seeds: Sequence[int], *, jobs: int = 1, progress: Progress | None = None, check: Check = check_pairs
) -> Tally:
    """Check a pair for each seed, in processes of their own: emitted code may crash.  An interrupt ends it early.

    Parameters
    ----------
    jobs
        Number of processes.
    progress
        Called with all counts so far, those that are new, and the time [s].
    check
        What is done with some seeds: :func:`check_pairs` or :func:`check_broken`.
    """
    total, began = Tally(), time.perf_counter()
    try:
        for part in _parts([seeds[k : k + _CHUNK] for k in range(0, len(seeds), _CHUNK)], jobs, check):
            total.add(part)
            if progress is not None:
                progress(total, part, time.perf_counter() - began)
    except KeyboardInterrupt:
        total.counts["interrupted"] += 1
    return total


def _parts(chunks: Sequence[Sequence[int]], jobs: int, check: Check) -> Iterator[Tally]:
    """Yield the counts of each chunk; the chunks that were under way when a process died are tried again."""
    broken: list[Sequence[int]] = []
    at_once = jobs * _TASKS
    for begin in range(0, len(chunks), at_once):
        with _processes(jobs) as pool:
            some = chunks[begin : begin + at_once]
            for chunk, future in [(chunk, pool.submit(check, chunk)) for chunk in some]:
                try:
                    yield future.result()
                except BrokenProcessPool:
                    broken.append(chunk)
    for chunk in broken:
        yield from _alone(chunk, check)


def _processes(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))


def _alone(seeds: Sequence[int], check: Check) -> Iterator[Tally]:
    """Yield the counts of *seeds*, in smaller parts where a process dies."""
    found = None
    with _processes(1) as pool, suppress(BrokenProcessPool):
        found = pool.submit(check, seeds).result()
    if found is not None:
        yield found
    elif len(seeds) == 1:
        yield Tally(Counter(pairs=1), failures=[_died(seeds[0])])
    else:
        yield from _alone(seeds[: len(seeds) // 2], check)
        yield from _alone(seeds[len(seeds) // 2 :], check)


def _died(seed: int) -> Failure:
    return Failure("crash", Pair(drawn_source(seed), (), (), seed), "the process died")


def _table(title: str, rows: Iterable[tuple[str, object]]) -> list[str]:
    found = [(name, str(value)) for name, value in rows]
    if not found:
        return []
    width = max(len(name) for name, _ in found)
    return [title, *(f"  {name:<{width}}  {value:>7}" for name, value in found)]


def _crossed(counts: Counter[tuple[str, str]]) -> Iterator[tuple[str, object]]:
    for code in sorted({code for code, _ in counts}):
        parts = {verdict: number for (other, verdict), number in sorted(counts.items()) if other == code}
        yield code, ", ".join(f"{verdict} {number}" for verdict, number in parts.items())


def report(tally: Tally) -> str:
    """Return the counts as text."""
    lines = _table("counts", sorted(tally.counts.items()))
    lines += _table("what was drawn", _crossed(tally.drawn))
    lines += _table("transforms accepted", tally.accepted.most_common())
    lines += _table("refusals", tally.refused.most_common())
    lines += _table("witnesses of refusals, by brute force", _crossed(tally.witnesses))
    lines += _table("refused kernels, by brute force at small sizes", _crossed(tally.precision))
    lines += _table("failures", Counter(failure.kind for failure in tally.failures).items())
    return "\n".join(lines)


def _save(failure: Failure, folder: Path) -> Path:
    """Write a failure as a script that shows it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{failure.kind}_{failure.pair.seed}.py"
    comment = "\n".join(f"# {line}".rstrip() for line in failure.text.splitlines())
    path.write_text(f"{failure.pair.script()}\n# sizes: {failure.pair.sizes}\n{comment}\n")
    return path


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m polyloop.testing.fuzz", description=__doc__)
    parser.add_argument("--pairs", type=int, default=200, metavar="N", help="pairs of a kernel and a chain")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the first; the others follow")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes")
    parser.add_argument("--save", type=Path, metavar="DIR", help="folder for scripts of what failed")
    parser.add_argument("--no-reduce", action="store_true", help="leave failures as they are")
    parser.add_argument("--breaks", action="store_true", help="change the last kernel of each chain by hand")
    parser.add_argument("--precise", action="store_true", help="print what was refused though legal at all sizes tried")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = _options(arguments)

    def show(tally: Tally, new: Tally, _seconds: float) -> None:
        for failure in new.failures:
            bar.write(f"{failure.kind}, seed {failure.pair.seed}")
        bar.note(f"{tally.counts['pairs compared']} compared, {len(tally.failures)} failures")
        bar.step(new.counts["pairs"])

    check = check_broken if options.breaks else check_pairs
    seeds = range(options.seed, options.seed + options.pairs)
    with progress("fuzz", options.pairs, "pair") as bar:
        tally = fuzz(seeds, jobs=options.jobs, progress=show, check=check)
    print(report(tally))
    for failure in tally.failures:
        small = failure if options.no_reduce else reduced(failure)
        print(f"\n{small.kind}, seed {small.pair.seed}, sizes {small.pair.sizes}:\n{small.pair.script()}\n{small.text}")
        if options.save is not None:
            print(f"saved as {_save(small, options.save)}")
    for code, pair in tally.precise if options.precise else ():
        print(f"\nrefused though legal at all sizes tried [{code}], seed {pair.seed}:\n{pair.script()}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
