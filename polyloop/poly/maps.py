"""Maps between iteration domains, as affine forms of dimension names."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from polyloop.poly.affine import Affine, Var
from polyloop.poly.sets import floor_of, insert_dims, map_from_forms, reorder

__all__ = ["forms_of", "identity_on", "pairs_set"]

_IN = isl.dim_type.in_
_OUT = isl.dim_type.out
_PARAM = isl.dim_type.param
_DIV = isl.dim_type.div


def forms_of(relation: isl.Map, sources: Sequence[str]) -> tuple[Affine, ...] | None:
    """Return the target dimensions of *relation* as forms of its source dimensions, called *sources*.

    None if a source has several targets, or one affine form does not do for all of them.
    """
    if not relation.is_single_valued():
        return None
    pieces: list[isl.MultiAff] = []
    isl.PwMultiAff.from_map(relation).coalesce().foreach_piece(lambda _, piece: pieces.append(piece))
    if len(pieces) != 1:
        return None
    found = []
    for position in range(relation.dim(_OUT)):
        form = form_of_aff(pieces[0].get_aff(position), sources)
        if form is None:
            return None
        found.append(form)
    return tuple(found)


def form_of_aff(aff: isl.Aff, dims: Sequence[str]) -> Affine | None:
    """Return *aff* as a form of parameters and *dims*, None if it has no value."""
    if aff.is_nan():
        return None
    space = aff.get_domain_space()
    parameters = [space.get_dim_name(_PARAM, position) or "" for position in range(space.dim(_PARAM))]
    divs: list[Var] = []
    for number in range(aff.dim(_DIV)):
        divs.append(floor_of(aff.get_div(number), parameters, dims, divs))
    whole = floor_of(aff, parameters, dims, divs)
    return Affine(whole.terms, whole.const).floordiv(whole.den)


def pairs_set(relation: isl.Map, pair: Sequence[str], dims: Sequence[str], space: isl.Set) -> isl.Set:
    """Return the pairs of *relation*, with dimensions named *pair*, as a set over *dims*, which contain *pair*.

    Other dimensions are not constrained.  The parameters are those of *space*.
    """
    flat = relation.reset_tuple_id(_IN).reset_tuple_id(_OUT).wrap().flatten().align_params(space.get_space())
    others = [name for name in dims if name not in pair]
    return reorder(insert_dims(flat, len(pair), others), [*pair, *others], dims)


def identity_on(domain: isl.Set, dims: Sequence[str], there: Sequence[Affine], names: Sequence[str],
                back: Sequence[Affine]) -> isl.Set:  # fmt: skip
    """Return the part of *domain* where the forms *there*, then *back* (of *names*), lead back to each point."""
    forward = map_from_forms(domain, dims, there)
    backward = map_from_forms(forward.range(), names, back)
    return forward.apply_range(backward).intersect(isl.Map.identity(domain.get_space().map_from_set())).domain()
