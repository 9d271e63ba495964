"""Running a kernel in every way there is, and comparing with the reference interpreter."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.codegen.program import GeneratedProgram
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.arguments import Binder
from polyloop.runtime.ccompile import build_library, load_library
from polyloop.runtime.evaluate import evaluate
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.views import HostMemory
from polyloop.target import interpreter
from tests.properties.random_kernels import Step, random_recipe, random_source, random_step

__all__ = ["DisagreementError", "check_chain", "compare"]

_FLAGS = ("-std=c11", "-O0", "-fPIC", "-shared", "-w")
_EXACT = {"float32": 2.0**24, "float64": 2.0**53}


class DisagreementError(AssertionError):
    """An accepted kernel does not do what it says."""


def _arguments(kernel: LoopKernel, n: int, rng: random.Random) -> dict[str, Any]:
    numbers = np.random.default_rng(rng.randint(0, 2**31))
    found: dict[str, Any] = {}
    for argument in kernel.arguments:
        if isinstance(argument, ArrayArg):
            if argument.is_input or rng.random() < 0.3:
                assert argument.shape is not None
                shape = tuple(max(0, evaluate(extent, {"n": n})) for extent in argument.shape)
                low = 0 if argument.dtype is not None and argument.dtype.kind == "u" else -3
                found[argument.name] = numbers.integers(low, 4, shape).astype(argument.dtype)
        elif argument.name == "n":
            found["n"] = n
    return found


def _by_value(scalar: np.generic) -> Any:
    kind: Any = scalar.dtype
    return np.ctypeslib.as_ctypes_type(kind)(scalar.item())


def _run_c(program: GeneratedProgram, arguments: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    library = load_library(build_library(program.device_code, flags=_FLAGS))
    copies = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    binding = Binder(program, HostMemory()).bind(copies, poison=True)
    views = {**binding.views, **binding.host_workspace()}
    for launch, _ in binding.launches:
        values = [
            ctypes.c_void_p(views[name].pointer) if name in views else _by_value(binding.scalars[name])
            for name in launch.arguments
        ]
        getattr(library, launch.name)(*values)
    return dict(binding.result().items())


def _difference(expected: Mapping[str, Any], got: Mapping[str, Any]) -> str | None:
    for name, right in expected.items():
        wrong = got[name]
        limit = _EXACT.get(right.dtype.name, np.inf)
        finite = right[np.isfinite(right)]
        loose = finite.size and np.abs(finite.astype(np.float64)).max() >= limit
        equal = np.isclose(right, wrong, rtol=1e-4 if loose else 0, atol=0, equal_nan=right.dtype.kind == "f")
        if not equal.all():
            where = tuple(int(k) for k in np.argwhere(~equal)[0])
            return f"{name}{list(where)} is {wrong[where]}, and must be {right[where]}"
    return None


def _is_undefined(kernel: LoopKernel, arguments: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether the results depend on what temporaries hold before anything is written to them."""
    outputs = {name: np.zeros_like(value) for name, value in expected.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_poisoned", lambda shape, dtype: np.full(shape, 7, dtype))
        sevens = pl.interpret(kernel, **{**outputs, **arguments})
    return _difference(pl.interpret(kernel, **{**outputs, **arguments}), sevens) is not None


def _check_on_gpu(kernel: LoopKernel, arguments: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    run = pl.compile(kernel, target=pl.CudaTarget())
    copies = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    if (found := _difference(expected, dict(run(**copies, poison=True).items()))) is not None:
        raise DisagreementError(f"on the GPU: {found}\n{run.source}")


def compare(
    kernel: LoopKernel, n: int, rng: random.Random, *, fibres: bool = True, gpu: bool = False
) -> bool:
    """Run *kernel* for one size in C and on fibres, or on a GPU; each must agree with the interpreter.

    Returns False where the kernel reads what nothing wrote, so that there is nothing to agree with.
    """
    arguments = _arguments(kernel, n, rng)
    c_program = pl.generate_code(kernel, target=pl.CTarget())
    try:
        expected = pl.interpret(kernel, **arguments)
    except pl.ArgumentError as refused:
        try:
            _run_c(c_program, arguments)
        except pl.ArgumentError:
            return True
        raise DisagreementError(f"only the interpreter refuses n = {n}: {refused}") from refused
    if _is_undefined(kernel, arguments, expected):
        return False
    if gpu:
        _check_on_gpu(kernel, arguments, expected)
        return True
    if (found := _difference(expected, _run_c(c_program, arguments))) is not None:
        raise DisagreementError(f"in C, n = {n}: {found}\n{c_program.device_code}")
    if not fibres:
        return True
    cuda = pl.generate_code(kernel, target=pl.CudaTarget())
    try:
        results = run_on_fibres(cuda, arguments, seed=rng.randint(0, 1000))
    except pl.PolyloopError as error:
        raise DisagreementError(f"on fibres, n = {n}: {error}\n{cuda.device_code}") from error
    for order, result in results.items():
        if (found := _difference(expected, dict(result.items()))) is not None:
            raise DisagreementError(f"on fibres in order '{order}', n = {n}: {found}\n{cuda.device_code}")
    return True


def check_chain(seed: int, counts: Counter[str], *, fibres: bool = True, gpu: bool = False) -> None:
    """Create the kernel of *seed*, transform it at random, and compare wherever it is accepted."""
    source = random_source(seed)
    rng = random.Random(seed + 1_000_000_007)
    script = [source.script()]
    try:
        kernel = source.make()
    except pl.KernelError as refused:
        counts["kernel refused"] += 1
        counts[f"  {refused.codes[0]}"] += 1
        return
    try:
        recipe = random_recipe(rng, kernel) if rng.random() < 0.6 else []
        extra = range(rng.choice((0, 0, 1, 2)) if recipe else rng.choice((1, 2, 3, 4, 5, 6)))
        steps: list[Step] = [*recipe, *[partial(random_step, rng) for _ in extra]]
        for step in steps:
            try:
                kernel = step(kernel)
                counts["step accepted"] += 1
            except (pl.TransformError, pl.VerificationError) as refused:
                counts["step refused"] += 1
                counts[f"  {refused.codes[0]}"] += 1
        script.append(str(kernel.trace))
        try:
            pl.generate_code(kernel, target=pl.CudaTarget())
            pl.generate_code(kernel, target=pl.CTarget())
        except (pl.VerificationError, pl.CodegenError) as refused:
            counts["schedule refused"] += 1
            counts[f"  {refused.codes[0]}"] += 1
            return
        defined = [compare(kernel, n, rng, fibres=fibres, gpu=gpu) for n in rng.sample(range(1, 21), 3)]
        counts["compared" if all(defined) else "reads what nothing wrote"] += 1
    except Exception as error:
        script.append(str(kernel.trace))
        error.add_note(f"seed {seed}\n" + "\n".join(script))
        raise
