"""Instructions whose code is C text: what analysis sees of them, what is refused, what comes out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.cinstruction import CInstruction
from polyloop.runtime.fibres import run_on_fibres

F = np.float32
HALVE = """
    float x = a[i];
    int k = 0;
    while (x > 1.0f) { x *= factor; ++k; }
    t = x;
    steps[i] = k;
"""
DATA = [
    pl.GlobalArg("a, b", F, shape="n"),
    pl.GlobalArg("steps", np.int32, shape="n"),
    pl.TemporaryVariable("t", F),
    pl.ValueArg("factor", F),
    ...,
]


def halve() -> pl.LoopKernel:
    text = pl.CInstruction("i", HALVE, {"a", "factor"}, ["t", "steps[i]"], id="halve", depends_on="begin")
    return pl.make_kernel(
        "{[i]: 0 <= i < n}", ["t = 0f {id=begin, inames=i}", text, "b[i] = 2*t {dep=halve}"], DATA, name="halve"
    )


def one(
    text: CInstruction, *more: str, shape: str = "n", domain: str = "{[i]: 0 <= i < n}", data: str = "a, b"
) -> pl.LoopKernel:
    return pl.make_kernel(domain, [text, *more], [pl.GlobalArg(data, F, shape=shape), ...])


def code_of(error: pytest.ExceptionInfo[pl.PolyloopError]) -> str:
    (finding,) = error.value.found
    return finding.code


def tiled(knl: pl.LoopKernel) -> pl.LoopKernel:
    return pl.split_iname(knl, "i", 4, outer_tag="g.0", inner_tag="l.0")


# {{{ text


def test_the_text_stands_in_braces_with_its_constants() -> None:
    code = pl.generate_code(tiled(halve()), target=pl.CudaTarget()).device_code
    assert """\
        float t = 0.0f;  // begin
        {  // halve
            const int i = 4 * bx + tx;
            float x = a[i];
            int k = 0;
            while (x > 1.0f) { x *= factor; ++k; }
            t = x;
            steps[i] = k;
        }
        b[i] = 2.0f * t;
""" in code


def test_constants_do_not_hide_what_defines_them() -> None:
    text = pl.CInstruction([("i", "j"), ("j", "i")], "b[4*i + j] = 1.0f;", (), ["b[4*j + i]"])
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < 4}", [text], [pl.GlobalArg("b", F, shape="16"), ...])
    code = pl.generate_code(knl, target=pl.CTarget()).device_code
    lines = [line.strip() for line in code.splitlines()]
    begin = lines.index("const int i_value = j;")
    assert lines[begin : begin + 4] == [
        "const int i_value = j;", "const int j_value = i;", "const int i = i_value;", "const int j = j_value;"
    ]  # fmt: skip


def test_preambles_stand_in_front() -> None:
    text = pl.CInstruction("i", "b[i] = twice(a[i]);", {"a"}, ["b[i]"])
    preambles = [("10_twice", "static float twice(float x) { return two()*x; }\n"), ("00_two", "#define two() 2.0f")]
    data = [pl.GlobalArg("a, b", F, shape="n")]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [text], [*data, ...], preambles=preambles, name="doubled")
    found = pl.compile(knl, target=pl.CTarget())(a=np.arange(3, dtype=F))
    np.testing.assert_array_equal(found["b"], [0, 2, 4])
    other = pl.make_kernel("{[j]: 0 <= j < m}", "c[j] = 1f", [pl.GlobalArg("c", F, shape="m"), ...], name="ones")
    code = pl.generate_code(pl.fuse_kernels([knl, other]), target=pl.CTarget()).device_code
    assert code.index("two() 2") < code.index("float twice(") < code.index("void ")


def test_a_parameter_that_became_a_number_stays_known() -> None:
    knl = one(pl.CInstruction("i", "b[i] = a[n - 1 - i];", ["a", "n"], ["b[i]"]))
    code = pl.generate_code(pl.fix_parameters(knl, n=8), target=pl.CTarget()).device_code
    assert "const int n = 8;" in code


# }}}
# {{{ results


@pytest.mark.parametrize("n", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("parallel", [False, True])
def test_it_computes_what_the_text_says(n: int, parallel: bool) -> None:
    knl = tiled(halve()) if parallel else halve()
    a = np.random.default_rng(n).uniform(0, 50, n).astype(F)
    steps = np.maximum(np.ceil(np.log2(a.astype(np.float64))), 0).astype(np.int32)
    found = pl.compile(knl, target=pl.CTarget())(a=a, factor=F(0.5))
    np.testing.assert_array_equal(found["steps"], steps)
    np.testing.assert_allclose(found["b"], 2 * a * 0.5**steps, rtol=1e-6)
    if parallel:
        program = pl.generate_code(knl, target=pl.CudaTarget())
        for result in run_on_fibres(program, {"a": a, "factor": F(0.5)}).values():
            np.testing.assert_array_equal(result["steps"], steps)


def test_it_is_a_part_of_loops_and_conditions() -> None:
    text = pl.CInstruction("i", "b[i] += a[i];", ["a", "b"], ["b[i]"])
    lines: list[str | CInstruction] = ["for i", "if i > 1", text, "end", "end"]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", lines, [pl.GlobalArg("a, b", F, shape="n"), ...])
    b = np.ones(5, F)
    found = pl.compile(knl, target=pl.CTarget())(a=np.arange(5, dtype=F), b=b)
    np.testing.assert_array_equal(found["b"], [1, 1, 3, 4, 5])
    assert knl.argument("b").is_input  # type: ignore[union-attr]


def test_kernels_with_c_text_have_a_script() -> None:
    knl = halve()
    space: dict[str, object] = {}
    exec(pl.kernel_to_python(knl), space)
    assert str(space["knl"]) == str(knl)


# }}}
# {{{ what analysis sees


def test_a_race_through_the_text_is_found() -> None:
    knl = one(pl.CInstruction("i", "b[0] = a[i];", {"a"}, ["b[0]"]))
    with pytest.raises(pl.PolyloopError) as error:
        tiled(knl)
    assert code_of(error) in ("write-race", "illegal-parallel")


def test_a_whole_array_is_read_anywhere() -> None:
    knl = one(pl.CInstruction("i", "a[i] = a[(7*i) % 5];", {"a"}, ["a[i]"]), data="a")
    with pytest.raises(pl.PolyloopError) as error:
        tiled(knl)
    assert code_of(error) == "illegal-parallel"
    exact = one(pl.CInstruction("i", "a[i] = a[i] + 1.0f;", {"a[i]"}, ["a[i]"]), data="a")
    assert "a[i]" in pl.generate_code(tiled(exact), target=pl.CudaTarget()).device_code


def test_two_targets_conflict_with_each_other() -> None:
    knl = one(pl.CInstruction("i", "b[i] = 1.0f; b[i + 1] = 2.0f;", (), ["b[i]", "b[i + 1]"]), shape="n + 1")
    with pytest.raises(pl.PolyloopError) as error:
        tiled(knl)
    assert code_of(error) in ("write-race", "illegal-parallel")


def test_two_targets_apart_are_fine() -> None:
    knl = one(pl.CInstruction("i", "b[2*i] = 1.0f; b[2*i + 1] = 2.0f;", (), ["b[2*i]", "b[2*i + 1]"]), shape="2*n")
    found = pl.compile(tiled(knl), target=pl.CTarget())(n=3)
    np.testing.assert_array_equal(found["b"], [1, 2] * 3)


def test_bounds_of_targets_are_checked() -> None:
    with pytest.raises(pl.KernelError) as error:
        one(pl.CInstruction("i", "b[i + 1] = 1.0f;", (), ["b[i + 1]"]))
    assert code_of(error) == "out-of-bounds"


def test_a_temporary_that_is_only_perhaps_written_keeps_its_loop() -> None:
    text = pl.CInstruction("i", "if (a[i] > 0.0f) t = a[i];", {"a"}, ["t"], id="set")
    knl = pl.make_kernel("{[i]: 0 <= i < n}", ["t = 0", text, "b[i] = t {dep=set}"], DATA)
    with pytest.raises(pl.PolyloopError) as error:
        pl.generate_code(tiled(knl), target=pl.CudaTarget())
    assert code_of(error) in ("illegal-order", "illegal-parallel")


def test_a_barrier_stands_between_text_and_reader() -> None:
    text = pl.CInstruction("i", "s[i] = a[i];", {"a"}, ["s[i]"], id="fill")
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < 8}",
        [text, "b[j] = s[7 - j] {dep=fill}"],
        [
            pl.GlobalArg("a, b", F, shape="8"),
            pl.TemporaryVariable("s", F, shape="8", address_space="local"),
            ...,
        ],
    )
    knl = pl.tag_inames(knl, "i:l.0, j:l.0")
    program = pl.generate_code(knl, target=pl.CudaTarget())
    assert program.device_code.count("__syncwarp") == 1
    for result in run_on_fibres(program, {"a": np.arange(8, dtype=F)}).values():
        np.testing.assert_array_equal(result["b"], np.arange(8)[::-1])


def test_variables_of_different_owners() -> None:
    text = pl.CInstruction((), "t = a[0]; b[0] = t;", {"a"}, ["t", "b[0]"], id="both")
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["t = 0", text, "c[i] = t {dep=both}"], DATA)
    with pytest.raises(pl.PolyloopError) as error:
        pl.generate_code(pl.tag_inames(knl, "i:l.0"), target=pl.CudaTarget())
    assert code_of(error) == "several-owners"


# }}}
# {{{ refusals


def test_the_interpreter_says_that_it_cannot() -> None:
    with pytest.raises(pl.PolyloopError, match="'halve' is C text, which the interpreter cannot run"):
        pl.interpret(halve(), a=np.ones(3, F), factor=0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b[i] = 1.0f; }", "the brackets of the C text do not match"),
        ("if (a[i] > 0.0f) return; b[i] = 1.0f;", "'return' does not belong in C text"),
        ("if (a[i] > 0.0f) continue;", "'continue' does not belong in C text"),
        ("__syncthreads();", "'__syncthreads' does not belong in C text"),
        ("b[i] = a[j];", "uses iname 'j', which is not declared"),
        ("b[i] = a[n - i - 1];", "uses 'n', which is not declared"),
        ("b[i] = c[i];", "uses 'c', which is not declared"),
    ],
)
def test_text_that_does_what_it_does_not_say(text: str, message: str) -> None:
    instruction = pl.CInstruction("i", text, {"a"}, ["b[i]"])
    with pytest.raises(pl.KernelError, match=message) as error:
        one(instruction, "c[j] = 1", domain="{[i, j]: 0 <= i, j < n}", data="a, b, c")
    assert code_of(error) == "bad-c-instruction"


def test_what_the_text_may_keep_is_no_dead_value(recwarn: pytest.WarningsRecorder) -> None:
    text = pl.CInstruction("i", "if (a[i] > 0.0f) t = a[i]; b[i] = t;", {"a"}, ["t", "b[i]"])
    pl.make_kernel("{[i]: 0 <= i < n}", ["t = 1 {inames=i}", text], [*DATA[:1], DATA[2], ...])
    assert not recwarn.list


def test_words_in_comments_and_fields_are_no_names() -> None:
    knl = one(pl.CInstruction("i", 'b[i] = 1.0f; /* return */ // j }\nconst char *s = "n)";', (), ["b[i]"]))
    assert len(knl.instructions) == 1


def test_arrays_need_a_declaration() -> None:
    with pytest.raises(pl.KernelError) as error:
        pl.make_kernel("{[i]: 0 <= i < n}", [pl.CInstruction("i", "b[i] = a[i];", {"a"}, ["b[i]"])])
    assert code_of(error) == "bad-c-instruction"


def test_what_the_text_reads_by_name_is_not_fetched() -> None:
    knl = one(pl.CInstruction("i", "b[i] = a[i];", {"a"}, ["b[i]"]))
    with pytest.raises(pl.PolyloopError) as error:
        pl.add_prefetch(knl, "a", ["i"])
    assert code_of(error) == "staged-by-c"


# }}}


@pytest.mark.parametrize("change", [
    lambda knl: knl.tag_array_axes("x", "stride:auto,stride:auto"), lambda knl: knl.tag_array_axes("x", "F"),
    lambda knl: knl.add_padding("x", 0, 64)])
def test_the_layout_of_an_array_that_the_text_subscripts_is_kept(change: Callable[[pl.LoopKernel], object]) -> None:
    text = pl.CInstruction("i", "o[i] = x[3*i + 1];", {"x"}, ["o[i]"], id="text")
    data = [pl.GlobalArg("x", np.float32, shape="n, 3"), pl.GlobalArg("o", np.float32, shape="n")]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", [text], data)
    with pytest.raises(pl.TransformError) as caught:
        change(knl)
    assert caught.value.codes == ("staged-by-c",)
    assert "the C text of 'text' names 'x'" in str(caught.value)
    assert "Hint: keep its axes and its layout: the text is not changed" in str(caught.value)
