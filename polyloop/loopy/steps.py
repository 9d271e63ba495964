"""Functions of the package, applied to the kernels of units."""
# ruff: noqa: ANN401  # arguments of any function

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import pymbolic.primitives as p

from polyloop.edge.calls import public
from polyloop.errors import TransformError, warn
from polyloop.expr.nodes import array_name
from polyloop.expr.parser import parse_expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import accesses
from polyloop.expr.rules import expand_rules
from polyloop.kernel.kernel import LoopKernel
from polyloop.loopy.missing import refused
from polyloop.loopy.tags import is_own, parted, tag_name, with_marks
from polyloop.loopy.unit import TranslationUnit
from polyloop.loopy.view import Kernel, plain
from polyloop.testing.auto_test import auto_test_vs_ref as _compared
from polyloop.transform.instructions.instructions import find_instructions
from polyloop.transform.registry import FUNCTIONS

__all__ = ["auto_test_vs_ref", "for_each_kernel", "lifted", "remove_predicates_from_insn", "set_instruction_priority",
           "split_array_dim", "tag_array_axes", "tag_inames", "tag_instructions"]


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* of the package so that it takes units where it takes kernels.

    ::

        split_iname(kernel, "i", 16) -> kernel      =>      split_iname(unit, "i", 16) -> unit

    A kernel that is returned takes the place of that in the unit; other results are returned as they are.  Of a unit
    with several kernels, each that the function accepts as first argument is changed; ``entrypoint=`` says which one.
    """

    @wraps(function)
    def call(*operands: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        first = next((entry for entry in _all(operands, options) if isinstance(entry, TranslationUnit)), None)
        if first is not None and first.waiting and operands and operands[0] is first:
            return first.later((function, operands[1:], options))
        chosen = None
        if first is not None and "entrypoint" in options:
            chosen = first.only(options.pop("entrypoint"))
            operands = tuple(chosen if entry is first else entry for entry in operands)
            options = {name: chosen if value is first else value for name, value in options.items()}
        result = function(*map(_kernel, operands), **{name: _kernel(value) for name, value in options.items()})
        if not isinstance(result, LoopKernel):
            return result
        if first is None:
            view = next((entry for entry in operands if isinstance(entry, Kernel)), None)
            return result if view is None else Kernel(result, view.marks)
        if chosen is not None:
            return replace(first, kernels={**first.kernels, chosen.name: result})
        if operands and operands[0] is first:
            if first.is_function:
                return first.with_called(result)
            return replace(first, kernels={result.name: result})
        return TranslationUnit.of(result, first)

    return call


def _all(operands: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    for entry in (*operands, *options.values()):
        found.extend(entry if isinstance(entry, list | tuple) else [entry])
    return found


def _kernel(given: Any) -> Any:
    """Return the kernel of a unit, also in a list; other values as they are."""
    if isinstance(given, TranslationUnit):
        return given.only()
    if isinstance(given, list | tuple) and any(isinstance(entry, TranslationUnit | Kernel) for entry in given):
        return type(given)(_kernel(entry) for entry in given)
    return plain(given)


def for_each_kernel(transform: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transform of kernels so that it takes units, and changes each of their kernels."""

    @wraps(transform)
    def call(unit: Any, *operands: Any, **options: Any) -> Any:
        if not isinstance(unit, TranslationUnit):
            return transform(unit, *operands, **options)
        kernels = {}
        for kernel in unit.kernels.values():
            made = plain(transform(Kernel(kernel), *operands, **options))
            kernels[made.name] = made
        return replace(unit, kernels=kernels)

    return call


def tag_inames(unit: Any, iname_to_tag: Any, *operands: Any, **options: Any) -> Any:
    """Tag inames as :func:`polyloop.tag_inames` does; tags that are objects of the script's are kept by the unit.

    Parameters
    ----------
    iname_to_tag
        ``"i:g.0, j:l.0"``, a mapping or pairs; a tag is a text, an object, or several of both.
    """
    if isinstance(iname_to_tag, str):
        return lifted(FUNCTIONS["tag_inames"])(unit, iname_to_tag, *operands, **options)
    pairs = [*iname_to_tag.items()] if hasattr(iname_to_tag, "items") else [*iname_to_tag]
    found = [(iname, *parted(tags)) for iname, tags in pairs]
    texts = [(iname, text) for iname, own, _ in found for text in own]
    if texts or not any(own for *_, own in found):
        unit = lifted(FUNCTIONS["tag_inames"])(unit, texts, *operands, **options)
    marks = {iname: own for iname, _, own in found if own}
    if marks and not (isinstance(unit, TranslationUnit) and unit.waiting):
        marks = {iname: own for iname, own in marks.items() if iname in _kernel(unit).inames}
    return _marked(unit, "iname", marks)


def tag_instructions(unit: Any, new_tag: Any, within: Any = None) -> Any:
    """Tag instructions as :func:`polyloop.tag_instructions` does, with a text or an object of the script's."""
    unit = lifted(FUNCTIONS["tag_instructions"])(unit, tag_name(new_tag), within)
    return _marked(unit, "tag", {tag_name(new_tag): [new_tag]}) if is_own(new_tag) else unit


def _marked(given: Any, kind: str, more: Any) -> Any:
    if isinstance(given, TranslationUnit):
        return replace(given, marks=with_marks(given.marks, kind, more))
    view = given if isinstance(given, Kernel) else Kernel(given)
    return Kernel(view.kernel, with_marks(view.marks, kind, more))


def remove_predicates_from_insn(unit: Any, predicates: Any, insn_match: Any = None) -> Any:
    """Take conditions off instructions as :func:`polyloop.remove_predicates_from_insn` does.

    Parameters
    ----------
    predicates
        The conditions, as expressions or texts; those of inames and parameters alone, which an instruction has in its
        domain, go as well.  Left out: all.
    insn_match
        The instructions concerned.

    Raises
    ------
    LoopyError
        ``not-offered``: an instruction has other conditions as well.
    """
    if insn_match is None:
        predicates, insn_match = None, predicates
    kernel = _kernel(unit)
    given = None if predicates is None else {show(parse_expression(str(entry))) for entry in predicates}
    for instruction in find_instructions(kernel, insn_match):
        left = [] if given is None else [x for x in map(show, instruction.predicates) if x not in given]
        if left:
            raise refused(f"remove_predicates_from_insn of some conditions of '{instruction.id}'",
                          f"name all of them: {left[0]} as well")  # fmt: skip
    return lifted(FUNCTIONS["remove_predicates_from_insn"])(unit, insn_match)


def set_instruction_priority(unit: Any, insn_match: Any, priority: Any) -> Any:
    """Set priorities as :func:`polyloop.set_instruction_priority` does; where nothing matches, a warning says so."""
    try:
        return lifted(FUNCTIONS["set_instruction_priority"])(unit, insn_match, priority)
    except TransformError as error:
        if error.codes != ("unknown-instruction",):
            raise
        warn("set_instruction_priority", error.kernel, [(str(insn_match), entry) for entry in error.found])
        return unit


def tag_array_axes(unit: Any, ary_names: Any, dim_tags: Any) -> Any:
    """Tag the axes of arrays as :func:`polyloop.tag_array_axes` does; tags may be objects, ``VectorArrayDimTag()``."""
    if not isinstance(dim_tags, str) and not hasattr(dim_tags, "items"):
        dim_tags = [str(entry) for entry in dim_tags]
    return lifted(FUNCTIONS["tag_array_axes"])(unit, ary_names, dim_tags)


def split_array_dim(
    unit: Any, arrays_and_axes: Any, count: int, auto_split_inames: bool = True, split_kwargs: Any = None
) -> Any:  # fmt: skip
    """Split axes of arrays, and the inames that subscript them, by one factor.

    ::

        out[i] = a[i]    =>    out[i_outer, i_inner] = a[i_outer, i_inner]

    Parameters
    ----------
    arrays_and_axes
        ``("a", 0)`` or ``("a", 0, "F")``, or a list of these.
    count
        Extent of the inner axis.
    auto_split_inames
        Whether to split the inames that are subscripts by themselves.
    split_kwargs
        Further arguments of :func:`polyloop.split_iname`.

    Raises
    ------
    TransformError
        As :func:`polyloop.split_iname` and :func:`polyloop.split_array_axis`.
    """
    entries = [arrays_and_axes] if isinstance(arrays_and_axes, tuple) else [*arrays_and_axes]
    if auto_split_inames:
        names = {(entry[0], entry[1]) for entry in entries}
        for iname in _subscripts(_kernel(unit), names):
            unit = lifted(FUNCTIONS["split_iname"])(unit, iname, count, **(split_kwargs or {}))
    for name, axis, *order in entries:
        unit = lifted(FUNCTIONS["split_array_axis"])(unit, name, axis, count, *order)
    return unit


def _subscripts(kernel: LoopKernel, axes: set[tuple[str, int]]) -> list[str]:
    """Return the inames that are the whole subscript along one of *axes* somewhere."""
    found: dict[str, None] = {}
    for instruction in kernel.instructions:
        for part in (instruction.assignee, expand_rules(instruction.expression, kernel.substitutions)):
            for node in accesses(part):
                index = node.index_tuple if isinstance(node, p.Subscript) else ()
                for axis, entry in enumerate(index):
                    if isinstance(entry, p.Variable) and (array_name(node), axis) in axes:
                        found.setdefault(entry.name)
    return [name for name in found if name in kernel.inames]


def auto_test_vs_ref(ref_knl: Any, ctx: Any = None, test_knl: Any = None, *operands: Any, **options: Any) -> Any:
    """Compare kernels as :func:`polyloop.auto_test_vs_ref` does.

    ``blacklist_ref_vendors`` and ``dump_binary`` have no effect, nor have parameters that no kernel has.
    """
    kernels = [_kernel(entry) for entry in (ref_knl, test_knl) if entry is not None]
    options = {name: value for name, value in options.items() if name not in ("blacklist_ref_vendors", "dump_binary")}
    known = {name for kernel in kernels for name in (*kernel.parameters, *(entry.name for entry in kernel.arguments))}
    given = options.pop("parameters", None) or {}
    options["parameters"] = {name: value for name, value in given.items() if name in known}
    return public(_compared)(kernels[0], ctx, *(kernels[1:] or [None]), *operands, **options)
