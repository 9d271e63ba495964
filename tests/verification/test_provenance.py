"""Expressions of transformed programs: what is not the program's is refused, whatever the step's author forgot."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymbolic.primitives as p
import pytest

import polyloop as pl
from polyloop.errors import Diagnostic
from polyloop.expr.parser import parse_expression
from polyloop.expr.rewrite import map_nodes
from polyloop.frozen import replace
from polyloop.kernel.instruction import Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.waivers import Waiver
from polyloop.testing.drawing.breaks import Broken, broken
from polyloop.transform.base import Transform
from polyloop.verification.origins import Use
from polyloop.verification.provenance import expression_violations
from tests.gallery import GALLERY, Example

Golden = Callable[[str, str], None]
NAMES = sorted(name for name, entry in GALLERY.items() if not entry.refused)


def refusal(knl: pl.LoopKernel) -> str | None:
    """Return why *knl* is refused; None if it is proven."""
    try:
        pl.verify(knl, target=pl.CudaTarget())
    except pl.PolyloopError as error:
        return str(error)
    return None


def is_equal(entry: Example, knl: pl.LoopKernel) -> bool:
    """Return whether *knl* gives the results of the gallery's program."""
    run = pl.compile(knl, target=pl.CTarget())
    for n in entry.sizes:
        arguments, wanted = entry.case(n, np.random.default_rng(n))
        result = run(**{name: copy.copy(value) for name, value in arguments.items()}, poison=True)
        for name, want in wanted.items():
            got, expected = np.asarray(result[name]), np.asarray(want)
            fields = expected.dtype.names
            pairs = [(got[x], expected[x]) for x in fields] if fields else [(got, expected)]
            if not all(np.allclose(a, b, 1e-4, 1e-5, equal_nan=True) for a, b in pairs):
                return False
    return True


def check(name: str, variants: list[Broken]) -> None:
    entry = GALLERY[name]
    for label, knl in variants:
        assert refusal(knl) or is_equal(entry, knl), f"{name} is proven with {label}"


@pytest.mark.few(40)
@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_is_broken_by_hand_is_refused_or_computes_the_same(name: str) -> None:
    variants = list(broken(GALLERY[name].build()))
    check(name, random.Random(name).sample(variants, min(3, len(variants))))


@pytest.mark.parametrize("name", ["rows_times_vector_ahead", "stencil_with_sliding_planes"])
def test_a_subscript_of_a_tile_that_is_not_affine_is_refused(name: str) -> None:
    """The last write of all that such a subscript may name is not the one that is read."""
    exchanged = [(label, knl) for label, knl in broken(GALLERY[name].build()) if label.endswith("Remainder")]
    assert exchanged
    for label, knl in exchanged:
        assert "not affine" in str(refusal(knl)), label


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_way_to_break_a_program_by_hand_is_refused_or_computes_the_same(name: str) -> None:
    variants = list(broken(GALLERY[name].build()))
    check(name, random.Random(name).sample(variants, min(200, len(variants))))


@pytest.mark.few(60)
@pytest.mark.parametrize("name", sorted(GALLERY))
def test_the_expressions_of_a_program_are_those_of_its_reference(name: str) -> None:
    assert not list(expression_violations(GALLERY[name].build()))


def is_changed(knl: pl.LoopKernel) -> bool:
    """Return whether an expression is not the program's, or what it computes cannot be told."""
    try:
        return bool(list(expression_violations(knl)))
    except pl.VerificationError:
        return True


@pytest.mark.few(20)
@pytest.mark.parametrize("name", NAMES[::3])
def test_forms_that_are_the_same_at_sight_are_the_same_by_their_relations(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Affine forms are compared before relations; here each operand is asked for by its relations."""
    knl = GALLERY[name].build()
    variants = [knl, *(other for _, other in random.Random(name).sample(list(broken(knl)), 3))]
    at_sight = [is_changed(variant) for variant in variants]
    monkeypatch.setattr(Use, "is_same", lambda *_: False)
    assert [is_changed(replace(variant)) for variant in variants] == at_sight


# {{{ what each kind of instruction has to keep


def changed(knl: pl.LoopKernel, name: str, change: Callable[[Instruction], Instruction]) -> pl.LoopKernel:
    instructions = tuple(change(old) if old.id == name else old for old in knl.instructions)
    return replace(knl, instructions=instructions)


def times_two(old: Instruction) -> Instruction:
    return replace(old, expression=p.Product((2, old.expression)))


def sums() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 16}",
        "y[i] = sum(k, a[i, k]*x[k]) + 3*k0",
        [pl.GlobalArg("a", np.float32, shape="n, 16"), pl.GlobalArg("x", np.float32, shape="16"),
         pl.GlobalArg("y", np.float32, shape="n"), pl.ValueArg("k0", np.int32)],
        name="sums",
    )  # fmt: skip


def tiled() -> pl.LoopKernel:
    knl = pl.split_iname(sums(), "i", 8, outer_tag="g.0", inner_tag="l.0")
    return pl.add_prefetch(knl, "x", ["k"], default_tag=None)


def messages(knl: pl.LoopKernel) -> str:
    with pytest.raises(pl.VerificationError) as caught:
        pl.verify(knl, target=pl.CudaTarget())
    assert set(caught.value.codes) == {"expression-changed"}
    return str(caught.value)


def test_the_refusal_says_what_stands_in_the_program(golden: Golden) -> None:
    knl = changed(tiled(), "insn", times_two)
    golden("messages/expression_changed.txt", messages(knl))


def test_a_copy_ahead_has_the_program_s_operand(golden: Golden) -> None:
    knl = changed(tiled(), "fetch_x", times_two)
    golden("messages/expression_changed_ahead.txt", messages(knl))


@pytest.mark.parametrize("name", ["fetch_x", "insn"])
def test_nothing_gets_a_condition_of_its_own(name: str) -> None:
    condition = parse_expression("k0 > 0")
    messages(changed(tiled(), name, lambda old: replace(old, predicates=(condition,), reads=old.reads | {"k0"})))


def test_a_term_has_the_program_s_instances(golden: Golden) -> None:
    def shifted(old: Instruction) -> Instruction:
        def shift(node: Any) -> Any:
            is_a = isinstance(node, p.Subscript) and node.aggregate == p.Variable("a")
            return p.Subscript(node.aggregate, (node.index_tuple[0], p.Sum((15, p.Product((-1, p.Variable("k")))))))\
                if is_a else node  # fmt: skip

        return replace(old, expression=map_nodes(old.expression, shift))

    golden("messages/expression_changed_term.txt", messages(changed(tiled(), "insn", shifted)))


def buffered(**options: Any) -> pl.LoopKernel:
    knl = pl.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < 16}",
        "y[i] = y[i] + a[i, k]",
        [pl.GlobalArg("a", np.float32, shape="n, 16"), pl.GlobalArg("y", np.float32, shape="n")],
        name="buffered",
    )
    return pl.buffer_array(knl, "y", ["k"], **options)


@pytest.mark.parametrize("name", ["init_y_buf", "store_y_buf"])
def test_what_moves_an_element_moves_it_as_it_is(name: str) -> None:
    assert refusal(buffered()) is None
    messages(changed(buffered(), name, times_two))


def test_the_refusal_of_a_move_says_what_it_is_for(golden: Golden) -> None:
    golden("messages/expression_changed_move.txt", messages(changed(buffered(), "store_y_buf", times_two)))


def test_what_collects_updates_begins_with_the_neutral_element() -> None:
    knl = buffered(init_expression="0", store_expression="base + buffer")
    assert refusal(knl) is None
    messages(changed(knl, "init_y_buf", lambda old: replace(old, expression=1)))
    messages(changed(knl, "store_y_buf", times_two))
    messages(changed(knl, "insn", times_two))


def test_what_pl_unchecked_lets_pass_is_not_another_program() -> None:
    knl = changed(tiled(), "insn", times_two)
    waived = replace(knl, waivers=(Waiver("all that is computed is as good"),))
    assert "expression-changed" in str(refusal(waived))


def test_integers_that_are_folded_are_the_program_s() -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "y[i] = 2*3*x[i + 4 // 2] + (1 + 2 + i)*x[i]",
        [pl.GlobalArg("x", np.float32, shape="n + 2"), pl.GlobalArg("y", np.float32, shape="n")],
    )
    assert refusal(pl.simplify_indices(pl.fold_constants(knl))) is None


# }}}
# {{{ steps whose authors forgot everything


@dataclass(frozen=True)
class _Careless(Transform):
    """A transform that looks at nothing, and says that it is legal."""

    name: ClassVar[str] = "careless"

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        del kernel
        yield from ()


@dataclass(frozen=True)
class _Capturing(_Careless):
    """Puts ``2*x`` in the place of a name in rules, also where the name is a parameter of the rule."""

    iname: str = "i"

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        def put(node: Any) -> Any:
            return p.Product((2, node)) if isinstance(node, p.Variable) and node.name == self.iname else node

        rules = {
            name: SubstitutionRule.of(name, rule.arguments, map_nodes(rule.expression, put))
            for name, rule in kernel.substitutions.items()
        }
        return replace(kernel, substitutions=rules)


@dataclass(frozen=True)
class _Doubling(_Careless):
    """Doubles the right-hand sides."""

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return replace(kernel, instructions=tuple(map(times_two, kernel.instructions)))


def with_rule() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        f(i) := 2*a[i]
        y[i] = f(i + 1)
        """,
        [pl.GlobalArg("a", np.float32, shape="2*n + 2"), pl.GlobalArg("y", np.float32, shape="n")],
    )


@pytest.mark.parametrize("step", [_Capturing(), _Doubling()])
def test_a_step_that_changes_an_expression_is_refused(step: Transform) -> None:
    with pytest.raises(pl.TransformError) as caught:
        step(with_rule())
    assert caught.value.codes == ("expression-changed",)


# }}}


@pytest.mark.parametrize(("old", "new"), [("p", "q"), ("q", "p")])
def test_a_number_of_the_caller_is_not_another_one(old: str, new: str) -> None:
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        f"y[i] = {old}*x[i] + p*q",
        [pl.GlobalArg("x, y", np.float32, shape="n"), pl.ValueArg("p, q", np.float32), ...],
    )
    knl = pl.split_iname(knl, "i", 4)
    assert not [*expression_violations(knl)]

    def put(node: Any) -> Any:
        return p.Variable(new) if node == p.Variable(old) else node

    knl = changed(knl, "insn", lambda insn: replace(insn, expression=map_nodes(insn.expression, put)))
    assert [finding.code for finding in expression_violations(knl)] == ["expression-changed"]


@pytest.mark.parametrize(("dtype", "codes"), [(np.uint8, ["expression-changed"]), (np.int32, [])])
def test_sizes_that_wrap_are_no_numbers_of_a_form(dtype: type, codes: list[str]) -> None:
    """``(n + 200) // 2`` is ``n // 2 + 100`` unless the sum wraps."""
    knl = pl.make_kernel(
        "{[i]: 0 <= i < n}",
        "y[i] = (n + 200) // 2",
        [pl.GlobalArg("y", np.int64, shape="n"), pl.ValueArg("n", dtype), ...],
    )
    other = parse_expression("n // 2 + 100")
    knl = changed(pl.split_iname(knl, "i", 4), "insn", lambda old: replace(old, expression=other))
    assert [finding.code for finding in expression_violations(knl)] == codes
