"""Declaration of transforms: the public function is made from the class, its parameters from the fields.

A field is annotated with the type that it has.  ``Annotated`` adds the types that a caller may pass instead
(:class:`Takes`), and the kind of names in its texts (:class:`Names`).  The function, the method, the steps of a trace,
the renaming of recipes and the fuzzer's drawer follow from these.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from polyloop.edge.checks import EXPLAINED, AtLeast, OneOf
from polyloop.kernel.kernel import LoopKernel

__all__ = ["Field", "Keyed", "Names", "Takes", "fields_of", "function_of"]

_NONE: Final = type(None)


class Names(Enum):
    """Kind of the names in an argument."""

    INAME = "inames"
    NEW = "something that there is not yet"
    ARRAY = "arrays: arguments or temporaries"
    TEMPORARY = "temporaries"
    ARGUMENT = "arguments"
    RULE = "substitution rules"
    INSTRUCTION = "instructions"
    MATCH = "instructions, by a match expression"
    TAG = "ways in which loops run"
    NOTHING = "nothing in a kernel"


@dataclass(frozen=True)
class Takes:
    """Annotation of a field: the types that a caller may pass, as in ``Takes(str | Sequence[str], names_of)``."""

    accepted: Any
    made: Callable[[Any], Any] | None = None
    """Makes the value of the field; values of the field stay what they are."""


@dataclass(frozen=True)
class Keyed:
    """In an annotation of pairs: users write a mapping, and the texts of its values name something else."""

    values: Names | None = None


@dataclass(frozen=True)
class Field:
    """A field of a transform, which is a parameter of its function."""

    name: str
    is_keyword: bool
    kind: Any
    """The type, without None and without what the annotation adds."""
    accepted: Any
    """The annotation of the parameter."""
    made: Callable[[Any], Any] | None
    """Makes the value of the field from what a caller passed."""
    default: Any
    left_out: Any
    """The default of the parameter: None where that is another way to write the default of the field."""
    names: Names | None
    keyed: Keyed | None


@cache
def fields_of(kind: type) -> Mapping[str, Field]:
    """Return the fields of a transform by name."""
    hints = get_type_hints(kind, include_extras=True)
    entries: Sequence[Any] = fields(kind)
    return {entry.name: _field(entry, hints[entry.name]) for entry in entries}


def _field(entry: Any, hint: Any) -> Field:  # noqa: ANN401 - a field of a dataclass, and its annotation
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    inside = [option for option in options if get_origin(option) is Annotated]
    marks: dict[type, Any] = {type(mark): mark for option in inside for mark in option.__metadata__}
    kinds = [get_args(option)[0] if option in inside else option for option in options if option is not _NONE]
    accepted, default = reduce(or_, map(_accepted, options)), entry.default
    made = marks[Takes].made if Takes in marks else None
    if made is not None and _NONE in options:
        made = _or_none(made)
    left_out = None if made is not None and _NONE in get_args(accepted) and made(None) == default else default
    names, keyed = marks.get(Names), marks.get(Keyed)
    return Field(entry.name, entry.kw_only, reduce(or_, kinds), accepted, made, default, left_out, names, keyed)


def _accepted(hint: Any) -> Any:  # noqa: ANN401 - annotations
    """Return the accepted type of a field, with the rules that calls are checked by."""
    if get_origin(hint) is not Annotated:
        return hint
    kind = next((mark.accepted for mark in hint.__metadata__ if isinstance(mark, Takes)), get_args(hint)[0])
    rules = [mark for mark in hint.__metadata__ if mark is EXPLAINED or isinstance(mark, AtLeast | OneOf)]
    return Annotated[(kind, *rules)] if rules else kind


def _or_none(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else made(value)


_KERNEL: Final = "kernel"


def function_of(kind: Any) -> Callable[..., LoopKernel]:  # noqa: ANN401 - a class of transforms
    """Return the public function of a transform: its static method ``call``, or one whose parameters are its fields."""
    made: Callable[..., LoopKernel] = getattr(kind, "call", None) or _made_function(kind)
    made.__name__ = made.__qualname__ = kind.name
    made.__module__, made.__doc__ = kind.__module__, kind.__doc__
    return made


def _made_function(kind: Any) -> Callable[..., LoopKernel]:  # noqa: ANN401 - a class of transforms
    known: dict[str, Any] = {"_kind": kind}
    parameters, arguments = [_KERNEL], []
    entries = fields_of(kind)
    for entry in sorted(entries.values(), key=lambda each: each.is_keyword):
        if entry.is_keyword and "*" not in parameters:
            parameters.append("*")
        known[f"_default_{entry.name}"], known[f"_made_{entry.name}"] = entry.left_out, entry.made
        parameters.append(entry.name if entry.default is MISSING else f"{entry.name}=_default_{entry.name}")
        value = entry.name if entry.made is None else f"_made_{entry.name}({entry.name})"
        arguments.append(f"{entry.name}={value}" if entry.is_keyword else value)
    text = f"def call({', '.join(parameters)}):\n    return _kind({', '.join(arguments)})({_KERNEL})"
    exec(compile(text, f"<{kind.__module__}: the function of {kind.__name__}>", "exec"), known)
    made: Callable[..., LoopKernel] = known["call"]
    accepted = {entry.name: entry.accepted for entry in entries.values()}
    made.__annotations__ = {_KERNEL: LoopKernel, **accepted, "return": LoopKernel}
    return made
