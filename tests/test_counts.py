"""What a kernel does, counted, against enumeration and against what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from time import process_time
from typing import Any

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.cli.kernels import DEMO_KERNELS
from polyloop.cost.instance_counts import Census
from polyloop.dataflow.address_spaces import place
from polyloop.kernel.domains import parameters_of
from polyloop.poly.polynomial import Polynomial
from polyloop.schedule.build import prepared
from tests.gallery import GALLERY

F = np.float32
Golden = Callable[[str, str], None]


def _matmul() -> pl.LoopKernel:
    return DEMO_KERNELS["matmul"].build()


def test_operations_of_a_tiled_product() -> None:
    ops = pl.get_op_map(_matmul())
    assert str(ops.filter_by(dtype=[F])) == "float32 mul : n**3\nfloat32 add : n**3"
    assert ops[pl.Op(np.dtype(F), "mul", kernel_name="matmul")].eval_with_dict({"n": 10}) == 1000
    assert str(ops[pl.Op(np.dtype("float32"))]) == "2*n**3"
    assert ops[pl.Op(np.dtype(F), "div")].is_zero
    assert ops.filter_by(dtype=[F]).eval_and_sum({"n": 3}) == 54
    assert str(pl.get_op_map(_matmul(), count_within_subscripts=False).sum()) == "2*n**3"


def test_accesses_of_a_tiled_product() -> None:
    accesses = pl.get_mem_access_map(_matmul())
    loads = accesses.filter_by(address_space=[pl.AddressSpace.GLOBAL], direction=["load"])
    assert str(loads) == (
        "global load of a float32 {l.0: 1, l.1: n} {g.0: 0, g.1: 16*n} : floor((n + 15)/16)*n**2\n"
        "global load of b float32 {l.0: 1, l.1: n} {g.0: 16, g.1: 0}   : floor((n + 15)/16)*n**2"
    )
    assert accesses.to_bytes().filter_by(variable=["c"]).eval_and_sum({"n": 5}) == 100
    along_rows = pl.MemAccess(address_space=pl.AddressSpace.GLOBAL, lid_strides=((0, 1), (1, Polynomial.variable("n"))))
    assert str(accesses[along_rows].eval_with_dict({"n": 16})) == str(3 * 256)
    assert len(accesses.filter_by(lid_strides=[{0: 1, 1: 0}], variable=["b_fetch"])) == 1
    assert str(accesses.group_by("address_space", "direction")).splitlines()[-1] == "global store : n**2"
    reference = pl.get_mem_access_map(_matmul(), reference=True)
    assert reference.filter_by(direction=["load"]).eval_and_sum({"n": 10}) == 2000


def test_barriers_and_launches_of_a_tiled_product() -> None:
    assert str(pl.get_synchronization_map(_matmul())) == "kernel_launch : 1\nbarrier_local : 2*floor((n + 15)/16)"


def test_footprints_of_a_tiled_product() -> None:
    footprints = pl.gather_access_footprint_bytes(_matmul())
    assert {key: str(size) for key, size in footprints.items()} == {
        ("a", "read"): "4*n**2", ("b", "read"): "4*n**2", ("c", "write"): "4*n**2",
    }  # fmt: skip


def test_a_product_is_counted_quickly() -> None:
    pl.get_op_map(_matmul())
    times = []
    for knl in (_matmul(), _matmul(), _matmul()):
        begin = process_time()
        pl.get_op_map(knl)
        times.append(process_time() - begin)
    assert min(times) < 0.25  # 10 ms on an idle core


def test_a_warp_that_reads_one_element_counts_once() -> None:
    knl = pl.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < 100 }",
        "out[i, j] = a[i] * b[j]",
        [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("b", F, shape="100"), ...],
        assumptions="n >= 1",
        name="outer",
    )
    knl = pl.tag_inames(knl, {"i": "g.0", "j": "l.0"})
    loads = pl.get_mem_access_map(knl).filter_by(direction=["load"])
    assert str(loads) == (
        "global load of a float32 {l.0: 0} {g.0: 1} by subgroup : 4*n\n"
        "global load of b float32 {l.0: 1} {g.0: 0}             : 100*n"
    )


def test_repeated_work_counts_on_request() -> None:
    knl = pl.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < 64 }",
        """
        <> scale = 1 / w[i]
        out[i, j] = scale * a[i, j]
        """,
        [pl.GlobalArg("a", F, shape="n, 64"), pl.GlobalArg("w", F, shape="n"), ...],
        assumptions="n >= 1",
        name="rows",
    )
    knl = pl.tag_inames(knl, {"i": "g.0", "j": "l.0"})
    once, always = pl.get_op_map(knl), pl.get_op_map(knl, count_redundant_work=True)
    assert str(once.filter_by(name=["div"])) == "float32 div : n"
    assert str(always.filter_by(name=["div"])) == "float32 div : 64*n"
    assert str(pl.get_op_map(knl, within="writes:out")) == "float32 mul : 64*n"


def test_work_that_every_block_repeats() -> None:
    knl = pl.make_kernel(
        "{ [i]: 0 <= i < n }",
        """
        <> scale = 1 / w[0]
        out[i] = scale * a[i]
        """,
        [pl.GlobalArg("a", F, shape="n"), pl.GlobalArg("w", F, shape="1"), ...],
        assumptions="n >= 1",
        name="scaled",
    )
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    always = pl.get_op_map(knl, count_redundant_work=True)
    assert str(always.filter_by(name=["div"])) == "float32 div : 64*floor((n + 63)/64)"


def test_operations_have_kinds_and_types() -> None:
    knl = pl.make_kernel(
        "{ [i]: 0 <= i < n }",
        """
        x[i] = -a[i]**2 + sqrt(a[i]) / 3 - a[i]
        k[i] = (m[i] << 2) + (m[i] & 7) % 3
        y[i] = max(a[i], b[i], 1) if i > 3 else 0
        """,
        [pl.GlobalArg("a, x, y", F, shape="n"), pl.GlobalArg("b", np.float64, shape="n"),
         pl.GlobalArg("m, k", np.int64, shape="n"), ...],
        assumptions="n >= 5",
        name="kinds",
    )  # fmt: skip
    assert str(pl.get_op_map(knl)) == (
        "float32 add       : 2*n\n"
        "float32 pow       : n\n"
        "float32 div       : n\n"
        "float32 func:sqrt : n\n"
        "int64 add         : n\n"
        "int64 shift       : n\n"
        "int64 div         : n\n"
        "int64 bw          : n\n"
        "float64 maxmin    : 2*n - 8"
    )


def test_a_loop_that_data_bounds_leaves_their_names_in_the_count() -> None:
    knl = pl.make_kernel(
        ["{ [row]: 0 <= row < n }", "[begin, end] -> { [j]: begin <= j < end }"],
        """
        <> begin = starts[row]
        <> end = starts[row + 1]
        y[row] = sum(j, values[j])
        """,
        [pl.GlobalArg("starts", np.int32, shape="n + 1"), pl.GlobalArg("values", F, shape="nnz"), ...],
        name="rows",
    )
    ops = pl.get_op_map(knl)
    count = ops.filter_by(name=["add"], dtype=[F]).sum()
    assert count.names() == {"begin", "end", "n"}
    assert count.eval_with_dict({"n": 10, "begin": 0, "end": 7}) == 70


def test_a_footprint_that_data_decides_is_refused_or_left_out(golden: Golden) -> None:
    knl = pl.make_kernel(
        "{ [i]: 0 <= i < n }",
        "y[i] = x[idx[i]]",
        [pl.GlobalArg("x", F, shape="m"), pl.GlobalArg("idx", np.int32, shape="n"), ...],
        name="gather",
    )
    with pytest.raises(pl.VerificationError) as caught:
        pl.gather_access_footprints(knl)
    golden("messages/uncountable_footprint.txt", str(caught.value))
    assert set(pl.gather_access_footprints(knl, ignore_uncountable=True)) == {("idx", "read"), ("y", "write")}


@pytest.mark.few(12)
@pytest.mark.parametrize("name", sorted(GALLERY)[::5])
def test_instances_of_the_gallery_are_those_of_enumeration(name: str) -> None:
    knl = prepared(GALLERY[name].build())
    census = Census(place(knl))
    for placed in census.placement.statements.values():
        domain = census.executed(placed)
        names = parameters_of(domain)
        if len(names) > 3 or domain.is_empty():
            continue
        counted = census.count(placed, domain)
        for values in product((1, 2, 5), repeat=len(names)):
            sizes = dict(zip(names, values, strict=True))
            conditions = " and ".join(f"{name} = {value}" for name, value in sizes.items()) or "true"
            fixed = isl.Set(f"[{', '.join(names)}] -> {{ : {conditions} }}")
            if not fixed.is_disjoint(knl.assumptions):
                expected = domain.intersect_params(fixed).count_val().to_python()
                assert counted.eval_with_dict(sizes) == expected, placed.name


def test_threads_that_combine_their_values() -> None:
    knl = pl.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }",
        "out[i] = sum(j, a[i, j])",
        [pl.GlobalArg("a", F, shape="n, m"), ...],
        assumptions="n >= 1 and m >= 1",
        name="row_sums",
    )
    knl = pl.tag_inames(pl.split_iname(knl, "j", 256, inner_tag="l.0"), {"i": "g.0"})
    ops = pl.get_op_map(knl, count_within_subscripts=False)
    assert str(ops) == "float32 add : m*n + 255*n"
    # each thread: five exchanges in its warp, and the parts of seven other warps
    assert str(pl.get_op_map(knl, True, False)) == "float32 add : m*n + 3072*n"
    assert str(pl.get_synchronization_map(knl)) == "kernel_launch : 1\nbarrier_local : 1"


@pytest.mark.parametrize("via", ["shared", "registers", "cp.async"])
def test_a_pipelined_product_moves_each_tile_once(via: str) -> None:
    knl = pl.pipeline(pl.assume(_matmul(), "n mod 16 = 0 and n >= 32"), "k_outer", via=via)
    loads = pl.get_mem_access_map(knl).filter_by(address_space=[pl.AddressSpace.GLOBAL], direction=["load"])
    assert [str(count) for count in loads.values()] == ["n**3/16", "n**3/16"]
    assert str(pl.get_synchronization_map(knl)) == "kernel_launch : 1\nbarrier_local : (n + 16)/16"


def test_a_halo_is_counted_tile_by_tile_and_its_corners_apart() -> None:
    accesses = pl.get_mem_access_map(DEMO_KERNELS["stencil"].build()).filter_by(variable=["u"])
    used, unused = accesses.values()
    assert str(unused) == "4*floor((h + 13)/16)*floor((w + 13)/16)"
    assert str(used) == (
        "h*w + 2*floor((h + 13)/16)*w + 2*floor((w + 13)/16)*h - 2*h - 2*w - 4*floor((h + 13)/16) "
        "- 4*floor((w + 13)/16) + 4"
    )
    tiles = [(min(18, 40 - 16 * i), min(18, 37 - 16 * j)) for i in range(3) for j in range(3)]
    assert used.eval_with_dict({"h": 40, "w": 37}) == sum(a * b - 4 for a, b in tiles)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GALLERY))
def test_the_whole_gallery_is_counted(name: str) -> None:
    knl = GALLERY[name].build()
    assert pl.get_op_map(knl) is not None
    assert pl.get_mem_access_map(knl) is not None
    assert pl.gather_access_footprint_bytes(knl, ignore_uncountable=True) is not None


def test_digits_of_the_thread_number_have_strides_along_the_axes_of_the_block() -> None:
    data = [pl.GlobalArg("a, b", F, shape="n, n"), ...]
    knl = pl.make_kernel("{ [i, j]: 0 <= i, j < n }", "b[i, j] = a[j, i]", data, name="turned", assumptions="n >= 1")
    knl = pl.split_iname(knl, "i", 32, outer_tag="g.1")
    knl = pl.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l%16")
    knl = pl.split_iname(knl, "i_inner", 8, inner_tag="l/16%8")
    knl = pl.add_prefetch(knl, "a", "i_inner_outer, i_inner_inner, j_inner")
    accesses = pl.get_mem_access_map(knl).filter_by(variable=["a", "b"])
    assert [dict(key.lid_strides or ()) for key in accesses] == [{0: None}, {0: None}]
    assert [str(count) for count in accesses.values()] == ["n**2", "n**2"]
    facts = pl.explain(knl, {"n": 1024})
    assert [access.sectors for access in facts.accesses if access.space == "global"] == [4, 4]


# {{{ questions that are put to counts


def test_counts_are_filtered_by_any_spelling_of_a_value() -> None:
    ops: Any = pl.get_op_map(_matmul())
    accesses = pl.get_mem_access_map(_matmul())
    assert str(ops.filter_by(dtype=F)) == str(ops.filter_by(dtype="float32")) == str(ops.filter_by(dtype=[F]))
    assert str(ops[pl.Op(F, "mul")]) == str(ops.filter_by(name="mul", dtype=F).sum()) == "n**3"
    assert len(ops.filter_by(name="mu")) == 0
    loads = accesses.filter_by(mtype=["global"], read_write="load")
    assert loads == accesses.filter_by(address_space=[pl.AddressSpace.GLOBAL], direction=["load"])
    assert accesses.filter_by(mtype="shared") == accesses.filter_by(address_space=pl.AddressSpace.LOCAL)
    assert accesses.filter_by(count_granularity="workitem") != {}
    assert str(accesses.group_by("mtype")) == str(accesses.group_by("address_space"))
    by_strides = accesses.filter_by(lid_strides={0: 1, 1: 0}, variable=["b_fetch"])
    assert [*by_strides] == [*accesses.filter_by(lid_strides=[((1, 0), (0, 1))], variable="b_fetch")]
    assert pl.MemAccess(lid_strides={1: 0, 0: 1}).lid_strides == ((0, 1), (1, 0))
    assert 3 not in ops
    assert next(iter(ops)) in ops


def test_counts_are_added_and_multiplied() -> None:
    ops: Any = pl.get_op_map(_matmul())
    accesses = pl.get_mem_access_map(_matmul())
    one = ops.eval_and_sum({"n": np.int64(8)})
    assert sum([ops, ops]).eval_and_sum({"n": 8}) == (2 * ops).eval_and_sum({"n": 8}) == 2 * one
    assert (ops * ops.filter_by(name="mul", dtype=F).sum()).eval_and_sum({"n": 8}) == 8**3 * one
    both = ops + accesses
    assert both.filter_by(name=["mul"], dtype=F).eval_and_sum({"n": 8}) == 8**3  # accesses have no such attribute
    assert both.with_set_attributes(variable="x").filter_by(variable="x").sum() == accesses.sum()
    with pytest.raises(TypeError, match="unsupported operand"):
        ops + 3


ASKED: list[tuple[Callable[..., object], str, str]] = [
    (lambda ops: ops.filter_by(variable=["a"]), "unknown-attribute", "no attribute 'variable'"),
    (lambda ops: ops.filter_by(dtyp=[F]), "unknown-attribute", "did you mean 'dtype'"),
    (lambda ops: ops.filter_by(dtype=["blah"]), "unknown-dtype", "no element type 'blah'"),
    (lambda ops: ops.filter_by(dtype=None), "wrong-argument-type", "'dtype' cannot be None"),
    (lambda ops: ops.filter_by(count_granularity=["lane"]), "wrong-argument-type", "'lane'"),
    (lambda ops: ops.filter_by_func(3), "wrong-argument-type", "a function"),
    (lambda ops: ops.group_by("mtype"), "unknown-attribute", "no attribute 'mtype'"),
    (lambda ops: ops.group_by(["dtype"]), "wrong-argument-type", "a string"),
    (lambda ops: ops.with_set_attributes(kind="x"), "unknown-attribute", "'kind'"),
    (lambda ops: ops.group_by("name").to_bytes(), "unknown-attribute", "after to_bytes()"),
    (lambda ops: ops["mul"], "wrong-argument-type", "'mul'"),
    (lambda ops: ops.eval_and_sum(), "missing-argument", "depends on 'n'"),
    (lambda ops: ops.eval(), "missing-argument", "depends on 'n'"),
    (lambda ops: ops.eval_and_sum([("n", 3)]), "wrong-argument-type", "a mapping"),
    (lambda ops: ops.sum().eval_with_dict({"n": "3"}), "wrong-argument-type", "'n' cannot be '3'"),
    (lambda ops: ops.sum().eval_with_dict({"n": 2.5}), "wrong-argument-type", "an integer"),
    (lambda _: pl.Op("blah"), "unknown-dtype", "no element type 'blah'"),
    (lambda _: pl.MemAccess(lid_strides=3), "wrong-argument-type", "a mapping"),
]


@pytest.mark.parametrize("number", range(len(ASKED)))
def test_what_counts_cannot_answer_is_said(number: int) -> None:
    ask, code, words = ASKED[number]
    with pytest.raises(pl.ArgumentError, match=rf"\[{code}\]") as error:
        ask(pl.get_op_map(ONE))
    assert words in str(error.value)


ONE = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", [pl.GlobalArg("a, b", F, shape="n"), ...])


# }}}
