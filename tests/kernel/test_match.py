"""Match expressions: what they mean, and how deep they may be."""

from __future__ import annotations

import pytest

import polyloop as pl
from polyloop.errors import KernelError
from polyloop.kernel.text.match import matches, parse_match

KERNEL = pl.make_kernel(
    ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < n}"],
    """
    a[i] = b[i]      {id=load_a, tags=load:fast}
    c[j] = 2*a[j]    {id=work}
    d[i] = c[i] + 1  {id=store, tags=store}
    """,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("*", "load_a work store"),
        ("id:work", "work"),
        ("load_*", "load_a"),
        ("id:?????", "store"),
        ("tag:fast", "load_a"),
        ("writes:a or reads:c", "load_a store"),
        ("iname:i and not writes:a", "store"),
        ("not (tag:store or tag:load)", "work"),
        ("not not iname:j", "work"),
        ("reads:a and reads:b", ""),
        ("id:work or id:store and tag:load", "work"),
    ],
)
def test_a_match_means(text: str, meant: str) -> None:
    match = parse_match(text)
    assert [i.id for i in KERNEL.instructions if matches(match, i)] == meant.split()


@pytest.mark.parametrize("text", ["", "(", "()", "id:", "a or", "not", "a b", "and a", "a)", "(a", "a | b"])
def test_what_is_no_match_is_refused(text: str) -> None:
    with pytest.raises(KernelError) as error:
        parse_match(text)
    assert error.value.codes == ("syntax",)


def test_depth_is_bounded() -> None:
    assert parse_match("(" * 40 + "a" + ")" * 40) == parse_match("a")
    with pytest.raises(KernelError):
        parse_match("(" * 100 + "a" + ")" * 100)
    with pytest.raises(KernelError):
        parse_match("not " * 10_000 + "a")
