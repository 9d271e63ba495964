"""Uses of values: statements of the transformed program, paired with the reference statements whose values they need.

A use pairs a statement of the reference program with one of the transformed program that computes the same value.
Where a transform computes a value ahead of its use, the second statement is the one that fills the temporary, found
through any number of temporaries.  Two relations out of one set of *places* describe a use: ``left`` to instances of
the first statement, ``right`` to instances of the second.  A claim about a value is a claim about their composition
with affine forms, elements and dataflow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import islpy as isl

from polyloop.frozen import replace
from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import Copy, Evaluation, Partial
from polyloop.mapping.thread_mapping import Placed, free_inames, reference_map
from polyloop.poly.affine import Affine
from polyloop.poly.sets import IN, OUT, map_from_forms
from polyloop.program.ir import Update
from polyloop.proof.witness import pair
from polyloop.verification.accumulators import identity

__all__ = ["Use", "known_inames"]


@dataclass(frozen=True, eq=False)
class Use:
    """A statement of the transformed program and the reference statement whose value it computes.

    Attributes
    ----------
    old
        The statement of the reference program.
    reader
        The copy that uses the value.
    steps
        The statements that fill the temporaries between the reader and the value, the nearest first; each with the
        relation to its instances from those of the statement before.  The last step is the one that is compared.
    is_moved
        True if ``old`` is a reduction that the steps compute ahead, False if it is the original of the reader.
    through
        The temporary that the reader reads; empty if there are no steps.
    """

    old: Placed
    reader: Placed
    steps: tuple[tuple[Placed, Callable[[], isl.Map]], ...] = ()
    is_moved: bool = False
    through: str = ""

    @property
    def new(self) -> Placed:
        """The statement of the transformed program that is compared: the last step, or the reader."""
        return self.steps[-1][0] if self.steps else self.reader

    def into(self, statement: Placed, link: Callable[[], isl.Map], array: str) -> Use:
        """Return the use in *statement*, which fills the temporary *array* that is read here."""
        steps = (*self.steps, (statement, link))
        return replace(self, steps=steps, through=self.through or array)

    def within(self, part: Placed, link: Callable[[Placed, Placed], isl.Map]) -> Use:
        """Return the use in *part*, a statement of a reduction inside of the instruction of the last step."""
        whole, before = self.steps[-1]
        return replace(self, steps=(*self.steps[:-1], (part, lambda: before().apply_range(link(whole, part)))))

    def of(self, reduction: Placed) -> Use:
        """Return the use for *reduction* of the reference program, which the steps compute ahead."""
        return replace(self, old=reduction, is_moved=True)

    def is_new(self, *asked: Hashable) -> bool:
        """Return True at the first call with these arguments: a value may be used several times in one text."""
        known = asked in self._asked
        self._asked.add(asked)
        return not known

    @cached_property
    def _asked(self) -> set[tuple[Hashable, ...]]:
        return set()

    # {{{ forms, where they are enough

    @cached_property
    def free(self) -> frozenset[str]:
        """Inames of the reference statement that an instance of its copy leaves open (:func:`free_inames`)."""
        return free_inames(self.reader, self.old)

    @cached_property
    def forms(self) -> dict[str, Affine]:
        """Inames of the reference statement, without the free ones, as affine forms of the dimensions of its copy."""
        origin = self.reader.lowered.instruction.origin
        assert isinstance(origin, Copy | Partial), "only a copy has a reference instance"
        inames = self.old.lowered.inames
        return {x: origin.forms[x].substitute(self.reader.forms) for x in inames if x not in self.free}

    @cached_property
    def compared(self) -> dict[tuple[Affine, Affine], bool]:
        """Results of :meth:`is_same`, which are kept because subscripts recur."""
        return {}

    def is_same(self, a: Affine, b: Affine) -> bool:
        """Return True if a form of the reference statement and one of its copy are syntactically equal."""
        known = self.compared.get((a, b))
        if known is None:
            known = not self.steps and (not self.free or a.names().isdisjoint(self.free))
            known = known and a.substitute(self.forms) == b.substitute(self.new.forms)
            self.compared[a, b] = known
        return known

    # }}}
    # {{{ relations

    @cached_property
    def path(self) -> isl.Map:
        """``{ instance of the reader -> instances of all steps }``, the steps concatenated in one tuple."""
        links = [(statement, link()) for statement, link in self.steps]
        path = links[0][1]
        for (before, _), (_, link) in itertools.pairwise(links):
            unused = path.dim(OUT) - len(before.dims)
            path = path.apply_range(link.insert_dims(IN, 0, unused).domain_map().reverse()).flatten_range()
        return path

    @cached_property
    def place(self) -> isl.Map:
        """``{ place -> instance of the reader }``: a place is an instance, or a pair of ``path`` if ``is_moved``."""
        return self.path.domain_map() if self.is_moved else identity(self.reader)

    @cached_property
    def left(self) -> isl.Map | None:
        """``{ place -> instance of the reference statement }``; None if a path does not determine the term.

        Loop inames follow from the reader, inames of reductions from the step that collects their terms.
        """
        if not self.is_moved:
            return reference_map(self.reader, self.old)
        known = known_inames(self.reader, self.old)
        forms: list[Affine] = []
        for iname in self.old.lowered.inames:
            form = known[iname].substitute(self.reader.forms) if iname in known else self._reduced(iname)
            if form is None:
                return None
            forms.append(form)
        return self._on_paths(forms)

    @cached_property
    def right(self) -> isl.Map:
        """``{ place -> instance of the statement that is compared }``."""
        if self.is_moved:
            return self._on_paths([Affine.variable(name) for name in self._names[-1]])
        relation = self.place
        for _, link in self.steps:
            relation = relation.apply_range(link())
        return relation

    def wanted(self, forms: Sequence[Affine | None]) -> isl.Map | None:
        """Return ``{ place -> forms of the reference statement }``, None if :attr:`left` is."""
        there = map_from_forms(self.old.domain, self.old.dims, forms)
        return None if self.left is None else self.left.apply_range(there)

    def found(self, forms: Sequence[Affine | None]) -> isl.Map:
        """Return ``{ place -> forms of the statement that is compared }``, for places with a reference instance.

        Dead terms of a scan, which reach no result, have none, and may have any value.
        """
        there = map_from_forms(self.new.domain, self.new.dims, forms)
        there = self.right.apply_range(there) if self.steps else there
        return there if self.left is None else there.intersect_domain(self.left.domain())

    def example(self, places: isl.Set) -> Mapping[str, int]:
        """Return an instance of the reader for one of *places*."""
        readers = places.unwrap().domain() if self.is_moved else places
        return pair(readers.identity(), self.reader, self.reader)[0]

    def example_pair(
        self, wrong: isl.Map, forms: Sequence[Affine | None]
    ) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return an instance of the reader, and the compared instance that gives it a value of *forms* in *wrong*."""
        there = map_from_forms(self.new.domain, self.new.dims, forms)
        places = self.right.intersect(wrong.apply_range(there.reverse()))
        pairs = self.place.reverse().apply_range(places) if self.is_moved else places
        return pair(pairs, self.reader, self.new)

    @cached_property
    def _names(self) -> list[tuple[str, ...]]:
        """Names of the dimensions in the range of :attr:`path`, step by step."""
        return [tuple(f"{x}'{number}" for x in step.dims) for number, (step, _) in enumerate(self.steps)]

    def _on_paths(self, forms: Sequence[Affine]) -> isl.Map:
        wrapped = self.path.wrap()
        dims = (*self.reader.dims, *(x for step in self._names for x in step))
        return map_from_forms(wrapped.flatten(), dims, forms).apply_domain(wrapped.flatten_map().reverse())

    def _reduced(self, iname: str) -> Affine | None:
        """Return an iname of a reduction that is computed ahead as an affine form of the path, None if it has none.

        An update on the path determines the term that it adds, so updates are asked first.  A statement whose value an
        update reads may have been filled for another term of the same value; it counts only for inames over which no
        update on the path collects terms.
        """
        steps = [(step, names) for (step, _), names in zip(reversed(self.steps), reversed(self._names), strict=True)]
        for step, names in sorted(steps, key=lambda pair: not isinstance(pair[0].lowered.part, Update)):
            origin = step.lowered.instruction.origin
            form = origin.forms.get(iname) if isinstance(origin, Evaluation) else None
            if form is not None and form.names() <= {*step.lowered.inames, *parameters_of(step.domain)}:
                renamed = {old: Affine.variable(new) for old, new in zip(step.dims, names, strict=True)}
                return form.substitute(step.forms).substitute(renamed)
        return None

    # }}}


def known_inames(statement: Placed, original: Placed) -> dict[str, Affine]:
    """Return the inames of *original* that an instance of its copy *statement* determines, as forms of the copy."""
    origin = statement.lowered.instruction.origin
    assert isinstance(origin, Copy | Partial), "only a copy has a reference instance"
    own = frozenset((*statement.lowered.inames, *parameters_of(statement.domain)))
    found = {iname: origin.forms.get(iname) for iname in original.lowered.inames}
    return {iname: form for iname, form in found.items() if form is not None and form.names() <= own}
