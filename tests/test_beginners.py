"""Mistakes of beginners, and the messages that say what was meant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import polyloop as pl

F = np.float32
BARRIERS_FOLLOW = "leave it out: barriers follow from the dependences; '... lbarrier' asks for one more"


def made(text: str = "y[i] = alpha*x[i]", *more: object) -> pl.LoopKernel:
    data = [pl.GlobalArg("x, y", F, shape="n"), pl.ValueArg("alpha", F), pl.ValueArg("n", np.int32), *more]
    return pl.make_kernel("{[i]: 0 <= i < n}", text, data, name="scale", silenced_warnings="*")


def lines(call: Callable[[], object]) -> list[str]:
    with pytest.raises(pl.PolyloopError) as refusal:
        call()
    return str(refusal.value).split("\n")


def test_a_misspelt_scalar() -> None:
    assert lines(lambda: made("y[i] = alpah*x[i]")) == [
        "make_kernel: 'alpah' is not declared [undeclared-name]",
        "  y[i] = alpah*x[i]                                    (line 1, instruction 'insn')",
        "  Hint: did you mean 'alpha'?",
        "  Hint: add it to kernel_data, or end kernel_data with ... to have it inferred",
    ]


def test_a_misspelt_scalar_where_the_rest_is_inferred() -> None:
    knl = made("y[i] = alpah*x[i]", ...)
    assert lines(lambda: pl.generate_code(knl, target=pl.CTarget())) == [
        "generate_code on kernel 'scale': the type of 'alpah' is not known [unknown-dtype]",
        '  Hint: state it: knl = pl.add_dtypes(knl, {"alpah": np.float32})',
        "  Hint: or did you mean 'alpha' where the kernel says 'alpah'?",
    ]


@pytest.mark.parametrize("module", ["np", "numpy", "math"])
def test_a_function_of_a_module_in_text(module: str) -> None:
    found = lines(lambda: made(f"y[i] = {module}.exp(x[i])"))
    assert found[0] == "make_kernel: only a function name can be called [syntax]"
    assert found[-1] == "  Hint: functions have plain names in the text: exp(x)"
    assert lines(lambda: made(f"y[i] = {module}.fft(x[i])"))[-1] == "  Hint: write f(x)"


def test_the_returned_kernel_forgotten() -> None:
    knl = made()
    knl.split_iname("i", 16)
    assert lines(lambda: knl.tag_inames("i_inner:l.0")) == [
        "tag_inames on kernel 'scale': no iname 'i_inner' [unknown-iname]",
        "  Hint: known: i",
        '  Hint: split_iname("i", ..) makes one in the kernel that it returns, and leaves this one as it is: '
        'knl = knl.split_iname("i", ..)',
    ]
    assert "returns" not in "\n".join(lines(lambda: knl.tag_inames("j_inner:l.0")))
    split = knl.split_iname("i", 16).split_iname("i_inner", 4)
    assert "became" in "\n".join(lines(lambda: split.tag_inames("i_inner:l.0")))


def test_the_returned_kernel_forgotten_for_an_array() -> None:
    found = lines(lambda: made().tag_array_axes("x_fetch", "c"))
    assert 'add_prefetch("x", ..) makes one in the kernel that it returns' in found[-1]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("args", "arguments"), ("arg_dict", "arguments"), ("temporary_variables", "temporaries"),
     ("split_inam", "split_iname"), ("instuctions", "instructions"), ("domain", "domains")],
)  # fmt: skip
def test_a_name_that_no_kernel_has(name: str, meant: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(made(), name)
    assert str(error.value) == f"a LoopKernel has no attribute '{name}'; did you mean '{meant}'?"
    assert not hasattr(made(), "qqqqq")
    assert not hasattr(made(), "_repr_latex_")


def test_a_bound_call_has_its_arguments() -> None:
    run = pl.compile(made(), target=pl.CTarget())
    x = np.ones(4, F)
    step = run.bind(x, x.copy(), 2.0)
    assert step().y[0] == 2
    with pytest.raises(TypeError) as error:
        step(3.0)
    assert str(error.value) == "<call of 'scale' with its arguments>() takes 0 positional arguments but 1 was given"
    with pytest.raises(TypeError, match=r"<call of 'scale' .*> ?\(\) got an unexpected keyword argument 'alpha'"):
        step(alpha=3.0)
    with pytest.raises(pl.ArgumentError, match="4 arguments are passed by position"):
        pl.compile(pl.make_kernel("{[i]: 0 <= i < 4}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", F)])).bind(x, x, x, x)


def test_one_iname_serves_all_reductions_and_a_loop() -> None:
    """Three reductions need no three names: each runs over the iname by itself."""
    text = "top = max(k, a[i, k])\ntotal = sum(k, exp(a[i, k] - top))\ny[i, k] = exp(a[i, k] - top)/total"
    knl = pl.make_kernel("{[i, k]: 0 <= i < m and 0 <= k < n}", text, [pl.GlobalArg("a, y", F, shape="m, n"), ...])
    a = np.arange(15, dtype=F).reshape(3, 5)
    expected = np.exp(a - a.max(1, keepdims=True))
    for each in (knl, knl.split_iname("k", 2)):
        y = pl.compile(each, target=pl.CTarget())(a=a).y
        np.testing.assert_allclose(y, expected / expected.sum(1, keepdims=True), 1e-5)


def test_an_iname_that_another_loop_has_can_be_given_a_name_of_its_own() -> None:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i, k < n}", "y[i] = sum(k, a[i, k]) {id=sum}\nz[i] = max(k, a[i, k]) {id=max}",
        [pl.GlobalArg("a", F, shape="n, n"), pl.GlobalArg("y, z", F, shape="n"), ...],
    )  # fmt: skip
    apart = knl.duplicate_inames("k", within="id:max", new_inames="l")
    assert "max(l, a[i, l])" in str(apart.instruction("max"))
    assert "sum(k, a[i, k])" in str(apart.instruction("sum"))


@pytest.mark.parametrize(
    ("text", "hint"),
    [("y[i] = x[i];", "leave it out: a statement ends with its line"),
     ("y[i] = x[i] if x[i] > 0 && alpha > 0 else 0", "write 'p and q'"),
     ("y[i] = x[i] if x[i] > 0 || alpha > 0 else 0", "write 'p or q'"),
     ("float t = x[i]\ny[i] = t", "write <> t = ..., of the type of its value"),
     ("const double t = x[i]\ny[i] = t", "write <> t = ..., of the type of its value")],
)  # fmt: skip
def test_words_of_c_in_text(text: str, hint: str) -> None:
    assert lines(lambda: made(text))[-1] == f"  Hint: {hint}"


@pytest.mark.parametrize(("text", "tag"), [("threadIdx.x", "l.0"), ("blockIdx.y", "g.1")])
def test_the_axes_of_cuda_as_tags(text: str, tag: str) -> None:
    assert lines(lambda: made().tag_inames({"i": text}))[-1] == f"  Hint: that is the tag '{tag}'"


def test_a_misspelt_function_of_the_package() -> None:
    with pytest.raises(AttributeError, match=r"did you mean 'split_iname'\?"):
        getattr(pl, "splitiname")  # noqa: B009 - a type checker knows that it is not there
    assert not hasattr(pl, "qqqqq")


def test_a_device_that_is_almost_one() -> None:
    knl = made().split_iname("i", 32, outer_tag="g.0", inner_tag="l.0")
    found = lines(lambda: pl.explain(knl, {"n": 64}, "H1000"))
    assert found[0].endswith("no device 'H1000' [unknown-device]")
    assert found[1] == "  Hint: did you mean 'H100'?"


@pytest.mark.parametrize(
    ("text", "hint"),
    [("y[i] = x[i]^2", "a power is written x[i]**2"),
     ("y[i] = x[i]++", "a statement that counts is written x += 1, and x -= 1"),
     ("y[i] = x[i] if x[i] <> 0 else 0", "write 'a != b'"),
     ("y[i] == x[i]", "write target = expression: == compares"),
     ("y[i] = x[i] \u2212 1", "write -"),
     ("y[i] = alpha \u00d7 x[i]", "write *"),
     ("y[i] = x[i] if x[i] \u2265 0 else 0", "write >=")],
)  # fmt: skip
def test_words_of_other_languages_in_text(text: str, hint: str) -> None:
    assert lines(lambda: made(text))[-1] == f"  Hint: {hint}"


def test_bit_operations_that_are_no_power_ask_for_a_cast() -> None:
    assert lines(lambda: made("y[i] = x[i] & 2"))[-1] == "  Hint: cast it first, such as cast(int32, ...)"


def test_a_comment_of_c_and_a_loop_without_a_domain() -> None:
    assert "  Hint: a comment begins with #; // divides and rounds down" in lines(lambda: made("y[i] = x[i] // twice"))
    wanted = "  Hint: if a loop runs over 'j', name it in the domain: {[j]: 0 <= j < n}"
    assert wanted in lines(lambda: made("y[j] = x[j]"))
    assert wanted not in lines(lambda: made("y[i] = j*x[i]"))


def test_a_loop_has_one_tag() -> None:
    assert lines(lambda: made().tag_inames("i:g.0, i:l.0")) == [
        "tag_inames on kernel 'scale': iname 'i' gets two tags, 'g.0' and 'l.0' [iname-tagged]",
        '  Hint: a loop has one; for both, divide it: split_iname("i", 256, outer_tag="g.0", inner_tag="l.0")',
    ]
    assert "i: l.0" in str(made().tag_inames("i:l.0, i:l.0"))
    assert "i: l.0" in str(made().tag_inames("*:for, i:l.0"))


@pytest.mark.parametrize(("text", "tag"), [("g0", "g.0"), ("l1", "l.1")])
def test_a_tag_without_its_point(text: str, tag: str) -> None:
    assert lines(lambda: made().tag_inames({"i": text}))[-1] == f"  Hint: that is the tag '{tag}'"
    assert "tags are" in lines(lambda: made().tag_inames({"i": "g7"}))[-1]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("y[:] = 2*x[:]", "write a loop, with one subscript for each axis: y[i] = 2*x[i]"),
        ("y[i]++", "write y[i] = y[i] + 1"),
        ("y[i] = np.sum(x[i])", "a reduction is over an iname k of the domain: sum(k, a[k])"),
        ("y[i] = x[x.shape[0] - 1 - i]", "sizes have names: write n where the domain has 0 <= i < n"),
        ("y[i] = x[len(x) - 1 - i]", "sizes have names: write n where the domain has 0 <= i < n"),
        ("y[i] = x[i]\n__syncthreads()", BARRIERS_FOLLOW),
    ],
)  # fmt: skip
def test_what_other_languages_write_in_text(text: str, hint: str) -> None:
    assert lines(lambda: made(text))[-1] == f"  Hint: {hint}"


@pytest.mark.parametrize(
    ("domain", "hint"),
    [
        ("y[i] = 2*x[i]", "domains come first: make_kernel(domains, instructions)"),
        ("ij,jk->ik", "this is a map, and a domain is a set; pl.make_einsum takes 'ij,jk->ik'"),
    ],
)
def test_something_else_in_place_of_a_domain(domain: str, hint: str) -> None:
    assert lines(lambda: pl.make_kernel(domain, "{[i]: 0 <= i < n}"))[-1] == f"  Hint: {hint}"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("block", "that is the tag 'g.0'"), ("omp", "that is the tag 'g.0'"),
        ("threads", "that is the tag 'l.0'"), ("unroll", "that is the tag 'unr'"),
        ("parallel", "iterations in parallel are blocks, 'g.0', or threads of a block, 'l.0'"),
    ],
)  # fmt: skip
def test_a_tag_in_words(word: str, hint: str) -> None:
    assert lines(lambda: made().tag_inames({"i": word}))[-1] == f"  Hint: {hint}"


@pytest.mark.parametrize(
    ("name", "meant"), [("split", "split_iname"), ("reorder", "prioritize_loops"), ("prefetch", "add_prefetch")]
)
def test_a_part_of_a_name(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"did you mean '{meant}'"):
        getattr(made(), name)


def test_a_device_that_is_not_described() -> None:
    hint = lines(lambda: pl.explain(made().tag_inames("i:g.0"), {"n": 10}, "RTX 4090"))[-2]
    assert hint.startswith("  Hint: known: H200, H100, A100, ")
    assert hint.endswith("for another, pass a polyloop.kernel.devices.Device with its figures")


def test_a_result_of_any_step_that_was_forgotten() -> None:
    knl = made()
    knl.rename_iname("i", "row")
    assert lines(lambda: knl.tag_inames("row:g.0"))[-1] == (
        "  Hint: rename_iname(old_iname='i', new_iname='row') made it in the kernel that it returned, and left this "
        "one as it was: knl = knl.rename_iname(old_iname='i', new_iname='row')"
    )
    assert "returned" not in "\n".join(lines(lambda: made().tag_inames("row:g.0")))


@pytest.mark.parametrize("text", ["i g.0", "i=g.0", "i -> g.0"])
def test_a_tag_without_a_colon(text: str) -> None:
    assert lines(lambda: made().tag_inames(text)) == [
        f"tag_inames on kernel 'scale': no tag in '{text}' [bad-tag]", "  Hint: write 'i:g.0'",
    ]  # fmt: skip


def test_a_tag_in_front_of_its_iname() -> None:
    assert lines(lambda: made().tag_inames({"g.0": "i"}))[-1] == "  Hint: the iname comes first: 'i:g.0'"


def test_inames_without_commas() -> None:
    knl = made().split_iname("i", 16)
    assert lines(lambda: knl.prioritize_loops("i_outer i_inner"))[-1] == (
        "  Hint: names are separated by commas: 'i_outer, i_inner'"
    )


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2", pl.GlobalArg("y")),  # type: ignore[arg-type]
         'write a list: [pl.GlobalArg("x", np.float32, shape="n"), ...]'),
        (lambda: made().tag_inames(["i:g.0"]),  # type: ignore[list-item]
         'write "i:g.0, j:l.0", or {"i": "g.0", "j": "l.0"}'),
        (lambda: pl.explain(made().tag_inames("i:g.0"), "n=3"), 'write sizes={"n": 1024}'),  # type: ignore[call-overload]
        (lambda: pl.CudaTarget("hopper"), 'names are such as "sm_80", "sm_90" and "sm_90a"'),
    ],
)  # fmt: skip
def test_arguments_of_another_form(call: Callable[[], object], hint: str) -> None:
    assert lines(call)[-1] == f"  Hint: {hint}"


@pytest.mark.parametrize("wrong", [None, "scale", 3, [1]])
def test_explain_takes_a_kernel(wrong: object) -> None:
    found = lines(lambda: pl.explain(wrong))  # type: ignore[call-overload]
    assert found[0].startswith("explain: argument 'kernel' cannot be ")
    assert found[2].startswith("  Hint: pass what make_kernel or a transform returned; ")


def test_a_size_of_another_name() -> None:
    found = lines(lambda: pl.explain(made().tag_inames("i:g.0"), {"N": 3}))
    assert found[1:] == ["  Note: 'N' is no size of the kernel", '  Hint: pass sizes={"n": 1024}']


@pytest.mark.parametrize("name", ["code", "source", "device_code"])
def test_text_that_a_kernel_does_not_have(name: str) -> None:
    with pytest.raises(AttributeError, match=r"; write pl\.generate_code\(knl, target=.*\)\.device_code"):
        getattr(made(), name)
