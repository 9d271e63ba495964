"""Kernels written as Python functions: they do what Python does, and are what the text would give."""
# mypy: ignore-errors
# ruff: noqa: ANN001, ANN202, F821, UP037
# Inside of a kernel the name of a type stands for an array with extents, which no type checker knows.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.arrays import ArrayArg
from tests.frontend import functions

F = np.float32
SIZE = 8
HALF = 0.5


def arguments_of(knl: pl.LoopKernel, n: int, rng: np.random.Generator) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for argument in knl.arguments:
        if isinstance(argument, ArrayArg):
            shape = [n if str(extent) == "n" else int(extent) for extent in argument.shape or ()]
            found[argument.name] = rng.random(shape).astype(argument.dtype)
        elif argument.name != "n":
            found[argument.name] = F(1.5)
    return found


@pytest.mark.parametrize("n", [1, 2, 7, 12])
@pytest.mark.parametrize("function", functions.FUNCTIONS, ids=lambda function: function.__name__)
def test_a_kernel_does_what_python_does(function: Callable[..., None], n: int) -> None:
    knl = pl.kernel(function)
    given = arguments_of(knl, n, np.random.default_rng(n))
    expected = {name: np.copy(value) for name, value in given.items()}
    function(n=n, **expected)
    outputs = [argument.name for argument in knl.arguments if isinstance(argument, ArrayArg) and argument.is_output]
    for run in (lambda **values: pl.interpret(knl, **values), pl.compile(knl, target=pl.CTarget())):
        result = run(**{name: np.copy(value) for name, value in given.items()})
        for name in outputs:
            np.testing.assert_allclose(getattr(result, name), expected[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("function", functions.FUNCTIONS, ids=lambda function: function.__name__)
def test_a_kernel_prints_as_text_that_makes_the_same_kernel(function: Callable[..., None]) -> None:
    knl = pl.kernel(function)
    names: dict[str, Any] = {}
    exec(pl.kernel_to_python(knl), names)
    assert str(knl) == str(names["knl"])
    assert str(knl.reference) == str(names["knl"].reference)


def same(knl: pl.LoopKernel, text: pl.LoopKernel) -> None:
    assert str(knl) == str(text)
    assert str(knl.reference) == str(text.reference)
    for target in (pl.CTarget(), pl.CudaTarget()):
        assert pl.generate_code(knl, target=target).device_code == pl.generate_code(text, target=target).device_code


def data(*names: str) -> list[object]:
    return [*(pl.GlobalArg(name, F, shape="n") for name in names), pl.ValueArg("n", np.int32)]


def test_a_matrix_product_is_the_kernel_of_the_text() -> None:
    @pl.kernel(assumptions="n >= 1")
    def matmul(a: pl.Array[F, "n", "n"], b: pl.Array[F, "n", "n"], c: pl.Array[F, "n", "n"], n: pl.int32):
        for i, j in pl.domain("0 <= i, j < n"):
            c[i, j] = sum(a[i, k] * b[k, j] for k in range(n))

    text = pl.make_kernel(
        ["{[i, j]: 0 <= i, j < n}", "{[k]: 0 <= k < n}"],
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [pl.GlobalArg("a, b, c", F, shape="n, n"), pl.ValueArg("n", np.int32)],
        name="matmul",
        assumptions="n >= 1",
    )
    assert isinstance(matmul, pl.LoopKernel)
    same(matmul, text)
    tiled = matmul.split_iname("i", 16, outer_tag="g.0", inner_tag="l.0")
    same(tiled, text.split_iname("i", 16, outer_tag="g.0", inner_tag="l.0"))


def test_nested_loops_are_nested_domains() -> None:
    @pl.kernel
    def triangle(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            s = 0.0
            for j in range(i + 1):
                s += a[j]
            c[i] = s

    text = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < i + 1}"],
        """
        for i
            <> s = 0.0
            for j
                s = s + a[j]
            end
            c[i] = s
        end
        """,
        data("a", "c"),
        name="triangle",
    )
    same(triangle, text)


def test_each_loop_has_an_iname_of_its_own() -> None:
    @pl.kernel
    def twice(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            c[i] = a[i]
        for i in range(1, n):
            c[i] += a[i - 1]

    text = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[i_1]: 1 <= i_1 < n}"],
        "for i\nc[i] = a[i]\nend\nfor i_1\nc[i_1] += a[i_1 - 1]\nend",
        data("a", "c"),
        name="twice",
    )
    same(twice, text)


def test_if_blocks_are_predicates() -> None:
    @pl.kernel
    def clip(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            if a[i] > HALF:
                c[i] = HALF
            elif i == 0:
                c[i] = 0
            else:
                c[i] = a[i]

    text = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "for i\nif a[i] > 0.5\nc[i] = 0.5\nelif i == 0\nc[i] = 0\nelse\nc[i] = a[i]\nend\nend",
        data("a", "c"),
        name="clip",
    )
    same(clip, text)


@pytest.mark.parametrize("form", ["0 <= i < n and 1 <= j < i", "box", "named"])
def test_the_forms_of_a_domain_agree(form: str) -> None:
    def by_text(a: pl.Array[F, "n", "n"], n: pl.int32):
        for i, j in pl.domain("0 <= i < n and 1 <= j < i"):
            a[i, j] = 1.0

    def box(a: pl.Array[F, "n", "n"], n: pl.int32):
        for i, j in pl.domain(n, (1, i)):  # noqa: B020
            a[i, j] = 1.0

    def named(a: pl.Array[F, "n", "n"], n: pl.int32):
        for i, j in pl.domain(i=n, j=range(1, i)):  # noqa: B020
            a[i, j] = 1.0

    function = {"box": box, "named": named}.get(form, by_text)
    arrays = [pl.GlobalArg("a", F, shape="n, n"), pl.ValueArg("n", np.int32)]
    text = pl.make_kernel("{[i, j]: 0 <= i < n and 1 <= j < i}", "a[i, j] = 1.0", arrays, name="made")
    same(pl.kernel(name="made")(function), text)


def test_options_are_those_of_the_text() -> None:
    @pl.kernel(loop_priority=["i"])
    def steps(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            with pl.options(id="load", tags="first"):
                t: np.float64 = a[i]
            with pl.options(id_prefix="put", dep="load"):
                c[i] = t
                c[i] *= 2

    text = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        for i
            <float64> t = a[i] {id=load, tags=first}
            c[i] = t {id_prefix=put, dep=load}
            c[i] = c[i]*2 {id_prefix=put, dep=load}
        end
        """,
        data("a", "c"),
        name="steps",
        loop_priority=["i"],
    )
    same(steps, text)
    assert [sorted(x.tags) for x in steps.instructions] == [["first"], [], []]
    assert [sorted(x.depends_on) for x in steps.instructions] == [[], ["load"], ["load"]]


def test_functions_conversions_and_constants_are_those_of_the_text() -> None:
    shift = 3

    @pl.kernel
    def mixed(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            c[i] = math.exp(a[i]) + np.arctan2(a[i], SIZE) - np.float64(i) ** 2 + pl.cast("int32", a[i])
            c[i] -= np.where(a[i] > HALF, math.pi, -shift) * min(a[i], 1, i) + rsqrt(a[i] + 1)

    text = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        f"""
        for i
            c[i] = exp(a[i]) + atan2(a[i], 8) - cast(float64, i)**2 + cast(int32, a[i])
            c[i] = c[i] - (if(a[i] > 0.5, {math.pi}, -3)*min(a[i], 1, i) + rsqrt(a[i] + 1))
        end
        """,
        data("a", "c"),
        name="mixed",
    )
    same(mixed, text)


def test_reductions_are_those_of_the_text() -> None:
    @pl.kernel
    def reduced(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            c[i] = pl.product(a[k] for k in range(i)) + pl.reduce("max", (a[k] for k in range(i, n)))
            c[i] += sum(a[k] * a[j] for k, j in pl.domain("0 <= k, j < n and k != j") if a[k] > 0)

    text = pl.make_kernel(
        ["{[i]: 0 <= i < n}", "{[k]: 0 <= k < i}", "{[k_1]: i <= k_1 < n}", "{[k_2, j]: 0 <= k_2, j < n and k_2 != j}"],
        """
        for i
            c[i] = product(k, a[k]) + max(k_1, a[k_1])
            c[i] = c[i] + sum((k_2, j), if(a[k_2] > 0, a[k_2]*a[j], 0))
        end
        """,
        data("a", "c"),
        name="reduced",
    )
    same(reduced, text)


def test_functions_in_the_body_are_substitution_rules() -> None:
    @pl.kernel
    def smooth(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        def at(i):
            return HALF * a[i]

        for i in range(1, n - 1):
            c[i] = at(i - 1) + at(i + 1)

    text = pl.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        "at(i) := 0.5*a[i]\nfor i\nc[i] = at(i - 1) + at(i + 1)\nend",
        data("a", "c"),
        name="smooth",
    )
    same(smooth, text)


def test_a_parameter_of_a_function_is_not_the_variable_of_its_generator() -> None:
    @pl.kernel
    def sums(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        def upto(k):
            return sum(a[k] for k in range(n)) + k

        for i in range(n):
            c[i] = upto(i)

    a = np.ones(3, dtype=F)
    np.testing.assert_allclose(pl.interpret(sums, a=a).c, [3, 4, 5])


def test_arrays_can_be_declared_in_the_body_and_described_in_kernel_data() -> None:
    @pl.kernel(kernel_data=[pl.TemporaryVariable("u", F, shape=(SIZE,), address_space="private")])
    def staged(a: pl.Array[F, SIZE, "n"], c, n: pl.int32):
        t: pl.Array[F, SIZE]
        for j in range(n):
            for i in range(SIZE):
                t[i] = a[i, j]
                u[i] = t[i]
            c[j] = sum(t[i] - 2 * u[SIZE - 1 - i] for i in range(SIZE))

    a = np.arange(24, dtype=F).reshape(8, 3)
    np.testing.assert_allclose(pl.interpret(staged, a=a).c, -a.sum(0))
    assert str(staged.temporaries["u"].address_space) == "private"


def test_a_variable_of_a_generator_hides_others_and_ends_with_it() -> None:
    @pl.kernel
    def hidden(a: pl.Array[F, "n"], c: pl.Array[F, "n"], n: pl.int32):
        for i in range(n):
            c[i] = sum(a[i] for i in range(n)) + i

    a = np.ones(3, dtype=F)
    np.testing.assert_allclose(pl.interpret(hidden, a=a).c, [3, 4, 5])


def test_extents_may_lose_their_quotes() -> None:
    """Where annotations are not evaluated, formatters take them away."""
    n = 5

    @pl.kernel
    def fill(a: pl.Array[F, n, SIZE, m], n: pl.int32):
        for i, j, k in pl.domain("0 <= i < n and 0 <= j < SIZE and 0 <= k < m"):
            a[i, j, k] = n

    assert "a: float32[n, 8, m] (out)" in str(fill)
    assert n == 5


def test_places_of_later_messages_name_the_file() -> None:
    @pl.kernel
    def scan(s: pl.Array[F, "n"], x: pl.Array[F, "n"], n: pl.int32):
        for i in range(1, n):
            s[i] = s[i - 1] + x[i]

    with pytest.raises(pl.TransformError, match=r"\(test_python.py:\d+, instruction 'insn'\)"):
        pl.tag_inames(scan, "i:l.0")


# {{{ the order is Python's


def test_a_read_above_the_only_assignment_stays_above() -> None:
    @pl.kernel
    def delay(n: pl.int32, a: pl.Array[F, "n"], x: pl.Array[F, "n"]) -> None:
        last: pl.Array[F, 1]
        for t in range(n):
            x[t] = last[0] if t > 0 else 0.0
            last[0] = a[t]

    assert [i.id for i in delay.instructions] == ["insn", "insn_1"]
    a = np.arange(1, 6, dtype=F)
    for result in (pl.interpret(delay, a=a), pl.compile(delay, target=pl.CTarget())(a=a)):
        np.testing.assert_array_equal(result.x, [0, 1, 2, 3, 4])


def test_the_order_goes_through_local_functions_conditions_and_subscripts() -> None:
    @pl.kernel
    def memory(n: pl.int32, a: pl.Array[np.int32, "n"], x: pl.Array[np.int32, "n"], y: pl.Array[np.int32, 8]) -> None:
        last: pl.Array[np.int32, 2]

        def seen(k):  # type: ignore[no-untyped-def]
            return last[k]

        for i in range(8):
            y[i] = 0
        for t in range(n):
            x[t] = seen(0) if t > 0 else 7
            if t > 1 and a[t] > last[0]:
                y[last[0]] = t
            last[0] = a[t] % 8

    a = np.array([3, 9, 1, 7, 2, 5], np.int32)
    x, y = [7, 3, 1, 1, 7, 2], [0, 3, 5, 0, 0, 0, 0, 0]
    script: dict[str, object] = {}
    exec(pl.kernel_to_python(memory), script)
    again = next(value for value in script.values() if isinstance(value, pl.LoopKernel))
    for kernel in (memory, again):
        for result in (pl.interpret(kernel, a=a), pl.compile(kernel, target=pl.CTarget())(a=a)):
            np.testing.assert_array_equal(result.x, x)
            np.testing.assert_array_equal(result.y, y)


def test_what_python_would_not_find_is_refused() -> None:
    with pytest.raises(pl.KernelError) as error:

        @pl.kernel
        def early(n: pl.int32, a: pl.Array[F, "n"], x: pl.Array[F, "n"]) -> None:
            last: pl.Array[F, 1]
            for t in range(n):
                x[t] = last[0]
                last[0] = a[t]

    assert error.value.codes == ("read-before-write",)
    assert "(t=0) with n=1 reads last[0]" in str(error.value)


def test_written_loops_stay_as_they_are_nested() -> None:
    @pl.kernel(loop_priority=("j, i",))
    def steps(n: pl.int32, a: pl.Array[np.int32, "n", "n"]) -> None:
        for i in range(n):
            for j in range(n):
                a[i, j] = a[i - 1, j + 1] + 1 if i > 0 and j < n - 1 else i

    assert str(steps.reference).startswith("for i\n    for j\n")


# }}}


@pytest.mark.parametrize(("function", "name"), [(functions.prefix, "s"), (functions.carried, "t")])
def test_a_variable_that_begins_with_a_constant_has_the_type_of_what_it_meets(function, name) -> None:
    knl = pl.kernel(function)
    assert knl.temporaries[name].dtype == F
    assert "double" not in pl.generate_code(knl, target=pl.CTarget()).device_code
