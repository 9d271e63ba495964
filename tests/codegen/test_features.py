"""What code generation does with the parts of a schedule, one claim a test."""
# types of elements and constants come in every spelling that NumPy takes

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.codegen.generate import generate
from polyloop.errors import CodegenError
from polyloop.expr.rewrite import variables
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.tags import Unroll, UnrollHint
from polyloop.kernel.tree import Barrier, Loop, Run, Scope
from polyloop.runtime.fibres import agree, run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda
from polyloop.schedule.plan import Launch, Schedule
from polyloop.target.c import C_LANGUAGE
from polyloop.target.cuda import CUDA_LANGUAGE
from tests.codegen import kernels
from tests.codegen.building import array, local, private, schedule, statement, value
from tests.codegen.running import needs_compiler, run_c

X = [array("x", "n", output=True), value("n")]


def cuda(built: Schedule) -> str:
    return generate(built, CUDA_LANGUAGE).device_code


def c(built: Schedule) -> str:
    return generate(built, C_LANGUAGE).device_code


def refused(built: Schedule) -> str:
    with pytest.raises(CodegenError) as err:
        generate(built, CUDA_LANGUAGE)
    return str(err.value)


def one_loop(constraints: str, rhs: Any = 1.0, assumptions: str = "n >= 1", **options: Any) -> Schedule:
    s = statement("S", "i", "n", constraints, "x[i]", rhs)
    return schedule("k", "n", assumptions, X, [s], (Loop("i", (Run("S"),)),), **options)


# {{{ CUDA text on fibres


@needs_compiler
@pytest.mark.parametrize("n", [1, 15, 16, 17, 33])
def test_cuda_matmul_on_fibres(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-4, 5, (n, n)).astype(np.float32) for _ in range(2))
    outputs = run_on_fibres(
        generate(kernels.matmul(), CUDA_LANGUAGE), {"a": a, "b": b, "c": np.zeros((n, n), np.float32), "n": n}
    )
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["random"].c, a @ b)


@needs_compiler
@pytest.mark.parametrize("n", [3, 18, 19, 35])
def test_cuda_jacobi_on_fibres(n: int) -> None:
    u = np.random.default_rng(n).integers(-8, 9, (n, n)).astype(np.float32)
    expected = np.zeros((n, n), np.float32)
    expected[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    outputs = run_on_fibres(
        generate(kernels.jacobi(), CUDA_LANGUAGE), {"u": u, "v": np.zeros((n, n), np.float32), "n": n}
    )
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["forward"].v, expected)


@needs_compiler
@pytest.mark.parametrize("n", [31, 32, 33])
def test_cuda_register_tiles_on_fibres(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-4, 5, (n, n)).astype(np.float32) for _ in range(2))
    outputs = run_on_fibres(
        generate(kernels.matmul_registers(), CUDA_LANGUAGE),
        {"a": a, "b": b, "c": np.zeros((n, n), np.float32), "n": n},
    )
    assert agree(outputs)
    np.testing.assert_array_equal(outputs["reverse"].c, a @ b)


# }}}
# {{{ loops and guards


def test_a_union_domain_at_a_leaf_is_an_or_and_not_hulled() -> None:
    s = statement("S", "i:l.0", "n", "0 <= i <= 3 or 10 <= i <= 12 or i = 20", "x[i]", 1.0)
    text = cuda(schedule("k", "n", "n >= 32", X, [s], (Run("S"),), local_size=(32,)))
    assert "if (tx < 21 && (tx < 4 || (tx >= 10 && tx < 13) || tx >= 20))" in text


@needs_compiler
def test_a_union_domain_in_a_loop_runs_its_points(tmp_path: Path) -> None:
    x = np.zeros(30, np.float32)
    run_c(generate(one_loop("0 <= i <= 3 or 10 <= i <= 12 or i = 20"), C_LANGUAGE), tmp_path, x=x, n=30)
    assert list(np.flatnonzero(x)) == [0, 1, 2, 3, 10, 11, 12, 20]


def test_a_loop_that_runs_once_is_no_loop() -> None:
    text = c(one_loop("i = 3", assumptions="n >= 4"))
    assert "for" not in text
    assert "    x[3] = 1.0f;" in text


def test_an_empty_domain_disappears() -> None:
    a = statement("A", "i", "n", "0 <= i < n", "x[i]", 1.0)
    b = statement("B", "i", "n", "0 <= i < n and n <= 0", "x[i]", 2.0)
    text = c(schedule("k", "n", "n >= 1", X, [a, b], (Loop("i", (Run("A"), Run("B"))),)))
    assert "2.0f" not in text
    assert "if" not in text


def test_launches_of_nothing_are_an_empty_function() -> None:
    knl = pl.make_kernel(
        "[n] -> {[i, j]: 0 <= i, j and i + j < n and j < 1 - n}", "y[i] = 3*a[j]  {id=first}\ny[i] = b[j]  {id=second}",
        [pl.GlobalArg("y, a, b", np.float32, "2*n + 8")],
    )  # fmt: skip
    knl = knl.add_barrier("id:first", "id:second").tag_inames("i:g.0")
    with pytest.warns(pl.PolyloopWarning, match="idle-barrier"):
        programs = [pl.generate_code(knl, target=target) for target in (pl.CTarget(), pl.CudaTarget())]
    assert [len(program.launches) for program in programs] == [1, 1]
    given, kept = np.arange(16, dtype=np.float32), np.arange(16, dtype=np.float32)
    pl.compile(knl, target=pl.CTarget())(y=kept, a=given, b=given)
    np.testing.assert_array_equal(kept, given)


def test_a_program_of_nothing_is_an_empty_function() -> None:
    program = generate(one_loop("0 <= i < n and n <= 0"), CUDA_LANGUAGE)
    assert program.device_code.endswith("int n)\n{\n}\n")


def test_a_grid_of_nothing_has_no_blocks() -> None:
    s = statement("S", "i:g.0", "n", "0 <= i < n and n <= 0", "x[i]", 1.0)
    program = generate(schedule("k", "n", "n >= 1", X, [s], (Run("S"),)), CUDA_LANGUAGE)
    assert program.grid == (0, 1, 1)


def test_unrolling_in_full_needs_a_constant_trip_count() -> None:
    assert refused(one_loop("0 <= i < n", tags={"i": Unroll()})) == (
        "generate_code on kernel 'k': "
        "loop 'i' cannot be unrolled: its trip count is not constant [unroll-not-constant]\n"
        "  Note: it runs from 0 to below n\n"
        "  Hint: split it by a constant and unroll the inner loop, or tag it 'unr_hint'"
    )


def test_unrolled_loops_say_so() -> None:
    built = one_loop("0 <= i < 8", assumptions="n >= 8", tags={"i": Unroll()})
    assert "    #pragma unroll\n    for (int i = 0; i < 8; ++i)" in cuda(built)
    assert "    #pragma GCC unroll 8\n    for (int i = 0; i < 8; ++i)" in c(built)
    assert "    #pragma unroll\n    for (int i = 0; i < n; ++i)" in cuda(
        one_loop("0 <= i < n", tags={"i": UnrollHint()})
    )
    twice = one_loop("0 <= i < n", tags={"i": UnrollHint(2)})
    assert "    #pragma unroll 2\n    for (int i = 0; i < n; ++i)" in cuda(twice)
    assert "    #pragma GCC unroll 2\n    for (int i = 0; i < n; ++i)" in c(twice)


def test_an_unbounded_loop_is_refused() -> None:
    assert "loop 'i' has no bounds [unbounded-loop]" in refused(one_loop("0 <= i"))


@pytest.mark.few(10)
@needs_compiler
@pytest.mark.parametrize("n", [1, 2, 3, 4, 16, 17, 40])
@pytest.mark.parametrize("slabs", [(0, 1), (1, 0), (1, 1), (2, 2)])
def test_slabs_split_iterations_off(slabs: tuple[int, int], n: int, tmp_path: Path) -> None:
    s = statement("S", "io, ii", "n", "0 <= ii < 4 and 0 <= 4io + ii < n", "x[4*io + ii]", 1.0, "sum")
    tree = (Loop("io", (Loop("ii", (Run("S"),)),)),)
    built = schedule("k", "n", "n >= 1", X, [s], tree, slabs={"io": slabs}, tiles=["io"])
    assert c(built).count("for (int io ") == 2  # the bulk, or its full tiles, and what comes behind
    assert c(built).count("for (int ii ") == slabs[0] + 2
    if slabs[1]:
        assert "for (int ii = 0; ii < 4; ++ii)" in c(built)
    x = np.zeros(n, np.float32)
    run_c(generate(built, C_LANGUAGE), tmp_path, x=x, n=n)
    np.testing.assert_array_equal(x, 1)


def test_a_divisible_tile_loop_is_not_peeled() -> None:
    s = statement("S", "io, ii", "n", "0 <= ii < 4 and 0 <= 4io + ii < n", "x[4*io + ii]", 1.0)
    tree = (Loop("io", (Loop("ii", (Run("S"),)),)),)
    text = c(schedule("k", "n", "n >= 1 and n mod 4 = 0", X, [s], tree, tiles=["io"]))
    assert text.count("for (int io = 0; io < n / 4; ++io)") == 1
    assert "for (int ii = 0; ii < 4; ++ii)" in text


def test_predicates_come_after_the_bounds() -> None:
    s = statement("S", "i:l.0", "n", "0 <= i < n and i < 32", "x[i]", 0.0, None, ["x[i] < 0"])
    text = cuda(schedule("k", "n", "n >= 1", X, [s], (Run("S"),), local_size=(32,)))
    assert "if (tx < n && x[tx] < 0.0f)" in text


# }}}
# {{{ grid


def test_a_grid_covers_the_largest_statement() -> None:
    a = statement("A", "i:g.0", "n, m", "0 <= i < n", "x[i]", 1.0)
    b = statement("B", "i:g.0", "n, m", "0 <= i < m", "y[i]", 1.0)
    arguments = [array("x", "n", output=True), array("y", "m", output=True), value("n"), value("m")]
    program = generate(
        schedule("k", "n, m", "n >= 1 and m >= 1", arguments, [a, b], (Run("A"), Run("B"))), CUDA_LANGUAGE
    )
    assert program.grid == (p.Max((p.Variable("n"), p.Variable("m"))), 1, 1)
    assert "if (bx < n)" in program.device_code
    assert "if (bx < m)" in program.device_code


@needs_compiler
def test_blocks_may_begin_below_zero() -> None:
    s = statement("S", "io:g.0, ii:l.0", "n", "0 <= ii < 4 and 0 <= 4io + ii + 6 < n", "x[4*io + ii + 6]", 1.0)
    program = generate(schedule("k", "n", "n >= 1", X, [s], (Run("S"),), local_size=(4,)), CUDA_LANGUAGE)
    assert "const int bx = (int)blockIdx.x - 2;" in program.device_code
    assert "// Launch: k, grid ((n + 1) / 4 + 1), block (4)" in program.device_code
    outputs = run_on_fibres(program, {"x": np.zeros(11, np.float32), "n": 11})
    np.testing.assert_array_equal(outputs["forward"].x, 1)


def test_two_launches_are_two_functions_or_one() -> None:
    a = statement("A", "i:g.0", "n", "0 <= i < n", "x[i]", 1.0)
    b = statement("B", "i:g.0", "n", "0 <= i < n", "y[i]", "x[n - 1 - i]")
    arguments = [array("x", "n", output=True), array("y", "n", output=True), value("n")]
    built = schedule("k", "n", "n >= 1", arguments, [a, b], (Run("A"), Run("B")))
    launches = tuple(Launch(f"k_{i}", (Run(s),), (), ("g.0",), ()) for i, s in enumerate("AB"))
    built = replace(built, launches=launches)
    program = generate(built, CUDA_LANGUAGE)
    assert [(launch.name, launch.arguments) for launch in program.launches] == [
        ("k_0", ("x", "n")),
        ("k_1", ("x", "y", "n")),
    ]
    assert "k_1(const float *__restrict__ x, float *__restrict__ y, int n)" in program.device_code
    assert [launch.name for launch in generate(built, C_LANGUAGE).launches] == ["k"]


# }}}
# {{{ temporaries, threads as loops


@needs_compiler
@pytest.mark.parametrize("n", [1, 31, 32, 33, 100])
def test_private_values_that_cross_a_barrier_are_kept_for_each_thread(n: int, tmp_path: Path) -> None:
    row = "0 <= ii < 32 and 0 <= 32io + ii < n"
    dims = "io:g.0, ii:l.0"
    statements = [
        statement("READ", dims, "n", row, "v", "x[32*io + ii]"),
        statement("SHARE", dims, "n", row, "s[31 - ii]", "v"),
        statement("WRITE", dims, "n", f"{row} and 32io + 31 < n", "y[32*io + ii]", "v + s[ii]"),
    ]
    tree = (Run("READ"), Run("SHARE"), Barrier(), Run("WRITE"))
    arguments = [array("x", "n"), array("y", "n", output=True), value("n")]
    built = schedule(
        "k", "n", "n >= 1", arguments, statements, tree, local_size=(32,), temporaries=[private("v"), local("s", 32)]
    )
    assert "float v[32];" in c(built)
    assert "    float v;\n" in cuda(built)
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    run_c(generate(built, C_LANGUAGE), tmp_path, x=x, y=y, n=n)
    full = n // 32 * 32
    blocks = x[:full].reshape(-1, 32)
    np.testing.assert_array_equal(y[:full], (blocks + blocks[:, ::-1]).reshape(-1))


@needs_compiler
def test_a_declaration_alone_in_a_loop_stands_in_braces(tmp_path: Path) -> None:
    dead = statement("A", "j", "n", "0 <= j < n", "t", "x[j]")
    under = statement("B", "", "n", "n >= 3", "u", "x[0]")
    keep = statement("C", "i", "n", "0 <= i < n", "x[i]", "2*x[i]")
    tree = (Loop("j", (Run("A"),)), Run("B"), Loop("i", (Run("C"),)))
    built = schedule("k", "n", "n >= 1", X, [dead, under, keep], tree, temporaries=[private("t"), private("u")])
    assert "    for (int j = 0; j < n; ++j) {\n        float t = x[j];\n    }\n" in c(built)
    assert "    if (n >= 3) {\n        float u = x[0];\n    }\n" in c(built)
    x = np.ones(4, np.float32)
    run_c(generate(built, C_LANGUAGE), tmp_path, x=x, n=4)
    np.testing.assert_array_equal(x, 2)


def test_a_constant_under_a_condition_is_said_by_the_declaration() -> None:
    text = cuda(kernels.matmul())
    assert text.count("float acc = 0.0f;") == 2
    assert "float acc;" not in text


def test_values_under_a_condition_stay_there() -> None:
    """Neither what is no constant, nor what follows another use."""
    row = "0 <= i < n and i < 32"
    statements = [
        statement("A", "i:l.0", "n", row, "t", "x[i]"),
        statement("B", "i:l.0", "n", f"{row} and i >= 3", "u", 1.0),
        statement("C", "i:l.0", "n", row, "x[31 - i]", "t"),
        statement("D", "i:l.0", "n", f"{row} and i >= 3", "x[31 - i]", "t + u"),
    ]
    tree = (Run("A"), Barrier(), Run("B"), Barrier(), Run("C"), Barrier(), Run("D"))
    temporaries = [private("t"), private("u")]
    text = cuda(schedule("k", "n", "n >= 1", X, statements, tree, local_size=(32,), temporaries=temporaries))
    assert "    float t;\n    if (tx < n)\n        t = x[tx];\n" in text
    assert "    float u = 1.0f;\n    __syncthreads();" in text


def test_a_value_carried_by_a_loop_is_declared_outside() -> None:
    first = statement("FIRST", "i", "n", "i = 0 and n >= 1", "old", 0.0)
    use = statement("USE", "i", "n", "0 <= i < n", "y[i]", "old")
    keep = statement("KEEP", "i", "n", "0 <= i < n", "old", "x[i]")
    arguments = [array("x", "n"), array("y", "n", output=True), value("n")]
    tree = (Loop("i", (Run("FIRST"), Run("USE"), Run("KEEP"))),)
    text = c(schedule("k", "n", "n >= 1", arguments, [first, use, keep], tree, temporaries=[private("old")]))
    assert text.index("float old;") < text.index("for (int i")


def test_a_temporary_of_an_iteration_is_declared_in_it() -> None:
    a = statement("A", "i", "n", "0 <= i < n", "t", "x[i]")
    b = statement("B", "i", "n", "0 <= i < n", "x[i]", "t*t")
    text = c(
        schedule(
            "k", "n", "n >= 1", X, [a, b], (Loop("i", (Run("A"), Run("B"))),), temporaries=[private("t"), private("u")]
        )
    )
    assert "        float t = x[i];" in text
    assert " u" not in text.split("void", 1)[1]


def test_padding_is_at_the_end_of_rows() -> None:
    program = generate(kernels.matmul(), CUDA_LANGUAGE)
    assert "__shared__ float a_s[16][17];" in program.device_code
    assert program.launches[0].shared_bytes == 4 * (16 * 17 + 16 * 16)


@needs_compiler
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    ("update", "dtype", "neutral", "reference"),
    [
        ("sum", np.float32, 0.0, np.sum), ("product", np.float64, 1.0, np.prod), ("max", np.float32, -np.inf, np.max),
        ("min", np.float64, np.inf, np.min), ("max", np.int32, -(2**31), np.max), ("min", np.int64, 2**63 - 1, np.min),
        ("any", np.bool_, False, np.any), ("all", np.bool_, True, np.all),
    ],
)  # fmt: skip
def test_reductions(update: str, dtype: Any, neutral: Any, reference: Any, bits: int, tmp_path: Path) -> None:
    statements = [
        statement("INIT", "i", "n, m", "0 <= i < n", "acc", neutral),
        statement("STEP", "i, j", "n, m", "0 <= i < n and 0 <= j < m", "acc", "x[i, j]", update),
        statement("KEEP", "i", "n, m", "0 <= i < n", "y[i]", "acc"),
    ]
    tree = (Loop("i", (Run("INIT"), Loop("j", (Run("STEP"),)), Run("KEEP"))),)
    arguments = [array("x", "n, m", dtype), array("y", "n", dtype, output=True), value("n"), value("m")]
    built = schedule("k", "n, m", "n >= 1", arguments, statements, tree, temporaries=[private("acc", dtype=dtype)])
    values = np.random.default_rng(1).uniform(-3, 3, (5, 7))
    x = (values > 0) if dtype is np.bool_ else values.astype(dtype)
    y = np.zeros(5, dtype)
    run_c(generate(built, C_LANGUAGE, index_bits=bits), tmp_path, x=x, y=y, n=5, m=7)
    np.testing.assert_allclose(y, reference(x, axis=1), rtol=1e-6)


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("update", "dtype", "neutral"),
    [("max", np.float32, -np.inf), ("min", np.float64, np.inf), ("min", np.int64, 2**63 - 1), ("any", np.bool_, False)],
)
def test_nvrtc_accepts_neutral_elements(update: str, dtype: Any, neutral: Any) -> None:
    statements = [
        statement("INIT", "", "n", "n >= 1", "acc", neutral),
        statement("STEP", "i", "n", "0 <= i < n", "acc", "x[i]", update),
        statement("KEEP", "", "n", "n >= 1", "y[0]", "acc"),
    ]
    arguments = [array("x", "n", dtype), array("y", "1", dtype, output=True), value("n", np.int64)]
    tree = (Run("INIT"), Loop("i", (Run("STEP"),)), Run("KEEP"))
    built = schedule("k", "n", "n >= 1", arguments, statements, tree, temporaries=[private("acc", dtype=dtype)])
    text = cuda(built)
    assert "const int n = (int)n_arg;" in text
    too_large = {check.condition for check in generate(built, CUDA_LANGUAGE).index_checks}
    assert p.Comparison(p.Variable("n"), "<=", 2**31 - 1) in too_large
    assert compile_cuda(text, "sm_90").cubin


# }}}
# {{{ names, checks, refusals


def test_axis_names_give_way_to_the_users() -> None:
    s = statement("S", "i:g.0, j:l.0", "bx", "0 <= i < bx and 0 <= j < 4", "tx[i, j]", 1.0)
    arguments = [array("tx", "bx, 4", output=True), value("bx")]
    text = cuda(schedule("k", "bx", "bx >= 1", arguments, [s], (Run("S"),), local_size=(4,)))
    assert "tx[bx_0 * 4 + tx_0] = 1.0f;" in text


def test_assumptions_become_checks() -> None:
    program = generate(one_loop("0 <= i < n", assumptions="n >= 1 and n mod 16 = 0"), C_LANGUAGE)
    assert sorted(check.message for check in program.checks) == [
        "the kernel assumes n % 16 == 0",
        "the kernel assumes n >= 1",
    ]
    program = generate(one_loop("0 <= i < n", assumptions="n = 4 or n = 8"), C_LANGUAGE)
    assert [check.message for check in program.checks] == ["the kernel assumes n == 4 or n == 8"]


def test_index_checks_follow_sizes() -> None:
    program = generate(kernels.matmul(), CUDA_LANGUAGE)
    n = p.Variable("n")
    assert p.Comparison(p.Product((n, n)), "<=", 2**31 - 1) in {check.condition for check in program.index_checks}
    assert {check.code for check in program.index_checks} == {"index-overflow"}
    wide = generate(kernels.matmul(), CUDA_LANGUAGE, index_bits=64)
    assert wide.index_checks == ()
    assert "const long long bx = blockIdx.x, by = blockIdx.y;" in wide.device_code


def test_index_checks_hold_parameters_only() -> None:
    domain = "0 <= bx < 5 and 0 <= 5by + bx < 4 and 0 <= 4o + 5by + bx < 7"
    s = statement("S", "o, by:g.1, bx:g.0", "", domain, "x[4*o + 5*by + bx]", 1.0)
    built = schedule("k", "", "", [array("x", "7", output=True)], [s], (Loop("o", (Run("S"),)),))
    for language in (C_LANGUAGE, CUDA_LANGUAGE):
        assert generate(built, language).index_checks == ()


def test_index_checks_take_each_launch_by_itself() -> None:
    dims = "io:g.0, ii:l.0"
    a = statement("A", dims, "n, m", "0 <= ii < 32 and 0 <= 32io + ii < n", "x[32*io + ii]", 1.0)
    b = statement("B", dims, "n, m", "0 <= ii < 32 and 0 <= 32io + ii < m", "y[32*io + ii]", 1.0)
    arguments = [array("x", "n", output=True), array("y", "m", output=True), value("n"), value("m")]
    built = schedule("k", "n, m", "n >= 1 and m >= 1", arguments, [a, b], (Run("A"), Run("B")), local_size=(32,))
    launches = tuple(Launch(f"k_{i}", (Run(s),), (32,), ("g.0",), ()) for i, s in enumerate("AB"))
    for language in (C_LANGUAGE, CUDA_LANGUAGE):
        checks = generate(replace(built, launches=launches), language).index_checks
        names = {name for check in checks if "fit" in check.message for name in variables(check.condition)}
        assert names == {"n", "m"}


def test_constant_bounds_beyond_32_bits_need_64() -> None:
    s = statement("S", "i, j", "", "0 <= i < 3000000000 and 0 <= j < 4", "x[j]", 1.0, "sum")
    built = schedule("k", "", "", [array("x", "4", output=True)], [s], (Loop("i", (Loop("j", (Run("S"),)),)),))
    for bits in (32, 64):
        program = generate(built, C_LANGUAGE, index_bits=bits)
        assert program.index_bits == 64
        assert not program.index_checks
        assert "for (int64_t i = 0; i < 3000000000; ++i)" in program.device_code


def test_arrays_are_addressed_by_their_strides() -> None:
    x = array("x", "n, m", output=True)
    assert isinstance(x, ArrayArg)
    x = replace(x, strides=(1, p.Variable("n")), order="F")
    s = statement("S", "i, j", "n, m", "0 <= i < n and 0 <= j < m", "x[i, j]", 1.0)
    tree = (Loop("j", (Loop("i", (Run("S"),)),)),)
    text = c(schedule("k", "n, m", "n >= 1", [x, value("n"), value("m")], [s], tree))
    assert "x[i + j * n] = 1.0f;" in text


def test_workspace_stands_behind_the_arguments() -> None:
    s = statement("S", "i", "n", "0 <= i < n", "x[i]", 1.0)
    built = schedule("k", "n", "n >= 1", X, [s], (Loop("i", (Run("S"),)),))
    own = array("w", "n")
    assert isinstance(own, ArrayArg)
    program = generate(replace(built, contract=replace(built.contract, workspace=(own,))), C_LANGUAGE)
    assert program.device_code.count(", const float *restrict w)") == 1
    assert [a.name for a in program.workspace] == ["w"]
    assert "w" not in [a.name for a in program.arguments]
    assert program.launches[0].arguments[-1] == "w"


def test_grid_barriers_are_refused() -> None:
    built = schedule(
        "k",
        "n",
        "n >= 1",
        X,
        [statement("S", "i", "n", "0 <= i < n", "x[i]", 1.0)],
        (Barrier(Scope.GRID), Loop("i", (Run("S"),))),
    )
    assert "launch 'k' has a barrier of the whole grid [grid-barrier]" in refused(built)


def test_blocks_and_shared_memory_have_limits() -> None:
    s = statement("S", "i:l.0", "n", "0 <= i < n and i < 2000", "x[i]", 1.0)
    built = schedule("k", "n", "n >= 1", X, [s], (Run("S"),), local_size=(2000,), temporaries=[local("t", 128, 128)])
    text = refused(built)
    assert "a block of 2000 threads is too large [block-too-large]" in text
    assert "65536 bytes of shared memory are too much: a block can have 49152 [shared-memory-exceeded]" in text


def test_a_barrier_stands_under_no_condition_on_threads() -> None:
    for name in ("matmul", "matmul_registers", "jacobi"):
        text = cuda(getattr(kernels, name)())
        stack: list[str] = []
        for line in text.splitlines():
            if line.strip() in {"__syncthreads();", "__syncwarp();"}:
                assert not [head for head in stack if re.search(r"\bt[xyz]\b", head)], stack
            if line.strip().startswith("}"):
                stack.pop()
            if line.rstrip().endswith("{"):
                stack.append(line)


def test_assumptions_that_contradict_each_other_are_a_check_that_fails() -> None:
    built = one_loop("0 <= i < n")
    contract = replace(built.contract, assumptions=isl.Set("[n] -> { : n >= 1 and n <= 0 }"))
    built = replace(built, contract=contract)
    assert [check.condition for check in generate(built, C_LANGUAGE).checks] == [False]


# }}}


@pytest.mark.parametrize(("text", "line"), [
    ("x[i] = x[i]/y[i]", "x[i] /= y[i];"), ("x[i] = y[i]/x[i]", "x[i] = y[i] / x[i];"),
    ("x[i] = x[i]/y[i]/y[i]", "x[i] = x[i] / y[i] / y[i];"), ("k[i] = k[i]/y[i]", "k[i] = k[i] / y[i];"),
])  # fmt: skip
def test_a_quotient_is_assigned_in_place(text: str, line: str) -> None:
    data = [pl.GlobalArg("x, y", np.float32, shape="n"), pl.GlobalArg("k", np.int32, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, silenced_warnings="*")
    assert line in pl.generate_code(knl, target=pl.CTarget()).device_code
