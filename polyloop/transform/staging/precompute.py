"""``precompute``: values of a substitution rule, stored in a temporary ahead of their uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, TypeAlias

import pymbolic.primitives as p

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.names import tagged_name
from polyloop.expr.nodes import Expression, function_name
from polyloop.expr.rewrite import map_nodes, substitute
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.frozen import replace
from polyloop.kernel.instruction import SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine
from polyloop.transform.declare import Names, Takes
from polyloop.transform.parameters import (
    DimTags,
    Iname,
    Inames,
    InsnMatch,
    NewName,
    NewNames,
    Space,
    TagText,
    names_of,
)
from polyloop.transform.staging.plan import Filling, Place, Plan, Temporary, fresh_id
from polyloop.transform.staging.prefetch import subscript_forms
from polyloop.transform.staging.staged import Staging
from polyloop.transform.staging.uses import free_inames

__all__ = ["Precompute"]


def _axes(given: str | Sequence[str | int]) -> tuple[str, ...]:
    return names_of(given if isinstance(given, str) else [str(axis) for axis in given])


def _invocations(given: str | Sequence[str]) -> str:
    return tagged_name(given if isinstance(given, str) else ", ".join(map(str, given)))


_Invocations: TypeAlias = Annotated[str, Takes(str | Sequence[str], _invocations), Names.RULE]


@dataclass(frozen=True)
class Precompute(Staging):
    """Compute the values of a substitution rule ahead of their use, into a temporary.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["f(x) := 2*a[x]", "b[i] = f(i) + f(i + 1)"])
    >>> print(body(knl.precompute("f", "i")))
    float f_value[9];
    for (int f_dim_0 = 0; f_dim_0 < 9; ++f_dim_0)
        f_value[f_dim_0] = 2.0f * a[f_dim_0];
    for (int i = 0; i < 8; ++i)
        b[i] = f_value[i] + f_value[i + 1];

    Parameters
    ----------
    subst_use
        Name of the rule; ``"f(i, 0)"``, or a list of such uses, also says by which arguments the values are meant that
        the sweep stores.
    sweep_inames
        Inames over which the values are stored at once; together they span the temporary.  Those in the value of the
        rule that are no arguments of it have axes in front of the arguments'.
    precompute_inames
        Names for the new inames, one for each argument of the rule; by default ``{rule}_dim_0``, ...  Existing inames
        with the required values are allowed: then these loops, with their tags, compute the values.
    precompute_outer_inames
        Loops around the new instruction. By default all inames around the uses that are not swept; thread inames only
        if the values depend on them.
    default_tag
        Tag of the new inames; ``"l.auto"`` spreads them over the threads of the block.
    temporary_name, temporary_address_space, compute_insn_id
        Name of the temporary; its address space (``"auto"``: the narrowest that its readers allow); id of the
        instruction. The name of an existing temporary in shared memory reuses its storage, which is proven to be free.
        In ``"global"`` memory the extents may depend on parameters; then ``"l.auto"`` leaves the new inames sequential:
        split and tag them.
    within
        Instructions whose uses are redirected, as a match expression; by default all.
    storage_axes
        Axes of the temporary: arguments of the rule, by name or number, from the slowest to the fastest in memory, or
        swept inames.
    fetch_bounding_box
        True: compute the smallest box around the values used; False: compute only the values used. By default the box,
        if all of its operands exist.
    dim_tags, pad
        Layout of the temporary, and padding of each row [elements].
    compute_at
        The innermost loop around the computation, or ``"root"`` for none; it determines the sweep and the outer inames.
        Named as in Halide.

    Raises
    ------
    TransformError
        ``unknown-substitution-rule``, ``unknown-iname``, ``not-affine``, ``not-used``, ``sweep-unused``,
        ``outer-missing``, ``footprint-not-constant``, ``name-taken``, ``inames-too-short``, ``storage-in-use``,
        ``bad-layout``, ``bad-value``, ``bad-tag``, ``bad-address-space``, ``wrong-rank``, ``unknown-instruction``,
        ``staged-atomic`` and ``staged-by-c`` (uses that cannot be redirected), ``already-staged``; ``may-fail`` (a
        value that may fail would be computed where the program does not compute it); with two instances
        ``copy-incomplete``, ``copy-wrong-element``, ``illegal-order``.

    Notes
    -----
    Each use is proven to see the value that it had before.  Source: Loopy's transform of the same name; Kloeckner,
    ARRAY 2014, https://doi.org/10.1145/2627373.2627387.
    """

    subst_use: _Invocations
    sweep_inames: Inames = ()
    _: KW_ONLY
    precompute_inames: NewNames | None = None
    precompute_outer_inames: Inames | None = None
    default_tag: TagText | None = "l.auto"
    temporary_name: NewName | None = None
    temporary_address_space: Space = "auto"
    compute_insn_id: NewName | None = None
    within: InsnMatch | None = None
    storage_axes: Annotated[tuple[str, ...], Takes(str | Sequence[str | int], _axes), Names.INAME] | None = None
    fetch_bounding_box: bool | None = None
    dim_tags: DimTags | None = None
    pad: int = 0
    compute_at: Iname | None = None

    @property
    def rule(self) -> str:
        """Name of the rule."""
        return self.subst_use.partition("(")[0].strip()

    @property
    def uses(self) -> tuple[str, ...]:
        """Arguments of the uses that the text gives."""
        if "(" not in self.subst_use:
            return ()
        parts = [part.text.strip() for part in split_outside_brackets(Source.of(self.subst_use), ",")]
        return tuple(part.partition("(")[2].removesuffix(")") for part in parts)

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.rule not in kernel.substitutions:
            yield unknown_name("substitution rule", self.rule, kernel.substitutions)
            return
        count = len(kernel.substitutions[self.rule].arguments)
        for text in self.uses:
            forms = subscript_forms(kernel, text)
            known = {*kernel.inames, *kernel.parameters}
            if forms is None or len(forms) != count or any(x is None or not x.names() <= known for x in forms):
                message = f"'{text}' are no arguments of '{self.rule}' that are affine in inames and parameters"
                hint = f"give {count} of them, such as '{self.rule}(i, k + 1)'"
                yield Diagnostic("bad-value", message, hints=(hint,))
                return
        kernel = self._spread(kernel)
        problem = self.place(kernel).problem
        if problem is not None:
            yield problem
            return
        arguments = kernel.substitutions[self.rule].arguments
        if self._names_arguments(kernel):
            if sorted(self._positions(kernel)) != list(range(len(arguments))):
                yield Diagnostic(
                    "wrong-rank",
                    f"storage_axes {', '.join(self.storage_axes or ())} do not name each argument of "
                    f"'{self.rule}' once",
                    (f"its arguments are {', '.join(arguments)}",),
                    ("name all of them, from the one that varies slowest in memory to the fastest",),
                )
                return
            if self.dim_tags is not None:
                message = "both storage_axes and dim_tags say how the axes are stored"
                yield Diagnostic("bad-layout", message, hints=("give one of them",))
        yield from self.plan_violations(kernel)
        by_iname = self.storage_axes is not None and not self._names_arguments(kernel)
        count = len(self.storage_axes or ()) if by_iname else len(arguments)
        if self.precompute_inames is not None and len(self.precompute_inames) != count:
            yield Diagnostic(
                "wrong-rank",
                f"rule '{self.rule}' has {count} arguments, and {len(self.precompute_inames)} inames were given",
                hints=("give one iname for each argument",),
            )

    def _names_arguments(self, kernel: LoopKernel) -> bool:
        """Return whether the storage axes are arguments of the rule, by name or number, and not inames."""
        known = kernel.substitutions[self.rule].arguments
        return bool(self.storage_axes) and all(x in known or x.isdecimal() for x in self.storage_axes or ())

    def _positions(self, kernel: LoopKernel) -> list[int]:
        known = kernel.substitutions[self.rule].arguments
        return [known.index(x) if x in known else int(x) for x in self.storage_axes or ()]

    def place(self, kernel: LoopKernel) -> Place:
        """Return the swept loops, and the loops around the new instruction."""
        given = Place(self.sweep_inames, self.precompute_outer_inames, self.compute_at)
        return given.found(kernel, self.rule, True, self.temporary_address_space == "private")

    @property
    def wish(self) -> str | None:
        return self.temporary_name

    def plan(self, kernel: LoopKernel) -> Plan:
        place_ = self.place(kernel)
        axes, dim_tags = self.storage_axes, self.dim_tags or ""
        if self._names_arguments(kernel):
            positions = self._positions(kernel)
            axes, count = None, len(positions)
            if sorted(positions) == list(range(count)):
                dim_tags = ",".join(f"N{count - 1 - positions.index(number)}" for number in range(count))
        wish = self.temporary_name or f"{self.rule}_value"
        name = kernel.fresh(wish) if self.temporary_name is None or self.shares(kernel) else wish
        instruction = self.compute_insn_id or fresh_id(kernel, f"compute_{self.rule}")
        return Plan(
            self.rule,
            True,
            place_.sweep,
            place_.outer,
            Temporary(name, self.temporary_address_space, axes, dim_tags, self.pad),
            Filling(instruction, self.default_tag, self.precompute_inames, may_reuse=True),
            self.fetch_bounding_box,
            within=self.within or "",
            subscripts=tuple(self._forms(kernel)),
        )

    def _forms(self, kernel: LoopKernel) -> Iterator[tuple[Affine | None, ...]]:
        """Yield the arguments of the uses that are given, behind the swept inames that became arguments."""
        count = len(kernel.substitutions[self.rule].arguments)
        for text in self.uses:
            forms = subscript_forms(kernel, text) or ()
            more = self.sweep_inames[: count - len(forms)] if len(forms) < count else ()
            yield (*map(Affine.variable, more), *forms)

    def _spread(self, kernel: LoopKernel) -> LoopKernel:
        """Return *kernel* with the swept inames in the value of the rule among its arguments."""
        free = free_inames(kernel, self.rule).difference(self.precompute_outer_inames or ())
        more = [name for name in self.sweep_inames if name in free]
        if not more:
            return kernel
        given = tuple(map(p.Variable, more))

        def visit(node: Expression) -> Expression:
            if isinstance(node, p.Call) and function_name(node) == self.rule:
                return p.Call(node.function, (*given, *node.parameters))
            return p.Call(node, given) if node == p.Variable(self.rule) else node

        old = kernel.substitutions[self.rule]
        names = [kernel.fresh(f"{name}_", old.arguments) for name in more]
        value = substitute(old.expression, dict(zip(more, map(p.Variable, names), strict=True)))
        rules = {name: rule.mapped(lambda value: map_nodes(value, visit))
                 for name, rule in kernel.substitutions.items()}  # fmt: skip
        rules[self.rule] = SubstitutionRule.of(self.rule, (*names, *old.arguments), value)
        instructions = tuple(replace(
            old, expression=map_nodes(old.expression, visit),
            predicates=tuple(map_nodes(predicate, visit) for predicate in old.predicates),
        ) for old in kernel.instructions)  # fmt: skip
        return replace(kernel, instructions=instructions, substitutions=rules)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        return super().rewrite(self._spread(kernel))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return super().consequences(self._spread(before), after)

    def note(self, before: LoopKernel, after: LoopKernel) -> str:
        return super().note(self._spread(before), after)
