"""Thread mapping: the thread that executes each instance, and the threads that see each variable.

Hardware axes are dimensions named ``"g.0"`` .. ``"l.2"``.  Every placed statement has a dimension for each axis that
the kernel uses.  A statement without an iname on an axis is executed by index 0 of that axis if it writes memory that
others see (the *owner*), and by every index if it writes private memory (it is *repeated*).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod

import islpy as isl

from polyloop.errors import Diagnostic, VerificationError
from polyloop.expr.nodes import Expression
from polyloop.frozen import quick, replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.domains import assumed, bound_variables, iname_range, without_bound_variables
from polyloop.kernel.instruction import Copy, Instruction, Partial
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.tags import LocalAxis, ThreadDigit
from polyloop.mapping.hardware_axes import Axes, axis_twice, axis_unbounded, open_cluster
from polyloop.mapping.mixed_radix import (
    Digit,
    DigitView,
    digit_form,
    digit_of,
    gaps,
    place_value_problem,
)
from polyloop.mapping.mixed_radix_axes import digit_bound, with_digit_parts
from polyloop.mapping.warp_axes import bound_axes, with_warps
from polyloop.memo import By, Same, memoised
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.axes import CLUSTER_AXIS, is_block_axis, is_thread_axis, loops_among, thread_axis
from polyloop.poly.sets import (
    Row,
    add_rows,
    constant_bounds,
    insert_dims,
    is_strided,
    map_from_forms,
    preimage,
    universe,
)
from polyloop.program.lower import Access, Lowered, Program

__all__ = [
    "Axes",
    "Placed",
    "Placement",
    "axes_of",
    "common_loops",
    "free_inames",
    "joint_extent",
    "owner_axes",
    "place_statement",
    "reference_map",
    "storage_map",
]

_SET = isl.dim_type.set


@quick
@dataclass(frozen=True, eq=False)
class Placed:
    """A lowered statement on the threads that run it.

    Attributes
    ----------
    dims
        All axes of the kernel, then the sequential inames from the outermost to the innermost.
    domain
        Every instance that runs for some values of the bound variables, over ``dims``.
    exact
        The instances that run for given values of the bound variables, which are parameters of the set.
    forms
        Inames of the statement as affine forms of ``dims``; an iname that is a dimension itself may be missing.
    repeated
        Axes on which every index executes the instance; not constrained in generated code.
    own
        Axes that have an iname of the statement.
    """

    lowered: Lowered
    dims: tuple[str, ...]
    domain: isl.Set
    exact: isl.Set
    forms: Mapping[str, Affine]
    repeated: frozenset[str]
    own: frozenset[str]
    digits: DigitView | None = None
    """The statement as code generation sees it, in a kernel with inames that are digits of the thread number."""

    @property
    def name(self) -> str:
        """Name of the statement."""
        return self.lowered.name

    @memoised
    def indices(self, access: Access) -> tuple[Affine | None, ...]:
        """Return the subscripts of *access* in terms of ``dims``."""
        forms = self.forms
        return tuple([None if form is None else form.substitute(forms) for form in access.indices])

    def domain_of(self, access: Access) -> isl.Set:
        """Return the instances that may make *access*, over ``dims``."""
        if access.domain is None:
            return self.domain
        forms = [self.forms.get(x) or Affine.variable(x) for x in self.lowered.inames]
        to_inames = map_from_forms(self.domain, self.dims, forms)
        return to_inames.intersect_range(access.domain).domain()

    @memoised
    def interval(self, dim: str) -> tuple[int | None, int | None]:
        """Return the least and the greatest value of a dimension, None where that varies."""
        return constant_bounds(self.domain, self.dims.index(dim))

    def extent(self, dim: str) -> int | None:
        """Return the size of the interval from the least to the greatest value of a dimension, None if it varies."""
        low, high = self.interval(dim)
        return None if low is None or high is None else max(0, high - low + 1)


def joint_extent(dim: str, first: Placed, second: Placed) -> int | None:
    """Return the size of the interval with all values of a dimension in both statements, None if it varies."""
    if dim not in first.dims or dim not in second.dims:
        return None
    (low, high), (least, most) = first.interval(dim), second.interval(dim)
    if low is None or high is None or least is None or most is None:
        return None
    return max(1, max(high, most) - min(low, least) + 1)


@quick
@dataclass(frozen=True, eq=False)
class Placement:
    """A lowered program on its threads."""

    program: Program
    axes: Axes
    statements: Mapping[str, Placed]
    spaces: Mapping[str, AddressSpace]
    phantoms: frozenset[str] = frozenset()  # statements with instances beyond their domains: optimize/over_execution.py
    attempt: str = ""  # the kind of these instances, if several kinds were tried
    completions: frozenset[str] = frozenset()  # statements at which products are complete: sync/async_product.py


def _error(kernel: LoopKernel, *found: Diagnostic) -> VerificationError:
    return VerificationError("schedule", kernel.name, found)


@memoised
def axes_of(kernel: LoopKernel) -> Axes:
    """Return the hardware axes of *kernel*, with the extents of the thread axes.

    Raises
    ------
    VerificationError
        ``axis-unbounded``, ``axis-twice``.
    """
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    open_ended: set[str] = set()
    homes = {iname: domain for domain in kernel.domains for iname in domain.inames}
    done: set[str] = set()
    digits: dict[str, tuple[ThreadDigit, int, Instruction]] = {}
    groups = [(i, inames) for i in kernel.instructions for inames in (i.inames, *(term.inames for term in i.terms))]
    for instruction, inames in groups:
        seen: dict[str, str] = {}
        for iname in inames:
            axis = kernel.axis(iname)
            if axis is None:
                continue
            if axis in seen:
                raise _error(kernel, axis_twice(seen[axis], iname, axis, instruction))
            seen[axis] = iname
            if iname in done:
                continue
            done.add(iname)
            least, most = iname_range(kernel, iname)
            tag = kernel.tag(iname)
            if isinstance(tag, ThreadDigit):
                digits[iname] = (tag, digit_bound(kernel, iname, tag, (least, most), instruction), instruction)
                continue
            if least is None or (is_block_axis(axis) and most is None and not _is_bounded(kernel, homes[iname], iname)):
                raise _error(kernel, axis_unbounded(kernel, homes[iname], iname, axis, instruction))
            if axis == CLUSTER_AXIS and most is None:
                raise _error(kernel, open_cluster(iname, instruction))
            low[axis] = min(low.get(axis, least), least)
            open_ended |= {axis} if most is None else set()
            high[axis] = max(high.get(axis, 0), most or 0)
    group = tuple(sorted(axis for axis in low if is_block_axis(axis)))
    local_axes = sorted(axis for axis in low if is_thread_axis(axis))
    first = {axis: 0 if low[axis] > 0 and axis in group and axis != CLUSTER_AXIS else low[axis] for axis in low}
    local = {axis: None if axis in open_ended else max(0, high[axis] - first[axis]) + 1 for axis in local_axes}
    local = with_warps(kernel.name, local, [kernel.tag(iname) for iname in done])
    first = dict.fromkeys(local, 0) | first  # warps may need an axis that no iname has
    cluster = max(1, high[CLUSTER_AXIS] - first[CLUSTER_AXIS] + 1) if CLUSTER_AXIS in group else 1
    axes = Axes(group, local, first, cluster=cluster)
    return with_digit_parts(kernel, axes, digits) if digits else axes


def _is_bounded(kernel: LoopKernel, home: Domain, iname: str) -> bool:
    """Return True if *iname* is bounded for all values of bound variables."""
    known = (*kernel.parameters, *kernel.inames)
    if not bound_variables(home.set, known):
        return True
    return bool(without_bound_variables(home.set, known).dim_is_bounded(_SET, home.inames.index(iname)))


def place_statement(kernel: LoopKernel, statement: Lowered, axes: Axes, space: AddressSpace) -> Placed:
    """Return *statement* on its threads; *space* is the address space of its writes.

    Shared memory is written by one owner: by the first thread along axes without an iname.  Global memory is written by
    the first block along such axes, too.
    """
    if not axes.all:
        return _on_one_thread(statement, kernel.assumptions)
    owned = _owned(kernel, axes, space, statement.inames)
    tags = tuple([(kernel.tag(x), kernel.axis(x)) for x in statement.inames])
    bounds = bound_axes(kernel, statement.bounds) if statement.bounds else ()
    return _placed(statement, By((Same(kernel.assumptions), tags, tuple(sorted(bounds))), kernel), axes, owned)


@memoised
def _placed(statement: Lowered, given: By[LoopKernel], axes: Axes, owned: frozenset[str]) -> Placed:
    """Return a statement on its threads, one for all kernels in which its inames have the same tags."""
    return (_place_digits if axes.has_digits else _place_statement)(given.value, statement, axes, owned)


def _owned(kernel: LoopKernel, axes: Axes, space: AddressSpace, inames: Sequence[str]) -> frozenset[str]:
    """Return the axes along which index 0 alone executes a statement with *inames* that writes to *space*."""
    if space is AddressSpace.PRIVATE:
        return frozenset()
    used = {kernel.axis(iname) for iname in inames}
    by_space = {AddressSpace.GLOBAL: axes.all, AddressSpace.CLUSTER: (*axes.in_cluster, *axes.local)}
    shared = by_space.get(space, (*axes.local,))
    return frozenset(axis for axis in shared if axis not in used)


def _place_digits(kernel: LoopKernel, statement: Lowered, axes: Axes, owned: frozenset[str]) -> Placed:
    """Return a statement on its threads, in a kernel with inames that are digits of the thread number."""
    sizes = {axis: size for axis, size in axes.local.items() if size is not None}
    block = {axis: size for axis, size in axes.block.items() if size is not None}
    used: dict[str, Digit] = {}
    together: dict[str, Digit] = {}  # the threads of a warp combine values, whether they have an instance or not
    groups: dict[str, str] = {}
    for iname in statement.inames:
        digit = digit_of(kernel.tag(iname), block)
        if digit is not None and statement.across:
            together[iname] = digit
        elif digit is not None:
            used[iname] = digit
        elif (axis := kernel.axis(iname)) is not None:
            groups[iname] = axis
    if problem := place_value_problem([*used.items(), *together.items()]):
        raise _error(kernel, problem)
    forms = {x: Affine(((axis, 1),), axes.first[axis]) for x, axis in groups.items()}
    forms |= {x: digit_form(digit, sizes).add(_begin(kernel, axes, x)) for x, digit in (used | together).items()}
    whole = _for_all(statement, together) if together else statement
    loops = tuple(x for x in statement.inames if x not in forms)
    forms.update({iname: form.substitute(forms) for iname, form in statement.fixed.items()})
    is_owned = any(axis in axes.local for axis in owned)
    covered = frozenset(name for x in used for name in forms[x].names())
    free = frozenset() if is_owned or not axes.is_elementary else frozenset(sizes) - covered
    repeated = (frozenset(axes.group) - owned - frozenset(groups.values())) | free
    extra = [Row(Affine.variable(axis), True) for axis in axes.group if axis in owned]
    rows = list(extra)
    if is_owned:
        rows += [Row(digit_form(digit, sizes), True) for digit in gaps(used.values(), prod(sizes.values()))]
    for axis, size in sizes.items():
        rows += [Row(Affine.variable(axis)), Row(Affine(((axis, -1),), size - 1))]
    rows += [Row(Affine.variable(axis)) for axis in repeated - free]
    rows += [Row(Affine(((axis, -1),), axes.cluster - 1)) for axis in axes.in_cluster if axis in repeated]
    order = (*axes.all, *loops)
    domain = _over(kernel, whole, order, forms, whole.domain, rows)
    exact = _over(kernel, whole, order, forms, whole.exact, rows) if statement.bounds else domain
    kept = [axis for axis in axes.group if axis not in repeated]
    fixed = {x: forms[x] for x in groups} | dict.fromkeys(together, Affine((), 0))
    view = _view(kernel, whole, axes, fixed, used, (kept, loops, extra), is_owned)
    own = frozenset({*groups.values(), *(covered if axes.is_elementary else sizes)})
    return Placed(statement, order, domain, exact, forms, repeated, own, view)


def _for_all(statement: Lowered, inames: Iterable[str]) -> Lowered:
    """Return *statement* for all values of *inames*, if it has an instance for one of them."""
    domain, exact = statement.domain, statement.exact
    for position, iname in enumerate(statement.inames):
        if iname in inames:
            domain, exact = (part.eliminate(_SET, position, 1) for part in (domain, exact))
    return replace(statement, domain=domain, exact=exact)


def _begin(kernel: LoopKernel, axes: Axes, iname: str) -> Affine:
    """Return the value of an iname at index 0 of its axis."""
    tag = kernel.tag(iname)
    return Affine((), axes.first[thread_axis(tag.axis)] if isinstance(tag, LocalAxis) else 0)


def _over(
    kernel: LoopKernel,
    statement: Lowered,
    names: Sequence[str],
    known: Mapping[str, Affine],
    domain: isl.Set,
    within: Sequence[Row],
) -> isl.Set:
    """Return *domain*, a set over the inames of *statement*, as a set over *names*, with the constraints *within*."""
    images = tuple([known.get(x) or Affine.variable(x) for x in statement.inames])
    return _image(domain, kernel.assumptions, (*names,), images, (*within,))


@memoised
def _image(
    domain: isl.Set, assumptions: isl.Set, names: tuple[str, ...], images: tuple[Affine, ...], within: tuple[Row, ...]
) -> isl.Set:
    """Return ``{ [names] : [images] in domain and within }``, one object for the statements of all kernels."""
    space = universe(domain, names)
    found = preimage(domain.intersect_params(assumptions), names, images)
    return found.intersect(add_rows(space, names, within))  # all rows at once, as ISL simplifies after each step


def _view(
    kernel: LoopKernel,
    statement: Lowered,
    axes: Axes,
    groups: Mapping[str, Affine],
    used: Mapping[str, Digit],
    around: tuple[Sequence[str], Sequence[str], Sequence[Row]],
    is_owned: bool,
) -> DigitView:
    """Return the view of code generation: dimensions are the digits and thread axes of the statement's own inames."""
    kept, loops, rows = around
    named = {
        x: thread_axis(tag.axis) if isinstance(tag := kernel.tag(x), LocalAxis) else d.axis
        for x, d in used.items()
    }
    missing: list[str] = []
    if is_owned and any(isinstance(kernel.tag(x), ThreadDigit) for x in used):
        threads = prod(size for size in axes.block.values() if size is not None)
        missing = [digit.axis for digit in gaps(used.values(), threads)]
    elif is_owned:
        missing = [axis for axis in axes.block if axis not in named.values()]
    shown = dict(groups) | {x: Affine.variable(axis).add(_begin(kernel, axes, x)) for x, axis in named.items()}
    dims = (*kept, *sorted([*named.values(), *missing], key=_axis_order), *loops)
    within = [*rows, *(Row(Affine.variable(axis), True) for axis in missing)]
    return DigitView(dims, partial(_over, kernel, statement, dims, shown, statement.exact, within), shown)


@cache
def _axis_order(axis: str) -> tuple[int, ...]:
    return tuple([int(part) for part in axis.split(".")[1:]])


def _place_statement(kernel: LoopKernel, statement: Lowered, axes: Axes, owned: frozenset[str]) -> Placed:
    """Return *statement* on its threads.

    All threads execute the init and the combine of a reduction across threads.  Those without an instance of their own
    write to private memory only.  Along axes on which bounds of the loops around it are computed, threads without an
    instance have no bounds, and do not take part.
    """
    dims: list[str] = []
    forms: dict[str, Affine] = {}
    own: dict[str, int] = {}
    for position, iname in enumerate(statement.inames):
        axis = kernel.axis(iname)
        dims.append(axis or iname)
        if axis is not None:
            own[axis] = position
            forms[iname] = Affine(((axis, 1),), axes.first[axis])
    forms.update({iname: form.substitute(forms) for iname, form in statement.fixed.items()})
    come = {*axes.local, *statement.across} & own.keys() if statement.across else ()  # all blocks of those across
    together = {axis: own.pop(axis) for axis in sorted({*come} - bound_axes(kernel, statement.bounds))}
    repeated = frozenset(axes.all).difference(owned, own)
    order = (*axes.all, *loops_among(dims))

    on_threads = (kernel.assumptions, axes, tuple(dims), tuple(own), tuple(together), repeated)
    domain = _on_threads(statement.domain, *on_threads)
    exact = _on_threads(statement.exact, *on_threads) if statement.bounds else domain
    return Placed(statement, order, domain, exact, forms, repeated, frozenset(own))


@memoised
def _on_one_thread(statement: Lowered, assumptions: isl.Set) -> Placed:
    """Return *statement* in a program without threads."""
    domain = assumed(statement.domain, assumptions)
    exact = assumed(statement.exact, assumptions) if statement.bounds else domain
    return Placed(statement, statement.inames, domain, exact, dict(statement.fixed), frozenset(), frozenset())


@memoised
def _on_threads(
    domain: isl.Set,
    assumptions: isl.Set,
    axes: Axes,
    dims: tuple[str, ...],
    own: tuple[str, ...],
    together: tuple[str, ...],
    repeated: frozenset[str],
) -> isl.Set:
    """Return *domain* over axes and loops, memoised because statements share domains."""
    domain = assumed(domain, assumptions)
    for axis in own:
        position = dims.index(axis)
        if axes.first[axis]:
            domain = _shift(domain, position, axes.first[axis])
        if (extent := axes.extent(axis)) is not None and is_strided(domain):
            domain = domain.lower_bound_val(_SET, position, 0).upper_bound_val(_SET, position, extent - 1)
    for position in sorted([dims.index(axis) for axis in together], reverse=True):
        domain = domain.project_out(_SET, position, 1)
    order = (*axes.all, *loops_among(dims))
    return _with_all_axes(domain, [x for x in dims if x not in together], order, axes, repeated)


def _with_all_axes(
    domain: isl.Set, dims: Sequence[str], order: Sequence[str], axes: Axes, repeated: frozenset[str]
) -> isl.Set:
    """Return *domain* over *order*, with missing axes added: repeated ones in full, others at index 0."""
    rows: list[Row] = []
    dims = list(dims)
    for axis in axes.all:
        if axis in dims:
            continue
        domain = insert_dims(domain, 0, [axis])
        dims.insert(0, axis)
        if axis not in repeated:
            rows.append(Row(Affine.variable(axis), True))
            continue
        rows.append(Row(Affine.variable(axis)))
        extent = axes.extent(axis)
        if extent is not None:
            rows.append(Row(Affine(((axis, -1),), extent - 1)))
    if list(order) != dims:
        forms = [Affine.variable(name) for name in order]
        whole = isl.Set.universe(domain.get_space())
        domain = map_from_forms(whole, dims, forms).intersect_domain(domain).range()
    domain = add_rows(domain, order, rows)
    for position, name in enumerate(order):
        domain = domain.set_dim_name(_SET, position, name)
    return domain


def _shift(domain: isl.Set, position: int, first: int) -> isl.Set:
    """Return *domain* with ``first`` subtracted from one dimension."""
    names = [f"_{i}" for i in range(domain.dim(_SET))]
    forms = [Affine(((name, 1),), -first if i == position else 0) for i, name in enumerate(names)]
    whole = isl.Set.universe(domain.get_space())
    return map_from_forms(whole, names, forms).intersect_domain(domain).range()


def common_loops(placement: Placement, first: Placed, second: Placed) -> tuple[tuple[str, ...], bool]:
    """Return the loops that two statements share, and True if the first comes before the second inside of them."""
    a, b = placement.program.places[first.name], placement.program.places[second.name]
    depth = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        depth += 1
    loops = tuple([x for x in a[:depth] if type(x) is str])
    if first is second:
        return loops, False
    x, y = a[depth], b[depth]
    assert isinstance(x, int), f"{first.name} and {second.name} diverge at a loop"
    assert isinstance(y, int), f"{first.name} and {second.name} diverge at a loop"
    return loops, x < y


def reference_map(statement: Placed, reference: Placed, *, exact: bool = False) -> isl.Map:
    """Return ``{ instance -> instance of the reference statement }``, for a statement that copies one.

    With *exact*, the instances are those for given values of the bound variables.  An instance with free inames
    (:func:`free_inames`) maps to several.
    """
    return _reference_map(statement, reference, exact)


@memoised
def _reference_map(statement: Placed, reference: Placed, exact: bool) -> isl.Map:
    origin = statement.lowered.instruction.origin
    assert isinstance(origin, Copy | Partial), "only a copy has a reference instance"
    free = free_inames(statement, reference)
    domain = statement.exact if exact else statement.domain
    forms = [
        None if iname in free else origin.forms[iname].substitute(statement.forms) for iname in reference.lowered.inames
    ]
    relation = map_from_forms(domain, statement.dims, forms)
    return relation.intersect_range(reference.exact if exact else reference.domain) if free else relation


def free_inames(statement: Placed, reference: Placed) -> frozenset[str]:
    """Return the inames of *reference* that an instance of its copy *statement* leaves open.

    Several results share a term of a scan, or a partial sum: the inames of the results are free.
    """
    origin = statement.lowered.instruction.origin
    match origin:
        case Partial():
            return frozenset(reference.lowered.inames) - origin.forms.keys()
        case Copy() if statement.lowered.along:
            along = set(statement.lowered.along)
            return frozenset(x for x in reference.lowered.inames if not along.isdisjoint(origin.forms[x].names()))
        case _:
            return frozenset()


def storage_map(placement: Placement, placed: Placed, access: Access, space: AddressSpace) -> isl.Map:
    """Return ``{ instance -> array[thread or block, element] }``, from instances to the cells of *access*.

    A subscript that is not affine may be every index inside of the array.
    """
    shape: tuple[Expression, ...] = ()
    if not access.is_affine():
        shape = placement.program.kernel.arrays()[access.array].shape or ()
    return _cells(placed, access, owner_axes(placement, space), shape)


def owner_axes(placement: Placement, space: AddressSpace) -> tuple[str, ...]:
    """Return the axes that number copies of a variable in *space*: each index of them has storage of its own."""
    match space:
        case AddressSpace.PRIVATE:
            return placement.axes.all
        case AddressSpace.LOCAL:
            return placement.axes.group
        case AddressSpace.CLUSTER:
            return placement.axes.grid
        case _:
            return ()


@memoised
def _cells(placed: Placed, access: Access, owner: tuple[str, ...], shape: tuple[Expression, ...]) -> isl.Map:
    """Return ``{ instance -> array[owner, element] }``, within *shape* if one is given."""
    forms = [*(Affine.variable(axis) for axis in owner), *placed.indices(access)]
    result = map_from_forms(placed.domain_of(access), placed.dims, forms, access.array)
    if shape:
        result = result.intersect_range(_inside(result.range().get_space(), shape, len(owner), placed))
    return result


def _inside(space: isl.Space, shape: Sequence[Expression], skipped: int, placed: Placed) -> isl.Set:
    """Return the elements of an array of *shape*, whose axes are dimensions of *space* after the first *skipped*."""
    names = [f"_{position}" for position in range(space.dim(_SET))]
    domain = placed.domain
    parameters = {domain.get_dim_name(isl.dim_type.param, n) for n in range(domain.dim(isl.dim_type.param))}
    rows: list[Row] = []
    for name, extent in zip(names[skipped:], shape, strict=True):
        rows.append(Row(Affine.variable(name)))
        limit = affine_of(extent)
        if limit is not None and limit.names() <= parameters:
            rows.append(Row(limit.add(Affine(((name, 1),), 1), -1)))
    return add_rows(isl.Set.universe(space), names, rows)
