"""Lines of generated text: none is longer than 100 columns, and breaking one changes no token."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyloop as pl
from polyloop.cli.kernels import matmul
from polyloop.codegen.width import WIDTH, fitted
from tests.generated import code_of, flat

GOLDEN = Path(__file__).parents[1] / "golden"
TEXTS = sorted(path for path in GOLDEN.rglob("*") if path.suffix in {".cu", ".c", ".cl", ".hip"})
F = np.float32


def tokens(text: str) -> str:
    """Return a text without white space and comments, with literals that stand side by side joined."""
    return re.sub(r"\s", "", re.sub(r'(?<!\\n)"\s*\n\s*"', "", re.sub(r"//[^\n]*", "", text)))


def test_there_are_texts() -> None:
    assert len(TEXTS) > 250
    assert {path.parent.name for path in TEXTS} >= {"golden", "examples", "gallery"}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: f"{path.parent.name}-{path.stem}{path.suffix}")
def test_no_line_is_wider_than_100(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []


def test_a_sum_has_an_operand_a_line() -> None:
    total = " + ".join(f"u[{n}][i * n + j + {n}]" for n in range(5))
    assert fitted(f"        v[i * n + j] = {total} - 4.0f * u[0][i * n + j];") == [
        "        v[i * n + j] = u[0][i * n + j + 0]",
        "            + u[1][i * n + j + 1]",
        "            + u[2][i * n + j + 2]",
        "            + u[3][i * n + j + 3]",
        "            + u[4][i * n + j + 4]",
        "            - 4.0f * u[0][i * n + j];",
    ]


def test_a_value_that_fits_has_a_line_of_its_own() -> None:
    assert fitted(f"    {'x' * 50}[i] = {'y' * 50}[i];") == [f"    {'x' * 50}[i] =", f"        {'y' * 50}[i];"]


def test_a_condition_is_broken_at_the_outermost_operator() -> None:
    parts = [f"{'a' * 20} + {n} < n" for n in range(3)]
    assert fitted(f"    if ({' && '.join(parts)} || {parts[0]}) {{") == [
        f"    if ({' && '.join(parts)}",
        f"            || {parts[0]}) {{",
    ]
    assert fitted(f"    }} else if ({' && '.join([*parts, *parts])}) {{")[1:] == [
        *(f"            && {part}" for part in [*parts[1:], *parts[:2]]), f"            && {parts[2]}) {{",
    ]  # fmt: skip


def test_the_head_of_a_loop_has_a_part_a_line() -> None:
    assert fitted(f"for (int i = max(0, {'a' * 60}); i < min(n, {'b' * 30}); ++i)") == [
        f"for (int i = max(0, {'a' * 60});", f"        i < min(n, {'b' * 30});", "        ++i)",
    ]  # fmt: skip


def test_a_function_has_a_parameter_a_line() -> None:
    parameters = ["const float *__restrict__ a", "float *__restrict__ b", "int number_of_rows"]
    head = 'extern "C" __global__ void __launch_bounds__(256) f('
    assert fitted(f"{head}{', '.join(parameters)})") == [
        head, *(f"    {parameter}," for parameter in parameters[:-1]), f"    {parameters[-1]})",
    ]  # fmt: skip
    one = f"static {'t' * 60} f(int a) {{ return a + {'b' * 30}; }}"
    assert fitted(one) == [f"static {'t' * 60} f(int a)", "{", f"    return a + {'b' * 30};", "}"]


def test_a_comment_stands_above_a_long_line() -> None:
    assert fitted(f"    {'x' * 80} = 3;  // because of something that takes long to say") == [
        "    // because of something that takes long to say", f"    {'x' * 80} = 3;",
    ]  # fmt: skip
    assert fitted("// " + "word " * 30) == ["// " + " ".join(["word"] * 19), "// " + " ".join(["word"] * 11)]


def test_directives_and_short_lines_stay() -> None:
    for line in (f"#define X {'a ' * 80}", "int i = 0;", ""):
        assert fitted(line) == [line]


def names() -> st.SearchStrategy[str]:
    return st.text("abcdefgh", min_size=1, max_size=12)


def expressions() -> st.SearchStrategy[str]:
    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operators = st.sampled_from(["+", "-", "*", "/", "%", "&&", "||", "<", "==", "&", "|", "^", "<<"])
        return st.one_of(
            st.tuples(inner, operators, inner).map(" ".join),
            st.tuples(names(), inner).map(lambda pair: f"{pair[0]}[{pair[1]}]"),
            st.tuples(names(), st.lists(inner, max_size=5)).map(lambda pair: f"{pair[0]}({', '.join(pair[1])})"),
            inner.map(lambda text: f"({text})"), inner.map(lambda text: f"*(const float4 *)&{text}"),
            st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
        )

    return st.recursive(names(), grown, max_leaves=30)


@given(target=expressions(), value=expressions(), indent=st.integers(0, 8))
def test_no_token_changes(target: str, value: str, indent: int) -> None:
    head = f"for (int i = {target}; i < {value}; ++i)"
    for line in (f"{target} = {value};", f"if ({value}) {{", head, f"f({value});"):
        lines = fitted(" " * 4 * indent + line)
        assert tokens("\n".join(lines)) == tokens(line)
        if not indent:
            assert max(map(len, lines)) <= WIDTH


def far() -> pl.LoopKernel:
    total = " + ".join(f"weights_of_neighbours[{n}]*values_of_the_field[i + {n}]" for n in range(6))
    data = [pl.GlobalArg("values_of_the_field", F, shape="n + 5"), pl.GlobalArg("weights_of_neighbours", F, shape="6"),
            pl.GlobalArg("result", F, shape="n"), ...]
    return pl.make_kernel("{[i]: 0 <= i < n}", f"result[i] = {total} {{id=smoothed}}", data, name="smooth")


def test_text_of_the_users_stays_as_it_is() -> None:
    long = f"static inline float twice(float x) {{ return x + x; }}  /* {'long ' * 30}*/"
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}", [pl.CInstruction("i", f"y[i] = twice(x[i]); /* {'long ' * 30}*/", ["x[i]"], ["y[i]"])],
        [pl.GlobalArg("x, y", F, shape="n"), ...], preambles=[("twice", long)],
    )  # fmt: skip
    lines = pl.generate_code(knl, target=pl.CTarget()).device_code.splitlines()
    assert long in lines
    assert f"y[i] = twice(x[i]); /* {'long ' * 30}*/".rstrip() in [line.strip() for line in lines]


def test_each_line_of_a_statement_knows_its_instruction() -> None:
    program = pl.generate_code(far(), target=pl.CTarget())
    lines = program.device_code.splitlines()
    assert len(program.instructions) == len(lines)
    own = [line.strip() for line, of in zip(lines, program.instructions, strict=True) if of == "smoothed"]
    assert own[0] == "result[i] = weights_of_neighbours[0] * values_of_the_field[i]"
    assert own[-1] == "+ weights_of_neighbours[5] * values_of_the_field[i + 5];"
    assert len(own) == 6


def test_line_directives_leave_a_statement_on_one_line() -> None:
    text = pl.generate_code(far(), target=pl.CudaTarget(lineinfo=True)).device_code
    lines = text.splitlines()
    place = lines.index('#line 1 "smooth.loops"')
    assert lines[place + 1].endswith("values_of_the_field[i + 5];")
    assert lines[place + 2] == f'#line {place + 4} "smooth.cu"'


# {{{ comments


def tiled() -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, j]: 0 <= i, j < n}", "b[i, j] = a[j, i]", [pl.GlobalArg("a, b", F, shape="n, n"), ...], name="turned"
    )
    knl = knl.split_iname("i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = knl.split_iname("j", 16, outer_tag="g.0", inner_tag="l.0")
    return knl.add_prefetch("a", ["i_inner", "j_inner"], default_tag="l.auto")


def test_the_head_says_what_is_computed_sizes_launches_and_assumptions() -> None:
    text = pl.generate_code(tiled().assume("n >= 1"), target=pl.CudaTarget()).device_code
    assert text.partition("\n\n")[0].splitlines() == [
        "// turned computes",
        "//     for i in [0, n), j in [0, n)",
        "//         b[i, j] = a[j, i]",
        "// Sizes: a: n x n, b: n x n",
        "// Launch: turned, grid ((n + 15) / 16, (n + 15) / 16), block (16, 16)",
        "// Assumes: n >= 1; b overlaps no other array",
        "// Indices have 32 bits: n*n, n + 31 must not exceed 2147483647",
    ]
    assert code_of(text).startswith('extern "C" __global__')


def test_the_head_of_a_host_has_no_launch() -> None:
    head = pl.generate_code(tiled(), target=pl.CTarget()).device_code.partition("\n\n")[0]
    assert "computes" in head
    assert "Launch" not in head


def test_a_barrier_says_what_it_waits_for() -> None:
    text = pl.generate_code(tiled(), target=pl.CudaTarget()).device_code
    barriers = [line.strip() for line in text.splitlines() if "__syncthreads" in line]
    assert set(barriers) == {"__syncthreads();  // a_fetch: reads follow writes"}


def test_copies_without_tests_say_why_they_are_there() -> None:
    text = pl.generate_code(matmul(), target=pl.CudaTarget()).device_code
    assert text.count("Full tiles, without tests; the others begin at k_outer_full.") == 1
    assert text.count("full_blocks=False of the target leaves this copy out") == 1
    assert "full_blocks" not in pl.generate_code(matmul(), target=pl.CudaTarget(full_blocks=False)).device_code


def test_statements_are_named_as_the_user_named_them() -> None:
    text = "<> t = a[i] {id=load}\nb[i] = t\nc[i] = t + 1"
    data = [pl.GlobalArg("a, b, c", F, shape="n"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="named")
    knl = knl.split_iname("i", 16, inner_tag="l.0").add_prefetch("a", ["i_inner"], default_tag="l.auto")
    found = pl.generate_code(knl, target=pl.CudaTarget()).device_code
    named = [line.strip() for line in found.splitlines() if re.search(r"  // (load|insn|fetch)", line)]
    assert set(named) == {"t = a_fetch[tx];  // load"} or all(line.endswith("// load") for line in named)
    assert named


def test_flat_texts_have_no_comments_and_no_breaks() -> None:
    assert flat("f(\n    a,  // b\n    c[\n        0])\n") == "f(a, c[0])"


# }}}


def test_an_element_with_two_long_subscripts_is_broken_in_both() -> None:
    first, second = (" + ".join(f"{n} * {name}_{n}" for n in range(8)) for name in ("row", "column"))
    line = f"        *(bfloat16x2 *)&tile[0][{first}][({second}) ^ (({first}) & 7)] = value;"
    lines = fitted(line)
    assert tokens("\n".join(lines)) == tokens(line)
    assert max(map(len, lines)) <= WIDTH
