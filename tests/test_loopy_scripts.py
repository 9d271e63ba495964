"""Scripts in Loopy's spelling: only their import is another one."""

from __future__ import annotations

import numpy as np

import polyloop as lp
from tests.transform.checking import check

F = np.float32


def test_a_first_kernel() -> None:
    knl = lp.make_kernel("{ [i]: 0<=i<n }", "out[i] = 2*a[i]", lang_version=(2018, 2))
    knl = lp.add_and_infer_dtypes(knl, {"a": np.dtype(np.float32)})
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert "out[i] = 2.0f * a[i];" in lp.generate_code_v2(knl).device_code()


def test_a_transpose_against_its_reference() -> None:
    knl = lp.make_kernel(
        "{ [i,j]: 0<=i,j<n }", "out[j,i] = a[i,j]", [lp.GlobalArg("out,a", F, shape=lp.auto), "..."]
    )
    ref = knl
    knl = lp.prioritize_loops(knl, "i,j")
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.1", inner_tag="l.0")
    knl = lp.add_prefetch(
        knl, "a", ["i_inner", "j_inner"], fetch_outer_inames=["i_outer", "j_outer"], default_tag="l.auto"
    )
    lp.check_equivalence(ref, knl, sizes=[{"n": 17}])


def test_unrolling_with_an_assumption() -> None:
    knl = lp.make_kernel(
        "{ [i]: 0<=i<n }", "a[i] = 0  {id=zero}", [lp.GlobalArg("a", F, shape="n"), ...], assumptions="n >= 1"
    )
    knl = lp.assume(lp.split_iname(knl, "i", 4), "n mod 4 = 0")
    knl = lp.tag_inames(knl, {"i_inner": "unr"})
    knl = lp.tag_inames(knl, {"i_outer": "g.0"})
    knl = lp.set_instruction_priority(knl, "id:zero", 5)
    assert "if (" not in lp.generate_code_v2(knl).device_code()


def test_rules_and_instructions_by_match_expressions() -> None:
    knl = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<n}",
        """
        f(x) := x*a[x, 0]
        <> tmp = sum(k, f(k)) {id=s}
        out[i,j] = tmp + b[i,j] {id=o,dep=s}
        """,
        [lp.GlobalArg("a,b,out", np.float64, shape=("n", "n")), lp.ValueArg("n", np.int32)],
    )
    knl = lp.map_instructions(knl, "id:o and not tag:*", lambda insn: insn.copy(expression=insn.expression + 1))
    knl = lp.split_iname(knl, "k", 8)
    knl = lp.precompute(knl, "f", "k_inner", default_tag=None)
    knl = lp.tag_instructions(knl, "mine", within="writes:out or (reads:b and iname:i*)")
    assert [insn.id for insn in lp.find_instructions(knl, "tag:mine")] == ["o"]
    knl = lp.replace_instruction_ids(knl, {"o": ["last"]})
    knl = lp.add_dependency(knl, "id:last", "writes:tmp")
    a = np.arange(9.0).reshape(3, 3)
    check(knl, {"a": a, "b": a}, {"out": a + 1 + np.arange(3) @ a[:, 0]})


def test_layouts_and_arguments() -> None:
    data = [lp.GlobalArg("a", F, shape=("n", 3)), lp.GlobalArg("out", F, shape=("n", 3)), "..."]
    knl = lp.make_kernel("{[i,j]: 0<=i<n and 0<=j<3}", "out[i,j] = 2*a[i,j]", data, assumptions="n mod 4 = 0")
    knl = lp.split_array_axis(knl, "a,out", 0, 4, order="C")
    knl = lp.split_iname(knl, "i", 4, inner_tag="l.0")
    knl = lp.tag_array_axes(knl, ["a", "out"], "N2,N0,N1")
    knl = lp.set_array_axis_names(knl, "a", "x,y,z")
    knl = lp.set_argument_order(knl, ["out", "a", "n"])
    knl = lp.remove_unused_arguments(lp.rename_argument(knl, "a", "inp"))
    text = lp.generate_code_v2(knl).device_code()
    assert "out[i_outer * 12 + tx + j * 4] = 2.0f * inp[i_outer * 12 + tx + j * 4];" in text


def test_two_kernels_made_one_for_a_batch() -> None:
    data = [lp.GlobalArg("a,b", F, shape="n"), lp.ValueArg("n", np.int32)]
    first = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = 2*b[i] {id=one}", data, name="f")
    data = [lp.GlobalArg("a,c", F, shape="n"), lp.ValueArg("n", np.int32)]
    second = lp.make_kernel("{[i]: 0<=i<n}", "c[i] = a[i] {id=two}", data, name="g")
    knl = lp.fuse_kernels((first, second), data_flow=[("a", 0, 1)])
    knl = lp.fix_parameters(knl, n=8)
    knl = lp.to_batched(knl, "nbatches", ["a", "b", "c"], batch_iname_prefix="ib")
    knl = lp.concatenate_arrays(knl, ["b", "c"], "bc", axis_nr=1)
    b = np.arange(16, dtype=F).reshape(2, 8)
    check(knl, {"bc": np.hstack([b, b])}, {"bc": np.hstack([b, 2 * b])})


def test_reductions_and_counts() -> None:
    knl = lp.make_kernel(
        "{[i,j,ii,jj]: 0<=i,j,ii,jj<n}",
        ["out[i] = sum(j, a[i,j]) {id=r}", "out2[ii] = sum(jj, a[jj,ii])"],
        [lp.GlobalArg("a", F, shape="n,n"), lp.GlobalArg("out,out2", F, shape="n"), ...],
    )
    knl = lp.split_iname(lp.assume(knl, "n>=1"), "j", 128, outer_tag=None, inner_tag=None, slabs=(0, 1))
    knl = lp.remove_unused_inames(lp.split_reduction_outward(knl, "j_outer"))
    assert lp.get_op_map(knl, subgroup_size=32, count_redundant_work=True)
    a = np.arange(25, dtype=F).reshape(5, 5)
    check(knl, {"a": a}, {"out": a.sum(1), "out2": a.sum(0)})


def test_einsum_and_copy() -> None:
    knl = lp.make_einsum("mij,j->mi", ("A", "x"))
    knl = lp.add_and_infer_dtypes(knl, {"A,x": np.float64})
    tagged = lp.tag_inames(knl, [("m", "g.0")])
    knl = lp.split_iname(tagged, "m", 8, outer_tag="g.0", inner_tag="l.0", do_tagged_check=False)
    a, x = np.arange(24.0).reshape(2, 3, 4), np.arange(4.0)
    check(knl, {"A": a, "x": x}, {"out": a @ x})
    assert lp.make_copy_kernel("c,c", "f,f").arguments


def test_assignments_as_objects() -> None:
    statements: list[str | lp.Assignment] = [
        "<>t = a[i] {id=w}",
        lp.Assignment("b[i]", "t*2", id="r", depends_on=frozenset(["w"])),
    ]
    data = [lp.GlobalArg("a,b", F, shape="n"), "..."]
    knl = lp.make_kernel("{[i]: 0<=i<n}", statements, data, seq_dependencies=True)
    knl = lp.expand_subst(lp.assignment_to_subst(knl, "t"))
    knl = lp.affine_map_inames(knl, "i", "i0", "i0 = i + 1")
    knl = lp.extract_subst(knl, "s", "a[k]", parameters="k")
    a = np.arange(5, dtype=F)
    check(knl, {"a": a}, {"b": 2 * a})


def test_barriers_temporaries_and_chunks() -> None:
    text = """
        for i
            t[i] = a[i] {id=w}
        end
        for j
            b[j] = t[15 - j] {id=r, dep=w}
        end
        """
    data = [lp.GlobalArg("a,b", F, shape=16), lp.TemporaryVariable("t", F, shape=16), "..."]
    knl = lp.make_kernel("{[i,j]: 0<=i,j<16}", text, data)
    knl = lp.set_temporary_address_space(knl, "t", lp.AddressSpace.LOCAL)
    knl = lp.tag_inames(knl, "i:l.0, j:l.0")
    knl = lp.add_barrier(knl, "id:w", "id:r", synchronization_kind="local")
    knl = lp.simplify_indices(lp.fold_constants(knl))
    assert lp.generate_code_v2(knl).device_code().count("__sync") == 1
    a = np.arange(16, dtype=F)
    check(knl, {"a": a}, {"b": a[::-1]})
