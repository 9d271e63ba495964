"""Names that instructions read: found from their parts, after each step."""

import numpy as np
import pytest

import polyloop as pl
from polyloop.kernel.reads import reads_of
from polyloop.testing.pairs import Exploration, Tally, draw


def _wrong(kernel: pl.LoopKernel) -> list[str]:
    return [i.id for i in kernel.instructions if i.reads != reads_of(kernel, i)]


@pytest.mark.few(1)
@pytest.mark.parametrize("first", [700_000, 700_020, 700_280])
def test_each_step_leaves_instructions_that_know_what_they_read(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, found = set[str](), list[tuple[int, str, list[str]]]()
    apply = Exploration.apply

    def watched(self: Exploration, step: object) -> object:
        result = apply(self, step)  # type: ignore[arg-type]
        reference = self.kernel.reference
        assert reference is not None
        wrong = _wrong(self.kernel) + _wrong(reference.kernel)
        seen.add(step.name)  # type: ignore[attr-defined]
        if wrong:
            found.append((self.seed, step.name, wrong))  # type: ignore[attr-defined]
        return result

    monkeypatch.setattr(Exploration, "apply", watched)
    for seed in range(first, first + 20):
        draw(seed, Tally())
    assert len(seen) > 10
    assert not found


def test_a_name_in_a_subscript_on_the_left_stays_read_after_a_prefetch() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < 8}", "o[p[i]] = x[0] + x[1]", [pl.GlobalArg("o", np.float64, (8,)), ...])
    assert "p" in knl.add_prefetch("x").instructions[-1].reads


_STOP = """
<> stop = first[0] + 1
b[i] = sum(j, stop*a[j])
"""


def test_a_variable_that_bounds_a_loop_stays_when_its_uses_become_a_rule() -> None:
    knl = pl.make_kernel(
        ["{[i]: 0 <= i < 4}", "[stop] -> {[j]: 0 <= j < stop}"], _STOP,
        [pl.GlobalArg("a", np.float64, (8,)), pl.GlobalArg("first", np.int32, (1,)), ...],
    )  # fmt: skip
    new = knl.assignment_to_subst("stop")
    assert "stop" in new.temporaries
    assert all("stop" in i.reads for i in new.instructions if "b" in i.writes)
    given = {"a": np.arange(8.0), "first": np.array([2], np.int32)}
    np.testing.assert_array_equal(pl.compile(new)(**given)["b"], np.full(4, 9.0))
    np.testing.assert_array_equal(pl.interpret(new, **given)["b"], np.full(4, 9.0))
