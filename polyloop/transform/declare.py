"""The public function of a transform, made from its class: its fields are the parameters, its docstring is theirs.

A field is annotated with the type that it has.  ``Annotated`` adds what a caller may pass instead (:class:`Takes`),
and what its texts name in a kernel (:class:`Names`).  The function, the method, the steps of a trace, what a recipe
renames and the fuzzer's drawer follow from these.
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
    """What the texts of an argument name."""

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
    """In ``Annotated[tuple[str, ...], Takes(str | Sequence[str], names_of)]``: what a caller may pass for a field."""

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
    hint: Any
    default: Any
    is_keyword: bool

    @property
    def accepted(self) -> Any:  # noqa: ANN401 - an annotation
        """The annotation of the parameter."""
        return _accepted(self.hint)

    @property
    def made(self) -> Callable[[Any], Any] | None:
        """The function that makes the value of the field from what a caller passed, if there is any."""
        return _made(self.hint)

    @property
    def plain(self) -> Any:  # noqa: ANN401 - an annotation
        """The type of the field, None and what the annotation adds left away."""
        kinds = [part for part in (get_args(self.hint) if _is_union(self.hint) else (self.hint,)) if part is not _NONE]
        kind = kinds[0] if len(kinds) == 1 else self.hint
        return get_args(kind)[0] if get_origin(kind) is Annotated else kind

    @property
    def left_out(self) -> Any:  # noqa: ANN401 - any value
        """The default of the parameter: None where that is another way to write the default of the field."""
        made = self.made
        is_none = made is not None and _NONE in get_args(self.accepted) and made(None) == self.default
        return None if is_none else self.default

    @property
    def names(self) -> Names | None:
        """What the texts of the argument name."""
        return next(_marks(self.hint, Names), None)

    @property
    def keyed(self) -> Keyed | None:
        """Present for pairs that users write as a mapping."""
        return next(_marks(self.hint, Keyed), None)


def _marks(hint: Any, kind: type) -> Any:  # noqa: ANN401 - an annotation
    """Yield what an annotation, or a part of a union, says beside the type."""
    for part in get_args(hint) if _is_union(hint) else (hint,):
        if get_origin(part) is Annotated:
            yield from (mark for mark in part.__metadata__ if isinstance(mark, kind))


def _is_union(hint: Any) -> bool:  # noqa: ANN401 - an annotation
    return get_origin(hint) in (Union, types.UnionType)


def _accepted(hint: Any) -> Any:  # noqa: ANN401 - annotations
    if _is_union(hint):
        return reduce(or_, map(_accepted, get_args(hint)))
    if get_origin(hint) is not Annotated:
        return hint
    kind = next((mark.accepted for mark in _marks(hint, Takes)), get_args(hint)[0])
    rules = [mark for mark in hint.__metadata__ if mark is EXPLAINED or isinstance(mark, AtLeast | OneOf)]
    return Annotated[(kind, *rules)] if rules else kind


def _made(hint: Any) -> Callable[[Any], Any] | None:  # noqa: ANN401 - an annotation
    takes: Takes | None = next(_marks(hint, Takes), None)
    if takes is None or takes.made is None:
        return None
    made = takes.made
    is_optional = _is_union(hint) and _NONE in get_args(hint)
    return (lambda value: None if value is None else made(value)) if is_optional else made


@cache
def fields_of(kind: type) -> Mapping[str, Field]:
    """Return the fields of a transform by name."""
    hints = get_type_hints(kind, include_extras=True)
    entries: Sequence[Any] = fields(kind)
    return {entry.name: Field(entry.name, hints[entry.name], entry.default, entry.kw_only) for entry in entries}


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
    exec(f"def call({', '.join(parameters)}):\n    return _kind({', '.join(arguments)})({_KERNEL})", known)
    made: Callable[..., LoopKernel] = known["call"]
    accepted = {entry.name: entry.accepted for entry in entries.values()}
    made.__annotations__ = {_KERNEL: LoopKernel, **accepted, "return": LoopKernel}
    return made
