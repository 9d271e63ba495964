"""A barrier in a sequential loop never changes what the loop computes: it is as without it, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.testing.drawing.random_barriers import DIVIDED, barrier_sources
from polyloop.testing.drawing.random_kernels import Source

F = np.float64
KINDS = ("... gbarrier", "... lbarrier")


def _result(source: Source) -> dict[str, Any] | set[str]:
    try:
        knl = source.make()
        inputs = {name: np.arange(1.0, 9) if name != "z" else np.ones(1) for name in "abcz"}
        given = {x.name: inputs[x.name] for x in knl.arguments if x.name in inputs}
        found = pl.interpret(knl, **given)
        copies = {name: np.array(array) for name, array in given.items()}
        compiled = pl.compile(knl, target=pl.CTarget())(**copies) if len(source.lines) % 4 == 0 else found
        for name in found:
            np.testing.assert_array_equal(compiled[name], found[name])
        return {name: found[name] for name in found}
    except pl.PolyloopError as error:
        return set(error.codes)


@pytest.mark.few(15)
@pytest.mark.parametrize("seed", range(60))
def test_a_barrier_changes_nothing_or_is_refused(seed: int) -> None:
    first, second = barrier_sources(seed)
    plain, divided = _result(first), _result(second)
    if isinstance(divided, set):
        assert divided <= DIVIDED, f"{divided}\n{second.script()}"
        return
    assert not isinstance(plain, set), first.script()
    for name, array in plain.items():
        np.testing.assert_array_equal(divided[name], array, second.script())


def test_a_scalar_that_is_handed_on_keeps_the_barrier_in_its_loop() -> None:
    for barrier in ("", *KINDS):
        text = f"<> t = 1\nfor j\n  out[j] = t\n  {barrier}\n  t = 10\nend"
        knl = pl.make_kernel("{[j]: 0 <= j < 5}", text, seq_dependencies=True)
        for result in (pl.interpret(knl), pl.compile(knl, target=pl.CTarget())()):
            np.testing.assert_array_equal(result.out, [1, 10, 10, 10, 10])
        assert str(knl.reference).count("for j") == 1


def test_elements_that_are_handed_on_are_refused_with_the_instances() -> None:
    text = "for j\n  out[j] = s[j]\n  ... lbarrier {id=meet}\n  s[j + 1] = out[j] + 1\nend"
    knl = pl.make_kernel("{[j]: 0 <= j < 5}", text, [pl.GlobalArg("s", F, shape=6), ...], seq_dependencies=True)
    with pytest.raises(pl.VerificationError) as error:
        pl.interpret(knl, s=np.ones(6))
    assert str(error.value) == (
        "interpret on kernel 'loop_kernel': barrier 'meet' would divide the sequential loop 'j', "
        "whose iterations hand on values [divided-loop]\n"
        "  ... lbarrier {id=meet}                               (line 3, instruction 'meet')\n"
        "  Note: instance (j=0) writes s[1]; instance (j=1) reads it and would run first\n"
        "  Hint: drop the barrier, run 'j' in parallel (pl.tag_inames), or write two loops: 'end', the barrier, 'for j'"
    )
    with pytest.raises(pl.VerificationError, match="divided-loop"):
        pl.generate_code(knl, target=pl.CudaTarget())
    shifted = pl.interpret(pl.tag_inames(knl, "j:l.0"), s=np.arange(6.0))
    np.testing.assert_array_equal(shifted.s, [0, 1, 2, 3, 4, 5])
