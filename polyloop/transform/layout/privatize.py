"""``privatize_temporaries_with_inames``, ``unprivatize_temporaries_with_inames``: one element per iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.nodes import Expression, Reduction, array_name
from polyloop.expr.rewrite import children, rebuild, variables
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.domains import iname_range
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.proof.obligation import findings
from polyloop.sync.storage_aliasing import pool_obligations
from polyloop.transform.base import Transform, iname_violations
from polyloop.transform.parameters import Inames, TemporaryNames
from polyloop.transform.staging.uses import expanded_to
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["PrivatizeTemporariesWithInames", "UnprivatizeTemporariesWithInames", "own_inames", "with_indices"]

_Indices: TypeAlias = tuple[Expression, ...]


def _temporary_violations(kernel: LoopKernel, names: Iterable[str] | None) -> Iterator[Diagnostic]:
    for name in names or ():
        if name not in kernel.temporaries:
            yield unknown_name("temporary", name, kernel.temporaries)


def _uses(
    expr: Expression, name: str, inames: frozenset[str]
) -> Iterator[tuple[_Indices, frozenset[str]]]:
    """Yield every occurrence of a temporary: its subscripts, and the inames around it."""
    if isinstance(expr, Reduction):
        inames = inames.union(expr.inames)
    if isinstance(expr, p.Subscript) and array_name(expr) == name:
        yield tuple(expr.index_tuple), inames
    elif isinstance(expr, p.Variable) and expr.name == name:
        yield (), inames
    for child in children(expr):
        yield from _uses(child, name, inames)


def _parts(kernel: LoopKernel, instruction: Instruction, name: str) -> tuple[Expression, ...]:
    """Return the expressions of an instruction, with the rules expanded that have *name* in their value."""
    own = (instruction.assignee, instruction.expression, *instruction.predicates)
    return tuple(expanded_to(kernel, part, name) for part in own)


def _all_uses(kernel: LoopKernel, name: str) -> Iterator[tuple[Instruction, _Indices, frozenset[str]]]:
    for instruction in kernel.instructions:
        for part in _parts(kernel, instruction, name):
            for indices, inames in _uses(part, name, frozenset(instruction.inames)):
                yield instruction, indices, inames


def with_indices(kernel: LoopKernel, name: str, change: Callable[[_Indices], _Indices]) -> LoopKernel:
    """Return *kernel* with the subscripts of temporary *name* changed everywhere."""

    def visit(expr: Expression) -> Expression:
        if isinstance(expr, p.Variable) and expr.name == name:
            return _element(name, change(()))
        old = children(expr)
        new = tuple(visit(child) for child in old)
        result = expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)
        if isinstance(result, p.Subscript) and array_name(result) == name:
            return _element(name, change(tuple(result.index_tuple)))
        return result

    def instruction(old: Instruction) -> Instruction:
        parts = _parts(kernel, old, name)
        if not any(name in variables(part) for part in parts):
            return old
        assignee, expression, *predicates = (visit(part) for part in parts)
        return replace(old, assignee=assignee, expression=expression, predicates=tuple(predicates))

    return replace(kernel, instructions=tuple(instruction(old) for old in kernel.instructions))


def _element(name: str, indices: _Indices) -> Expression:
    if not indices:
        return p.Variable(name)
    return p.Subscript(p.Variable(name), indices[0] if len(indices) == 1 else indices)


def _fixed(kernel: LoopKernel, name: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the axes of a temporary cannot change: a buffer holds part of it, or C text names it."""
    if name in kernel.buffers.values():
        yield Diagnostic(
            "already-staged",
            f"part of '{name}' is in a buffer",
            hints=(f"change the axes of '{name}' first, and buffer it after that",),
        )
    for instruction in kernel.instructions:
        if instruction.is_c and (name in instruction.reads or name in instruction.writes):
            yield Diagnostic(
                "staged-by-c",
                f"the C text of '{instruction.id}' names '{name}'",
                hints=(f"leave '{name}' out: name the others in only_var_names",),
                sites=(instruction.site(),),
            )


def _bounds_of_loops(kernel: LoopKernel) -> frozenset[str]:
    """Return the temporaries that bound loops."""
    return frozenset(name for statement in place(kernel).program.statements.values() for name in statement.bounds)


@dataclass(frozen=True)
class PrivatizeTemporariesWithInames(Transform):
    """Give temporaries an element of its own for each iteration of loops in which they are set.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["<> t = 2*a[i]", "b[i] = t + 1"])
    >>> print(knl.privatize_temporaries_with_inames("i"))
    kernel loop_kernel
    ...
    instructions:
        [i]  t[i] = 2*a[i]    {id=insn}
        [i]  b[i] = t[i] + 1    {id=insn_1}

    The iterations then no longer share the temporary, so the loop can be split in two, run on threads with a shared
    temporary, or be interchanged.

    Parameters
    ----------
    privatizing_inames
        The loops; they have constant bounds.
    only_var_names
        The temporaries; by default all that are set inside one of the loops.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``unknown-temporary``, ``not-used``, ``uses-apart`` (a use outside of the loop),
        ``temporary-not-constant``, ``bad-layout``, ``bad-bound``, ``staged-by-c``; ``illegal-order``, with two
        instances, where a value would have come from another iteration.

    Notes
    -----
    That each read still gets its value is proven.  Source: Loopy's transform of the same name; scalar and array
    expansion, Padua and Wolfe, CACM 1986, https://doi.org/10.1145/7902.7904.
    """

    privatizing_inames: Inames
    only_var_names: TemporaryNames | None = None

    def chosen(self, kernel: LoopKernel) -> dict[str, tuple[str, ...]]:
        """Return the inames of the new axes of each temporary concerned."""
        found = {}
        for name in kernel.temporaries if self.only_var_names is None else self.only_var_names:
            writers = [i for i in kernel.instructions if name in i.writes]
            axes = tuple(x for x in self.privatizing_inames if any(x in i.inames for i in writers))
            if axes:
                found[name] = axes
        return found

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        wrong = [finding for iname in self.privatizing_inames for finding in iname_violations(kernel, iname)]
        wrong += _temporary_violations(kernel, self.only_var_names)
        if wrong:
            yield from wrong
            return
        chosen = self.chosen(kernel)
        bounds = _bounds_of_loops(kernel)
        for name, axes in chosen.items():
            found = [*_fixed(kernel, name), *self._use_violations(kernel, name, axes)]
            found += [*self._layout_violations(kernel.temporaries[name], axes, kernel)]
            if name in bounds:
                found.append(_bounds_a_loop(name))
            if found:
                yield found[0]
                return
        if not chosen:
            listed = ", ".join(f"'{iname}'" for iname in self.privatizing_inames)
            yield Diagnostic(
                "not-used", f"no temporary is set inside of {listed or 'no loop'}", hints=("check the inames",)
            )

    def _use_violations(self, kernel: LoopKernel, name: str, axes: Sequence[str]) -> Iterator[Diagnostic]:
        for instruction, _, inames in _all_uses(kernel, name):
            missing = next((x for x in axes if x not in inames), None)
            if missing is not None:
                yield Diagnostic(
                    "uses-apart",
                    f"'{name}' is set inside loop '{missing}' and also used outside of it",
                    (f"'{instruction.id}' would not know which of its elements is meant",),
                    (f"leave '{name}' out: name the others in only_var_names",),
                    sites=(instruction.site(),),
                )
                return

    def _layout_violations(
        self, temporary: TemporaryVariable, axes: Sequence[str], kernel: LoopKernel
    ) -> Iterator[Diagnostic]:
        if temporary.dim_tags is not None:
            yield Diagnostic(
                "bad-layout",
                f"'{temporary.name}' says with dim_tags how its axes are stored, and not how a new one would be",
                hints=("privatize it first, and choose its layout after that: pl.tag_array_axes",),
            )
        for iname in axes:
            if _extent(kernel, iname) is None:
                yield Diagnostic(
                    "temporary-not-constant",
                    f"'{temporary.name}' would need an element for each '{iname}', and their number is not constant",
                    hints=(f"split '{iname}' and privatize with its inner part",),
                )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        for name, axes in self.chosen(kernel).items():
            offsets: list[Expression] = []
            extents: list[Expression] = []
            for iname in axes:
                extent = _extent(kernel, iname)
                assert extent is not None, "the extents were not checked"
                offsets.append(to_expression(Affine(((iname, 1),), -extent[0])))
                extents.append(extent[1])
            added = tuple(offsets)
            kernel = with_indices(kernel, name, lambda indices, added=added: (*indices, *added))  # type: ignore[misc]
            old = kernel.temporaries[name]
            new = replace(old, shape=(*(old.shape or ()), *extents))
            kernel = replace(kernel, temporaries={**kernel.temporaries, name: new})
        return kernel

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return _consequences(after)


def _consequences(after: LoopKernel) -> Iterator[Diagnostic]:
    yield from value_violations(after)
    yield from order_violations(after)
    yield from findings(after, pool_obligations(place(after)))


def _extent(kernel: LoopKernel, iname: str) -> tuple[int, int] | None:
    """Return the least value of an iname and the number of its values, None if that is not constant."""
    low, high = iname_range(kernel, iname)
    return None if low is None or high is None else (low, high - low + 1)


def _bounds_a_loop(name: str) -> Diagnostic:
    return Diagnostic(
        "bad-bound",
        f"'{name}' bounds a loop, which an element of an array cannot",
        hints=(f"leave '{name}' out: name the others in only_var_names",),
    )


def own_inames(kernel: LoopKernel, name: str, inames: Iterable[str]) -> dict[str, list[int]]:
    """Return the axes of a temporary on which every use has the same subscript, one of *inames*, shifted: by inames."""
    uses = [indices for _, indices, _ in _all_uses(kernel, name)]
    found: dict[str, list[int]] = {}
    for axis in range(len(kernel.temporaries[name].shape or ())):
        forms = {affine_of(indices[axis]) if axis < len(indices) else None for indices in uses}
        form = next(iter(forms), None)
        iname = next((x for x in inames if form is not None and form.terms == ((x, 1),)), None)
        if len(forms) == 1 and iname is not None:
            found.setdefault(iname, []).append(axis)
    return found


@dataclass(frozen=True)
class UnprivatizeTemporariesWithInames(Transform):
    """Let all iterations of loops share the elements of temporaries that had one for each of them.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", ["<> t[i] = 2*a[i]", "b[i] = t[i] + 1"])
    >>> print(knl.unprivatize_temporaries_with_inames("i"))
    kernel loop_kernel
    ...
    instructions:
        [i]  t = 2*a[i]    {id=insn}
        [i]  b[i] = t + 1    {id=insn_1}

    Parameters
    ----------
    inames
        The loops.  Every axis that is subscripted with one of them alone, everywhere, is taken away.
    only_var_names
        The temporaries; by default all that have such an axis.

    Raises
    ------
    TransformError
        ``unknown-iname``, ``unknown-temporary``, ``not-used``, ``bad-layout``, ``bad-initializer``, ``staged-by-c``;
        ``illegal-order``, with two instances, where an iteration needs what another one has overwritten.

    Notes
    -----
    Source: Loopy's transform of the same name; array contraction, Gao, Olsen, Sarkar and Thekkath, LCPC 1992,
    https://doi.org/10.1007/3-540-57502-2_53.
    """

    inames: Inames
    only_var_names: TemporaryNames | None = None

    def chosen(self, kernel: LoopKernel) -> dict[str, tuple[int, ...]]:
        """Return the axes of each temporary that are subscripted with one of the inames everywhere."""
        found = {}
        for name in kernel.temporaries if self.only_var_names is None else self.only_var_names:
            axes = tuple(axis for axes in own_inames(kernel, name, self.inames).values() for axis in axes)
            if axes:
                found[name] = tuple(sorted(axes))
        return found

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        wrong = [finding for iname in self.inames for finding in iname_violations(kernel, iname)]
        wrong += _temporary_violations(kernel, self.only_var_names)
        if wrong:
            yield from wrong
            return
        chosen = self.chosen(kernel)
        for name in chosen:
            yield from _fixed(kernel, name)
            if kernel.temporaries[name].initializer is not None:
                yield Diagnostic(
                    "bad-initializer",
                    f"'{name}' is a table, of which each element has its value",
                    hints=("name the temporaries meant in only_var_names",),
                )
            if kernel.temporaries[name].dim_tags is not None:
                yield Diagnostic(
                    "bad-layout",
                    f"'{name}' says with dim_tags how its axes are stored",
                    hints=("choose its layout when it has its axes: pl.tag_array_axes",),
                )
        if not chosen:
            listed = ", ".join(f"'{iname}'" for iname in self.inames)
            yield Diagnostic(
                "not-used",
                f"no temporary has an axis that is subscripted with {listed} alone, everywhere",
                hints=("only such an axis can be taken away",),
            )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        for name, axes in self.chosen(kernel).items():

            def left(entries: _Indices, axes: tuple[int, ...] = axes) -> _Indices:
                return tuple(entry for axis, entry in enumerate(entries) if axis not in axes)

            kernel = with_indices(kernel, name, left)
            old = kernel.temporaries[name]
            last = len(old.shape or ()) - 1
            new = replace(old, shape=left(old.shape or ()), padding=0 if last in axes else old.padding)
            kernel = replace(kernel, temporaries={**kernel.temporaries, name: new})
        return kernel

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return _consequences(after)
