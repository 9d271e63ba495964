"""Domain text: the set that it means, and refusals with their place."""

from __future__ import annotations

import random

import islpy as isl
import pytest

from polyloop.errors import KernelError
from polyloop.kernel.text.domain_text import parse_domain

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("{[i]: 0 <= i < n}", "[n] -> {[i]: 0 <= i < n}"),
        ("{[i, j]: 0<=i,j<n}", "[n] -> {[i, j]: 0 <= i < n and 0 <= j < n}"),
        ("{[j, i]: 0 <= i < n and 0 <= j < m}", "[n, m] -> {[j, i]: 0 <= i < n and 0 <= j < m}"),
        ("[n, m] -> {[i]: 0 <= i < n}", "[n, m] -> {[i]: 0 <= i < n}"),
        ("[] -> {[i]: 0 <= i < 5}", "{[i]: 0 <= i < 5}"),
        ("{:}", "{[]}"),
        ("{ : n >= 1 and m mod 16 = 0}", "[n, m] -> {[]: n >= 1 and m mod 16 = 0}"),
        ("{[]}", "{[]}"),
        ("{[i]}", "{[i]}"),
        ("{[i]: exists e: i = 2e and 0 <= i < n}", "[n] -> {[i]: i mod 2 = 0 and 0 <= i < n}"),
        ("{[i]: exists (e, f: i = 2e + f and 0 <= f < 1)}", "{[i]: i mod 2 = 0}"),
        ("{[i]: 0 <= i < floor(n/2) or i = max(n, m)}", "[n, m] -> {[i]: 0 <= i < floor(n/2) or i = max(n, m)}"),
        ("{[i]: 0 <= i < n; [i]: i = 2*n}", "[n] -> {[i]: 0 <= i < n or i = 2n}"),
        ("{[i, j = i + 1]: 0 <= i < 3}", "{[i, j]: 0 <= i < 3 and j = i + 1}"),
        ("{[i]:\n  0 <= i\n  and i < n}", "[n] -> {[i]: 0 <= i < n}"),
    ],
)
def test_text_means(text: str, meaning: str) -> None:
    found = parse_domain(text)
    assert found.is_equal(isl.Set(meaning))
    assert [found.get_dim_name(_SET, i) for i in range(found.dim(_SET))] == isl.Set(meaning).get_var_names(_SET)
    assert found.get_var_names(_PARAM) == isl.Set(meaning).get_var_names(_PARAM)


@pytest.mark.parametrize(
    ("text", "code", "place", "message"),
    [
        ("", "syntax-domain", "", "a domain is written in braces"),
        ("[i]: 0 <= i < n", "syntax-domain", "[i]: 0 <= i < n", "a domain is written in braces"),
        ("{[i]: 0 <= i} x", "syntax-domain", "{[i]: 0 <= i} x", "a domain is written in braces"),
        ("{[i]: 0 <= i < n", "syntax-domain", "{", "'{' is never closed"),
        ("{[i: 0 <= i < n}", "syntax-domain", "}", "unmatched '}'"),
        ("{S[i]: 0 <= i}", "syntax-domain", "S[i]: 0 <= i", "the list of inames in [ ] is missing"),
        ("{[i] 0 <= i}", "syntax-domain", "0 <= i", "a ':' is missing"),
        ("{[i] -> [j]: }", "syntax-domain", "->", "unexpected '->'"),
        ("{[i]: i < 1" + 1233 * "0" + "}", "syntax-domain", "1" + 19 * "0", "an integer of more than 4096 bits"),
        ("{[i]: i == 3}", "syntax-domain", "==", "unexpected '=='"),
        ("{[i]: i < n//2}", "syntax-domain", "//", "unexpected '//'"),
        ("{[i]: i < n and}", "syntax-domain", "i < n and", "a condition is missing"),
        ("{[i, j]: 0 <= i < n and i*j < 3}", "syntax-domain", "i*j < 3", "this is not an affine condition"),
        ("{[i]: 0 <= i < n and f(i) < 3}", "syntax-domain", "f(i) < 3", "this is not an affine condition"),
        ("{[i]: 0 <= i < < n}", "syntax-domain", "0 <= i < < n", "this is not an affine condition"),
        ("{[i]: i < 3; [j]: j < 3}", "syntax-domain", "[j]: j < 3", "the pieces of the set have different inames"),
        ("{[i, i]: 0 <= i < n}", "duplicate-iname", "i", "iname 'i' occurs twice"),
        ("{[2*i]: 0 <= i < n}", "bad-identifier", "2*i", "'2*i' is not a valid iname"),
        ("{[i, ]: 0 <= i < n}", "syntax-domain", "i, ", "the iname is missing"),
        ("{[for]: 0 <= for < n}", "reserved-name", "for", "'for' is a keyword of C or C++"),
        ("{[mod]: 0 <= mod < n}", "reserved-name", "mod", "'mod' is a word of the domain language"),
        ("{[i]: 0 <= i < __n}", "bad-identifier", "__n", "'__n' is not a valid parameter"),
        ("{[i]: 0 <= i < threadIdx}", "reserved-name", "threadIdx", "'threadIdx' is a name that C or CUDA defines"),
        ("[n] -> {[i]: 0 <= i < m}", "unknown-parameter", "m", "no parameter 'm'"),
    ],
)
def test_refusal_names_the_fault_and_its_place(text: str, code: str, place: str, message: str) -> None:
    with pytest.raises(KernelError) as error:
        parse_domain(text)
    (found,) = error.value.found
    assert (found.code, found.message) == (code, message)
    assert found.span is not None
    assert found.span.text[found.span.column : found.span.column + found.span.width].rstrip() == place.rstrip()
    assert found.hints


def test_the_caret_is_in_the_line_of_the_fault() -> None:
    with pytest.raises(KernelError) as error:
        parse_domain("{[i, j]:\n  0 <= i < n and\n  0 <= j < i*i}", "fuse_kernels")
    assert str(error.value) == (
        "fuse_kernels: this is not an affine condition [syntax-domain]\n"
        "    0 <= j < i*i}    (line 3)\n"
        "    ^^^^^^^^^^^^\n"
        "  Hint: conditions compare integer multiples of inames and parameters: 0 <= 2*i + j < n"
    )


_SEEDS = (
    "{[i, j]: 0 <= i < n and 0 <= j <= i}",
    "[n, m] -> {[i]: exists (e: i = 2e + m) and i < floor(n/3); [i]: i = n}",
    "{[i]: 0<=i,j<n or not (i mod 4 = 1)}",
    "{ : n >= 1}",
)
_TOKENS = (
    *"[]{}():;,<>=+-*/%&|^'nmij012 \n\t",
    "and ",
    "or ",
    "exists ",
    "->",
    "mod ",
    "floor(",
    "max(",
    "<<",
    "\u00e9",
    "true",
)


def _mutated(source: random.Random) -> str:
    text = source.choice(_SEEDS)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(text) + 1)
        keep = source.randrange(3)
        text = text[:at] + ("" if keep == 0 else source.choice(_TOKENS)) + text[at + (keep < 2) :]
    return text


def _reads_or_is_refused(text: str) -> bool:
    try:
        found = parse_domain(text)
    except KernelError as error:
        (diagnostic,) = error.found
        assert diagnostic.span is not None, text
        assert diagnostic.hints, text
        return False
    names = [found.get_dim_name(_SET, i) for i in range(found.dim(_SET))]
    assert None not in names, text
    assert not found.has_tuple_name(), text
    return True


def test_mutated_domains_are_read_or_refused(capfd: pytest.CaptureFixture[str]) -> None:
    source = random.Random(7)
    accepted = sum(_reads_or_is_refused(_mutated(source)) for _ in range(1500))
    assert 50 < accepted < 1450
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_many_mutated_domains_are_read_or_refused() -> None:
    source = random.Random(8)
    for _ in range(50_000):
        _reads_or_is_refused(_mutated(source))
