"""``python -m benchmarks NAME``: every benchmark by one command, its options behind the name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks import arrays, codegen, cpu, creation, examples, growth, launch, resources, verification
from benchmarks.gpu import attention, drawn, fused, graphs, library, opencl, panels, run
from benchmarks.polybench import run as polybench

__all__ = ["BENCHMARKS", "main"]

BENCHMARKS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {
    "arrays": arrays.main,
    "attention": attention.main,
    "codegen": codegen.main,
    "cpu": cpu.main,
    "drawn": drawn.main,
    "creation": creation.main,
    "examples": examples.main,
    "fused": fused.main,
    "gpu": run.main,
    "graphs": graphs.main,
    "growth": growth.main,
    "launch": launch.main,
    "library": library.main,
    "opencl": opencl.main,
    "panels": panels.main,
    "polybench": polybench.main,
    "resources": resources.main,
    "verification": verification.main,
}


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark that the first argument names."""
    if not arguments or arguments[0] not in BENCHMARKS:
        print(f"usage: python -m benchmarks {{{','.join(BENCHMARKS)}}} [options]", file=sys.stderr)
        return 2
    return BENCHMARKS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
