"""Loops whose bounds the kernel reads from memory: every target against NumPy, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from tests.transform.checking import check, cuda, refused, same_after_replay

F, INT = np.float32, np.int32
ROWS = ["{[i]: 0 <= i < n}", "{[j]: begin <= j < stop}"]
HEAD = """
for i
    <> begin = rowptr[i]
    <> stop = rowptr[i + 1]
"""
VALUES = [pl.GlobalArg("values", F, shape="nnz"), pl.GlobalArg("rowptr", INT, shape="n + 1"), ...]
Arrays = dict[str, Any]


def rows(n: int, seed: int = 0) -> Arrays:
    """Return *n* rows of 0 to 5 small integers."""
    rng = np.random.default_rng(seed + n)
    rowptr = np.concatenate([[0], np.cumsum(rng.integers(0, 6, n))]).astype(INT)
    return {"rowptr": rowptr, "values": rng.integers(-4, 5, int(rowptr[-1])).astype(F)}


def bounds(given: Arrays) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in zip(given["rowptr"], given["rowptr"][1:], strict=False)]


def ragged(text: str = "y[i] = sum(j, values[j])", data: list[Any] | None = None, **options: Any) -> pl.LoopKernel:
    return pl.make_kernel(ROWS, f"{HEAD}{text}\nend", data or VALUES, name="ragged", **options)


def ragged_case(n: int) -> tuple[Arrays, Arrays]:
    given = rows(n)
    return given, {"y": np.array([given["values"][a:b].sum() for a, b in bounds(given)], F)}


def on_threads(knl: pl.LoopKernel, size: int = 4) -> pl.LoopKernel:
    return pl.split_iname(knl, "i", size, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize(("dtype", "is_right"), [("int32", True), ("uint32", True), ("int64", False)])
def test_bounds_at_the_end_of_their_type_are_right_or_refused(dtype: str, is_right: bool) -> None:
    text = "for r\n    <> lo = l[r]\n    <> hi = h[r]\n    o[r] = sum(i, 1)\nend"
    data = [pl.GlobalArg("l, h", dtype, shape="1"), pl.GlobalArg("o", np.int64, shape="1"), ...]
    knl = pl.make_kernel(["{[r]: 0 <= r < 1}", "{[i]: lo <= i <= hi}"], text, data)
    last = np.iinfo(dtype).max
    given = {"l": np.array([last - 3], dtype), "h": np.array([last], dtype)}
    if is_right:
        check(knl, given, {"o": np.array([4])})
        return
    with pytest.raises(pl.ArgumentError, match=f"'lo' is {last - 3}, and bounds a loop") as refusal:
        pl.interpret(knl, **given)
    assert refusal.value.codes == ("index-overflow",)
    check(knl, {"l": np.array([2**62 - 3]), "h": np.array([2**62])}, {"o": np.array([4])})


# {{{ right results


def test_one_row_a_thread_reads_as_a_person_writes_it() -> None:
    knl = on_threads(ragged(), 128)
    assert cuda(knl).split("{\n", 1)[1] == """\
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 128 * bx + tx;
    if (i < n) {
        int begin = rowptr[i];
        int stop = rowptr[i + 1];
        float acc = 0.0f;
        for (int j = begin; j < stop; ++j)
            acc += values[j];
        y[i] = acc;
    }
}
"""


@pytest.mark.few(2)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 9])
def test_ragged_sums_transformed(n: int) -> None:
    knl = ragged()
    threads = on_threads(knl)
    chains = [
        knl,
        threads,
        pl.split_iname(knl, "j", 3),
        pl.tag_inames(pl.split_iname(threads, "j", 2), "j_inner:unr"),
        pl.rename_iname(pl.prioritize_loops(threads, "i_outer, j"), "j", "entry"),
    ]
    for chain in chains:
        check(chain, *ragged_case(n))
    same_after_replay(knl, chains[3])


def test_fixed_and_assumed_sizes() -> None:
    given, expected = ragged_case(5)
    check(on_threads(pl.assume(ragged(), "n >= 1")), given, expected)
    check(on_threads(pl.fix_parameters(ragged(), n=5)), given, expected)


def test_the_bound_is_read_before_its_only_writer_in_the_text() -> None:
    text = "for i\ny[i] = sum(j, values[j])\n<> begin = rowptr[i]\n<> stop = rowptr[i + 1]\nend"
    knl = pl.make_kernel(ROWS, text, VALUES)
    assert str(knl.reference).splitlines()[1].strip().startswith("begin = ")
    check(on_threads(knl), *ragged_case(6))


def test_loops_over_data_that_write() -> None:
    knl = ragged("for j\nz[j] = 2*values[j]\nend", [pl.GlobalArg("z", F, shape="nnz"), *VALUES])
    given = rows(7)
    check(knl, given, {"z": 2 * given["values"]})
    refused(knl, on_threads, "write-race")  # rows may overlap, for all that is known


@pytest.mark.parametrize(("low", "high"), [(0, 20), (3, 17), (5, 5), (9, 2), (7, 8)])
def test_a_loop_over_data_on_threads(low: int, high: int) -> None:
    data = [pl.GlobalArg("z, values", F, shape="nnz"), pl.GlobalArg("at", INT, shape="2"), ...]
    text = "<> begin = at[0]\n<> stop = at[1]\nz[j] = 2*values[j]"
    knl = pl.split_iname(pl.make_kernel(ROWS[1], text, data), "j", 8, inner_tag="l.0")
    z, values = np.zeros(20, F), np.arange(20, dtype=F)
    expected = z.copy()
    expected[low:high] = 2 * values[low:high]
    check(knl, {"at": np.array([low, high], INT), "values": values, "z": z}, {"z": expected})


def nested_case(n: int) -> tuple[Arrays, Arrays]:
    given = rows(n)
    w, lengths = given["values"], np.arange(given["values"].size, dtype=INT) % 5
    table = np.arange(8, dtype=F)
    y = [sum(w[j] * table[: lengths[j]].sum() for j in range(a, b)) for a, b in bounds(given)]
    return {"rowptr": given["rowptr"], "w": w, "lengths": lengths, "table": table}, {"y": np.array(y, F)}


@pytest.mark.parametrize("n", [0, 1, 6])
def test_a_bound_that_is_read_inside_a_loop_over_data(n: int) -> None:
    knl = pl.make_kernel(
        [*ROWS, "{[k]: 0 <= k < length}"],
        f"""{HEAD}
            <> t = 0.0
            for j
                <> length = lengths[j]
                <> u = sum(k, table[k])
                t = t + w[j]*u
            end
            y[i] = t
        end""",
        [pl.GlobalArg("w", F, shape="nnz"), pl.GlobalArg("lengths", INT, shape="nnz"),
         pl.GlobalArg("table", F, shape="8"), pl.GlobalArg("rowptr", INT, shape="n + 1"), ...],
    )  # fmt: skip
    for chain in (knl, on_threads(knl), pl.split_iname(knl, "k", 2), pl.split_iname(knl, "j", 2)):
        check(chain, *nested_case(n))


@pytest.mark.parametrize("n", [0, 1, 6])
def test_sums_in_sums_over_data(n: int) -> None:
    knl = pl.make_kernel(
        [*ROWS, "{[k]: 0 <= k <= j - begin}"],
        f"{HEAD}y[i] = sum(j, values[j]*sum(k, table[k]))\nend",
        [pl.GlobalArg("table", F, shape="8"), *VALUES],
    )
    given = {**rows(n), "table": np.arange(8, dtype=F)}
    sums = np.cumsum(given["table"])
    expected = [sum(given["values"][j] * sums[j - a] for j in range(a, b)) for a, b in bounds(given)]
    for chain in (knl, on_threads(knl), pl.split_iname(knl, "k", 3)):
        check(chain, given, {"y": np.array(expected, F)})


def test_a_reduction_over_rows_and_entries() -> None:
    knl = pl.make_kernel(ROWS, f"{HEAD}end\ns[0] = sum((i, j), values[j])", [pl.GlobalArg("s", F, shape="1"), *VALUES])
    given = rows(7)
    check(knl, given, {"s": given["values"].sum(keepdims=True)})


def test_strides_and_conditions_with_data() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: begin <= j < stop and (j - begin) mod 2 = 0}"],
        f"{HEAD}y[i] = sum(j, values[j])\nend",
        VALUES,
    )
    assert "j += 2" in cuda(on_threads(knl))
    given = rows(8)
    expected = {"y": np.array([given["values"][a:b:2].sum() for a, b in bounds(given)], F)}
    for chain in (knl, on_threads(knl), pl.split_iname(knl, "j", 4)):
        check(chain, given, expected)


def test_unions_with_data() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < nnz and (j < begin or j >= stop)}"],
        f"{HEAD}y[i] = sum(j, values[j])\nend",
        VALUES,
    )
    given = rows(8)
    total = given["values"].sum()
    expected = {"y": np.array([total - given["values"][a:b].sum() for a, b in bounds(given)], F)}
    for chain in (knl, on_threads(knl), pl.split_iname(knl, "j", 4)):
        check(chain, given, expected)


def test_shapes_are_inferred_where_parameters_bound_the_loop_too() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: begin <= j < stop and 0 <= j < nnz}"],
        f"{HEAD}y[i] = sum(j, values[j])\nend",
        [pl.GlobalArg("values", F), pl.GlobalArg("rowptr", INT, shape="n + 1"), ...],
    )
    check(knl, *ragged_case(4))


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64])
def test_bounds_of_other_integer_types(dtype: Any) -> None:
    knl = on_threads(ragged(data=[VALUES[0], pl.GlobalArg("rowptr", dtype, shape="n + 1"), ...]))
    given, expected = ragged_case(5)
    check(knl, {**given, "rowptr": given["rowptr"].astype(dtype)}, expected)
    is_wide = not np.can_cast(dtype, np.int32)
    assert ("for (long long j" in cuda(knl)) == is_wide


def test_bounds_that_cross_a_barrier() -> None:
    text = "y[i] = sum(j, values[j]) + x[i] + x[i + 1]"
    knl = on_threads(ragged(text, [pl.GlobalArg("x", F, shape="n + 1"), *VALUES]))
    knl = pl.add_prefetch(knl, "x", "i_inner", default_tag="l.auto")
    assert "__syncwarp" in cuda(knl)
    given, expected = ragged_case(9)
    x = np.arange(10, dtype=F)
    check(knl, {**given, "x": x}, {"y": expected["y"] + x[:-1] + x[1:]})


# }}}
# {{{ refusals


BEGIN = "<> begin = rowptr[i]"
STOP = "<> stop = rowptr[i + 1]"
SUM = "y[i] = sum(j, values[j])"
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "changed_inside": (f"for i\n{BEGIN}\nfor j\n{STOP}\ny[i] = values[j]\nend\nend", {}),
    "two_writers": (f"{HEAD}stop = stop + 1\n{SUM}\nend", {}),
    "an_array": (f"for i\n<> begin[i] = rowptr[i]\n{STOP}\n{SUM}\nend", {}),
    "under_a_condition": (f"for i\n{BEGIN}\n{STOP} {{if=rowptr[i] > 3}}\n{SUM}\nend", {}),
    "not_everywhere": (f"for i\n{BEGIN}\nif i > 0\n{STOP}\nend\n{SUM}\nend", {}),
    "outside": (f"{HEAD}end\ny[j] = values[j] {{inames=j}}", {}),
    "in_another_loop": (f"{HEAD}end\nfor i\n{SUM}\nend", {}),
    "inner_sum_first": (f"{HEAD}end\ns = sum((j, i), values[j])", {}),
    "a_float": (f"for i\n{BEGIN}\n<> stop = values[i]\n{SUM}\nend", {}),
    "fixed": (f"{HEAD}{SUM}\nend", {"fixed_parameters": {"begin": 0}}),
    "not_written": (f"for i\n{BEGIN}\n{SUM}\nend", {"kernel_data": [pl.TemporaryVariable("stop", INT), *VALUES]}),
    "not_declared": (f"for i\nbegin = rowptr[i]\n{STOP}\n{SUM}\nend", {}),
    "subscript": (SUM, {"domains": [ROWS[0], "{[j]: 0 <= j < rowptr[i]}"]}),
    "an_argument": (f"{SUM} + rowptr[i]", {"domains": [ROWS[0], "{[j]: 0 <= j < rowptr}"]}),
    "out_of_bounds": (f"{HEAD}y[i] = sum(j, values[j]*rowptr[i + 2])\nend", {}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bounds_that_are_refused(case: str, golden: Callable[[str, str], None]) -> None:
    text, options = REFUSED[case]
    options = {"domains": ROWS, "kernel_data": VALUES, "name": "ragged", **options}
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel(instructions=text, **options)
    golden(f"messages/data_bounds_{case}.txt", str(caught.value))


def test_what_is_assumed_of_a_bound_has_no_effect() -> None:
    with pytest.warns(pl.PolyloopWarning, match="assumptions say about '(begin|stop)' has no effect") as caught:
        knl = pl.make_kernel(ROWS, f"{HEAD}{SUM}\nend", VALUES, name="ragged", assumptions="n >= 3 and begin <= stop")
    assert len(caught) == 2
    assert "n >= 3" in str(knl.assumptions)
    given, expected = ragged_case(9)
    check(knl, given, expected)


Z = pl.GlobalArg("z", F, shape="nnz")
TRANSFORMS: dict[str, tuple[str, Callable[[pl.LoopKernel], object]]] = {
    "prefetch": (SUM, lambda k: pl.add_prefetch(k, "values", ["j"])),
    "sum_on_threads": (SUM, lambda k: pl.tag_inames(k, "j:l.0")),
    "loop_on_blocks": ("for j\nz[j] = values[j]\nend", lambda k: pl.tag_inames(k, "j:g.0")),
    "loop_on_threads": ("for j\nz[j] = values[j]\nend", lambda k: pl.tag_inames(k, "j:l.0")),
    "unroll": (SUM, lambda k: pl.generate_code(pl.tag_inames(k, "j:unr"))),
    "outer": ("for j\nz[j] = values[j]\nend", lambda k: pl.prioritize_loops(k, "j, i")),
    "assume": (SUM, lambda k: pl.assume(k, "begin >= 0")),
    "fix": (SUM, lambda k: pl.fix_parameters(k, begin=0)),
    "shared": (SUM, lambda k: pl.generate_code(pl.set_temporary_address_space(on_threads(k), "begin", "local"))),
    "precompute": ("f(r) := sum(j, values[j])*r\ny[i] = f(i)", lambda k: pl.precompute(k, "f", "i_inner")),
}


@pytest.mark.parametrize("case", TRANSFORMS)
def test_transforms_that_are_refused(case: str, golden: Callable[[str, str], None]) -> None:
    text, transform = TRANSFORMS[case]
    knl = ragged(text, [Z, *VALUES] if "z[" in text else VALUES)
    with pytest.raises(pl.PolyloopError) as caught:
        transform(pl.split_iname(knl, "i", 4) if case == "precompute" else knl)
    golden(f"messages/data_bounds_{case}_transform.txt", str(caught.value))


def exchange(rows: str, cell: str, shape: str) -> pl.LoopKernel:
    return pl.make_kernel(
        [rows, ROWS[1], "{[k, m]: 0 <= k, m < 4}"],
        f"""{HEAD}
            for j
                s{cell % "k"} = values[j]*x[k]
                z[i, m] = z[i, m] + s{cell % "3 - m"}
            end
        end""",
        [
            pl.GlobalArg("x", F, shape="4"),
            pl.GlobalArg("z", F, shape="n, 4"),
            pl.TemporaryVariable("s", F, shape=shape),
            *VALUES,
        ],
        name="exchange",
        assumptions="n >= 3",
    )


def test_a_barrier_inside_a_loop_over_data() -> None:
    given = rows(5)
    x = np.arange(4, dtype=F)
    z = np.array([given["values"][a:b].sum() * x[::-1] for a, b in bounds(given)], F)
    knl = exchange(ROWS[0], "[%s]", "4")
    for chain in (knl, pl.tag_inames(knl, "k:l.0, m:l.0")):
        check(chain, {**given, "x": x, "z": np.zeros((5, 4), F)}, {"z": z})


def test_a_barrier_inside_a_loop_over_data_of_which_threads_disagree_is_refused() -> None:
    text = refused(
        pl.tag_inames(exchange("{[i]: 0 <= i < 3}", "[i, %s]", "3, 4"), "k:l.0, m:l.0, i:l.1"),
        lambda k: pl.generate_code(k, target=pl.CudaTarget()),
        "unbounded-loop",
        pl.CodegenError,
    )
    assert "loop 'j' holds a barrier, and data decides how long it is" in text


# }}}
