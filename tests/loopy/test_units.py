"""Units of ``polyloop.loopy``: scripts as they are written for Loopy, on C, on fibres, and on queues of PyOpenCL."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop import loopy as lp
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.opencl.devices import opencl_available
from tests.generated import flat

F = np.float32


@pytest.fixture(params=["c", pytest.param("opencl", marks=pytest.mark.opencl)])
def where(request: pytest.FixtureRequest) -> tuple[Any, ...]:
    """Return the arguments in front of a call: none, or a queue."""
    if request.param == "c":
        return ()
    assert opencl_available()[0]
    cl = importlib.import_module("pyopencl")
    return (cl.CommandQueue(cl.create_some_context(interactive=False)),)


def fibres(unit: Any, **given: Any) -> Any:
    """Return the outputs of the CUDA text, from one order of threads."""
    knl = unit.default_entrypoint.kernel.specialized(**given)
    return next(iter(run_on_fibres(pl.generate_code(knl, target=pl.CudaTarget()), given).values()))


def test_a_first_script(where: tuple[Any, ...]) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    a = np.arange(300, dtype=F)
    event, (out,) = knl(*where, a=a)
    np.testing.assert_array_equal(out, 2 * a)
    assert (event is None) == (not where)
    _, (out,) = knl.executor()(*where, a=a.astype(np.float64), n=300)
    assert out.dtype == np.float64
    np.testing.assert_array_equal(fibres(knl, a=a)["out"], 2 * a)


def test_a_rank_one_update_staged_in_three_ways(where: tuple[Any, ...]) -> None:
    plain = lp.make_kernel("{[i, j]: 0<=i,j<n}", "c[i, j] = a[i]*b[j]", assumptions="n >= 16")
    tiled = lp.split_iname(plain, "i", 16, outer_tag="g.0", inner_tag="l.0")
    tiled = lp.split_iname(tiled, "j", 16, outer_tag="g.1", inner_tag="l.1")
    each = lp.add_prefetch(tiled, "a", fetch_outer_inames="i_outer, i_inner, j_outer, j_inner")
    shared = lp.add_prefetch(
        tiled, "a", ["i_inner"], fetch_outer_inames="i_outer, j_outer, j_inner",
        temporary_address_space=lp.AddressSpace.LOCAL, default_tag="l.0")  # fmt: skip
    shared = lp.add_prefetch(  # an iname that is swept is no loop around the copy
        shared, "b", ["j_inner"], fetch_outer_inames="i_outer, j_outer, j_inner",
        temporary_address_space=lp.AddressSpace.LOCAL, default_tag="l.0")  # fmt: skip
    a, b = np.arange(40, dtype=F), np.arange(40, dtype=F)[::-1].copy()
    for knl in (plain, tiled, each, shared):
        _, (c,) = knl(*where, a=a, b=b)
        np.testing.assert_array_equal(c, np.outer(a, b))
    np.testing.assert_array_equal(fibres(shared, a=a, b=b)["c"], np.outer(a, b))


def test_a_sparse_product_without_shapes(where: tuple[Any, ...]) -> None:
    knl = lp.make_kernel(
        ["{[i]: 0 <= i < m}", "{[j]: 0 <= j < length}"],
        """
        for i
            <> start = starts[i]
            <> length = starts[i + 1] - start
            y[i] = sum(j, values[start + j] * x[columns[start + j]])
        end
        """, name="spmv")
    knl = lp.add_and_infer_dtypes(knl, {"values, x": np.float64, "starts, columns": knl["spmv"].index_dtype})
    starts, columns = np.array([0, 2, 2, 3], np.int32), np.array([0, 3, 1], np.int32)
    x = np.arange(1.0, 5.0)
    _, (y,) = knl(*where, starts=starts, columns=columns, values=np.array([2.0, 3.0, 5.0]), x=x)
    np.testing.assert_array_equal(y, [2 * x[0] + 3 * x[3], 0, 5 * x[1]])


def test_vectors_are_passed_as_arrays(where: tuple[Any, ...]) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]")
    knl = lp.split_iname(knl, "i", 4, slabs=(0, 1), inner_tag="vec")
    knl = lp.split_array_axis(knl, "a,out", axis_nr=0, count=4)
    knl = lp.tag_array_axes(knl, "a,out", "C,vec")
    a = np.arange(40, dtype=F).reshape(-1, 4)
    _, (out,) = knl(*where, a=a, n=40)
    np.testing.assert_array_equal(out, 2 * a)


def test_launches_and_texts() -> None:
    knl = lp.make_kernel(
        "{ [i,k]: 0<=i<n and 0<=k<3 }",
        """
        for i, k
            ... gbarrier
            c[k,i] = a[k, i + 1]
            ... gbarrier
            out[k,i] = c[k,i]
        end
        """, seq_dependencies=True)
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    knl = lp.preprocess_kernel(lp.add_and_infer_dtypes(knl, {"a": F, "c": F, "out": F, "n": np.int32}))
    knl = knl.with_kernel(lp.get_one_linearized_kernel(knl["loopy_kernel"], knl.callables_table))
    code = lp.generate_code_v2(knl)
    assert len(code.device_programs) == 2
    assert code.device_code().count("__kernel void") == 2
    assert "loopy_kernel_1<<<((n + 127) // 128, 1, 1), (128, 1, 1)>>>(c, out, n)" in code.host_code()
    headers = lp.generate_header(knl)
    assert len(headers) == 2
    assert flat(headers[0]).endswith("__global const float *restrict a, int n);")
    assert "c[k * n + i] = " in lp.generate_body(knl)


def test_the_text_is_printed_once_if_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", target=lp.ExecutableCTarget())
    knl = lp.set_options(knl, write_code=True)
    run = knl.executor()
    for _ in range(2):
        run(a=np.ones(4))
    assert capsys.readouterr().out.count("out[i] = 2.0 * a[i];") == 1
    lp.set_options(knl, write_code=str(tmp_path / "text.c"))(a=np.ones(4))
    assert "out[i] = 2.0 * a[i];" in (tmp_path / "text.c").read_text(encoding="utf-8")


def test_outputs_come_as_declared_and_then_by_name() -> None:
    text = "z[i] = a[i]\ny[i] = 2*a[i]\nx[i] = 3*a[i]"
    for data, order in ((None, "xyz"), (["..."], "xyz"), ([lp.GlobalArg("z"), ...], "zxy")):
        knl = lp.make_kernel("{[i]: 0 <= i < n}", text, data)
        _, outputs = lp.set_options(knl, return_dict=True)(a=np.ones(2))
        assert "".join(outputs) == order
        _, found = knl(a=np.ones(2))
        assert [out[0] for out in found] == [{"x": 3, "y": 2, "z": 1}[name] for name in order]


def test_a_callee_is_merged_after_steps(where: tuple[Any, ...]) -> None:
    twice = lp.make_function("{[k]: 0<=k<m}", "v[k] = 2*u[k]", [lp.GlobalArg("u, v", shape="m"), ...], name="twice")
    caller = lp.make_kernel("{[i, j]: 0<=i<n and 0<=j<4}", "[j]: b[i, j] = twice([j]: a[i, j])",
                            [lp.GlobalArg("a, b", shape="(n, 4)"), ...], name="caller")  # fmt: skip
    caller = lp.tag_inames(caller, "i:g.0")
    assert "needs a function 'twice'" in str(caller)
    a = np.arange(8, dtype=F).reshape(2, 4)
    for knl in (lp.merge([caller, twice]), lp.register_callable(caller, "twice", twice)):
        _, (b,) = lp.inline_callable_kernel(knl, "twice")(*where, a=a)
        np.testing.assert_array_equal(b, 2 * a)
        assert [str(tag) for tag in knl.default_entrypoint.iname_tags("i")] == ["g.0"]
    renamed = lp.register_callable(caller, "twice", lp.make_function(
        "{[k]: 0<=k<m}", "v[k] = 2*u[k]", [lp.GlobalArg("u, v", shape="m"), ...], name="other"))  # fmt: skip
    np.testing.assert_array_equal(renamed(a=a)[1][0], 2 * a)


def test_a_function_in_c_text_is_registered() -> None:
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = halved(x[i])")
    text = "static inline float halved(float x) { return x / 2; }"
    halved = pl.ForeignFunction("halved", (F,), F, preamble=text)
    knl = lp.register_callable(knl, "halved", halved)
    np.testing.assert_array_equal(knl(x=np.ones(3, F))[1][0], np.full(3, 0.5, F))


def test_several_kernels_in_one_unit() -> None:
    first = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", name="first")
    unit = lp.merge([first, lp.rename_callable(first, "first", "second")])
    assert unit.entrypoints == {"first", "second"}
    unit = unit.with_kernel(lp.split_iname(unit["second"], "i", 4))
    _, (y,) = unit(x=np.arange(3.0), entrypoint="second")
    np.testing.assert_array_equal(y, np.arange(3))
    assert unit.with_entrypoints("second").default_entrypoint.all_inames() == {"i_outer", "i_inner"}
    tagged = lp.for_each_kernel(lambda kernel: lp.assume(kernel, "n >= 1"))(unit)
    assert "n > 0" in str(tagged["first"].assumptions)


def test_a_kernel_has_the_attributes_of_loopys() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "<> t = x[i] {id=set}\ny[i] = t")["loopy_kernel"]
    assert [arg.name for arg in knl.args] == ["x", "y", "n"]
    assert {*knl.arg_dict} == {"x", "y", "n"}
    assert {*knl.temporary_variables} == {"t"}
    assert knl.id_to_insn["set"].inames == ("i",)
    assert knl.insn_inames("set") == {"i"}
    assert knl.get_read_variables() >= {"x", "t"}
    assert knl.get_written_variables() == {"t", "y"}
    assert knl.stringify() == str(knl)


def test_kernels_are_fused_and_counted() -> None:
    first = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*x[i]", name="first")
    second = lp.make_kernel("{[i]: 0<=i<n}", "z[i] = y[i] + 1", name="second")
    knl = lp.fuse_kernels([first, second], data_flow=[("out", 0, 1, "y")])
    _, (out, z) = knl(x=np.arange(4.0))
    np.testing.assert_array_equal(z, out + 1)
    knl = lp.add_and_infer_dtypes(knl, {"x": np.float64})
    assert lp.get_op_map(knl).filter_by(dtype=[np.float64]).eval_and_sum({"n": 10}) == 20
    accesses = lp.get_mem_access_map(knl, entrypoint=knl.default_entrypoint.name, within="writes:z")
    assert accesses.filter_by(mtype=["global"], direction=["store"]).eval_and_sum({"n": 10}) == 10
    first, second = (lp.add_dtypes(unit, {name: np.float64}) for unit, name in ((first, "x"), (second, "y")))
    both = lp.merge([first, second])
    counts = [lp.get_op_map(both, entrypoint=name).sum() for name in ("first", "second")]
    assert [count.eval_with_dict({"n": 10}) for count in counts] == [10, 10]
    halved = lp.split_iname(both, "i", 2, entrypoint="second")
    assert {*halved["first"].inames} == {"i"}
    assert {*halved["second"].inames} == {"i_outer", "i_inner"}


def test_a_comparison_with_parameters_of_loopys() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", [
        lp.GlobalArg("x, y", F, shape="(n,)", for_atomic=False), lp.ValueArg("n", np.int32, approximately=100)])
    tiled = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    result = lp.auto_test_vs_ref(
        knl, None, tiled, parameters={"n": 100, "other": 3}, quiet=True, blacklist_ref_vendors=["Intel"])  # fmt: skip
    assert "elapsed_wall" in result


def test_an_axis_is_split_with_its_inames() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", assumptions="n mod 4 = 0 and n > 0")
    knl = lp.split_array_dim(knl, [("a", 0), ("out", 0, "F")], 4)
    (insn,) = knl.default_entrypoint.instructions
    assert str(insn) == "out[i_inner, i_outer] = 2*a[i_outer, i_inner]"


@pytest.mark.opencl
def test_arrays_of_pyopencl_stay_on_the_device(where: tuple[Any, ...]) -> None:
    if not where:
        pytest.skip("a queue is meant")
    array = importlib.import_module("pyopencl.array")
    knl = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]")
    a = array.to_device(where[0], np.arange(5, dtype=F))
    event, (out,) = knl(where[0], a=a)
    event.wait()
    assert isinstance(out, array.Array)
    _, (host,) = knl(where[0], a=a, out_host=True)
    np.testing.assert_array_equal(host, out.get())
    with pytest.raises(lp.LoopyError, match="no-numpy"):
        lp.set_options(knl, no_numpy=True)(where[0], a=np.ones(3, F))


def test_conditions_are_removed_by_name_and_priorities_of_nothing_are_a_warning() -> None:
    text = "y[i] = a[i] {id=s, if=i > 1 and a[i] > 2}"
    knl = lp.make_kernel("{[i]: 0 <= i < n}", text, [lp.GlobalArg("a", np.float64, shape="n"), ...])
    conditions = frozenset(knl.default_entrypoint.id_to_insn["s"].predicates)
    with pytest.raises(lp.LoopyError, match="name all of them"):
        lp.remove_predicates_from_insn(knl, frozenset(), "id:s")
    assert "if" not in str(lp.remove_predicates_from_insn(knl, conditions, "id:s").default_entrypoint.instructions[0])
    with pytest.warns(lp.LoopyWarning, match="means no instruction"):
        assert lp.set_instruction_priority(knl, "id:other", 5) is knl
