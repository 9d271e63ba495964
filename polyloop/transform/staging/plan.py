"""Plans of ``precompute`` and ``add_prefetch``: the source, its uses, and the new instruction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.dtypes import DType
from polyloop.expr.nodes import Expression, array_name
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, ArrayArg, TemporaryVariable
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import Nested, order_tags, parse_dim_tags
from polyloop.kernel.tags import axis_name, is_thread
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.axes import is_block_axis
from polyloop.poly.sets import Row, add_rows
from polyloop.program.lower import loop_order
from polyloop.transform.base import iname_violations
from polyloop.transform.instructions.matching import meant
from polyloop.transform.staging.uses import Use, find_uses, free_inames

__all__ = ["Filling", "Place", "Plan", "Target", "Temporary", "contiguous_axis", "fresh_id", "target_of", "uses_of",
           "whole_axes", "with_whole_axes"]


@dataclass(frozen=True)
class Temporary:
    """The temporary of a staged source.

    Attributes
    ----------
    axes
        Swept inames, of which each is an axis; None for an axis for each subscript or argument.
    dim_tags, pad
        Layout of the axes, and padding of each row [elements].
    """

    name: str
    address_space: str
    axes: tuple[str, ...] | None = None
    dim_tags: str = ""
    pad: int = 0

    def declared(self, shape: tuple[Expression, ...], dtype: DType | None) -> TemporaryVariable:
        """Return its declaration."""
        tags = None
        if self.dim_tags and shape:
            is_fortran = self.dim_tags.strip().upper() == "F"
            tags = order_tags(len(shape), "F") if is_fortran else parse_dim_tags(self.dim_tags)
            tags = None if tags == order_tags(len(shape), "C") else tags
        return TemporaryVariable(self.name, dtype, shape, AddressSpace(self.address_space), self.pad, dim_tags=tags)


@dataclass(frozen=True)
class Filling:
    """The instruction that fills a temporary.

    Attributes
    ----------
    tag
        Tag of its own inames.
    inames
        Names of these; None for generated ones.
    vec
        Number of neighbours in memory that it moves at once.
    may_reuse
        Whether ``inames`` may name inames that exist.
    """

    id: str
    tag: str | None
    inames: tuple[str, ...] | None = None
    vec: int | None = None
    may_reuse: bool = False

    def reuses_loops(self, kernel: LoopKernel) -> bool:
        """Return True if it runs in loops that exist."""
        return self.may_reuse and bool(self.inames) and all(iname in kernel.inames for iname in self.inames or ())


@dataclass(frozen=True)
class Plan:
    """Plan of a staged source: its temporary and the instruction that fills it.

    Attributes
    ----------
    outer
        Loops around the new instruction; None leaves them to the transform.
    bounding_box
        Whether the box around the elements is staged, not only those that are used; None where it may be.
    operation
        Name of the public call, for messages.
    within
        Which instructions use what is staged, as a match expression; all of them if it is empty.
    subscripts
        Forms of the subscripts that make the footprint, None for a whole axis; empty for those of all uses.
    """

    source: str
    is_rule: bool
    sweep: tuple[str, ...]
    outer: tuple[str, ...] | None
    temporary: Temporary
    filling: Filling
    bounding_box: bool | None = None
    operation: str = ""
    within: str = ""
    subscripts: tuple[tuple[Affine | None, ...], ...] = ()

    @property
    def caller(self) -> str:
        """Name of the transform that the user called."""
        return self.operation or ("precompute" if self.is_rule else "add_prefetch")


def uses_of(kernel: LoopKernel, plan: Plan) -> Iterator[Use | Diagnostic]:
    """Yield the uses that *plan* concerns, or why one of them cannot be staged."""
    if plan.within:
        kernel = replace(kernel, instructions=meant(kernel, plan.within, plan.caller))
    for use in find_uses(kernel, plan.source, plan.is_rule):
        if isinstance(use, Diagnostic) or set(plan.sweep) <= set(use.inames):
            yield use


@dataclass(frozen=True, eq=False)
class Target:
    """Content of the temporary: the uses with their position in it as arguments, and the element at a position.

    ``elements`` are the subscripts or arguments as forms of ``names`` (the positions) and of the inames ``free``.
    """

    uses: tuple[Use, ...]
    names: tuple[str, ...]
    elements: tuple[Affine, ...]
    free: frozenset[str]


def target_of(kernel: LoopKernel, plan: Plan, uses: Sequence[Use]) -> Target | Diagnostic:
    """Return the values that *plan* stores for *uses*, with the names of their axes."""
    free = free_inames(kernel, plan.source) if plan.is_rule else frozenset[str]()
    if plan.temporary.axes is None:
        names = tuple(f"x{number}'" for number in range(len(uses[0].arguments)))
        return Target(tuple(uses), names, tuple(map(Affine.variable, names)), free)
    first = uses[0].arguments
    for use in uses:
        if use.arguments != first:
            return Diagnostic(
                "uses-differ",
                f"'{plan.source}' is read with several subscripts, of which one iteration needs more than one element",
                hints=("leave out storage_axes: then the temporary has an axis for each subscript",),
                sites=(use.instruction.site(),),
            )
    needed = frozenset[str]().union(*(form.names() for form in first)) - set(kernel.parameters)
    if left := (needed & set(plan.sweep)) - set(plan.temporary.axes):
        return Diagnostic(
            "outer-missing",
            f"the elements depend on the swept iname '{min(left)}', for which the temporary has no axis",
            hints=(f"add '{min(left)}' to storage_axes, or leave it out of the sweep",),
            sites=(uses[0].instruction.site(),),
        )
    forms = tuple(map(Affine.variable, plan.temporary.axes))
    by_iname = tuple(replace(use, arguments=forms) for use in uses)
    return Target(by_iname, plan.temporary.axes, first, free | (needed - set(plan.temporary.axes)))


def contiguous_axis(array: ArrayArg | TemporaryVariable) -> int | None:
    """Return the axis along which neighbours are neighbours in memory, None if there is none that is known."""
    rank = len(array.shape or ())
    if not rank:
        return None
    tags = array.dim_tags
    if tags is None:
        if isinstance(array, ArrayArg) and not array.is_packed:
            return next((n for n, step in enumerate(array.strides or ()) if type(step) is int and step == 1), None)
        tags = order_tags(rank, array.order if isinstance(array, ArrayArg) else "C")
    if not isinstance(tags, tuple):
        return None
    return next((n for n, tag in enumerate(tags) if isinstance(tag, Nested) and tag.level == 0), None)


@dataclass(frozen=True)
class Place:
    """Position of the new instruction in the nest: the inames to sweep and the loops around.

    ``at`` names the innermost loop around it instead, ``"root"`` for none; ``problem`` says why that cannot be.
    """

    sweep: tuple[str, ...]
    outer: tuple[str, ...] | None
    at: str | None = None
    problem: Diagnostic | None = None

    def found(self, kernel: LoopKernel, source: str, is_rule: bool, is_private: bool) -> Place:
        """Return the place with ``at`` turned into loops."""
        if self.at is None:
            return self
        if self.sweep or self.outer is not None:
            hint = "leave out the sweep and the outer inames: they follow from compute_at"
            message = "compute_at cannot be combined with inames to sweep or outer inames"
            problem = Diagnostic("bad-value", message, hints=(hint,))
            return replace(self, problem=problem)
        if self.at != "root":
            for finding in iname_violations(kernel, self.at):
                return replace(self, problem=finding)
        free = free_inames(kernel, source) if is_rule else frozenset[str]()
        found = [
            _loops_of(kernel, use, self.at, is_private, free)
            for use in find_uses(kernel, source, is_rule)
            if isinstance(use, Use) and (self.at == "root" or self.at in use.inames)
        ]
        if not found:
            message = f"iname '{self.at}' is not around any use of {'rule' if is_rule else 'array'} '{source}'"
            hints = ("name a loop around the uses, or 'root'",)
            return replace(self, problem=Diagnostic("sweep-unused", message, hints=hints))
        return Place(tuple(dict.fromkeys(name for swept, _ in found for name in swept)), found[0][1])


def whole_axes(kernel: LoopKernel, source: str) -> tuple[Expression, ...]:
    """Return the extents of an array, or of that whose elements the rule *source* stands for; none of another rule."""
    arrays = kernel.arrays()
    if source in arrays:
        return arrays[source].shape or ()
    rule = kernel.substitutions[source]
    value = rule.value
    if type(value) is not p.Subscript or value.index_tuple != tuple(map(p.Variable, rule.parameters)):
        return ()
    return arrays[array_name(value)].shape or ()


def with_whole_axes(
    kernel: LoopKernel, source: str, given: tuple[Affine | None, ...], inames: tuple[str, ...], domain: isl.Set
) -> tuple[tuple[str, ...], isl.Set, tuple[Affine, ...]]:
    """Return subscripts over *inames*, in *domain*, with a dimension of its own for each whole axis."""
    forms: list[Affine] = []
    rows: list[Row] = []
    dims = inames
    shape = whole_axes(kernel, source) or (0,) * len(given)  # without extents there are no whole axes
    for axis, (form, extent) in enumerate(zip(given, shape, strict=True)):
        if form is not None:
            forms.append(form)
            continue
        length, whole = affine_of(extent), Affine.variable(f"{source}:{axis}")
        assert length is not None, "extents are affine"
        dims = (*dims, f"{source}:{axis}")
        rows += [Row(whole), Row(length.add(whole, -1).add(Affine((), 1), -1))]
        forms.append(whole)
    domain = domain.add_dims(isl.dim_type.set, len(dims) - len(inames))
    return dims, add_rows(domain, dims, rows), tuple(forms)


def fresh_id(kernel: LoopKernel, wish: str) -> str:
    """Return *wish*, or *wish* with the first number that makes it no id of an instruction."""
    taken = {instruction.id for instruction in kernel.instructions}
    if wish not in taken:
        return wish
    return next(name for number in range(len(taken) + 1) if (name := f"{wish}_{number}") not in taken)


def _loops_of(
    kernel: LoopKernel, use: Use, iname: str, is_private: bool, free: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    needed = {name for form in use.arguments for name in form.names()} | {*free}
    order = loop_order(use.inames, kernel.loop_priority)
    blocks = [x for x in order if is_block_axis(axis_name(kernel.tag(x)) or "")]
    threads = [x for x in order if is_thread(kernel.tag(x))]
    loops = [x for x in order if x not in blocks and x not in threads]
    if iname == "root":
        outer: list[str] = []
    elif iname in blocks:
        outer = blocks
    elif iname in threads:
        outer = blocks + threads
    else:
        outer = blocks + loops[: loops.index(iname) + 1]
    if is_private and iname != "root":
        outer += [x for x in threads if x in needed and x not in outer]
    kept = [x for x in order if x in outer]
    return tuple(x for x in order if x in needed and x not in outer), tuple(kept)


