"""Verdicts of two checkouts side by side: ``python -m polyloop.testing.side_by_side ../other --pairs 1000 --seed 0``.

The fuzzer of this one draws kernels and steps, refused ones among them; the other one, a worktree of another commit, is
asked for its verdict on each: the make of the kernel, each step, and both programs.  Differences are printed by seed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import polyloop as pl
from polyloop.testing.drawing.draws import drawn_source
from polyloop.testing.pairs import Exploration, Tally

__all__ = ["main"]

_HEAD: Final = "import numpy as np\nimport polyloop as pl\n"
_TARGETS: Final = (pl.CTarget, pl.CudaTarget)
_OTHER: Final = '''
import json, linecache, sys, warnings
import polyloop as pl
warnings.simplefilter("ignore")
def verdict(text, names):
    name = f"<{len(linecache.cache)}>"  # the source of a Python function has to be found
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    try:
        exec(compile(text, name, "exec"), names)
    except pl.PolyloopError as refused:
        return refused.codes[0]
    except Exception as error:
        return type(error).__name__
    return "accepted"
for line in sys.stdin:
    names = {}
    linecache.cache.clear()
    print(json.dumps([verdict(text, names) for text in json.loads(line)]), flush=True)
'''
"""The side of the other checkout: verdicts on lists of Python texts, one list a line."""


def _verdict(what: Callable[[], object]) -> str:
    try:
        what()
    except pl.PolyloopError as refused:
        return refused.codes[0]
    except Exception as error:  # whatever else is raised is a verdict, too
        return type(error).__name__
    return "accepted"


def _drawn(seed: int) -> tuple[list[str], list[str]]:
    """Return the texts of one pair, with refused steps, and the verdicts of this checkout."""
    source = drawn_source(seed)
    exploration = Exploration(source, random.Random(seed + 1_000_000_007), Tally(), seed)
    texts, verdicts = [_HEAD + source.script()], [_verdict(exploration.begin)]
    if verdicts == ["accepted"]:
        for step in exploration.chain():
            texts.append(step.script())
            verdicts.append(_verdict(partial(exploration.take, step)))
        texts += [f"pl.generate_code(knl, target=pl.{target.__name__}())" for target in _TARGETS]
        verdicts += [_verdict(partial(pl.generate_code, exploration.kernel, target=of())) for of in _TARGETS]
    return texts, verdicts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="side_by_side", description=__doc__)
    parser.add_argument("other", type=Path, help="the other checkout")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="that of the first pair")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that time")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", pl.PolyloopWarning)
    counts: Counter[str] = Counter()
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=options.other,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(options.other.resolve()), *sys.path[1:]])},
    ) as other:  # fmt: skip
        assert other.stdin is not None, "it is a pipe"
        assert other.stdout is not None, "it is a pipe"
        for seed in range(options.seed, options.seed + options.pairs):
            if time.perf_counter() - began > options.seconds:
                break
            texts, here = _drawn(seed)
            print(json.dumps(texts), file=other.stdin, flush=True)
            there = json.loads(other.stdout.readline())
            counts.update(pairs=1, verdicts=len(here), refused=sum(verdict != "accepted" for verdict in here))
            for text, a, b in zip(texts, here, there, strict=True):
                if a != b:  # later differences follow from it
                    counts["differences"] += 1
                    print(f"seed {seed}: {a} here, {b} there: {text.splitlines()[-1]}", flush=True)
                    break
        other.stdin.close()
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    return 1 if counts["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
