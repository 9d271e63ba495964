"""What ``make_kernel`` warns of, with the text, and how warnings are silenced."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import polyloop as pl

F = np.float64
LINE = "{[i]: 0 <= i < n}"
VECTORS = pl.GlobalArg("a, b", F, shape="n")


def found(text: str, domain: str = LINE, data: Any = (VECTORS,), **options: Any) -> list[str]:
    """Return the texts of the warnings of a new kernel."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pl.make_kernel(domain, text, [*data, ...], name="k", **options)
    assert all(entry.category is pl.PolyloopWarning for entry in caught)
    assert all(entry.filename == __file__ for entry in caught)
    return [str(entry.message) for entry in caught]


def codes(*arguments: Any, **options: Any) -> list[str]:
    return [text.partition(":")[0] for text in found(*arguments, **options)]


def test_strides_and_offsets_that_are_passed_are_used() -> None:
    data = [pl.GlobalArg("a", F, shape="n, n", strides=pl.auto, offset=pl.auto)]
    assert found("b[i] = a[i, i]", data=data) == []


def test_a_clean_kernel_has_no_warning() -> None:
    assert found("<> t = a[i]\nb[i] = t") == []


def test_a_temporary_that_nothing_reads() -> None:
    assert found("<> t = a[i] {id=copy}\nb[i] = a[i]") == ["""\
dead-instruction: make_kernel on kernel 'k': instruction 'copy' has no effect on any output
  <> t = a[i] {id=copy}                                (line 1, instruction 'copy')
  Note: nothing reads 't', which is a temporary
  Hint: remove it, or assign its result to an array argument"""]


def test_a_chain_that_ends_nowhere_is_dead_as_a_whole() -> None:
    texts = found("<> t = a[i]\n<> u = t + 1\nb[i] = a[i]")
    assert len(texts) == 2
    assert "Note: what reads 't' reaches no output either" in texts[0]


def test_what_is_overwritten_is_dead() -> None:
    (text,) = found("b[i] = a[i] {id=x}\nb[i] = 1")
    assert "instruction 'x' has no effect" in text
    assert "Note: all that it writes to 'b' is overwritten before anything of use reads it" in text


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("b[i] = a[i]\nb[i] = b[i] + 1", LINE),
        ("b[i] = a[i]\nb[i + 1] = 1", "{[i]: 0 <= i < n - 1}"),
        ("b[i] = a[i]\nb[i] = 1 {if=a[i] > 0}", LINE),
        ("b[i] = a[i] {id=x}\nb[i // 2] = 1 {dep=x}", LINE),
        ("<> t = a[i]\nt = 2*t\nb[i] = t", LINE),
        ("<> t = a[i]\nb[i] = t\nt = 1 {id=again}\na[i] = t", LINE),
        ("<> t[i] = a[i]\nb[0] = sum(i, t[i])", "{[i]: 0 <= i < 8 and n >= 8}"),
        ("for i\n<> v = a[i]\nend\nb[0] = sum(i, v)", "{[i]: 0 <= i < n}"),
    ],
)
def test_what_reaches_an_output_is_alive(text: str, domain: str) -> None:
    assert codes(text, domain, assumptions="n >= 1") == []


def test_fields_of_one_element_do_not_overwrite_each_other() -> None:
    pair = np.dtype([("x", F), ("y", F)])
    data = [pl.GlobalArg("p", pair, shape="n"), pl.GlobalArg("a", F, shape="n")]
    assert codes("p[i].x = a[i]\np[i].y = 2*a[i]", LINE, data) == []


def test_an_unused_iname() -> None:
    assert found("b[i] = a[i]", "{[i, j]: 0 <= i, j < n}") == ["""\
unused-iname: make_kernel on kernel 'k': no instruction uses iname 'j'
  Note: its domain is [n] -> { [i, j] : 0 <= i < n and 0 <= j < n }
  Hint: drop 'j' from the domain; an instruction runs over the inames that it names"""]


def test_inames_of_reductions_and_bounds_are_used() -> None:
    assert codes("b[i] = sum(j, a[j])", "{[i, j]: 0 <= i, j < n}") == []
    knl_domains: Any = ["{[k]: 0 <= k < n}", "[k] -> {[i]: k <= i < k + 1}"]
    assert codes("b[i] = a[i]", knl_domains) == []


def test_unused_variables() -> None:
    extra = [VECTORS, pl.GlobalArg("c", F, shape="m"), pl.ValueArg("x", F), pl.TemporaryVariable("t", F),
             pl.ValueArg("m, p, q", np.int32)]  # fmt: skip
    texts = found("b[i] = a[i] {if=q > 0}", LINE, extra, assumptions="p >= 1")
    assert texts == [
        "unused-variable: make_kernel on kernel 'k': no instruction and no shape uses argument 'c'\n"
        "  Hint: drop 'c' from kernel_data",
        "unused-variable: make_kernel on kernel 'k': no instruction and no shape uses argument 'x'\n"
        "  Hint: drop 'x' from kernel_data",
        "unused-variable: make_kernel on kernel 'k': no instruction and no shape uses temporary 't'\n"
        "  Hint: drop 't' from kernel_data",
    ]


def test_shadowed_names() -> None:
    assert found("a(x) := x + 1\nf(b) := b + 1\ng(i) := a[i]\nb[i] = a(i) + f(3) + g(i)") == [
        "shadowed-name: make_kernel on kernel 'k': rule 'a' has the name of an array\n"
        "  Note: 'a(...)' is the rule, and 'a' without parentheses is not\n"
        "  Hint: give one of them another name",
        "shadowed-name: make_kernel on kernel 'k': parameter 'b' of rule 'f' hides an array\n"
        "  Note: the rule is f(b) := b + 1\n"
        "  Hint: give the parameter another name",
    ]


TWO_DEAD = "<> t = a[i] {id=x}\n<> u = a[i] {id=y}\nb[i] = a[i]"


@pytest.mark.parametrize(
    ("silenced", "left"),
    [
        ([], 2),
        ("dead-instruction", 0),
        (["dead-*"], 0),
        (["*"], 0),
        (["dead-instruction(x)"], 1),
        (["unused-iname", "dead-instruction(?)"], 0),
        (["write_race(x)"], 2),
    ],
)
def test_silencing(silenced: Any, left: int) -> None:
    assert len(found(TWO_DEAD, silenced_warnings=silenced)) == left


def test_the_kernel_remembers_what_is_silenced() -> None:
    knl = pl.make_kernel(LINE, TWO_DEAD, [VECTORS, ...], silenced_warnings=["dead-*"])
    assert knl.silenced_warnings == ("dead-*",)
    assert pl.split_iname(knl, "i", 4).silenced_warnings == ("dead-*",)


def test_python_filters_know_the_code() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "dead-instruction", pl.PolyloopWarning)
        pl.make_kernel(LINE, TWO_DEAD, [VECTORS, ...])
        with pytest.raises(pl.PolyloopWarning) as caught:
            pl.make_kernel("{[i, j]: 0 <= i, j < n}", TWO_DEAD, [VECTORS, ...])
    assert caught.value.found.code == "unused-iname"


def test_names_that_could_mean_two_things_are_refused() -> None:
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel(LINE, "a[i] = 1", [VECTORS, pl.ValueArg("i", np.int32), ...], name="k")
    assert str(caught.value) == """\
make_kernel on kernel 'k': 'i' is an iname and an argument [name-taken]
  Hint: rename one of them; values of inames come from the domain alone"""
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel(LINE, "a[i] = n[i]", [VECTORS, ...], name="k")
    assert str(caught.value) == """\
make_kernel on kernel 'k': 'n' is a parameter of the domains and an array [name-taken]
  Hint: rename one of them; for a bound that is read from memory write <> t = n[..] and use t"""
