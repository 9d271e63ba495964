"""Calls that would take too long end within their budget, with a diagnostic that says what they looked at last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from time import thread_time

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.arrays import ArrayArg
from polyloop.poly import budget

F = np.float64


@cache
def residues() -> pl.LoopKernel:
    """Return three loops that read and write a small array at residues: hard to follow exactly."""
    return pl.make_kernel(
        [
            "{[j]: 0 <= j < m}",
            "[n, m, j] -> {[l]: 0 <= l <= n and (l + n) mod 2 = 0}",
            "[n, m, j, l] -> {[q]: 1 <= q < n}",
        ],
        """
        for j
            for l
                t[l % 5, l % 2 + l % 3] = t[l % 5, l % 2 + l % 3] - x[j]
                for q
                    t[q % 5, 0] = t[(l + n) % 8, q % 2 + q % 3]
                end
            end
        end
        """,
        [pl.GlobalArg("t", F, shape="10, 10"), pl.GlobalArg("x", F, shape="m"), ...],
        name="residues",
        assumptions="n >= 0 and m >= 0",
    )


def nest(depth: int) -> pl.LoopKernel:
    inames = ", ".join(f"i{k}" for k in range(depth))
    return pl.make_kernel(
        f"{{[{inames}]: 0 <= {inames} < n}}",
        f"y[{'+'.join(inames.split(', '))}] = 1",
        [pl.GlobalArg("y", F, shape=f"{depth}*n"), ...],
        name="nest",
    )


def refusal(call: Callable[[], object]) -> pl.PolyloopError:
    with pytest.raises(pl.PolyloopError) as error:
        call()
    return error.value


def test_what_a_read_sees_may_stay_open_at_creation() -> None:
    knl = residues()
    (t,) = (argument for argument in knl.arguments if argument.name == "t")
    assert isinstance(t, ArrayArg)
    assert (t.is_input, t.is_output) == (True, True)


def test_a_number_whose_size_is_left_open_is_int64_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> pl.LoopKernel:
        data = [pl.GlobalArg("x, y", F, shape="1000"), ...]
        return pl.make_kernel("{[i]: 0 <= i < 1000}", "<> t = 3*i\ny[i] = x[i] + t", data)

    assert made().temporaries["t"].dtype == np.dtype("int32")
    monkeypatch.setattr(budget, "ASIDE", 1)
    with pytest.warns(pl.PolyloopWarning, match="not proven that int32 holds '3\\*i' in .*: it is int64"):
        knl = made()
    assert knl.temporaries["t"].dtype == np.dtype("int64")


def test_a_call_ends_within_its_budget_and_says_what_it_looked_at() -> None:
    knl = residues()
    begin = thread_time()
    with pl.time_budget(2):
        error = refusal(lambda: pl.generate_code(knl))
    assert thread_time() - begin < 10
    assert isinstance(error, pl.VerificationError)
    assert error.codes == ("out-of-time",)
    assert error.kernel == "residues"
    assert "no answer within 2 s of processor time" in str(error)
    assert "on where the reads of 't' get their values from: it is used by 'insn', 'insn_1'" in str(error)
    assert "pl.time_budget(20)" in str(error)
    assert isl.DEFAULT_CONTEXT.get_max_operations() == 0
    assert pl.generate_code(nest(2)).device_code


def test_a_question_of_slow_steps_ends_within_twice_the_budget() -> None:
    """Some take 20 us a step: at 300,000 steps for a second this took six times as long as it may."""
    begin = thread_time()
    with pl.time_budget(1):
        error = refusal(lambda: pl.make_kernel(
            "{[i, j, k]: 0 <= i, j, k < n}",
            "t[(i + 17*k) % 17, (i + 2*j) % 19, (i//17 + j + k) % 21] = "
            "t[(i + 2*j + 3*k) % 17, (j + 5*k) % 19, (i//3 + k) % 21] + 1",
            [pl.GlobalArg("t", F, shape="17, 19, 21"), ...]))
    assert error.codes == ("out-of-time",)
    assert thread_time() - begin < 2.5


def test_a_transform_out_of_time_is_refused_and_leaves_the_kernel() -> None:
    knl = residues()
    before = str(knl)
    with pl.time_budget(1):
        error = refusal(lambda: pl.map_domain(knl, "{[q] -> [r]: r = -q}"))
    assert isinstance(error, pl.TransformError)
    assert error.codes == ("out-of-time",)
    assert str(knl) == before


def test_a_nest_deeper_than_the_stack_is_refused() -> None:
    error = refusal(lambda: nest(400))
    assert error.codes == ("too-deep",)
    assert isinstance(error, pl.KernelError)


@pytest.mark.parametrize("given", [0, -1, float("nan"), float("inf"), True, "30", None])
def test_a_time_budget_is_a_number_of_seconds(given: float) -> None:
    with pytest.raises(pl.VerificationError) as error, pl.time_budget(given):
        pass
    assert error.value.codes == ("bad-budget",)


def test_questions_of_two_threads_leave_no_limit_behind() -> None:
    """ISL's limit is one for the process: overlapping questions once left the smaller one set for good."""
    found: list[object] = []
    start = threading.Barrier(4)

    def work(operations: int) -> None:
        start.wait()
        for _ in range(3):
            try:
                with pl.operation_budget(operations):
                    knl = nest(2)
                    knl = pl.split_iname(knl, "i0", 16)
                    found.append(len(pl.verify(knl).proofs))
            except pl.PolyloopError as error:
                found.append(error.codes)

    threads = [threading.Thread(target=work, args=(operations,)) for operations in (40, 10**8, 200, 10**8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isl.DEFAULT_CONTEXT.get_max_operations() == 0
    assert len(found) == 12
    assert sum(isinstance(entry, int) for entry in found) >= 6, "a small budget of one thread is not another's"
    assert len(pl.verify(pl.split_iname(nest(2), "i1", 8)).proofs) > 0


def test_iterations_set_apart_are_written_out_only_where_they_are_few() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 1000}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F, shape="1000"), ...])
    x = np.arange(1000.0)
    few, many = pl.peel(knl, "i", 3, 2), pl.peel(knl, "i", 100, 50)
    for changed in (few, many, pl.peel(knl, "i", 2000, 3000)):
        np.testing.assert_array_equal(pl.compile(changed, pl.CTarget())(x=x).y, 2 * x)
    assert "y[2] = 2.0 * x[2];" in pl.generate_code(few).device_code
    assert "for (int i = 0; i < 100; ++i)" in pl.generate_code(many).device_code
    assert refusal(lambda: pl.peel(knl, "i", 2**20 + 1)).codes == ("bad-slabs",)
    assert refusal(lambda: pl.split_iname(knl, "i", 4, slabs=(0, 2**40))).codes == ("bad-slabs",)
