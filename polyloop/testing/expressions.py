"""Expressions against NumPy: ``python -m polyloop.testing.expressions --count 10000 --seed 0``.

Random expressions over all types (``typed.py``) are computed by C, by CUDA C on fibres and, on request, by HIP C++ on
fibres, OpenCL and the interpreter, many in a kernel, and compared with what NumPy computes.  The exit status is 1 if
something differs, is refused, or does not compile.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from polyloop.creation.create import make_kernel
from polyloop.errors import PolyloopError
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.specs import GlobalArg
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.fibres import run_on_fibres
from polyloop.target.base import Target
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget
from polyloop.target.hip import HipTarget
from polyloop.target.interpreter import interpret
from polyloop.target.opencl import OpenCLTarget
from polyloop.target.source import generate_code
from polyloop.testing.drawing.typed_drawers import draw
from polyloop.testing.typed import COUNT, DATA, TABLES, WEAK, Drawn, dtype_of

__all__ = ["TARGETS", "Fault", "check_expressions", "main"]


@dataclass(frozen=True)
class Fault:
    """An expression with another value on a target than in NumPy, or refused, or not compiled."""

    target: str
    text: str
    what: str

    def __str__(self) -> str:
        return f"{self.target}: {self.text}\n    {self.what}"


def _stored(each: Drawn) -> str:
    return "float64" if each.type == WEAK else each.type


def _kernel(drawn: Sequence[Drawn]) -> LoopKernel:
    text = "\n".join(f"    o{k}[i] = {each.text}" for k, each in enumerate(drawn))
    used = [name for name in DATA if f"v_{name}[" in text]
    arguments = [GlobalArg(f"v_{name}", DATA[name].dtype, shape="n") for name in used]
    tables = [name for name in TABLES if f"t_{name}[" in text]
    arguments += [GlobalArg(f"t_{name}", TABLES[name].dtype, shape="8, 8") for name in tables]
    outputs = [GlobalArg(f"o{k}", dtype_of(_stored(each)), shape="n") for k, each in enumerate(drawn)]
    return make_kernel("{[i]: 0 <= i < n}", f"for i\n{text}\nend", [*arguments, *outputs, ...], assumptions="n >= 1")


def _arguments(knl: LoopKernel) -> dict[str, Any]:
    names = {argument.name for argument in knl.arguments}
    given = {f"v_{name}": value for name, value in DATA.items()}
    given |= {f"t_{name}": value for name, value in TABLES.items()}
    return {"n": COUNT, **{name: value for name, value in given.items() if name in names}}


def _by_c(knl: LoopKernel) -> Mapping[str, Any]:
    return dict(compile_kernel(knl, target=CTarget())(**_arguments(knl)).items())


def _on_fibres(target: Target, knl: LoopKernel) -> Mapping[str, Any]:
    threads = knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.0")
    program = generate_code(threads, target=target)
    return dict(run_on_fibres(program, _arguments(knl), orders=("forward",))["forward"].items())


def _by_opencl(knl: LoopKernel) -> Mapping[str, Any]:
    threads = knl.split_iname("i", 8, outer_tag="g.0", inner_tag="l.0")
    return dict(compile_kernel(threads, target=OpenCLTarget())(**_arguments(knl)).items())


def _by_interpreter(knl: LoopKernel) -> Mapping[str, Any]:
    return dict(interpret(knl, **_arguments(knl)).items())


TARGETS: Final[Mapping[str, Callable[[LoopKernel], Mapping[str, Any]]]] = {
    "c": _by_c,
    "cuda": partial(_on_fibres, CudaTarget()),
    "hip": partial(_on_fibres, HipTarget()),
    "interpreter": _by_interpreter,
    "opencl": _by_opencl,
}


def _difference(each: Drawn, got: np.ndarray[Any, Any]) -> str | None:
    """Return the error in a result, or None."""
    name = _stored(each)
    with np.errstate(all="ignore"):
        expected = each.value.astype(dtype_of(name))
    if got.dtype != expected.dtype:
        return f"is {got.dtype}, not {expected.dtype}"
    if name == "bool" or each.is_integer:
        wrong = (got != expected) & each.sure
    else:
        step = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(name, 0.0)
        right, found = (x.astype(np.complex128) for x in (each.value, got))
        with np.errstate(all="ignore"):
            size = np.abs(right)
            bound = each.error + step * size + (6e-8 if name == "float16" else 1e-37)
            close = (np.abs(found - right) <= bound) | (found == right)
        close |= ~np.isfinite(right) | ((size > 6e4) & (name == "float16"))
        wrong = ~close & each.sure
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    return f"element {at} is {got[at]!r}, and is {expected[at]!r} in NumPy ({int(wrong.sum())} elements differ)"


def check_expressions(drawn: Sequence[Drawn], targets: Sequence[str]) -> Iterator[Fault]:
    """Yield the faults of each target; an expression that does not compile is found by bisection.

    OpenCL has no complex numbers, and is given the expressions without them.
    """
    for target in targets:
        taken = [each for each in drawn if target != "opencl" or "complex" not in each.text]
        if not taken:
            continue
        try:
            results = TARGETS[target](_kernel(taken))
        except Exception as error:
            if len(taken) == 1:
                what = str(error) if isinstance(error, PolyloopError) else f"{type(error).__name__}: {error}"
                yield Fault(target, taken[0].text, what)
                continue
            middle = len(taken) // 2
            yield from check_expressions(taken[:middle], (target,))
            yield from check_expressions(taken[middle:], (target,))
            continue
        for k, each in enumerate(taken):
            what_differs = _difference(each, np.asarray(results[f"o{k}"]))
            if what_differs is not None:
                yield Fault(target, each.text, what_differs)


def batches(count: int, seed: int, batch: int) -> Iterator[list[Drawn]]:
    """Yield *count* expressions, of all types and depths, many at a time."""
    rng = random.Random(seed)
    with np.errstate(all="ignore"):
        for begin in range(0, count, batch):
            yield [draw(rng, rng.randint(1, 4)) for _ in range(min(batch, count - begin))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m polyloop.testing.expressions", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many expressions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=100, help="expressions in a kernel")
    parser.add_argument("--targets", nargs="+", choices=sorted(TARGETS), default=["c", "cuda"])
    given = parser.parse_args(arguments)
    faults, done, begin = Counter[str](), 0, time.perf_counter()
    for drawn in batches(given.count, given.seed, given.batch):
        for fault in check_expressions(drawn, given.targets):
            faults[fault.target] += 1
            print(fault, flush=True)
        done += len(drawn)
        print(f"{done} expressions, {sum(faults.values())} faults, {time.perf_counter() - begin:.0f} s", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
