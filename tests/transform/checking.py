"""What the tests of transforms have in common: three ways to run a kernel against NumPy, and two ways to be refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import disagreement, fibre_library, run_on_fibres

__all__ = ["check", "cuda", "factored", "refused", "same_after_replay", "snapshot", "vectors"]


def cuda(knl: pl.LoopKernel) -> str:
    """Return the CUDA C of a kernel."""
    return pl.generate_code(knl, target=pl.CudaTarget()).device_code


def vectors(n: int, count: int, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Return float32 vectors of small integers, whose sums are exact."""
    return [row.astype(np.float32) for row in np.random.default_rng(seed + n).integers(-4, 5, (count, n))]


def check(
    knl: pl.LoopKernel,
    given: Mapping[str, Any],
    expected: Mapping[str, Any],
    *,
    rtol: float = 0.0,
    fibres: bool = True,
) -> None:
    """Run on the reference interpreter, as C, and as CUDA C in three thread orders; all must give *expected*."""

    def copies() -> dict[str, Any]:
        return {name: value.copy("K") if isinstance(value, np.ndarray) else value for name, value in given.items()}

    def compare(result: Any, where: str) -> None:
        for name, want in expected.items():
            got = result[name]
            assert got.shape == np.shape(want), f"{where}: shape of {name}"
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol, equal_nan=False, err_msg=f"{where}: {name}")

    compare(pl.interpret(knl, **copies()), "interpreter")
    compare(pl.compile(knl, target=pl.CTarget())(poison=True, **copies()), "C")
    if fibres:
        program = pl.generate_code(knl, target=pl.CudaTarget())
        results = run_on_fibres(program, copies(), library=fibre_library(program, quick=True))
        assert disagreement(results) is None
        for order, result in results.items():
            compare(result, f"fibres, {order}")


def snapshot(knl: pl.LoopKernel) -> tuple[object, ...]:
    """Return everything that a transform might have changed in place, as values."""
    return (
        knl.name,
        knl.parameters,
        str(knl.assumptions),
        tuple((domain.inames, str(domain.set)) for domain in knl.domains),
        knl.instructions,
        tuple(str(instruction) for instruction in knl.instructions),
        knl.arguments,
        dict(knl.temporaries),
        dict(knl.substitutions),
        dict(knl.iname_tags),
        knl.loop_priority,
        dict(knl.slabs),
        str(knl.reference),
        str(knl.trace),
    )


def refused(
    knl: pl.LoopKernel,
    call: Callable[[pl.LoopKernel], object],
    code: str,
    kind: type[pl.PolyloopError] = pl.TransformError,
) -> str:
    """Return the text of the refusal; the kernel must be what it was."""
    before = snapshot(knl)
    with pytest.raises(kind) as caught:
        call(knl)
    assert type(caught.value) is kind
    assert caught.value.codes == (code,)
    assert all(finding.message for finding in caught.value.found)
    assert snapshot(knl) == before
    return str(caught.value)


def same_after_replay(base: pl.LoopKernel, knl: pl.LoopKernel) -> None:
    """The trace, written as JSON and read again, makes the same kernel from *base*."""
    trace = pl.trace_from_json(knl.trace.to_json())
    again = pl.replay(trace, base)
    assert str(again.trace) == str(knl.trace)
    assert again.trace.to_json() == knl.trace.to_json()
    assert cuda(again) == cuda(knl)
    scripted: dict[str, Any] = {"pl": pl, "knl": base}
    exec(str(knl.trace), scripted)  # the trace prints as a Python script
    assert cuda(scripted["knl"]) == cuda(knl)


def factored(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the factors of a matrix without exchanges of rows, both in one matrix."""
    b = a.copy()
    for k in range(len(b)):
        b[k + 1 :, k] /= b[k, k]
        b[k + 1 :, k + 1 :] -= np.outer(b[k + 1 :, k], b[k, k + 1 :])
    return b
