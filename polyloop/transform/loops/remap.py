"""Replacement of inames by affine functions of others, one to one, for changes of a loop nest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import islpy as isl

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.rewrite import children, rebuild, reductions, substitute, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import Instruction, Origin, Term
from polyloop.kernel.kernel import Domain, LoopKernel
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.maps import identity_on, pairs_set
from polyloop.poly.ranges import related_range
from polyloop.poly.sets import Row, add_rows, insert_dims, project_onto, reorder, sample_set

__all__ = ["Remap", "alone", "free_space", "nest_groups", "remap_inames", "remap_violations"]

_SET = isl.dim_type.set
_PARAM = isl.dim_type.param
_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@dataclass(frozen=True, eq=False)
class Remap:
    """The inames ``old`` become ``new``; both are functions of each other on the kernel's domains.

    Attributes
    ----------
    relation
        ``{ old -> new }``; may hold for more than the instances of the kernel.
    there
        Each new iname as a form of the old ones.
    back
        Each old iname as a form of the new ones.
    texts
        The same as expressions, where another spelling than the form's own is nicer.

    A name may stand on both sides.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    relation: isl.Map
    there: tuple[Affine, ...]
    back: tuple[Affine, ...]
    texts: Mapping[str, Expression] = field(default_factory=dict)

    @cached_property
    def kept(self) -> frozenset[str]:
        """Inames that the change leaves as they are."""
        pairs = zip(self.new, self.there, strict=True)
        return frozenset(name for name, form in pairs if name in self.old and form == Affine.variable(name))

    @cached_property
    def moved(self) -> tuple[str, ...]:
        """Old inames that the change replaces."""
        return tuple(name for name in self.old if name not in self.kept)

    @cached_property
    def expressions(self) -> dict[str, Expression]:
        """Each old iname that moves as an expression of the new ones."""
        pairs = zip(self.old, self.back, strict=True)
        return {name: self.texts.get(name) or to_expression(form) for name, form in pairs if name not in self.kept}

    @cached_property
    def forms(self) -> dict[str, Affine]:
        """Each old iname as a form of the new ones."""
        return dict(zip(self.old, self.back, strict=True))

    def image(self, inames: Collection[str]) -> tuple[str, ...] | None:
        """Return the new inames that the old ones among *inames* become, None if they do not determine any."""
        present = {name for name in inames if name in self.old}
        if not present:
            return ()
        every = set(self.old)
        pairs = zip(self.new, self.there, strict=True)
        found = tuple(name for name, form in pairs if form.names() & every <= present)
        needed = {x for name in present for x in self.forms[name].names() if x in self.new}
        return found if needed <= set(found) else None

    def together(self, name: str) -> frozenset[str]:
        """Return the old inames that an instruction with the old iname *name* has: new ones are made of all of them."""
        found = {name}
        pairs = list(zip(self.new, self.there, strict=True))
        while True:
            needed = {x for old in found for x in self.forms[old].names()}
            more = {x for new, form in pairs if new in needed for x in form.names() if x in self.old}
            if more <= found:
                return frozenset(found)
            found |= more

    def dims(self, inames: Sequence[str], around: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the new inames for *inames*, nested inside the old inames *around*."""
        before = self.image(around)
        whole = self.image((*around, *inames))
        assert whole is not None, f"{inames} are partly replaced"
        assert before is not None, f"{around} are partly replaced"
        names = [name for name in whole if name not in before]
        places = [n for n, name in enumerate(inames) if name in self.old]
        result: list[str] = []
        for n, name in enumerate(inames):
            if n not in places:
                result.append(name)
            elif len(places) == len(names):
                result.append(names[places.index(n)])
            elif n == places[0]:
                result.extend(names)
        return tuple(result)

    def domain(self, domain: isl.Set, dims: Sequence[str], new_dims: Sequence[str]) -> isl.Set:
        """Return *domain* over *new_dims*, which *dims* become."""
        present = [name for name in dims if name in self.old]
        if all(name in self.kept for name in present) and tuple(dims) == tuple(new_dims):
            return domain
        names = self.image(present)
        assert names is not None, f"{dims} are partly replaced"
        old_dims = [f"{name}'" if name in self.old else name for name in dims]
        both = [*old_dims, *names]
        wide = insert_dims(domain, len(dims), names)
        wide = wide.intersect(self._pairs(present, names, both, wide))
        return project_onto(wide, both, new_dims).coalesce()

    def projected(self, present: Collection[str], names: Collection[str]) -> isl.Map:
        """Return the relation between the old inames *present* and the new ones *names*, each in the order stated."""
        relation = self.relation
        for kind, every, kept in ((_IN, self.old, present), (_OUT, self.new, names)):
            for position in range(len(every) - 1, -1, -1):
                if every[position] not in kept:
                    relation = relation.project_out(kind, position, 1)
        return relation

    def _pairs(self, present: Sequence[str], names: Sequence[str], dims: Sequence[str], space: isl.Set) -> isl.Set:
        """Return ``{ [present', names] }``, as far as they determine each other, as a set over *dims*."""
        ordered = [f"{name}'" for name in self.old if name in present] + [name for name in self.new if name in names]
        return pairs_set(self.projected(present, names), ordered, dims, space)

    def expression(self, expr: Expression, around: Sequence[str]) -> Expression:
        """Return *expr*, inside loops over the old inames *around*, in terms of the new ones."""
        renamed = self._reductions(expr, around)
        return substitute(renamed, self.expressions, {name: (name,) for name in self.new})

    def _reductions(self, expr: Expression, around: Sequence[str]) -> Expression:
        """Return *expr* with new inames in the heads of its reductions; their bodies keep the old ones."""
        if isinstance(expr, Reduction):
            inames = self.dims(expr.inames, around)
            body = self._reductions(expr.expr, (*around, *expr.inames))
            return replace(expr, inames=inames, expr=body, along=self._along(expr.along, around))
        old = children(expr)
        new = tuple(self._reductions(child, around) for child in old)
        return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)

    def _along(self, along: tuple[str, ...], around: Sequence[str]) -> tuple[str, ...]:
        """Return the new inames for those along which an accumulator is kept."""
        kept = tuple(name for name in along if name not in self.old)
        found = self.image(along)
        return kept + ((self.image(around) or ()) if found is None else found)

    def origin(self, origin: Origin) -> Origin:
        """Return *origin* in terms of the new names."""
        return replace(origin, forms={name: form.substitute(self.forms) for name, form in origin.forms.items()})

    def instruction(self, instruction: Instruction) -> Instruction:
        """Return *instruction* over the new names."""
        groups = nest_groups(instruction)
        if all(name not in self.old for inames, _, _ in groups for name in inames):
            return instruction
        known: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
        for inames, around, _ in groups:
            known[inames] = (*known[around], *self.dims(inames[len(around) :], around))
        around = instruction.inames
        return replace(
            instruction,
            inames=known[around],
            domain=self.domain(instruction.domain, around, known[around]),
            assignee=self.expression(instruction.assignee, around),
            expression=self.expression(instruction.expression, around),
            predicates=tuple(self.expression(predicate, around) for predicate in instruction.predicates),
            terms=tuple(
                Term(known[t.inames], self.domain(t.domain, t.inames, known[t.inames])) for t in instruction.terms
            ),
            origin=self.origin(instruction.origin),
            blocks=self._blocks(instruction),
        )

    def _blocks(self, instruction: Instruction) -> tuple[tuple[str, int], ...]:
        """Return block numbers by new inames: those of the old loop in the same position, else of the outermost one."""
        blocks = dict(instruction.blocks)
        old = [name for name in instruction.inames if name in self.old]
        written = [name for name in old if name in blocks]
        if not written:
            return instruction.blocks
        names = self.image(old) or ()
        found = [entry for entry in instruction.blocks if entry[0] not in self.old]
        for position, name in enumerate(names):
            place = old[position] if len(old) == len(names) else written[0]
            place = name if name in self.kept and name in old else place
            if place in blocks:
                found.append((name, blocks[place]))
        return tuple(found)

    def piece(self, piece: Domain) -> Domain:
        """Return a domain of the kernel over the new names; its own inames are all of the old ones, or none."""
        if not set(self.old).isdisjoint(piece.inames):
            inames = self.dims(piece.inames)
            return Domain(inames, self.domain(piece.set, piece.inames, inames))
        used = [name for name in parameters_of(piece.set) if name in self.old and name not in self.kept]
        if not used:
            return piece
        needed = {x for name in used for x in self.forms[name].names()}
        names = [name for name in self.new if name in needed]
        own = [f"{name}'" for name in used]
        inside = piece.set.align_params(self.relation.get_space().params())
        for place, name in enumerate(used):
            position = inside.find_dim_by_name(_PARAM, name)
            inside = inside.move_dims(_SET, place, _PARAM, position, 1).set_dim_name(_SET, place, own[place])
        known = [name for name in names if inside.find_dim_by_name(_PARAM, name) >= 0]
        fresh = [name for name in names if name not in known]
        inside = insert_dims(inside, len(used), fresh)
        rows = [Row(self.forms[name].add(Affine.variable(f"{name}'"), -1), True) for name in used]
        inside = add_rows(inside, [*own, *fresh, *piece.inames], rows)
        inside = inside.move_dims(_PARAM, inside.dim(_PARAM), _SET, len(used), len(fresh))
        return Domain(piece.inames, inside.project_out(_SET, 0, len(used)))


def free_space(kernel: LoopKernel, count: int) -> isl.Set:
    """Return the universe of *count* dimensions over the parameters of the kernel.

    Inames that bounds of the first domain use are none of them: a domain may have them as its own dimensions.
    """
    first = kernel.domains[0].set
    space = first.get_space().params().set_from_params()
    for position in reversed(range(space.dim(_PARAM))):
        if space.get_dim_name(_PARAM, position) in kernel.inames:
            space = space.drop_dims(_PARAM, position, 1)
    return isl.Set.universe(space.add_dims(_SET, count))


def nest_groups(instruction: Instruction) -> list[tuple[tuple[str, ...], tuple[str, ...], isl.Set]]:
    """Return an instruction's and its reductions' inames, each with the enclosing ones and the iteration domain."""
    found: list[tuple[tuple[str, ...], tuple[str, ...], isl.Set]] = [(instruction.inames, (), instruction.domain)]
    for term in instruction.terms:
        around = max(
            (inames for inames, _, _ in found if term.inames[: len(inames)] == inames and inames != term.inames),
            key=len,
            default=(),
        )
        found.append((term.inames, around, term.domain))
    return found


def remap_violations(kernel: LoopKernel, change: Remap, only: Collection[str] | None = None) -> Iterator[Diagnostic]:
    """Yield a diagnostic if *change* would lose loops of the instructions *only* (by default of all)."""
    for name, rule in kernel.substitutions.items() if only is None else ():
        for reduction in reductions(rule.value):
            present = [iname for iname in reduction.inames if iname in change.old]
            if present and change.image(present) is None:
                yield _partly_in_rule(change, name, present)
                return
    for instruction in kernel.instructions:
        if only is not None and instruction.id not in only:
            continue
        for inames, _, domain in nest_groups(instruction):
            present = [name for name in inames if name in change.old]
            if not present or change.kept.issuperset(present):
                continue
            names = change.image(present)
            if names is None:
                yield _partly(change, instruction, present)
                return
            present.sort(key=change.old.index)
            within = project_onto(domain, inames, present).intersect_params(kernel.assumptions)
            there = [form for name, form in zip(change.new, change.there, strict=True) if name in names]
            back = [change.forms[name] for name in present]
            kept = identity_on(within, present, there, [name for name in change.new if name in names], back)
            kept = kept.intersect(change.projected(present, names).domain())
            lost = sample_set(within.subtract(kept), present)
            if lost is not None:
                yield _not_kept(instruction, {name: lost[name] for name in present})
                return


def _not_kept(instruction: Instruction, values: Mapping[str, int]) -> Diagnostic:
    shown = ", ".join(f"{name}={value}" for name, value in values.items())
    return Diagnostic(
        "map-not-bijective",
        f"the map is not one to one on '{instruction.id}'",
        (f"instance ({shown}) has no new place of its own",),
        ("every instance has to become exactly one new one, and no two the same",),
        sites=(instruction.site(),),
    )


def _partly_in_rule(change: Remap, rule: str, present: Sequence[str]) -> Diagnostic:
    missing = [name for name in change.old if name not in present]
    has, lacks = (" and ".join(f"'{name}'" for name in names) for names in (present, missing))
    return Diagnostic(
        "partly-mapped",
        f"the rule '{rule}' has a reduction over {has}, but not over {lacks}",
        ("what the map makes of its inames depends on inames that it does not have",),
        (f'expand it first: expand_subst(knl, "{rule}")', "give the reduction inames of its own: duplicate_inames"),
    )


def _partly(change: Remap, instruction: Instruction, present: Sequence[str]) -> Diagnostic:
    missing = [name for name in change.old if name not in present]
    has, lacks = (" and ".join(f"'{name}'" for name in names) for names in (present, missing))
    if any(name in term.inames for term in instruction.terms for name in missing):
        return Diagnostic(
            "partly-mapped",
            f"'{instruction.id}' has a loop over {has}, and {lacks} belongs to a reduction inside of it",
            ("the loop would depend on an iname that only the reduction has",),
            ("let the new inames of the loop depend on loops alone",),
            sites=(instruction.site(),),
        )
    return Diagnostic(
        "partly-mapped",
        f"'{instruction.id}' has a loop over {has}, but none over {lacks}",
        ("the image of its loops under the map depends on inames that it does not have",),
        (
            f"give it loops of its own first: duplicate_inames(knl, [{', '.join(map(repr, present))}], "
            f"within=\"id:{instruction.id}\")",
        ),
        sites=(instruction.site(),),
    )


def remap_inames(
    kernel: LoopKernel, change: Remap, only: Collection[str] | None = None
) -> LoopKernel:
    """Return *kernel* with inames replaced, in the instructions *only* (all by default).

    Where only some instructions change, all new inames have to be new, and the old ones stay in the kernel.
    """
    rules = kernel.substitutions
    if only is None:
        rules = {
            name: rule.mapped(lambda value: change.expression(value, ()))
            for name, rule in kernel.substitutions.items()
        }
    instructions = [
        change.instruction(instruction if only is None else _expanded(kernel, change, instruction))
        if only is None or instruction.id in only
        else instruction
        for instruction in kernel.instructions
    ]
    domains = _domains(kernel, change, only is not None)
    result = replace(kernel, domains=domains, instructions=tuple(instructions), substitutions=rules)
    if only is not None:
        return result
    return replace(
        result,
        loop_priority=_priority(kernel, change),
        iname_tags={name: tag for name, tag in kernel.iname_tags.items() if name not in change.moved},
        tile_inames=kernel.tile_inames - set(change.moved),
        slabs={name: slab for name, slab in kernel.slabs.items() if name not in change.moved},
    )


def _expanded(kernel: LoopKernel, change: Remap, instruction: Instruction) -> Instruction:
    """Return *instruction* without the rules that use old inames, which keep theirs for other instructions."""
    affected = set()
    for name, rule in kernel.substitutions.items():
        body = expand_rules(rule.value, kernel.substitutions)
        bound = {iname for reduction in reductions(body) for iname in reduction.inames}
        if not (variables(body) | bound).isdisjoint(change.old):
            affected.add(name)
    if not affected:
        return instruction
    rules = {name: rule for name, rule in kernel.substitutions.items() if name in affected}
    return replace(
        instruction,
        expression=expand_rules(instruction.expression, rules),
        predicates=tuple(expand_rules(predicate, rules) for predicate in instruction.predicates),
    )


def _priority(kernel: LoopKernel, change: Remap) -> tuple[tuple[str, ...], ...]:
    """Return the stated orders of loops in the new names; a loop that is not determined drops out."""
    found = []
    for chain in kernel.loop_priority:
        if change.image(chain) is not None:
            found.append(change.dims(chain))
        else:
            found.append(tuple(name for name in chain if name not in change.moved))
    return tuple(chain for chain in dict.fromkeys(found) if len(chain) > 1)


def _domains(kernel: LoopKernel, change: Remap, keep: bool) -> tuple[Domain, ...]:
    """Return the domains of the kernel with the new inames, and, to *keep*, with the old ones too."""
    homes = [piece for piece in kernel.domains if not set(change.old).isdisjoint(piece.inames)]
    if len(homes) > 1:
        new = list(_pieces(change, homes, keep))
    else:
        new = [change.piece(alone(homes[0], change.old) if keep else homes[0])]
    if keep:
        return (*kernel.domains, *new)
    result: list[Domain] = []
    for piece in kernel.domains:
        if piece is homes[0]:
            result += new
        elif piece not in homes:
            result.append(change.piece(piece))
    return tuple(result)


def _pieces(change: Remap, homes: Sequence[Domain], keep: bool) -> Iterator[Domain]:
    """Yield the domains of the new inames, and, unless they *keep* theirs, of the others of *homes*.

    New inames have the bounds of the old ones that they are made of, and no others: an instruction may have only these
    loops, and instances where a domain of other loops has no point.
    """
    seen: set[str] = set()  # old inames of the domains before
    done: set[str] = {name for home in homes for name in home.inames if keep and name not in change.old}
    parts = {_with_bounds(change, homes, name) for name in change.old}
    for part in sorted(parts | {frozenset(change.old)}, key=len):
        names = [name for name in change.image(part) or () if name not in done]
        own = list(names)
        within = [home for home in homes if not part.isdisjoint(home.inames)]
        for home in within:
            others = [name for name in home.inames if name not in change.old and name not in done]
            if names and not (part - seen).isdisjoint(parameters_of(home.set)):
                own += others  # their bounds use the new inames
            elif others:
                yield change.piece(Domain(tuple(others), _only(home, others)))
            done.update(others)
        seen |= part
        if names:
            done.update(names)
            dims = [name for home in within for name in home.inames if name in part or name not in change.old]
            around = [name for name in dims if name not in part]
            bounds = [Domain(tuple(x for x in home.inames if x in dims), _only(home, dims)) for home in within]
            new = (*(change.image(part) or ()), *around)
            yield _inside(Domain(new, change.domain(_joined(bounds).set, dims, new)), own)


def _with_bounds(change: Remap, homes: Sequence[Domain], name: str) -> frozenset[str]:
    """Return the old inames that change together with *name*, with those that bound them, transitively."""
    found = change.together(name)
    while True:
        used = {x for home in homes if not found.isdisjoint(home.inames) for x in parameters_of(home.set)}
        more = found.union(*(change.together(x) for x in used if x in change.old))
        if more == found:
            return found
        found = more


def _only(home: Domain, inames: Collection[str]) -> isl.Set:
    """Return the set of a domain, projected onto *inames*."""
    kept = [name for name in home.inames if name in inames]
    if len(kept) == len(home.inames):
        return home.set
    return project_onto(related_range(home.set, home.inames, frozenset(kept)), home.inames, kept)


def _inside(piece: Domain, own: Collection[str]) -> Domain:
    """Return *piece* as the domain of the inames *own*; the others become its parameters, if its bounds use them."""
    result, inames = piece.set, list(piece.inames)
    for position in range(len(inames) - 1, -1, -1):
        if inames[position] in own:
            continue
        if result.involves_dims(_SET, position, 1):
            result = result.move_dims(_PARAM, result.dim(_PARAM), _SET, position, 1)
        else:
            result = result.project_out(_SET, position, 1)
        del inames[position]
    return Domain(tuple(inames), result)


def _joined(homes: Sequence[Domain]) -> Domain:
    """Return one domain for the inames of *homes*; inames around them stay its parameters."""
    if len(homes) == 1:
        return homes[0]
    inames = tuple(name for piece in homes for name in piece.inames)
    joint = None
    for piece in homes:
        flat = piece.set.move_dims(_PARAM, piece.set.dim(_PARAM), _SET, 0, len(piece.inames)).params()
        joint = flat if joint is None else joint.intersect(flat)
    assert joint is not None, "a map has inames"
    result = joint.from_params()
    for place, name in enumerate(inames):
        position = result.find_dim_by_name(_PARAM, name)
        result = result.move_dims(_SET, place, _PARAM, position, 1).set_dim_name(_SET, place, name)
    return Domain(inames, result)


def alone(piece: Domain, inames: Sequence[str]) -> Domain:
    """Return the domain of *inames* alone: the others of *piece* become its parameters, if its bounds use them."""
    others = [name for name in piece.inames if name not in inames]
    own = [name for name in piece.inames if name in inames]
    alone = project_onto(piece.set, piece.inames, own)
    rest = project_onto(piece.set, piece.inames, others)
    wide = [insert_dims(part, len(names), more) for part, names, more in ((alone, own, others), (rest, others, own))]
    first = reorder(wide[0], [*own, *others], piece.inames)
    second = reorder(wide[1], [*others, *own], piece.inames)
    if others and not first.intersect(second).is_equal(piece.set):
        alone = reorder(piece.set, piece.inames, [*own, *others])
        alone = alone.move_dims(_PARAM, alone.dim(_PARAM), _SET, len(own), len(others))
    return Domain(tuple(own), alone)
