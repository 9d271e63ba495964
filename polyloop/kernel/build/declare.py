"""Arguments of a kernel: listed, inferred, or replaced by numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.errors import KernelError, unknown_name
from polyloop.expr.nodes import Expression, array_name, element_of, targets_of
from polyloop.expr.rewrite import appearances, substitute, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.build.draft import Draft, fail, site_of
from polyloop.kernel.domains import fixed_set, parameters_of
from polyloop.kernel.kernel import Domain
from polyloop.kernel.layout import Auto, Strided
from polyloop.kernel.text.domain_text import parse_domain
from polyloop.kernel.text.parser import ParsedInstruction
from polyloop.kernel.text.specs import Defaults, expand_data, read_offset
from polyloop.memo import Same
from polyloop.poly.affine import affine_of

__all__ = [
    "Declared",
    "check_parameters",
    "complete_arguments",
    "condition_of",
    "declared",
    "fixed_argument",
    "fixed_extents",
    "order_parameters",
    "parameters_used",
    "read_data",
    "with_open_shapes",
]

_PARAM = isl.dim_type.param


def fixed_extents(
    shape: tuple[Expression, ...] | None, values: Mapping[str, int]
) -> tuple[Expression, ...] | None:
    """Return extents with parameters replaced by numbers, products and sums of numbers worked out."""
    return shape if shape is None or not values else tuple(_folded(extent, values) for extent in shape)


def _folded(expr: Expression, values: Mapping[str, int]) -> Expression:
    new = substitute(expr, values)
    form = affine_of(new)
    return form.const if form is not None and not form.terms else new


def fixed_argument(argument: Argument, values: Mapping[str, int]) -> Argument | None:
    """Return *argument* with parameters replaced by numbers; None for a parameter that became one."""
    if not isinstance(argument, ArrayArg):
        return None if argument.name in values else argument
    if not values:
        return argument
    shape, strides = fixed_extents(argument.shape, values), fixed_extents(argument.strides, values)
    offset = argument.offset if isinstance(argument.offset, Auto) else _folded(argument.offset, values)
    tags = argument.dim_tags
    if isinstance(tags, tuple):
        tags = tuple(
            Strided(_folded(tag.stride, values)) if isinstance(tag, Strided) and tag.stride is not None else tag
            for tag in tags
        )
    return replace(argument, shape=shape, strides=strides, dim_tags=tags, offset=offset)


@dataclass(frozen=True)
class Declared:
    """Arguments and temporaries that ``kernel_data`` and ``<>`` declare, with fixed parameters replaced by numbers.

    ``given`` are the arguments with those parameters.  If ``infer_rest``, other names in the text become arguments too.
    """

    given: Sequence[Argument]
    arguments: Sequence[Argument]
    temporaries: Mapping[str, TemporaryVariable]
    infer_rest: bool


def declared(
    kernel_data: Sequence[object] | None,
    statements: Sequence[ParsedInstruction],
    fixed: Mapping[str, int],
    defaults: Defaults,
    others: Mapping[str, TemporaryVariable] = MappingProxyType({}),
) -> Declared:
    """Return the declared arguments and temporaries; calls of functions have brought the *others*."""
    given, temporaries, infer_rest = read_data(kernel_data, statements, defaults)
    temporaries.update(others)
    arguments = [argument for entry in given if (argument := fixed_argument(entry, fixed)) is not None]
    found = {name: replace(entry, shape=fixed_extents(entry.shape, fixed)) for name, entry in temporaries.items()}
    return Declared(given, arguments, found, infer_rest)


def read_data(
    kernel_data: Sequence[object] | None, statements: Sequence[ParsedInstruction], defaults: Defaults
) -> tuple[list[Argument], dict[str, TemporaryVariable], bool]:
    """Return the listed arguments, the temporaries, and whether other arguments are inferred."""
    arguments: list[Argument] = []
    temporaries: dict[str, TemporaryVariable] = {}
    infer_rest = kernel_data is None
    named: set[str] = set()
    for entry in kernel_data or ():
        if entry is ... or entry == "...":
            infer_rest = True
            continue
        for item in expand_data(entry, defaults):
            if item.name in temporaries or item.name in named:
                message = f"'{item.name}' is declared twice in kernel_data"
                raise fail("name-taken", message, hints=("drop one of them",))
            if isinstance(item, TemporaryVariable):
                temporaries[item.name] = item
            else:
                named.add(item.name)
                arguments.append(item)
    for statement in statements:
        if statement.declared is None:
            continue
        name = array_name(statement.assignee)
        known = temporaries.get(name)
        if name in named:
            message = f"temporary '{name}' has the name of an argument"
            raise fail("name-taken", message, site=site_of(statement), hints=("rename it",))
        dtype = None if isinstance(statement.declared, Auto) else statement.declared
        subscripted = isinstance(element_of(statement.assignee), p.Subscript)
        if known is None:
            temporaries[name] = TemporaryVariable(name, dtype, None if subscripted else ())
    return arguments, temporaries, infer_rest


def parameters_used(pieces: Sequence[Domain], condition: isl.Set | None, inames: Iterable[str]) -> tuple[str, ...]:
    """Return the parameters of the domains and of the assumptions, in order."""
    found: dict[str, None] = {}
    own = set(inames)
    for piece in pieces:
        found.update((name, None) for name in parameters_of(piece.set) if name not in own)
    if condition is not None:
        found.update((name, None) for name in parameters_of(condition))
    return tuple(found)


def check_parameters(
    fixed: Mapping[str, int],
    condition: isl.Set | None,
    pieces: Sequence[Domain],
    arguments: Sequence[Argument],
    found: frozenset[str],
) -> None:
    """Refuse names that are no parameters in ``assumptions`` and ``fixed_parameters``.

    *found* are the fixed parameters that the domains had.
    """
    known = {name for piece in pieces for name in parameters_of(piece.set)} | found
    known |= {argument.name for argument in arguments if isinstance(argument, ValueArg)}
    known |= _size_names(arguments).keys()
    used = {*parameters_of(condition)} if condition is not None else set()
    for name in (*sorted(used), *fixed):
        if name not in known:
            raise KernelError("make_kernel", None, [unknown_name("parameter", name, known)])


def condition_of(assumptions: str | isl.Set | None, fixed: Mapping[str, int]) -> isl.Set | None:
    """Return the parameter set that *assumptions* describes, None if there are none."""
    if assumptions is None or (isinstance(assumptions, str) and not assumptions.strip()):
        return None
    given = parse_domain(f"{{ : {assumptions} }}") if isinstance(assumptions, str) else assumptions
    given = fixed_set(given if given.is_params() else given.params(), fixed)
    if given.is_empty():
        message = f"no parameters fulfil the assumptions '{assumptions}'"
        raise fail("contradiction", message, hints=("drop one of them",))
    return given


def complete_arguments(
    data: Declared, drafts: Sequence[Draft], inames: Sequence[str], parameters: Sequence[str], defaults: Defaults
) -> tuple[Argument, ...]:
    """Return the declared arguments with everything that the statements and shapes mention besides.

    After those that are listed come the names in the statements as they appear, then sizes that only shapes, strides
    or offsets mention, then the other parameters of the domains.
    """
    known = {argument.name for argument in data.arguments} | set(data.temporaries) | set(inames)
    complete = list(data.arguments)
    written = {array_name(target) for draft in drafts for target in targets_of(draft.parsed.assignee)}
    order, subscripted = _names_in_order(drafts)
    for name, draft in order.items():
        if name in known:
            continue
        if not data.infer_rest and name not in parameters:
            raise fail(
                "undeclared-name",
                f"'{name}' is not declared",
                hints=(
                    *(f"did you mean '{near}'?" for near in get_close_matches(name, sorted(known), n=1, cutoff=0.7)),
                    *_other_meanings(name, site_of(draft.parsed, draft.id).text),
                    "add it to kernel_data, or end kernel_data with ... to have it inferred",
                ),
                site=site_of(draft.parsed, draft.id),
            )
        known.add(name)
        if name in subscripted or name in written:
            shape = None if name in subscripted else ()
            offset = read_offset(defaults.offset)
            complete.append(ArrayArg(name, shape=shape, strides=shape, order=defaults.order, offset=offset))
        else:
            complete.append(ValueArg(name))
    sizes = [name for name in _size_names(data.arguments) if name not in known]
    complete.extend(ValueArg(name) for name in dict.fromkeys((*sizes, *parameters)) if name not in known)
    return tuple(complete)


def _other_meanings(name: str, text: str) -> Iterator[str]:
    """Yield meanings of *name*, no argument, in the statement *text*: a loop, or a word of a comment."""
    if re.search(rf"//\s*{name}\b", text):
        yield "a comment begins with #; // divides and rounds down"
    elif re.search(rf"[\[,]\s*{name}\s*[\],]", text):
        yield f"if a loop runs over '{name}', name it in the domain: {{[{name}]: 0 <= {name} < n}}"


def with_open_shapes(
    arguments: tuple[Argument, ...], shapes: Mapping[str, tuple[Expression, ...]]
) -> tuple[Argument, ...]:  # fmt: skip
    """Return *arguments* with *shapes* where they are open; sizes that are new come last."""
    if not shapes:
        return arguments
    found = tuple(
        replace(entry, shape=shapes[entry.name]) if isinstance(entry, ArrayArg) and entry.shape is None
        and entry.name in shapes else entry for entry in arguments)  # fmt: skip
    known = {entry.name for entry in found}
    return (*found, *(ValueArg(name) for name in _size_names(found) if name not in known))


def _names_in_order(drafts: Sequence[Draft]) -> tuple[dict[str, Draft], set[str]]:
    """Return every name with the statement where it appears first, and the names that are subscripted."""
    subscripted: set[str] = set()
    order: dict[str, Draft] = {}
    for draft in drafts:
        for expr in (draft.parsed.assignee, draft.expanded, *draft.parsed.predicates):
            found = appearances(expr)
            subscripted |= found.subscripted
            for name in found.names:
                order.setdefault(name, draft)
    return order, subscripted


def _size_names(arguments: Iterable[Argument]) -> dict[str, None]:
    """Return the names in shapes, strides and offsets, in order, as keys."""
    found: dict[str, None] = {}
    seen: set[object] = set()
    for argument in arguments:
        if isinstance(argument, ArrayArg):
            parts = (argument.shape, argument.strides, argument.dim_tags, argument.offset)
            key = tuple(map(Same, parts))  # what is declared together has its layout in common
            if key not in seen:
                seen.add(key)
                found.update((name, None) for part in _layout_parts(argument) for name in sorted(variables(part)))
    return found


def _layout_parts(argument: ArrayArg) -> list[Expression]:
    """Return the expressions in the shape, the strides and the offset of an array."""
    tags = argument.dim_tags if isinstance(argument.dim_tags, tuple) and argument.strides is None else ()
    parts = [*(argument.shape or ()), *(argument.strides or ())]
    parts += [tag.stride for tag in tags if isinstance(tag, Strided) and tag.stride is not None]
    return parts if isinstance(argument.offset, Auto) else [*parts, argument.offset]


def order_parameters(
    parameters: Sequence[str], arguments: Sequence[Argument], drafts: Sequence[Draft]
) -> tuple[str, ...]:
    """Domain parameters first, then value arguments that shapes mention, then integers of subscripts and conditions.

    A scalar in a subscript that was given no type is an integer; one in a condition has to be declared as one.
    """
    found = dict.fromkeys(parameters)
    values = {argument.name: argument.dtype for argument in arguments if isinstance(argument, ValueArg)}
    found.update((name, None) for name in _size_names(arguments) if name in values)
    integers = {name for name, dtype in values.items() if dtype is not None and dtype.name in _PARAMETER_TYPES}
    open_names = {name for name, dtype in values.items() if dtype is None}
    for draft in drafts:
        inside, tested = _subscript_names(draft), set[str]()
        for predicate in draft.parsed.predicates:
            tested |= variables(predicate)
        if wanted := integers & (inside | tested) | open_names & inside:
            found.update((name, None) for name in values if name in wanted)
    return tuple(found)


_PARAMETER_TYPES: Final = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"})


def _subscript_names(draft: Draft) -> frozenset[str]:
    """Return the names that occur in subscripts of a statement."""
    parts = (draft.parsed.assignee, draft.expanded, *draft.parsed.predicates)
    return frozenset[str]().union(*[appearances(part).inside for part in parts])
