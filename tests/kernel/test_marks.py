"""Diagnostics of creation underline the access that they are about."""

from __future__ import annotations

import numpy as np
import pytest

import polyloop as pl

VECTORS = pl.GlobalArg("a, b", np.float64, shape="n")


def underlined(text: str) -> list[str]:
    """Return the pieces of the instructions' lines that the refusal of a kernel underlines."""
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel("{[i]: 0 <= i < n}", text, [VECTORS, ...])
    sites = [site for diagnostic in caught.value.found for site in diagnostic.sites]
    return [site.text[site.mark[0] : sum(site.mark)] if site.mark else "" for site in sites]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("b[i] = 2*a[i] + a[1 + i]", ["a[1 + i]"]),
        ("for i\n    b[i] = a[i] \\\n        + a[i - 1]\nend", ["a[i - 1]"]),
        ("a[i + 1] = a[i]", ["a[i + 1]"]),
        ("b[i] = a[i, 0] + a[i]", ["a[i, 0]"]),
        ("<> t = b[i] {if=i > 2}\nb[i] = t", ["t"]),
        ("<> t[i] = a[i]\nb[i] = t[i*i]", ["t[i*i]"]),
        ("b[i] = u[i] + u[i, i]", ["u[i]", "u[i, i]"]),
        ("b[i] = a[(i + 1)] + a[a_[i]]", ["a[(i + 1)]"]),
        ("f(x) := a[x + 1]\nb[i] = f(i) + a[i]", [""]),
        ("b[i] = t\nb[i] = a[i] + a[n] {if=a[i] == a[n - 1]}\n<> t = a[i]", ["a[n]"]),
    ],
)
def test_the_access_is_underlined(text: str, pieces: list[str]) -> None:
    assert underlined(text) == pieces


def test_the_underlining_stands_below_the_access() -> None:
    with pytest.raises(pl.KernelError) as caught:
        pl.make_kernel("{[i]: 0 <= i < n}", "for i\n    b[i] = 2*a[i] + a[1 + i] {id=x}\nend", [VECTORS, ...], name="k")
    assert str(caught.value) == """\
make_kernel on kernel 'k': 'a' is accessed outside of its shape (n) [out-of-bounds]
  b[i] = 2*a[i] + a[1 + i] {id=x}                      (line 2, instruction 'x')
                  ^^^^^^^^
  Note: instance (i=0) with n=1 touches a[1] (axis 0)
  Hint: shrink the domain, enlarge the array, or state what holds with assumptions="""
