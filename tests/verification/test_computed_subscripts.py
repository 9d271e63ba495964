"""Subscripts that are computed from inames and sizes: proven inside, checked at launch, or refused with an instance."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import permutations, product

import islpy as isl
import numpy as np
import pytest

import polyloop as pl
from polyloop.expr.parser import parse_expression
from polyloop.frozen import replace
from polyloop.verification.computed_subscripts import pieces_outside

ROW = "{[i]: 0 <= i < n}"
SQUARE = "{[i, j]: 0 <= i, j < n}"


def kernel_of(index: str, shape: str = "n", domain: str = ROW, assumptions: str = "") -> pl.LoopKernel:
    arguments = [pl.GlobalArg("y", np.float32, shape=shape), ...]
    return pl.make_kernel(domain, f"y[{index}] = 1.0", arguments, assumptions=assumptions)


def checks(knl: pl.LoopKernel) -> list[str]:
    found = pl.generate_code(knl, target=pl.CTarget()).checks
    return [check.message for check in found if check.code == "out-of-bounds"]


@pytest.mark.parametrize("index", [
    "i & 7", "min(i, 3)", "max(i, n - 1)", "max(0, i - 1)", "min(i + 1, n - 1)", "i // 2", "i >> 1", "i % 3", "abs(i)",
    "if(i > 2, i - 1, i)", "if(i < n - 1, i + 1, 0)", "if(not i >= 3 and i != 1, 0, i)", "(i << 1) >> 1", "i**1",
    "abs(i - n + 1)",
])  # fmt: skip
def test_subscripts_of_affine_pieces_are_proven_inside(index: str) -> None:
    assert checks(kernel_of(index)) == []


@pytest.mark.parametrize(("index", "domain", "shape"), [
    ("i ^ j", "{[i, j]: 0 <= i, j < 16}", "16"), ("i*i % 7", "{[i]: 0 <= i < 16}", "5"),
    ("2**i", "{[i]: 0 <= i < 10}", "513"), ("1 << i", "{[i]: 0 <= i < 10}", "513"),
    ("i*j", "{[i, j]: 0 <= i, j < 9}", "65"), ("i*(i + 1)//2 + j", "{[i, j]: 0 <= j <= i < 40}", "820"),
])  # fmt: skip
def test_subscripts_without_sizes_are_looked_at_exactly(index: str, domain: str, shape: str) -> None:
    assert checks(kernel_of(index, shape, domain)) == []
    with pytest.raises(pl.KernelError) as err:
        kernel_of(index, str(int(shape) - 1), domain)
    assert err.value.codes == ("out-of-bounds",)


@pytest.mark.parametrize(("index", "shape", "assumptions", "proven"), [
    ("(i + 1) % n", "n", "", True), ("(3*i - 5) % n", "n + 2", "", True), ("i*i % n", "n", "", False),
    ("i % (n - 1)", "n", "n > 1", True), ("i % (n + 1)", "n", "", False),
    ("(i + 2) % m", "n", "m >= 1 and m <= n", True), ("(i + 2) % m", "n", "m <= n", False),
    ("(i + 2) % m", "n", "m >= 1", False),
])  # fmt: skip
def test_remainders_by_a_size_of_the_array_are_proven_inside(
    index: str, shape: str, assumptions: str, proven: bool
) -> None:
    knl = kernel_of(index, shape, "[n, m] -> {[i]: 0 <= i < n}", assumptions)
    assert (checks(knl) == []) == proven


@pytest.mark.parametrize(("index", "needs"), [
    ("2**3", "y[8] stays inside y, whose shape is (n), only if n >= 9"),
    ("1 << 4", "y[16] stays inside y, whose shape is (n), only if n >= 17"),
    ("abs(i - 100)", "y[abs(i - 100)] stays inside y, whose shape is (n), only if n >= 101 (where n >= 1)"),
    ("max(i, 3)", "y[max(i, 3)] stays inside y, whose shape is (n), only if n >= 4 (where n >= 1)"),
])  # fmt: skip
def test_what_holds_for_some_sizes_is_checked(index: str, needs: str) -> None:
    assert checks(kernel_of(index)) == [needs]


@pytest.mark.parametrize("index", [
    "i*i", "i**2", "i << 1", "2**i", "1 << i", "i ^ 1", "i | 1", "~i", "i // -2", "n // (i + 1)", "i*(n - 1)",
    "if(i > 2, 2*i, i)", "max(i, n)", "-abs(i)", "min(i, -1)",
])  # fmt: skip
def test_what_fails_for_large_sizes_is_refused_with_an_instance(index: str) -> None:
    with pytest.raises(pl.KernelError) as err:
        kernel_of(index)
    assert err.value.codes == ("out-of-bounds",)
    (note, *_) = err.value.found[0].notes
    match = re.fullmatch(r"instance \((?:i=(\d+))?\) with n=(\d+) touches y\[(-?\d+)\] \(axis 0\)", note)
    assert match is not None, note
    i, n, element = int(match[1] or 0), int(match[2]), int(match[3])
    expected = eval(re.sub(r"if\((.*?), (.*?), (.*?)\)", r"((\2) if \1 else (\3))", index), {"i": i, "n": n})
    assert 0 <= i < n
    assert expected == element
    assert not 0 <= element < n


def test_the_text_of_a_refusal() -> None:
    with pytest.raises(pl.KernelError) as err:
        kernel_of("i*i")
    assert str(err.value).splitlines() == [
        "make_kernel on kernel 'loop_kernel': 'y' is accessed outside of its shape (n) [out-of-bounds]",
        "  y[i*i] = 1.0                                         (line 1, instruction 'insn')",
        "  ^^^^^^",
        "  Note: instance (i=6) with n=33 touches y[36] (axis 0)",
        "  Hint: shrink the domain, enlarge the array, or state what holds with assumptions=",
    ]


@pytest.mark.parametrize(("index", "shape", "domain", "good", "bad"), [
    ("i*i", "m", ROW, {"n": 4, "m": 10}, {"n": 4, "m": 9}),
    ("i*n + j", "m", SQUARE, {"n": 5, "m": 25}, {"n": 5, "m": 24}),
    ("2**n", "m", ROW, {"n": 3, "m": 9}, {"n": 3, "m": 8}),
    ("2**n + i - i", "m", ROW, {"n": 0, "m": 0}, {"n": 10**9, "m": 10}),
    ("i*m", "n*m + 40", ROW, {"n": 6, "m": 3}, {"n": 6, "m": -3}),
    ("cast(int8, i)", "n", ROW, {"n": 128}, {"n": 129}),
])  # fmt: skip
def test_what_the_sizes_decide_is_checked_at_each_call(
    index: str, shape: str, domain: str, good: dict[str, int], bad: dict[str, int]
) -> None:
    run = pl.compile(kernel_of(index, shape, domain), target=pl.CTarget())
    run(**good)
    with pytest.raises(pl.ArgumentError) as err:
        run(**bad)
    assert err.value.codes == ("out-of-bounds",)
    with pytest.raises(pl.ArgumentError) as err:
        pl.interpret(kernel_of(index, shape, domain), **bad)
    assert err.value.codes == ("out-of-bounds",)


@pytest.mark.parametrize(("index", "shape", "domain", "sizes"), [
    ("i*n + j", "n*n", SQUARE, {"n": 50}), ("i*i", "n*n", ROW, {"n": 50}), ("i % n", "n", ROW, {"n": 9}),
    ("(i*7) % n", "n", ROW, {"n": 9}), ("i*(i + 1)//2 + j", "n*(n + 1)//2", "{[i, j]: 0 <= j <= i < n}", {"n": 60}),
    ("i*(n - 1 - i)", "n*n//4 + 1", ROW, {"n": 61}), ("i*n + j", "n*m", "{[i, j]: 0 <= i < m and 0 <= j < n}",
     {"n": 5, "m": 7}), ("if(i*i < n, i*i, 0)", "n", ROW, {"n": 40}),
])  # fmt: skip
def test_correct_programs_run(index: str, shape: str, domain: str, sizes: dict[str, int]) -> None:
    pl.compile(kernel_of(index, shape, domain), target=pl.CTarget())(**sizes)


def test_pieces_that_a_size_leaves_nothing_of_are_not_looked_at() -> None:
    """Seed 48301865: of ``i <= 1 or i >= 4``, split by 2, n = 1 leaves no second piece; it had no box, so no answer."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n and (i <= 1 or i >= 4)}",
        "y[i] = x[((i + 3) | 1) & 7]",
        [pl.GlobalArg("y", np.float32, shape="n"), pl.GlobalArg("x", np.float32, shape="n + 8")],
    )
    knl = pl.rename_argument(pl.split_iname(knl, "i", 2), "x", "z")
    run = pl.compile(knl, target=pl.CTarget())
    for n in (0, 1, 2, 4, 5, 6):
        z = np.arange(n + 8, dtype=np.float32)
        wanted = {i: z[(i + 3 | 1) & 7] for i in range(n) if not 1 < i < 4}
        y = run(z=z, n=n)["y"]
        assert {i: y[i] for i in wanted} == wanted


def test_an_assumption_makes_a_program_correct() -> None:
    run = pl.compile(kernel_of("i ^ 1", assumptions="n mod 2 = 0"), target=pl.CTarget())
    assert run(n=1_000_000).y[123_456] == 1


def test_what_data_decides_is_taken_on_trust_and_nothing_else_is() -> None:
    arguments = [pl.GlobalArg("x, y", np.float32, shape="n"), pl.GlobalArg("ix", np.int32, shape="n"), ...]
    knl = pl.make_kernel(ROW, "y[ix[i]] = x[i & 7]", arguments)
    assumed = [entry.what for entry in pl.verify(knl).assumptions if "data" in entry.what]
    assert assumed == ["data keeps y[..] in 'insn' inside of 'y'"]


def test_transformed_kernels_keep_their_proofs() -> None:
    arguments = [pl.GlobalArg("y", np.float32, shape="n*n"), pl.GlobalArg("z", np.float32, shape="n, n"), ...]
    knl = pl.make_kernel(SQUARE, "z[i, j] = y[i*n + j]", arguments)
    knl = pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")
    assert pl.verify(knl).is_proven
    y = np.arange(81, dtype=np.float32)
    np.testing.assert_array_equal(pl.compile(knl, target=pl.CTarget())(y=y, n=9).z, y.reshape(9, 9))


def test_a_minimum_of_an_iname_and_a_number_is_no_reduction() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = min(i, 3)", [pl.GlobalArg("y", np.int32, shape="n"), ...])
    assert pl.compile(knl, target=pl.CTarget())(n=6).y.tolist() == [0, 1, 2, 3, 3, 3]


def test_a_reduction_in_a_subscript_that_is_assigned_is_refused() -> None:
    with pytest.raises(pl.KernelError) as err:
        pl.make_kernel("{[i, j]: 0 <= i, j < n}", "y[sum(j, j)] = 1.0")
    assert err.value.codes == ("misplaced-reduction",)
    assert err.value.found[0].message == "a subscript of an assignment holds no reduction"


FORMS = (
    "{a} + {b}", "{a} - {b}", "({a})*({b})", "min({a}, {b})", "max({a}, {b})", "abs({a})", "({a}) & 3", "({a}) ^ ({b})",
    "({a}) // 2", "({a}) % 4", "({a}) << 1", "({a}) >> 1", "if({a} < {b}, {a}, {b})", "({a})**2", "({a}) | 1",
)  # fmt: skip


def _text(rng: random.Random, depth: int) -> str:
    if not depth:
        return rng.choice(["i", "j", "n", "1", "2"])
    return rng.choice(FORMS).format(a=_text(rng, depth - 1), b=_text(rng, depth - 1))


def _python(text: str) -> str:
    return re.sub(r"\bif\(", "choose(", text)


def compare(seed: int, count: int) -> int:
    """Compare what is said of random subscripts with what enumeration says; return how many were accepted."""
    rng = random.Random(seed)
    accepted = 0
    for _ in range(count):
        text, shape = _text(rng, rng.randint(1, 3)), rng.choice(["n", "n*n", "2*n + 3", "16", "n + 40"])
        try:
            values = {n: all(0 <= index < eval(shape, {"n": n}) for index in _indices(text, n)) for n in range(1, 9)}
        except ValueError:
            continue  # a shift by a negative number, which Python refuses
        knl = _accepted(f"{text} + i - i + j - j", shape)
        if knl is None:
            continue
        accepted += 1
        for n, is_inside in values.items():
            found = _outcome(knl, n=n)
            assert found == ("runs" if is_inside else "is refused"), (text, shape, n)
    return accepted


def _indices(text: str, n: int) -> Iterator[int]:
    names = {"min": min, "max": max, "abs": abs, "choose": lambda c, a, b: a if c else b, "n": n}
    names["cast"] = lambda _, value: value
    names["int32"] = None
    for i, j in product(range(n), range(n)):
        yield eval(_python(text), {**names, "i": i, "j": j})


def _accepted(text: str, shape: str) -> pl.LoopKernel | None:
    try:
        return kernel_of(text, shape, SQUARE)
    except pl.KernelError as error:
        if error.codes != ("out-of-bounds",):
            raise
        return None


def _outcome(knl: pl.LoopKernel, **sizes: int) -> str:
    try:
        pl.interpret(knl, **sizes)
    except pl.ArgumentError as error:
        return "leaves the array" if "does not exist" in str(error) else "is refused"
    return "runs"


def test_random_subscripts_are_judged_as_by_enumeration() -> None:
    assert compare(1, 60) > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_random_subscripts_are_judged_as_by_enumeration_at_length(seed: int) -> None:
    compare(seed, 400)


PLAIN = ("i", "i + 1", "j", "n - 1 - i", "2*i + j", "i - j + n", "0", "3", "n", "2*j")
PIECES = (
    "(i + j) // 2", "min(i, j + 1)", "max(i, 3)", "abs(i - j)", "if(i == j, i, 0)", "if(i < j or i > 2, 1, i)", "i % 3",
    "if(i < j and j > 2, n, i)", "cast(int32, i + j)", "2*3*i", "(2*i) % 4", "i // 3", "min(i, j, 2)", "i*j", "i*i",
)  # fmt: skip


def test_several_accesses_are_judged_as_by_enumeration() -> None:
    """Accesses of one program, to arrays of other ranks and shapes, of which any may leave its array."""
    rng = random.Random(7)
    shapes = {"x": "m", "y": "m + 2", "z": "2*m + 1", "s": "n + m", "t": "n*m", "u": "3*n + m"}
    met = {"runs": 0, "is refused": 0}
    for _ in range(50):
        texts = {name: rng.choice(PLAIN if rng.random() < 0.6 else PIECES) for name in rng.sample(sorted(shapes), 4)}
        lines = [f"{name}[{text}] = 1.0" for name, text in texts.items()]
        lines.insert(rng.randrange(4), "c = 1.0")
        arguments = [pl.GlobalArg(name, np.float32, shape=shapes[name]) for name in texts]
        arguments.append(pl.GlobalArg("c", np.float32, shape=()))
        try:
            text = "\n".join(["for i, j", *lines, "end"])
            knl = pl.make_kernel(SQUARE, text, arguments, seq_dependencies=True, silenced_warnings="*")
        except pl.KernelError as error:
            assert error.codes[0] == "out-of-bounds"  # noqa: PT017 - what no size saves is refused at once
            continue
        for n, m in product((1, 2, 3), (1, 2, 3, 5, 9)):
            sizes = {"n": n, "m": m} if "m" in knl.parameters else {"n": n}
            inside = all(0 <= at < eval(shapes[x], {"n": n, "m": m}) for x in texts for at in _indices(texts[x], n))
            found = _outcome(knl, **sizes)
            assert found == ("runs" if inside else "is refused"), (texts, sizes)
            met[found] += 1
    assert min(met.values()) > 10, met


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("extent", ["n", "n + 1"])
def test_each_access_is_looked_at_again_when_a_kernel_is_verified(order: tuple[int, ...], extent: str) -> None:
    text = "y[i] = " + " + ".join(f"x[i + {k}]" for k in order)
    y, x = (pl.GlobalArg(name, np.float32, shape=shape) for name, shape in (("y", "n"), ("x", "n + 2")))
    knl = pl.make_kernel(ROW, text, [y, x])
    assert pl.verify(knl).is_proven
    small = pl.make_kernel(ROW, "y[i] = x[0]", [y, pl.GlobalArg("x", np.float32, shape=extent)]).arguments
    with pytest.raises(pl.VerificationError, match="'x' is accessed outside of its shape"):
        pl.verify(replace(knl, arguments=small))


@pytest.mark.parametrize("first", ["i & 7", "(i + 4) & 7", "min(i, 7)", "i % 5"])
@pytest.mark.parametrize("swapped", [False, True])
def test_each_subscript_of_one_array_is_looked_at_by_itself(first: str, *, swapped: bool) -> None:
    """Seed 80600742: of two subscripts of arrays of one shape, the second had what was found of the first."""
    parts = [f"x[{first}]", "z[min(n + 2 - i, 6)]"]
    text = f"y[i] = {' + '.join(reversed(parts) if swapped else parts)}"
    data = [pl.GlobalArg("x, z", np.float32, shape="2*n + 8"), pl.GlobalArg("y", np.float32, shape="16"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < 10}", text, data)
    assert any("z[min(n + 2 - i, 6)] stays inside z" in message for message in checks(knl))
    with pytest.raises(pl.ArgumentError) as refused:
        pl.compile(knl, target=pl.CTarget())(x=np.zeros(18, np.float32), z=np.zeros(18, np.float32), n=5)
    assert refused.value.codes == ("out-of-bounds",)


@pytest.mark.parametrize("subscripts", ["ix[i], i + 1", "i + 1, ix[i]", "i*i, n", "i - 1, i*i", "ix[i], -i"])
def test_each_axis_is_looked_at_by_itself(subscripts: str) -> None:
    shape = ", ".join("n*n" if "*" in part else "n" for part in subscripts.split(", "))
    data = [pl.GlobalArg("x", np.float32, shape=shape), pl.GlobalArg("y", np.float32, shape="n"), ...]
    if "ix" in subscripts:
        data.insert(0, pl.GlobalArg("ix", np.int32, shape="n"))
    with pytest.raises(pl.KernelError) as refused:
        pl.make_kernel(ROW, f"y[i] = x[{subscripts}]", data)
    assert refused.value.codes == ("out-of-bounds",)


@pytest.mark.parametrize("text", ["abs(3*i - 11)*2", "20 - 3*abs(i - 5)", "abs(i - 4) // 3 + 1", "-abs(i - 2) % 4"])
def test_pieces_are_those_of_enumeration(text: str) -> None:
    domain = isl.Set("{ [i] : 0 <= i < 10 }")
    for extent in range(24):
        found = pieces_outside(domain, ("i",), parse_expression(text), extent)
        assert found is not None
        wanted = [i for i in range(10) if not 0 <= eval(text, {"abs": abs, "i": i}) < extent]
        assert found.is_equal(isl.Set("{ " + "; ".join(f"[{i}]" for i in wanted) + " }") if wanted else found.empty(
            found.get_space()))  # fmt: skip


def test_a_number_that_is_not_known_is_not_taken_to_be_inside() -> None:
    """No size is in it, and nobody computes numbers of 9,000 bits."""
    assert checks(kernel_of("2**(1000*i) % 7", "7", "{[i]: 0 <= i < 10}"))


@pytest.mark.parametrize(("small", "other"), [("m", "n"), ("n", "m")])
def test_an_access_that_holds_for_small_sizes_only_is_refused(small: str, other: str) -> None:
    with pytest.raises(pl.KernelError) as caught:
        kernel_of("2*i, j", f"{small} + 10, {other}", f"{{[i, j]: 0 <= i < {small} and 0 <= j < {other}}}")
    assert caught.value.codes == ("out-of-bounds",)
