"""Address spaces of temporaries, inferred for the program placed on its threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from polyloop.dataflow.value_flow import is_exact, known_flow
from polyloop.errors import Diagnostic, VerificationError
from polyloop.frozen import quick
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import Copy
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping.array_contraction import one_element_axes
from polyloop.mapping.digit_collectives import with_elementary_axes
from polyloop.mapping.grid_blocks import within_grid
from polyloop.mapping.thread_mapping import (
    Axes,
    Placed,
    Placement,
    axes_of,
    free_inames,
    joint_extent,
    place_statement,
    reference_map,
)
from polyloop.memo import By, Same, memoised
from polyloop.poly.affine import Affine
from polyloop.poly.radix import separates
from polyloop.poly.sets import map_from_forms
from polyloop.program.expand_lanes import with_lanes
from polyloop.program.lower import Access, Lowered, Program, lower
from polyloop.proof.obligation import within_budget

__all__ = ["place"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@memoised
def place(kernel: LoopKernel) -> Placement:
    """Return the program of *kernel* on its threads, with the address space of each variable.

    Raises
    ------
    VerificationError
        See :func:`axes_of`.
    """
    expanded = with_lanes(kernel)
    if expanded is not kernel:
        return place(expanded)
    program = lower(kernel)
    axes = axes_of(kernel)
    program = with_elementary_axes(program, axes)
    with within_budget(kernel, "which threads have to see which temporary"):
        spaces = _address_spaces(kernel, program, axes)
    placed = {name: _place_statement(kernel, own, axes, spaces) for name, own in program.statements.items()}
    return Placement(program, axes, within_grid(axes, placed), spaces)


def _place_statement(
    kernel: LoopKernel, statement: Lowered, axes: Axes, spaces: Mapping[str, AddressSpace]
) -> Placed:
    if len(statement.writes) == 1:
        return place_statement(kernel, statement, axes, spaces[statement.writes[0].array])
    homes = {write.array: spaces[write.array] for write in statement.writes}
    found = {name: place_statement(kernel, statement, axes, space) for name, space in homes.items()}
    if len(set(found.values())) > 1:
        raise VerificationError("schedule", kernel.name, [_several_owners(statement, homes)])
    return next(iter(found.values()), None) or place_statement(kernel, statement, axes, AddressSpace.GLOBAL)


def _several_owners(statement: Lowered, homes: Mapping[str, AddressSpace]) -> Diagnostic:
    shown = ", ".join(f"'{name}' is {space}" for name, space in homes.items())
    return Diagnostic(
        "several-owners",
        f"'{statement.instruction.id}' writes variables that different threads own: {shown}",
        ("what all threads see is written by one of them; each has to write what is its own",),
        ("let every thread axis be a loop of the instruction, or write the variables in separate instructions",),
        sites=(statement.instruction.site(),),
    )


def _address_spaces(kernel: LoopKernel, program: Program, axes: Axes) -> dict[str, AddressSpace]:
    """Return the address space of each array, temporary and accumulator, which replaces ``AUTO``."""
    spaces = {
        name: AddressSpace.GLOBAL for name, array in kernel.arrays().items() if isinstance(array, ArrayArg)
    }
    spaces.update(dict.fromkeys(program.accumulators, AddressSpace.PRIVATE))
    for name, temporary in kernel.temporaries.items():
        is_table = temporary.initializer is not None
        spaces[name] = AddressSpace.GLOBAL if is_table else temporary.address_space
    undecided = [name for name, space in spaces.items() if space is AddressSpace.AUTO]
    for name in undecided:
        spaces[name] = AddressSpace.PRIVATE
    used = _uses_of(kernel, program, axes, undecided) if axes.all else {}
    for name in undecided:
        spaces[name] = _auto_space(used[name], axes, name) if axes.all else AddressSpace.PRIVATE
        if spaces[name] is not AddressSpace.GLOBAL and _fits_global_only(kernel, program, axes, name, spaces[name]):
            spaces[name] = AddressSpace.GLOBAL
    return spaces


def _fits_global_only(
    kernel: LoopKernel, program: Program, axes: Axes, name: str, space: AddressSpace
) -> bool:
    """Return True if *name* has no constant size in *space*, and each thread writes elements of its own.

    Private and shared memory is sized when the kernel is compiled.  If threads write the same elements, each needs a
    copy, which a single array in global memory cannot provide.
    """
    shape = kernel.temporaries[name].shape
    if shape is None or all(isinstance(extent, int) for extent in shape):
        return False
    uses = [
        (place_statement(kernel, s, axes, AddressSpace.PRIVATE), access)
        for s in program.statements.values()
        for access in s.accesses
        if access.array == name
    ]
    writes = [(writer, access) for writer, access in uses if writer.lowered.is_write(access)]
    if space is AddressSpace.PRIVATE and not any(writer.repeated for writer, _ in writes):
        one = one_element_axes(uses, axes, kernel.parameters)
        if all(k in one or isinstance(extent, int) for k, extent in enumerate(shape)):
            return False
    return all(
        any(form is not None and axis in form.names() for form in writer.indices(write))
        for writer, write in writes
        for axis in writer.own
    )


def _auto_space(uses: _Uses, axes: Axes, name: str) -> AddressSpace:
    """Return the narrowest space in which every reader of *name* sees the writes that it should see."""
    if not uses.writes or not uses.readers:
        return AddressSpace.PRIVATE
    sides = ((Same(s), Same(access)) for s, access in (*uses.writes, *uses.readers))
    key = (Same(uses.reference), uses.is_made, uses.is_by_element, axes, len(uses.writes), *sides)
    return _space_of(uses.writes[0][0], By(key, uses), axes, name)


@quick
@dataclass(frozen=True, eq=False)
class _Uses:
    """The writes and the reads of a temporary, and what decides which of them belong together.

    Attributes
    ----------
    reference
        The reference program on its threads.
    is_made, is_by_element
        Whether a transform made it, and whether it has an element for each iteration.
    """

    writes: Sequence[tuple[Placed, Access]]
    readers: Sequence[tuple[Placed, Access]]
    reference: Placement | None
    is_made: bool
    is_by_element: bool


def _uses_of(kernel: LoopKernel, program: Program, axes: Axes, names: Iterable[str]) -> dict[str, _Uses]:
    """Return the uses of each of *names*, from one pass over the statements."""
    writes: dict[str, list[tuple[Placed, Access]]] = {name: [] for name in names}
    readers: dict[str, list[tuple[Placed, Access]]] = {name: [] for name in writes}
    for statement in program.statements.values():
        placed: Placed | None = None
        for accesses, found in ((statement.writes, writes), (statement.reads, readers)):
            for access in accesses:
                if access.array in found:
                    placed = placed or place_statement(kernel, statement, axes, AddressSpace.PRIVATE)
                    found[access.array].append((placed, access))
    reference = None if kernel.reference is None else place(kernel.reference.kernel)
    made = {*kernel.evaluations, *kernel.buffers, *kernel.partials}
    return {
        name: _Uses(found, readers[name], reference, name in made, name in kernel.partials)
        for name, found in writes.items()
    }


@memoised
def _space_of(writer: Placed, uses: By[_Uses], axes: Axes, name: str) -> AddressSpace:
    """Return the space of temporary *name*, one for all programs in which the same statements use it."""
    del writer
    space = AddressSpace.PRIVATE
    for meant in _meant_pairs(uses.value, name):
        if not all(meant.agrees_on(axis) for axis in axes.group):
            return AddressSpace.GLOBAL
        if space is AddressSpace.PRIVATE and not all(map(meant.agrees_on, meant.doubtful_first(axes.local))):
            space = AddressSpace.LOCAL
    return space


@quick
@dataclass(frozen=True, eq=False)
class _Meant:
    """Pairs of instances of a writer and a reader between which a temporary passes a value.

    ``equal`` lists pairs of affine forms, of the writer and the reader, that are equal in all of them.  ``find``
    returns ``{ instance of the writer -> instance of the reader }``.
    """

    writer: Placed
    reader: Placed
    equal: tuple[tuple[Affine, Affine], ...]
    find: Callable[[], isl.Map]

    def doubtful_first(self, axes: Iterable[str]) -> list[str]:
        """Return *axes*, first those with different coefficients on the two sides, which are likely to disagree."""
        return sorted(axes, key=lambda axis: all(a.coefficient(axis) == b.coefficient(axis) for a, b in self.equal))

    @memoised
    def agrees_on(self, axis: str) -> bool:
        """Return True if each reader has a writer on its own index of *axis*, as it has if the writer is repeated.

        What atomic updates collect is complete only where all of them are on the reader's index.
        """
        if axis in self.writer.repeated:
            return True
        this = Affine.variable(axis)
        if (this, this) in self.equal or any(a == b and self._is_digit(axis, a) for a, b in self.equal):
            return True
        every = self.writer.lowered.instruction.atomic
        return _agree(self.find(), self.writer.dims.index(axis), self.reader.dims.index(axis), every)

    def _is_digit(self, axis: str, form: Affine) -> bool:
        """Return True if equal values of *form* imply equal indices of *axis*: *axis* is a digit of the sum *form*."""
        names = form.names()
        dims = [x for x in self.writer.dims if x in names]
        if axis not in dims or not {*dims} <= {*self.reader.dims}:
            return False
        return separates([form], dims, lambda dim: joint_extent(dim, self.writer, self.reader))


@memoised
def _agree(pairs: isl.Map, i: int, j: int, every: bool) -> bool:
    """Return True if each reader is paired with a writer whose dimension *i* equals its own dimension *j*.

    With *every*, all of its writers have to be such.
    """
    if pairs.is_subset(isl.Map.universe(pairs.get_space()).equate(_IN, i, _OUT, j)):
        return True
    return not every and bool(pairs.range().is_subset(pairs.equate(_IN, i, _OUT, j).range()))


def _meant_pairs(uses: _Uses, name: str) -> Iterator[_Meant]:
    """Yield the pairs of writers and readers of temporary *name*.

    For a temporary of the user, they follow from the reference program's dataflow.  For a temporary of a transform,
    they have equal values of the inames that the fill and the read share.
    """
    writes, readers, reference = uses.writes, uses.readers, uses.reference
    if uses.is_made or reference is None or not is_exact(reference, name):
        for writer, write in writes:
            for reader, access in readers:
                yield _meetings(writer, write, reader, access, uses.is_by_element)
        return
    flow = known_flow(reference, name)
    for (original, _), sources in zip(flow.reads, flow.sources, strict=True):
        for source, link in sources:
            for reader, _ in readers:
                for writer, _ in writes:
                    if _is_copy(reader, original) and _is_copy(writer, source):
                        yield _linked(reader, original, writer, source, link)


@memoised
def _linked(reader: Placed, copied: Placed, writer: Placed, original: Placed, link: isl.Map) -> _Meant:
    """Return the pairs of a writer and a reader whose originals have *link*, from reads to writes."""

    def find() -> isl.Map:
        there = reference_map(reader, copied).apply_range(link)
        return there.apply_range(reference_map(writer, original).reverse()).reverse()

    return _Meant(writer, reader, _equal_forms((writer, original), (reader, copied), link), find)


def _equal_forms(
    source: tuple[Placed, Placed], sink: tuple[Placed, Placed], link: isl.Map
) -> tuple[tuple[Affine, Affine], ...]:
    """Return the forms that a writer and a reader have of inames that are the same at both ends of *link*."""
    (writer, original), (reader, copied) = source, sink
    made, read = writer.lowered.instruction.origin, reader.lowered.instruction.origin
    assert isinstance(made, Copy), "only copies are linked"
    assert isinstance(read, Copy), "only copies are linked"
    if free_inames(writer, original) or free_inames(reader, copied):
        return ()
    names = _same_inames(copied, original, link)
    return tuple((made.forms[x].substitute(writer.forms), read.forms[x].substitute(reader.forms)) for x in names)


@memoised
def _same_inames(reader: Placed, writer: Placed, link: isl.Map) -> tuple[str, ...]:
    """Return the inames that are the same at both ends of a link of the reference program."""
    both = [x for x in reader.dims if x in writer.dims]
    places = [(reader.dims.index(x), writer.dims.index(x)) for x in both]
    same = [bool(link.is_subset(link.equate(_IN, i, _OUT, j))) for i, j in places]
    return tuple(x for x, is_same in zip(both, same, strict=True) if is_same)


def _is_copy(statement: Placed, reference: Placed) -> bool:
    origin = statement.lowered.instruction.origin
    known = {*statement.lowered.inames, *parameters_of(statement.domain)}
    return (
        isinstance(origin, Copy)
        and origin.instruction == reference.lowered.instruction.id
        and type(statement.lowered.part) is type(reference.lowered.part)
        and all(origin.forms[x].names() <= known for x in reference.lowered.inames)
    )


@memoised
def _meetings(left: Placed, write: Access, right: Placed, read: Access, by_element: bool) -> _Meant:
    """Return the pairs that access one element in the same iteration of the inames that both have.

    With *by_element*, for an array with an element for each iteration, inames in subscripts need not be equal.
    """
    common = [x for x in left.lowered.inames if x in right.lowered.inames]
    if by_element:
        known = {name for form in (*write.indices, *read.indices) if form is not None for name in form.names()}
        common = [x for x in common if x not in known]
    a = [*(left.forms.get(x) or Affine.variable(x) for x in common), *left.indices(write)]
    b = [*(right.forms.get(x) or Affine.variable(x) for x in common), *right.indices(read)]
    equal = tuple((x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None)

    def find() -> isl.Map:
        return _where_equal(left.domain, left.dims, tuple(a), right.domain_of(read), right.dims, tuple(b))

    return _Meant(left, right, equal, find)


@memoised
def _where_equal(
    left: isl.Set,
    dims: tuple[str, ...],
    forms: tuple[Affine | None, ...],
    right: isl.Set,
    others: tuple[str, ...],
    theirs: tuple[Affine | None, ...],
) -> isl.Map:
    """Return ``{ left -> right : forms = theirs }``."""
    return map_from_forms(left, dims, forms).apply_range(map_from_forms(right, others, theirs).reverse())
