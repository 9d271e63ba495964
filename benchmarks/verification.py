"""How long a kernel takes to be verified: the tiled matrix product, and pipelines of stages in shared memory.

Run it as ``python -m benchmarks.verification``: it needs neither a compiler nor a GPU. Each run proves a kernel value
of its own, with a reference program of its own, so that no proof is remembered from the last run, or from a transform.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.schedule.build import build_verified

__all__ = ["STAGES", "Timing", "main", "measure", "pipeline", "product", "unproven"]

STAGES: Final = (10, 20, 30, 60, 90, 120)
"""Instructions of a pipeline."""

GOALS: Final = {"product": 15.0, "pipeline of 30": 120.0}
"""Most milliseconds."""

_THREADS: Final = 32


def product() -> LoopKernel:
    """Return the matrix product in tiles of 16 by 16, both operands copied to shared memory."""
    knl = pl.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k] * b[k, j])",
        [pl.GlobalArg("a, b, c", np.float32, shape="n, n"), ...],
        assumptions="n >= 1",
        name="product",
    )
    knl = pl.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "k", 16)
    knl = pl.add_prefetch(knl, "a", ["i_inner", "k_inner"])
    return pl.add_prefetch(knl, "b", ["k_inner", "j_inner"])


def pipeline(stages: int) -> LoopKernel:
    """Return a chain of *stages* instructions, of which each reads what other threads wrote in the one before."""
    last = 2 * _THREADS - 1
    lines = ["t0[x] = a[b, x] {id=stage_0}"]
    lines += [f"t{k}[x] = t{k - 1}[{last} - x] + {k} {{id=stage_{k}}}" for k in range(1, stages - 1)]
    lines += [f"c[b, x] = t{stages - 2}[{last} - x] {{id=stage_{stages - 1}}}"]
    text = "\n".join(["for b", *(f"for x\n{line}\nend" for line in lines), "end"])
    tiles = (
        pl.TemporaryVariable(f"t{k}", np.float32, shape=last + 1, address_space="local") for k in range(stages - 1)
    )
    data = [pl.GlobalArg("a, c", np.float32, shape=f"n, {last + 1}"), *tiles, ...]
    knl = pl.make_kernel(f"{{[b, x]: 0 <= b < n and 0 <= x <= {last}}}", text, data, name="pipeline")
    return pl.tag_inames(knl, "b:g.0, x:l.0")


def unproven(kernel: LoopKernel) -> LoopKernel:
    """Return an equal kernel of which nothing is known yet."""
    reference = kernel.reference
    assert reference is not None, "a transformed kernel has a reference"
    return replace(kernel, reference=replace(reference, kernel=replace(reference.kernel)))


@dataclass(frozen=True, slots=True)
class Timing:
    """Best time of one kernel, and what it was spent on.

    ``ms`` is the way to the verified schedule, with lowering and placement: processor time of this process
    [milliseconds].
    """

    kernel: str
    instructions: int
    obligations: int
    relations: int
    ms: float


def measure(name: str, kernel: LoopKernel, *, repeat: int) -> Timing:
    """Return the best of *repeat* runs."""
    limits = pl.CudaTarget().limits
    best = float("inf")
    for _ in range(repeat):
        fresh = unproven(kernel)
        gc.collect()
        begin = time.process_time()
        verified = build_verified(fresh, limits)
        best = min(best, 1e3 * (time.process_time() - begin))
    relations = sum(proof.relations for proof in verified.proofs)
    return Timing(name, len(kernel.instructions), len(verified.proofs), relations, best)


def _table(timings: Sequence[Timing]) -> str:
    lines = [f"{'kernel':<18}{'instructions':>12}{'obligations':>13}{'relations':>11}{'verified in':>14}"]
    lines += [
        f"{t.kernel:<18}{t.instructions:>12}{t.obligations:>13}{t.relations:>11}{t.ms:>11.1f} ms" for t in timings
    ]
    goals = ", ".join(f"{most:.0f} ms for the {name}" for name, most in GOALS.items())
    return "\n".join([*lines, f"The goals for full verification are {goals}."])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=10, help="runs of each kernel (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON, times in milliseconds")
    parser.add_argument("--longest", type=int, default=max(STAGES), help="leave out longer pipelines")
    options = parser.parse_args(arguments)
    repeat = max(1, options.repeat)
    timings = [measure("product", product(), repeat=repeat)]
    timings += [
        measure(f"pipeline of {stages}", pipeline(stages), repeat=repeat)
        for stages in STAGES
        if stages <= options.longest
    ]
    if options.json:
        print(json.dumps([asdict(timing) for timing in timings], indent=2))
    else:
        print(_table(timings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
