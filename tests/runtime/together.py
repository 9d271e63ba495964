"""``python -m tests.runtime.together LOG GO THREADS``: threads that make, compile and call the same kernels at once.

Every text that a compiler gets is a line of the file LOG; the threads wait for the file GO.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import polyloop as pl
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime import ccompile, nvrtc

F = np.float64
FACTORS = (2, 3, 5)


def scaled(factor: int) -> LoopKernel:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"z[i] = {factor}*x[i]", [pl.GlobalArg("x, z", F, shape="n"), ...],
                         name=f"scaled_{factor}")
    return pl.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


def told(log: Path, function: Any, place: int) -> Any:
    """Return *function*, which tells *log* of its text, the argument at *place*."""

    def call(*arguments: Any, **named: Any) -> Any:
        line = f"{os.getpid()} {hash_of(arguments[place])}\n".encode()
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line)
        os.close(descriptor)
        return function(*arguments, **named)

    return call


def hash_of(text: str) -> str:
    return text[text.index("scaled_"):][:8] + (" cuda" if "blockIdx" in text else " c")


def main() -> None:
    log, go, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    ccompile.compile_library = told(log, ccompile.compile_library, 1)
    nvrtc._compile = told(log, nvrtc._compile, 1)
    wrong, cubins = list[str](), dict[int, set[bytes]]({factor: set() for factor in FACTORS})
    shared = {factor: scaled(factor) for factor in FACTORS}

    def work(number: int) -> None:
        x = np.arange(100.0) + number
        try:
            for factor in FACTORS[number % 3:] + FACTORS[: number % 3]:
                knl = shared[factor] if number % 2 else scaled(factor)
                run = pl.compile(knl, target=pl.CTarget())
                for _ in range(20):
                    if not np.array_equal(run(x=x).z, factor * x):
                        wrong.append(f"{factor} {number}")
                if nvrtc.nvrtc_available()[0]:
                    cubins[factor].add(pl.compile(knl, target=pl.CudaTarget()).cubin)
        except BaseException as error:  # told to the test
            wrong.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    while not go.exists():
        time.sleep(0.005)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong += [f"{len(found)} cubins of {factor}" for factor, found in cubins.items() if len(found) > 1]
    print("\n".join(wrong))
    sys.exit(len(wrong) > 0)


if __name__ == "__main__":
    main()
