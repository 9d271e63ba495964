"""``split_scan``: a scan over tile totals, and one inside of each tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.operations import combining
from polyloop.expr.rewrite import substitute
from polyloop.kernel.arrays import TemporaryVariable
from polyloop.kernel.instruction import Copy, Instruction, Partial, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.kernel.reads import with_reads
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.maps import forms_of
from polyloop.poly.sets import Row, add_rows, constant_bounds, insert_dims, preimage, project_onto
from polyloop.program.infer_types import accumulator_dtypes, infer_dtypes, open_names
from polyloop.program.ir import Update
from polyloop.program.lower import lower
from polyloop.program.scan_patterns import Scan, find_scans
from polyloop.transform.base import iname_violations, new_name_violations
from polyloop.transform.instructions.selection import selected, selection_violations
from polyloop.transform.loops.inames import replace_iname
from polyloop.transform.loops.remap import remap_inames
from polyloop.transform.loops.split import Splitting, halves, parts_of, split_violations
from polyloop.transform.loops.tag import TagInames, parallel_violations
from polyloop.transform.parameters import Iname, InsnMatch, NewName, TagText
from polyloop.transform.reductions.scan import adds_later, with_reduction
from polyloop.transform.staging.staging import out_of_bounds, subscripted
from polyloop.verification.correspondence import comparison_of
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["SplitScan"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param
_TILE, _PLACE = "tile'", "place'"


@dataclass(frozen=True)
class SplitScan(Splitting):
    """Divide a scan into tiles: the sum of each tile, a scan of these sums, and a scan inside of each tile.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 64 and 0 <= j <= i}", "b[i] = sum(j, a[j])")
    >>> print(knl.split_scan("i", 16))
    kernel loop_kernel
    ...
    instructions:
        [i_outer]  b_sum[i_outer] = sum(j_inner, a[16*i_outer + j_inner])    {id=b_sum}
        [i_outer]  b_carry[i_outer] = sum(j_outer, b_sum[j_outer])    {id=b_carry}
        [i_outer, i_inner]  b[16*i_outer + i_inner] = sum(j_local, a[16*i_outer + j_local], start=b_carry[i_outer])...

    The scan of the sums and those of the tiles can be split again, and realized: :func:`polyloop.realize_scan`.  With
    ``outer_tag="g.0"`` blocks pass the sums on to each other in one launch; with ``carry_iname`` as well, the scan of
    the sums is a loop of its own, between two launches over the tiles.

    With ``local_name="local"`` each tile is scanned by itself, and the sum of those before it comes last, so that a
    block scans its tile before it waits for other blocks::

        for i_outer: for i_local: local[i_outer, i_local] = sum(j_local, a[16*i_outer + j_local])
        for i_outer: for i_inner:
            b[16*i_outer + i_inner] = sum(j_last, local[i_outer, i_inner], start=b_carry[i_outer])    (j_last = 0)

    Divide the last axis of ``local`` as its loop (:func:`polyloop.split_array_axis`), and each thread keeps its part.

    Parameters
    ----------
    split_iname
        The iname of the results.
    inner_length
        Results in a tile.
    outer_iname, inner_iname, outer_tag, inner_tag
        Names and tags of the loops over tiles, and inside of one; see :func:`polyloop.split_iname`.
    carry_iname
        A name of its own for the loop of the scan of the sums, so that it can run otherwise than the loop over tiles.
    sum_name, carry_name
        Names of the new temporaries, which are ids of the new instructions too.
    within
        A match expression for the instruction meant, where the loop has several scans.
    local_name, local_iname
        A temporary for the scan of each tile by itself, which is the id of its instruction too, and the loop over the
        results of a tile there; without either, the scan of a tile begins with the sum of the tiles before.

    Raises
    ------
    TransformError
        ``not-a-scan``, ``several-scans``, ``ordered-reduction``, ``scan-not-split``, ``scan-changing-term``,
        ``footprint-not-constant``, ``bad-factor``, ``name-taken``, ``unknown-iname``, ``no-match``, ``not-proven``,
        ``unknown-instruction``; with tags also what :func:`tag_inames` raises.

    Notes
    -----
    Each result is proven to combine exactly its terms, in their order.  Source: Merrill, Grimshaw, "Parallel Scan for
    Stream Architectures", University of Virginia, CS2009-14, 2009.
    """

    split_iname: Iname
    inner_length: int
    _: KW_ONLY
    outer_iname: NewName | None = None
    inner_iname: NewName | None = None
    outer_tag: TagText | None = None
    inner_tag: TagText | None = None
    carry_iname: NewName | None = None
    sum_name: NewName | None = None
    carry_name: NewName | None = None
    within: InsnMatch | None = None
    local_name: NewName | None = None
    local_iname: NewName | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := tuple(iname_violations(kernel, self.split_iname)):
            yield from found
            return
        length: object = self.inner_length
        if type(length) is not int or length < 1:
            hints = ("inner_length is the number of results in a tile: an integer of at least 1",)
            yield Diagnostic("bad-factor", f"cannot split by {length!r}", hints=hints)
            return
        yield from split_violations(kernel, self.outer, self.inner, (0, 0), self.tags())
        yield from self._name_violations(kernel)
        if found := tuple(selection_violations(kernel, self.within, self.name, [self.split_iname])):
            yield from found
            return
        yield from self._scan_violations(kernel)

    @property
    def given_names(self) -> dict[str, list[str]]:
        """New names given by the caller, other than those of the two loops, by kind."""
        carry = None if self.carry_iname == self.outer else self.carry_iname
        found = {"iname": (carry, self.local_iname), "temporary": (self.sum_name, self.carry_name, self.local_name)}
        return {kind: [name for name in names if name is not None] for kind, names in found.items()}

    def _name_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        given = self.given_names
        for kind, found in given.items():
            yield from (problem for name in found if (problem := check_identifier(name, kind)) is not None)
        names = [name for found in given.values() for name in found]
        yield from new_name_violations(kernel, names)
        ids = {i.id for i in kernel.instructions}
        for name in (name for name in given["temporary"] if name in ids):
            hints = ("choose another name, which is the id of the new instruction, too",)
            yield Diagnostic("name-taken", f"an instruction is already called '{name}'", hints=hints)
        names += {self.outer, self.inner}
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Diagnostic("name-taken", f"two new names are '{name}'", hints=("choose another one for one of them",))

    @property
    def carries_last(self) -> bool:
        """True if each tile is scanned by itself first, and then combined with the sum of the preceding tiles."""
        return self.local_name is not None or self.local_iname is not None

    def _scan_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        answers = list(self._answers(kernel))
        scans = [answer for answer in answers if isinstance(answer, Scan)]
        if not answers:
            hints = ("the loop to split is the one over the results: i in b[i] = sum(j, a[j])",)
            yield Diagnostic("not-a-scan", f"no reduction is inside of a loop over '{self.split_iname}'", hints=hints)
        elif not scans:
            yield from (answer for answer in answers[:1] if isinstance(answer, Diagnostic))
        elif len(scans) > 1:
            listed = ", ".join(dict.fromkeys(f"'{scan.instruction.id}'" for scan in scans))
            hints = ('name one instruction: within="id:..."',)
            yield Diagnostic("several-scans", f"'{self.split_iname}' is the loop of several scans: {listed}", (), hints)
        else:
            yield from _shape_violations(kernel, scans[0])

    def _answers(self, kernel: LoopKernel) -> Iterator[Scan | Diagnostic]:
        ids = selected(kernel, self.within, self.name)
        for instruction in kernel.instructions:
            if instruction.id in ids and self.split_iname in instruction.inames:
                yield from find_scans(kernel, instruction, self.split_iname)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        scan = next(answer for answer in self._answers(kernel) if isinstance(answer, Scan))
        result = _Split(self, kernel, scan, whole_tiles=adds_later(scan)).kernel()
        if adds_later(scan):
            sums = next(i for i in result.instructions if i not in kernel.instructions)
            if out_of_bounds(kernel, result, sums) is not None:
                result = _Split(self, kernel, scan).kernel()
        return TagInames(self.tags()).rewrite(result) if self.tags() else result

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        found = tuple(value_violations(after)) or tuple(order_violations(after))
        return found or parallel_violations(after, self.tags())


def _shape_violations(kernel: LoopKernel, scan: Scan) -> Iterator[Diagnostic]:
    site = (scan.instruction.site(),)
    if not scan.reduction.operation.reassociable:
        yield Diagnostic(
            "ordered-reduction",
            f"'{scan.reduction.operation}' combines one term after the other, so its scan cannot be divided",
            (f"the sum of a tile would be combined of the terms of '{scan.instruction.id}' in another grouping",),
            ("leave out 'ordered', or keep one running total: pl.realize_scan(knl)",),
            sites=site,
        )
    if scan.shift not in (0, -1):
        yield Diagnostic(
            "scan-not-split",
            f"result {scan.sweep} of the scan does not end with the term of its own number, or of the one before",
            ("tiles of the results have to be tiles of the terms",),
            ("shift the loop over the terms: pl.shift",),
            sites=site,
        )
    for iname in scan.instruction.inames:
        if _interval(scan, iname) is None or (iname == scan.sweep and _first(scan) is None):
            yield Diagnostic(
                "footprint-not-constant",
                f"the loop '{iname}' does not begin at a constant, or has no extent in terms of the parameters",
                ("an array of one sum for each of its iterations is needed",),
                (f"shift '{iname}' to begin at 0, or state a bound with assumptions=",),
                sites=site,
            )
            return


def _interval(scan: Scan, iname: str) -> tuple[Affine, Affine] | None:
    """Return the first value of a loop and its extent in terms of the parameters, None if they are not plain to see."""
    values = project_onto(scan.instruction.domain, scan.instruction.inames, [iname])
    low, high = constant_bounds(values, 0)
    if low is not None and high is not None:
        return Affine((), low), Affine((), high - low + 1)
    ends = [forms_of(isl.Map.from_range(end), ()) for end in (values.lexmin(), values.lexmax())]
    if None in ends:
        return None
    (first,), (last,) = (end or () for end in ends)
    return first, last.add(first, -1).add(Affine((), 1))


def _first(scan: Scan) -> int | None:
    interval = _interval(scan, scan.sweep)
    return interval[0].const if interval is not None and not interval[0].terms else None


@dataclass(frozen=True, eq=False)
class _Split:
    """The work of one ``split_scan``.

    With ``whole_tiles`` the sums of an exclusive scan have the term of the last result too, if that is all that tiles
    of results have and terms do not: the sum of the last tile is dead.
    """

    step: SplitScan
    before: LoopKernel
    scan: Scan
    whole_tiles: bool = False
    names: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        kernel, step = self.before, self.step
        target = self.scan.instruction.target
        (own,) = self.scan.reduction.inames
        taken = {step.outer, step.inner, *(name for names in step.given_names.values() for name in names)}

        def fresh(wish: str) -> str:
            name = kernel.fresh(wish, taken)
            taken.add(name)
            return name

        names = {
            "sum": step.sum_name or fresh(f"{target}_sum"),
            "carry": step.carry_name or fresh(f"{target}_carry"),
            "of sum": fresh(f"{own}_inner"),
            "of carry": fresh(f"{own}_outer"),
            "of tile": fresh(f"{own}_local"),
        }
        if step.carries_last:
            names["local"] = step.local_name or fresh(f"{target}_local")
            names["in local"] = step.local_iname or fresh(f"{self.scan.sweep}_local")
            names["of last"] = fresh(f"{own}_last")
        object.__setattr__(self, "names", names)

    def kernel(self) -> LoopKernel:
        """Return the kernel with the scan divided."""
        scan, step = self.scan, self.step
        users = [i.id for i in self.before.instructions if scan.sweep in i.inames or
                 any(scan.sweep in term.inames for term in i.terms)]
        if users == [scan.instruction.id]:
            moved = replace_iname(self.before, halves(scan.sweep, step.inner_length, step.outer, step.inner))
        else:
            change = parts_of(self.before, scan.sweep, step.inner_length, (step.outer, step.inner))
            moved = remap_inames(self.before, change, [scan.instruction.id])
        results = (self._alone(), self._last(moved)) if step.carries_last else (self._local(moved),)
        new = (self._sums(), self._carry(), *results)
        instructions: list[Instruction] = []
        for instruction in moved.instructions:
            instructions += new if instruction.id == scan.instruction.id else (instruction,)
        temporaries = self._temporaries()
        result = replace(
            moved,
            instructions=tuple(instructions),
            domains=tuple(self._domains(moved, new)),
            temporaries={**moved.temporaries, **temporaries},
            partials={**moved.partials, **dict.fromkeys(temporaries, self._reduction())},
            tile_inames=moved.tile_inames | {step.outer},
        )
        return infer_dtypes(with_reads(result))

    @property
    def _results(self) -> tuple[str, ...]:
        """The loops of the instruction, with tile and place in the tile for the number of the result."""
        parts = {self.scan.sweep: (self.step.outer, self.step.inner)}
        return tuple(x for name in self.scan.instruction.inames for x in parts.get(name, (name,)))

    def _tiled(self, domain: isl.Set, dims: Sequence[str]) -> isl.Set:
        """Return *domain* with a tile, and a place in it, for the number of a result, and for that of a term."""
        length = self.step.inner_length
        split = {self.scan.sweep: (self.step.outer, self.step.inner)}
        split |= dict.fromkeys(self.scan.reduction.inames, (_TILE, _PLACE))
        new = [x for name in dims for x in split.get(name, (name,))]
        forms = []
        rows: list[Row] = []
        for name in dims:
            tile, place = split.get(name, (name, ""))
            forms.append(Affine.make([(tile, length), (place, 1)]) if place else Affine.variable(name))
            if place:
                rows += [Row(Affine.variable(place)), Row(Affine(((place, -1),), length - 1))]
        return add_rows(preimage(domain, new, forms), new, rows).coalesce()

    def _terms(self, keep: Sequence[str], *rows: Row) -> isl.Set:
        """Return the values of *keep* over the terms of all results that fulfil *rows*."""
        dims = (*self._results, _TILE, _PLACE)
        tiled = add_rows(self._tiled(self.scan.term.domain, self.scan.term.inames), dims, rows)
        return project_onto(tiled, dims, keep).coalesce()

    def _named(self, domain: isl.Set, names: Sequence[str]) -> isl.Set:
        for position, name in enumerate(names):
            domain = domain.set_dim_name(_SET, position, name)
        return domain

    def _tiles(self) -> isl.Set:
        """Return the tiles of results, inside of the other loops."""
        tiled = self._tiled(self.scan.instruction.domain, self.scan.instruction.inames)
        return project_onto(tiled, self._results, (*self.scan.others, self.step.outer)).coalesce()

    def _sums(self) -> Instruction:
        """Return the instruction that adds up the terms of each tile."""
        scan = self.scan
        (own,) = scan.reduction.inames
        inner = self.names["of sum"]
        inames = (*scan.others, self.step.outer, inner)
        term = self._terms((*scan.others, _TILE, _PLACE))
        if self.whole_tiles:
            whole = self._tiled(scan.instruction.domain, scan.instruction.inames)
            whole = project_onto(whole, self._results, (*scan.others, self.step.outer, self.step.inner)).coalesce()
            extra = isl.Map.from_range(whole.subtract(term))
            if extra.move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, len(scan.others)).is_single_valued():
                term = whole
        term = self._named(term, inames)
        reduction = replace(scan.reduction, inames=(inner,), expr=self._moved(inner), start=None)
        domain = project_onto(term, inames, inames[:-1]).union(self._tiles()).coalesce()
        return self._instruction("sum", inames, domain, reduction, term, {own: self._place(inner)})

    def _carry(self) -> Instruction:
        """Return the instruction that combines the sums of the tiles before each tile."""
        scan = self.scan
        outer, inner = self.step.carry_iname or self.step.outer, self.names["of carry"]
        inames = (*scan.others, outer, inner)
        earlier = Row(Affine(((self.step.outer, 1), (_TILE, -1)), -1))
        term = self._named(self._terms((*scan.others, self.step.outer, _TILE), earlier), inames)
        domain = self._named(self._tiles(), inames[:-1])
        operation = combining(scan.reduction.operation)
        reduction = replace(scan.reduction, operation=operation, inames=(inner,), expr=self._element("sum", inner))
        return self._instruction("carry", inames, domain, reduction, term, {})

    def _local(self, kernel: LoopKernel) -> Instruction:
        """Return the instruction with the terms of each result's own tile; the reduction begins with the carry."""
        scan = self.scan
        (own,) = scan.reduction.inames
        inner = self.names["of tile"]
        order = self._results
        assert kernel.instruction(scan.instruction.id).inames == order, "a split puts two inames in the place of one"
        same = Row(Affine(((self.step.outer, 1), (_TILE, -1))), True)
        domain = self._named(self._terms((*order, _PLACE), same), (*order, inner))
        start = self._element("carry", self.step.outer)
        reduction = replace(scan.reduction, inames=(inner,), expr=self._moved(inner), start=start)
        new = with_reduction(kernel, scan, Term((*order, inner), domain), reduction)
        new = replace(new, domain=self._tiled(scan.instruction.domain, scan.instruction.inames))
        values = {own: self._place(inner)}
        forms = {name: form.substitute(values) for name, form in new.origin.forms.items()}
        return replace(new, origin=replace(new.origin, forms=forms))

    def _alone(self) -> Instruction:
        """Return the instruction that scans each tile by itself."""
        scan = self.scan
        (own,) = scan.reduction.inames
        place, inner = self.names["in local"], self.names["of tile"]
        outer = (*scan.others, self.step.outer)
        inames = (*outer, place, inner)
        same = Row(Affine(((self.step.outer, 1), (_TILE, -1))), True)
        term = self._named(self._terms((*outer, self.step.inner, _PLACE), same), inames)
        results = self._tiled(scan.instruction.domain, scan.instruction.inames)
        domain = self._named(project_onto(results, self._results, (*outer, self.step.inner)), inames[:-1])
        reduction = replace(scan.reduction, inames=(inner,), expr=self._moved(inner), start=None)
        return self._instruction("local", inames, domain, reduction, term, {own: self._place(inner)}, self.step.outer)

    def _last(self, kernel: LoopKernel) -> Instruction:
        """Return the instruction that combines the sum of the tiles before with each result of the tile's own scan."""
        scan, order, place = self.scan, self._results, self.names["of last"]
        domain = self._tiled(scan.instruction.domain, scan.instruction.inames)
        dims = (*order, place)
        term = add_rows(insert_dims(domain, len(order), [place]), dims, [Row(Affine.variable(place), True)])
        start = self._element("carry", self.step.outer)
        expr = self._element("local", self.step.outer, self.step.inner)
        operation = combining(scan.reduction.operation)
        reduction = replace(scan.reduction, operation=operation, inames=(place,), expr=expr, start=start)
        new = with_reduction(kernel, scan, Term(dims, term), reduction)
        own = {x for x in scan.reduction.inames if x not in scan.instruction.inames}
        forms = {name: form for name, form in new.origin.forms.items() if own.isdisjoint(form.names())}
        return replace(new, domain=domain, origin=replace(new.origin, forms=forms))

    def _place(self, inner: str) -> Affine:
        return Affine.make([(self.step.outer, self.step.inner_length), (inner, 1)])

    def _moved(self, inner: str) -> Expression:
        """Return the term in terms of its tile and its place *inner* there."""
        (own,) = self.scan.reduction.inames
        place = p.Sum((p.Product((self.step.inner_length, p.Variable(self.step.outer))), p.Variable(inner)))
        return substitute(self.scan.reduction.expr, {own: place})

    def _instruction(
        self, role: str, inames: tuple[str, ...], domain: isl.Set, reduction: Reduction, term: isl.Set,
        place: dict[str, Affine], tile: str = "",
    ) -> Instruction:  # fmt: skip
        old = self.scan.instruction
        (own,) = self.scan.reduction.inames
        gone = {self.scan.sweep, *(() if place else (own,))}
        forms = {name: form for name, form in old.origin.forms.items() if gone.isdisjoint(form.names())}
        reference, number = self._reduction()
        origin = Partial(reference, number, {name: form.substitute(place) for name, form in forms.items()})
        subscripts = (tile, inames[-2]) if tile else (inames[-2],)
        return Instruction(
            id=self.names[role],
            inames=inames[:-1],
            domain=domain,
            assignee=self._element(role, *subscripts),
            expression=reduction,
            origin=origin,
            terms=(Term(inames, term),),
            blocks=tuple(entry for entry in old.blocks if entry[0] in inames),
            fast=old.fast,
        )

    def _element(self, role: str, tile: str, *places: str) -> Expression:
        """Return the element of a new temporary for a tile, or for some place in it."""
        indices = []
        for name in self.scan.others:
            interval = _interval(self.scan, name)
            assert interval is not None, "extents were checked"
            indices.append(to_expression(Affine.variable(name).add(interval[0], -1)))
        first = (_first(self.scan) or 0) // self.step.inner_length
        indices.append(to_expression(Affine(((tile, 1),), -first)))
        return subscripted(self.names[role], [*indices, *map(p.Variable, places)])

    def _reduction(self) -> tuple[str, int]:
        """Return the reduction of the reference program that the scan is, or is a part of."""
        origin = self.scan.instruction.origin
        if isinstance(origin, Partial):
            return origin.instruction, origin.number
        assert isinstance(origin, Copy), "only a copy has terms of the program"
        comparison = comparison_of(self.before)
        (update,) = (
            s for s in comparison.new.statements.values()
            if s.lowered.instruction.id == self.scan.instruction.id and s.lowered.number == self.scan.number
            and isinstance(s.lowered.part, Update)
        )  # fmt: skip
        number = comparison.counterpart(update).lowered.number
        assert number is not None, "an update belongs to a reduction"
        return origin.instruction, number

    def _temporaries(self) -> dict[str, TemporaryVariable]:
        shape = []
        for name in self.scan.others:
            interval = _interval(self.scan, name)
            assert interval is not None, "extents were checked"
            shape.append(interval[1])
        interval, length = _interval(self.scan, self.scan.sweep), self.step.inner_length
        assert interval is not None, "extents were checked"
        first = interval[0].const // length
        shape.append(interval[0].add(interval[1]).add(Affine((), length - 1)).floordiv(length).add(Affine((), -first)))
        extents = tuple(to_expression(extent) if extent.terms else extent.const for extent in shape)
        shapes = {"sum": extents, "carry": extents}
        if self.step.carries_last:
            shapes["local"] = (*extents, length)
        dtype = self._dtype()
        return {self.names[role]: TemporaryVariable(self.names[role], dtype, own) for role, own in shapes.items()}

    def _dtype(self) -> np.dtype[np.generic] | None:
        """Return the accumulator type of the reduction, None if it is not known yet."""
        if open_names(self.before):
            return None
        own = [s for s in lower(self.before).statements.values() if s.instruction.id == self.scan.instruction.id]
        update = next(s for s in own if s.number == self.scan.number and isinstance(s.part, Update))
        return accumulator_dtypes(self.before)[update.write.array]

    def _domains(self, kernel: LoopKernel, new: tuple[Instruction, ...]) -> Iterator[Domain]:
        """Yield the domains of the kernel and of the new inames, without the iname of the terms if it is unused."""
        (own,) = self.scan.reduction.inames
        left = [i for i in kernel.instructions if i.id != self.scan.instruction.id]
        used = {name for i in (*left, *new) for inames in (i.inames, *(t.inames for t in i.terms)) for name in inames}
        for piece in kernel.domains:
            if own not in piece.inames or own in used:
                yield piece
            elif len(piece.inames) > 1:
                kept = tuple(name for name in piece.inames if name != own)
                yield Domain(kept, project_onto(piece.set, piece.inames, kept))
        known = {name for piece in kernel.domains for name in piece.inames}
        for instruction in new:
            number = self.scan.number if instruction is new[-1] else 0
            for dims, domain in ((instruction.inames, instruction.domain),
                                 (instruction.terms[number].inames, instruction.terms[number].domain)):
                if dims[-1] not in known:
                    known.add(dims[-1])
                    count = len(dims) - 1
                    inside = domain.move_dims(_PARAM, domain.dim(_PARAM), _SET, 0, count) if count else domain
                    yield Domain(dims[-1:], inside)
