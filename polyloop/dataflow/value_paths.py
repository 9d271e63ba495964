"""Value paths: from the instance that uses a value, back through temporaries of transforms, to its definition."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import islpy as isl

from polyloop.kernel.domains import parameters_of
from polyloop.kernel.instruction import Copy, Evaluation
from polyloop.mapping.thread_mapping import Placed
from polyloop.poly.affine import Affine
from polyloop.poly.sets import map_from_forms

__all__ = ["Path", "known_inames"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out


@dataclass(frozen=True, eq=False)
class Path:
    """The way of a value back from ``reader``: the statements that it came through.

    Each of the ``steps`` has the relation to it from the one before, the first from the reader.
    """

    reader: Placed
    steps: tuple[tuple[Placed, isl.Map], ...]

    @cached_property
    def names(self) -> list[tuple[str, ...]]:
        """A name for each dimension of each step: of :attr:`pairs`, in its order."""
        return [tuple(f"{x}'{number}" for x in step.dims) for number, (step, _) in enumerate(self.steps)]

    @cached_property
    def pairs(self) -> isl.Map:
        """From instances of the reader to those of all steps, one behind the other."""
        _, path = self.steps[0]
        for (before, _), (_, link) in itertools.pairwise(self.steps):
            unused = path.dim(_OUT) - len(before.dims)
            path = path.apply_range(link.insert_dims(_IN, 0, unused).domain_map().reverse()).flatten_range()
        return path

    @cached_property
    def relation(self) -> isl.Map:
        """From instances of the reader to those of the last step."""
        _, relation = self.steps[0]
        for _, link in self.steps[1:]:
            relation = relation.apply_range(link)
        return relation

    def reference_instances(self, original: Placed) -> isl.Map | None:
        """Return ``{ [instance of the reader -> path] -> instance of the reference statement }``.

        Loop inames follow from the reader, inames of reductions from the step that collects their terms; None where no
        step knows an iname.
        """
        known = known_inames(self.reader, original)
        forms: list[Affine] = []
        for iname in original.lowered.inames:
            form = known[iname].substitute(self.reader.forms) if iname in known else self._reduced(iname)
            if form is None:
                return None
            forms.append(form)
        return self._map(forms)

    def values(self, forms: Sequence[Affine | None]) -> isl.Map:
        """Return ``{ [instance of the reader -> path] -> forms of the last step }``."""
        renaming = _renaming(self.steps[-1][0], self.names[-1])
        return self._map([None if form is None else form.substitute(renaming) for form in forms])

    def _map(self, forms: Sequence[Affine | None]) -> isl.Map:
        wrapped = self.pairs.wrap()
        dims = (*self.reader.dims, *(x for step in self.names for x in step))
        return map_from_forms(wrapped.flatten(), dims, forms).apply_domain(wrapped.flatten_map().reverse())

    def _reduced(self, iname: str) -> Affine | None:
        """Return the iname of a reduction that is computed ahead, as a form of the path.

        The step that collects terms says which it collects; what it reads may be computed for any of them that have the
        same value, and is asked only where nothing on the path collects terms over the iname.
        """
        steps = [(step, names) for (step, _), names in zip(reversed(self.steps), reversed(self.names), strict=True)]
        for step, names in sorted(steps, key=lambda pair: pair[0].lowered.role != "update"):
            origin = step.lowered.instruction.origin
            form = origin.forms.get(iname) if isinstance(origin, Evaluation) else None
            if form is not None and form.names() <= {*step.lowered.inames, *parameters_of(step.domain)}:
                return form.substitute(step.forms).substitute(_renaming(step, names))
        return None


def _renaming(step: Placed, names: tuple[str, ...]) -> dict[str, Affine]:
    return {old: Affine.variable(new) for old, new in zip(step.dims, names, strict=True)}


def known_inames(statement: Placed, original: Placed) -> dict[str, Affine]:
    """Return the inames of a reference statement that an instance of *statement* decides about, as forms of its own."""
    origin = statement.lowered.instruction.origin
    assert isinstance(origin, Copy), "only a copy has a reference instance"
    own = frozenset((*statement.lowered.inames, *parameters_of(statement.domain)))
    found = {iname: origin.forms.get(iname) for iname in original.lowered.inames}
    return {iname: form for iname, form in found.items() if form is not None and form.names() <= own}
