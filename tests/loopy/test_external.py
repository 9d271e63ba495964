"""Callables that write their own calls of C functions, for whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop import loopy as lp

_GEMV = """static void gemv_rows(int m, int n, const double *a, const double *x, double *y)
{ for (int i = 0; i < m; ++i) for (int j = 0; j < n; ++j) y[i] += a[n*i + j]*x[j]; }"""


class Gemv(lp.ScalarCallable):
    def with_types(self, arg_id_to_dtype: Any, callables_table: Any) -> Any:
        dtype = arg_id_to_dtype[0]
        if dtype.numpy_dtype != np.float64 or dtype != arg_id_to_dtype[1]:
            raise lp.LoopyTypeError("gemv", None, [])
        return self.copy(name_in_target="gemv_rows", arg_id_to_dtype={0: dtype, 1: dtype, -1: dtype}), callables_table

    def with_descrs(self, arg_id_to_descr: Any, callables_table: Any) -> Any:
        assert arg_id_to_descr[0].dim_tags[1].stride == arg_id_to_descr[1].dim_tags[0].stride == 1
        return self.copy(arg_id_to_descr=arg_id_to_descr), callables_table

    def emit_call_insn(self, insn: Any, target: Any, expression_to_code_mapper: Any) -> Any:
        (result,), operands = insn.assignees, insn.expression.parameters
        assert isinstance(target, lp.CTarget)
        arguments = [expression_to_code_mapper(entry).expr for entry in (*operands, result)]
        return p.Variable(str(self.name_in_target))(*self.arg_id_to_descr[0].shape, *arguments), False

    def generate_preambles(self, target: Any) -> Any:
        yield "99_gemv", _GEMV


def unit(shape: Any) -> Any:
    rows, columns = shape
    knl = lp.make_kernel("{ [i]: 0<=i<3 }", "x[i] = 2*x[i]\ny[:] = gemv(A[:, :], x[:])\nz[i] = y[i] + 1", [
        lp.GlobalArg("A", np.float64, shape=shape), lp.GlobalArg("x", np.float64, shape=columns),
        lp.GlobalArg("y", shape=rows), lp.GlobalArg("z", np.float64, shape=3), ...], target=lp.CTarget())  # fmt: skip
    return lp.register_callable(knl, "gemv", Gemv("gemv"))


def test_a_callable_writes_its_call() -> None:
    knl = unit((3, 4))
    code = lp.generate_code_v2(knl).device_code().partition("void loopy_kernel(")[2]
    assert "gemv_rows(3, 4, A, x, y);" in code
    assert code.index("x[i] = 2.0 * x[i]") < code.index("gemv_rows(3, 4") < code.index("z[i] = y[i] + 1")
    a, x, y = np.arange(12.0).reshape(3, 4), np.arange(4.0), np.ones(3)
    _, found = lp.set_options(knl, return_dict=True)(A=a, x=x.copy(), y=y.copy())
    scaled = np.concatenate([2 * x[:3], x[3:]])
    np.testing.assert_array_equal(found["y"], y + a @ scaled)
    np.testing.assert_array_equal(found["z"], y + a @ scaled + 1)
    kernel = knl.default_entrypoint.kernel
    assert kernel.argument("y").dtype == np.float64
    with pytest.raises(pl.PolyloopError):  # it may write any element, once for all threads
        pl.generate_code(pl.tag_inames(pl.add_inames_to_insn(kernel, "i", "writes:y"), "i:l.0"), target=pl.CudaTarget())


def test_a_call_that_cannot_be_written_is_refused() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<3 }", "y[:] = gemv(A[:, :], x[:])", [lp.GlobalArg("A", np.float64), ...])
    with pytest.raises(lp.LoopyError, match=r"no array of declared shape \[bad-function\]"):
        lp.register_callable(knl, "gemv", Gemv("gemv"))
