"""Foreign functions: types, overloads, preambles, and what each target makes of them."""

# mypy: ignore-errors
# ruff: noqa: ANN202, F821, UP037
# Inside of a kernel the name of a type stands for an array with extents, which no type checker knows.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.runtime.fibres import run_on_fibres
from polyloop.runtime.nvrtc import compile_cuda

F = np.float32
HALF = "float half_of(float x) { return 0.5f * x; }"
DATA = [pl.GlobalArg("x, y", F, shape="n"), ...]


def half(**changes: Any) -> pl.ForeignFunction:
    given = {
        "preamble": {"c": f"static inline {HALF}", "cuda": f"static __device__ {HALF}"},
        "reference": lambda x: x / 2,
    }
    return pl.ForeignFunction("half_of", (F,), F, **{**given, **changes})


def kernel(text: str, *functions: Any, data: Any = None, **options: Any) -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 0 <= i < n}", text, data or DATA, functions=functions, **options)


def c_code(knl: pl.LoopKernel) -> str:
    return pl.generate_code(knl, pl.CTarget()).device_code


def refused(code: str, call: Any) -> str:
    with pytest.raises(pl.PolyloopError) as error:
        call()
    assert error.value.codes == (code,), error.value
    return str(error.value)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5])
def test_a_kernel_calls_a_foreign_function(n: int) -> None:
    knl = kernel("y[i] = half_of(x[i] + half_of(1)) + half_of(2*i)", half())
    x = np.arange(n, dtype=F)
    want = (x + F(0.5)) / 2 + np.arange(n, dtype=F)
    np.testing.assert_array_equal(pl.interpret(knl, x=x).y, want)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(x=x, poison=True).y, want)
    threads = pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    for found in run_on_fibres(pl.generate_code(threads), {"x": x}).values():
        np.testing.assert_array_equal(found.y, want)


def test_the_source_has_the_preamble_once_before_its_users() -> None:
    knl = kernel(["y[i] = half_of(x[i])", "z[i] = half_of(half_of(x[i]))"], half(), data=[*DATA[:1], ...])
    code = c_code(knl)
    assert code.count("static inline float half_of") == 1
    assert code.index("static inline float half_of") < code.index("void loop_kernel")
    assert "z[i] = half_of(half_of(x[i]));" in code


def test_functions_may_share_a_preamble() -> None:
    text = "static inline float a(float x) { return x; }\nstatic inline float b(float x) { return -x; }"
    functions = [pl.ForeignFunction(name, (F,), F, preamble=f"\n    {text}\n".replace("\n", "\n    ")) for name in "ab"]
    assert c_code(kernel("y[i] = a(x[i]) + b(x[i])", functions)).count(text) == 1


@pytest.mark.nvrtc
def test_nvrtc_compiles_the_preamble() -> None:
    knl = pl.split_iname(kernel("y[i] = half_of(x[i])", half()), "i", 32, outer_tag="g.0", inner_tag="l.0")
    for arch in ("sm_80", "sm_90"):
        assert compile_cuda(pl.generate_code(knl).device_code, arch).cubin


def test_rules_predicates_subscripts_and_reductions_may_call() -> None:
    pick = pl.ForeignFunction("pick", (np.int32,), preamble="static inline int pick(int k) { return k % 3; }",
                              reference=lambda k: k % 3)  # fmt: skip
    data = [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("t", F, shape=3), pl.GlobalArg("y, s", F, shape="n"), ...]
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[k]: 0 <= k < 3}"],
        ["twice(a) := 2*half_of(a)", "y[i] = 0 {id=zero}", "y[i] = twice(x[i]) + t[pick(i)] {if=pick(i) > 0, dep=zero}",
         "s[i] = sum(k, half_of(t[k] + i))"],
        data, functions=[[half()], pick])  # fmt: skip
    rng = np.random.default_rng(0)
    x, t = rng.integers(-4, 5, 7).astype(F), rng.integers(-4, 5, 3).astype(F)
    i = np.arange(7)
    want = np.where(i % 3 > 0, x + t[i % 3], 0)
    for found in (pl.interpret(knl, x=x, t=t), pl.compile(knl, target=pl.CTarget())(x=x, t=t, poison=True)):
        np.testing.assert_array_equal(found.y, want)
        np.testing.assert_array_equal(found.s, (t.sum() + 3 * i) / 2)


def test_transforms_keep_the_functions_and_avoid_their_names() -> None:
    knl = kernel(["<> t = half_of(x[i])", "y[i] = t"], half(c_name={"c": "t_0"}))
    assert knl.foreign
    assert pl.split_iname(knl, "i", 4).foreign == knl.foreign
    assert knl.fresh("half_of") == "half_of_0"
    assert knl.fresh("t") == "t_1"


# {{{ types


def test_the_result_has_the_common_type_of_the_arguments() -> None:
    assert pl.ForeignFunction("f", (F, np.float64)).result == np.float64
    assert pl.ForeignFunction("f", (np.int8, np.int32)).result == np.int32
    assert str(pl.ForeignFunction("f", ("float32", np.int32), "complex64")) == "f(float32, int32) -> complex64"


def test_types_are_inferred_from_the_result() -> None:
    count = pl.ForeignFunction("count", (F,), np.int64)
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = count(x[i])", functions=[count])
    assert pl.add_dtypes(knl, {"x": F}).argument("y").dtype == np.int64  # type: ignore[union-attr]


FLOATS = [pl.ForeignFunction("f", (kind, kind), c_name=f"f_{name}") for kind, name in ((F, "s"), (np.float64, "d"))]
INTEGERS = pl.ForeignFunction("f", (np.int32, np.int32), c_name="f_i")


@pytest.mark.parametrize(
    ("call", "chosen"),
    [
        ("f(x[i], x[i])", "f_s"),
        ("f(x[i], 2.0)", "f_s"),
        ("f(x[i], i)", "f_s"),
        ("f(x[i], d[i])", "f_d"),
        ("f(2.0, 1)", "f_d"),
        ("f(i, 2)", "f_i"),
        ("f(i, cast(int64, i))", "f_d"),
        ("f(1, 2)", "f_i"),
    ],
)
def test_the_narrowest_overload_that_holds_the_arguments_is_called(call: str, chosen: str) -> None:
    data = [pl.GlobalArg("x", F, shape="n"), pl.GlobalArg("d, y", np.float64, shape="n"), ...]
    knl = kernel(f"y[i] = {call}", *FLOATS, INTEGERS, data=data, silenced_warnings="*")
    assert f"{chosen}(" in c_code(knl)


def test_calls_that_fit_no_overload_or_several_are_refused() -> None:
    text = refused("wrong-argument-count", lambda: kernel("y[i] = half_of(x[i], 1)", half()))
    assert "'half_of' takes 1 argument, not 2" in text
    assert "half_of(float32) -> float32" in text
    text = refused("type-conflict", lambda: kernel("y[i] = half_of(cast(float64, x[i]))", half()))
    assert "'half_of' does not take (float64)" in text
    refused("type-conflict", lambda: kernel("y[i] = half_of(x[i] + 1j)", half()))
    crossed = [pl.ForeignFunction("f", kinds, F) for kinds in ((F, np.float64), (np.float64, F))]
    text = refused("type-conflict", lambda: kernel("y[i] = f(x[i], x[i])", crossed))
    assert "may mean several functions" in text
    byte = pl.ForeignFunction("f", (np.uint8,))
    refused("bad-constant", lambda: kernel("y[i] = f(300)", byte, silenced_warnings="*"))


def test_arguments_are_converted_before_the_call() -> None:
    both = pl.ForeignFunction("both", (np.float64, np.int64), F, reference=lambda a, b: a + b)
    knl = kernel("y[i] = both(x[i], i)", both)
    assert "both((double)x[i], (int64_t)i)" in c_code(knl)
    np.testing.assert_array_equal(pl.interpret(knl, x=np.arange(3, dtype=F)).y, [0, 2, 4])


# }}}
# {{{ targets


def test_a_target_without_an_entry_refuses() -> None:
    cuda_only = pl.ForeignFunction("fast_exp", (F,), c_name={"cuda": "__expf"})
    knl = kernel("y[i] = fast_exp(x[i])", cuda_only)
    assert "__expf(x[i])" in pl.generate_code(knl).device_code
    text = refused("unsupported-function", lambda: c_code(knl))
    assert "'fast_exp' has no entry for target 'c'" in text
    knl = kernel("y[i] = half_of(x[i])", half(preamble={"c": HALF}))
    refused("unsupported-function", lambda: pl.generate_code(knl))


def test_the_interpreter_needs_a_reference_that_returns_the_type() -> None:
    x = np.ones(2, F)
    silent = kernel("y[i] = half_of(x[i])", half(reference=None))
    text = refused("unsupported-function", lambda: pl.interpret(silent, x=x))
    assert "'half_of', which has no reference" in text
    for wrong in (lambda _: None, lambda _: 1j, lambda _: np.ones(2), lambda _: "1"):
        wrongly = kernel("y[i] = half_of(x[i])", half(reference=wrong))
        text = refused("wrong-type", lambda knl=wrongly: pl.interpret(knl, x=x))
        assert "the reference of 'half_of' returned" in text


def test_c_cannot_tell_overloads_apart() -> None:
    both = [pl.ForeignFunction("f", (kind,)) for kind in (F, np.float64)]
    knl = kernel("y[i] = f(x[i]) + f(cast(float64, x[i]))", both)
    assert "target 'c' would call two functions 'f'" in refused("unsupported-function", lambda: c_code(knl))
    assert "f(x[i]) + f((double)x[i])" in pl.generate_code(knl).device_code


def test_two_functions_of_one_c_name_are_refused() -> None:
    other = pl.ForeignFunction("other", (F,), c_name="half_of", preamble=HALF + "  // another")
    knl = kernel("y[i] = half_of(x[i]) + other(x[i])", half(), other)
    for target in (pl.CTarget(), pl.CudaTarget()):
        refused("unsupported-function", lambda target=target: pl.generate_code(knl, target))


# }}}
# {{{ definitions and names


def test_kernels_with_one_text_and_other_definitions_are_kept_apart() -> None:
    x = np.arange(4, dtype=F)
    for factor in (2, 3, 2):
        text = f"static inline float f(float x) {{ return {factor}.0f * x; }}"
        scale = pl.ForeignFunction("f", (F,), preamble=text, reference=lambda v, factor=factor: factor * v)
        knl = kernel("y[i] = f(x[i])", scale)
        np.testing.assert_array_equal(pl.interpret(knl, x=x).y, factor * x)
        np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(x=x).y, factor * x)
    refused("unknown-function", lambda: kernel("y[i] = f(x[i])"))


def test_names_that_mean_two_things_are_refused() -> None:
    refused("name-taken", lambda: kernel("y[i] = half_of(x[i])", half(), half(reference=None)))
    refused("name-taken", lambda: kernel(["half_of(a) := a + 1", "y[i] = half_of(x[i])"], half()))
    refused("name-taken", lambda: kernel(["<> half_of = x[i]", "y[i] = half_of(half_of)"], half()))
    refused("name-taken", lambda: kernel("y[i] = half_of(x[i])", half(), name="half_of"))
    macro = half(preamble="#define n 5\n" + HALF)
    assert "'n' is used in the kernel" in refused("name-taken", lambda: kernel("y[i] = half_of(x[i])", macro))
    statements = pl.make_function("{[j]: 0 <= j < m}", "b[j] = a[j]", [pl.GlobalArg("a, b", shape="m"), ...],
                                  name="half_of")  # fmt: skip
    refused("name-taken", lambda: kernel("y[i] = half_of(x[i])", half(), statements))


def test_generated_names_avoid_those_of_the_preamble() -> None:
    text = "#define bx 3\n#define tx 4\nstatic __device__ float f(float x) { return x; }"
    knl = kernel("y[i] = f(x[i])", pl.ForeignFunction("f", (F,), preamble=text))
    code = pl.generate_code(pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")).device_code
    assert "const int bx_0 = blockIdx.x;" in code
    assert "const int tx_0 = threadIdx.x;" in code


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("reserved-name", ("sin", (F,))),
        ("reserved-name", ("gcd", (np.int32,))),
        ("reserved-name", ("while", (F,))),
        ("bad-identifier", ("a b", (F,))),
        ("bad-identifier", ("f", (F,), F, "f(x)")),
        ("bad-function", ("f", ())),
        ("bad-function", ("f", (np.float16,))),
        ("bad-function", ("f", (pl.vec.float4,))),
        ("bad-function", ("f", (np.uint64, np.int64))),
        ("bad-function", ("f", (F,), F, {"metal": "f"})),
        ("bad-function", ("f", (F,), F, None, 3)),
        ("bad-function", ("f", (F,), F, None, "", 3)),
        ("unknown-dtype", ("f", ("float12",))),
    ],
)
def test_what_is_no_foreign_function_is_refused(code: str, arguments: Any) -> None:
    refused(code, lambda: pl.ForeignFunction(*arguments))


def test_effects_are_declared_and_writes_refused() -> None:
    table = "static const float table[4] = {1, 2, 4, 8};\nstatic inline float looked_up(int i) { return table[i]; }"
    function = pl.ForeignFunction("looked_up", (np.int32,), F, preamble=table, effects="reads")
    knl = kernel("y[i] = looked_up(i % 4)", function, data=[pl.GlobalArg("y", F, shape="n"), ...])
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(n=6).y, [1, 2, 4, 8, 1, 2])
    assert "effects='reads'" in function.python() or 'effects="reads"' in function.python()
    assert pl.loads(pl.dumps(knl)) == knl
    assert function != pl.ForeignFunction("looked_up", (np.int32,), F, preamble=table)
    text = refused("bad-function", lambda: pl.ForeignFunction("f", (F,), effects="writes"))
    assert "call it in a pl.CInstruction" in text
    refused("bad-function", lambda: pl.ForeignFunction("f", (F,), effects="some"))


def test_functions_and_fused_kernels_keep_foreign_functions() -> None:
    inner = pl.make_function("{[j]: 0 <= j < m}", "b[j] = half_of(a[j])", [pl.GlobalArg("a, b", shape="m"), ...],
                             name="halves", functions=[half()])  # fmt: skip
    knl = kernel("y[:] = halves(x[:])", inner, silenced_warnings="*")
    assert "half_of(" in c_code(knl)
    first, second = (kernel(f"{out}[i] = half_of(x[i])", half(reference=None), name=out,
                            data=[pl.GlobalArg(f"x, {out}", F, shape="n"), ...]) for out in "pq")  # fmt: skip
    fused = pl.fuse_kernels([first, second])
    assert c_code(fused).count("static inline float half_of") == 1
    other = half(preamble=f"static inline {HALF}  // another")
    third = kernel("r[i] = half_of(x[i])", other, data=[pl.GlobalArg("x, r", F, shape="n"), ...])
    assert "two definitions of half_of" in refused("name-taken", lambda: pl.fuse_kernels([first, third]))


def test_a_script_shows_the_function_but_not_a_python_reference() -> None:
    long = half(reference=None, preamble="static inline float half_of(float x)\n{\n    return 0.5f * x;\n}")
    knl = kernel("y[i] = half_of(x[i])", long)
    namespace: dict[str, Any] = {}
    exec(pl.kernel_to_python(knl), namespace)
    assert namespace["knl"].foreign == knl.foreign
    assert c_code(namespace["knl"]) == c_code(knl)
    refused("no-script", lambda: pl.kernel_to_python(kernel("y[i] = half_of(x[i])", half())))


half_python, third_python = half(), pl.ForeignFunction("half_of", (np.float64,))


def test_a_python_kernel_calls_foreign_functions_by_their_names() -> None:
    @pl.kernel
    def halves(x: pl.Array[F, "n"], y: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            y[i] = half_python(x[i])

    np.testing.assert_array_equal(pl.interpret(halves, x=np.ones(3, F)).y, np.full(3, 0.5, F))
    refused("no-script", lambda: pl.kernel_to_python(halves))

    def both(x: pl.Array[F, "n"], y: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            y[i] = half_python(x[i]) + third_python(x[i])

    refused("name-taken", lambda: pl.kernel(both))


# }}}
