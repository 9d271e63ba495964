"""Checks of values, compiled from annotations."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import numpy as np

__all__ = ["EXPLAINED", "HIGHEST", "LISTS", "LOWEST", "NO", "AtLeast", "OneOf", "Such", "Take", "fits", "is_exact",
           "is_writable", "take"]

Take: TypeAlias = Callable[[Any], Any]
"""Returns the value to go on with, or ``NO`` for one that does not fit."""
NO: Final = object()


class _Explained:
    """Annotation ``Annotated[str, EXPLAINED]``: other plain data passes, and the function explains the error.

    Texts that no file can hold, integers of more than 64 bits and a user's objects do not: what prints them may raise.
    """

    def __repr__(self) -> str:
        return "EXPLAINED"


EXPLAINED: Final = _Explained()


@dataclass(frozen=True)
class AtLeast:
    """In ``Annotated[int, AtLeast(1)]``: the smallest number that an argument may be."""

    low: int

    def holds(self, value: Any) -> bool:  # noqa: ANN401 - any value that the annotation accepts
        """Return whether *value* is in range."""
        return bool(value >= self.low)

    def __str__(self) -> str:
        return f"of at least {self.low}"


@dataclass(frozen=True, init=False)
class OneOf:
    """In ``Annotated[int, OneOf(32, 64)]``: the only values that an argument may have."""

    values: tuple[object, ...]

    def __init__(self, *values: object) -> None:
        object.__setattr__(self, "values", values)

    def holds(self, value: object) -> bool:
        """Return whether *value* is one of them."""
        return value in self.values

    def __str__(self) -> str:
        return f"out of {', '.join(map(repr, self.values))}"


@dataclass(frozen=True)
class Such:
    """In ``Annotated[Any, Such("a name", is_name)]``: what a value has to be."""

    words: str
    holds: Callable[[Any], bool]

    def __str__(self) -> str:
        return f"that is {self.words}"


_MOST: Final = 1_000_000
"""So many entries of an iterator are looked at: one without an end is no argument."""
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def _take_text(value: Any) -> Any:  # noqa: ANN401
    if type(value) is str:
        return value if (value.isascii() and "\0" not in value) or is_writable(value) else NO
    return str.__str__(value) if isinstance(value, str) and is_writable(value) else NO


def is_writable(text: str) -> bool:
    """Return whether *text* can be written to a file and passed to a C library."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _take_integer(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, np.integer):
        value = int(value)
    return value if type(value) is int and LOWEST <= value <= HIGHEST else NO


def _take_number(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, np.floating):
        value = float(value)
    return value if isinstance(value, float) else _take_integer(value)


def _take_flag(value: Any) -> Any:  # noqa: ANN401
    if value is True or value is False:
        return value
    is_flag = isinstance(value, np.bool_) or (isinstance(value, int | np.integer) and value in {0, 1})
    return bool(value) if is_flag else NO


def _take_nothing(value: Any) -> Any:  # noqa: ANN401
    return None if value is None else NO


def _take_function(value: Any) -> Any:  # noqa: ANN401
    return value if callable(value) else NO


def _instance(kind: type) -> Take:
    return lambda value: value if isinstance(value, kind) else NO


def _member(values: tuple[object, ...]) -> Take:
    def take(value: Any) -> Any:  # noqa: ANN401
        found = next((entry for entry in values if type(entry) is type(value) and entry == value), NO)
        return found

    return take


def _either(takes: Sequence[Take], exact: Mapping[type, Take]) -> Take:
    """Return the check of a union, which tries the exact type of the value first."""

    def take(value: Any) -> Any:  # noqa: ANN401
        for entry in (exact[type(value)],) if type(value) in exact else takes:
            found = entry(value)
            if found is not NO:
                return found
        return NO

    return take


_DATA: Final = (
    str, int, float, complex, types.NoneType, list, tuple, set, frozenset, dict,
    types.FunctionType, types.BuiltinFunctionType,
)  # fmt: skip


def _explained(wanted: Take | None) -> Take | None:
    """Return the check of a parameter marked ``EXPLAINED``: plain data of other types passes."""
    if wanted is None:
        return None

    def take(value: Any) -> Any:  # noqa: ANN401
        found = wanted(value)
        if found is not NO or not (isinstance(value, _DATA) or type(value).__module__.startswith("polyloop.")):
            return found
        is_huge = isinstance(value, int) and not LOWEST <= value <= HIGHEST
        return NO if is_huge or (isinstance(value, str) and not is_writable(value)) else value

    return take


def _entries(value: Any) -> Iterator[Any] | None:  # noqa: ANN401
    """Return the entries of an iterable; sets in the order of their texts, None for texts and mappings."""
    if isinstance(value, bytes | bytearray | memoryview | Mapping | str):
        return None
    if isinstance(value, set | frozenset) and all(isinstance(entry, str | int | tuple) for entry in value):
        return iter(sorted(value, key=str))
    try:
        found: Iterator[Any] = iter(value)
    except TypeError:
        return None
    return found


def _listed(entry: Take | None, *, is_tuple: bool = False, is_text: bool = False) -> Take:
    """Return the check of a sequence; text is one of texts."""

    def take(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, str):
            return _take_text(value) if is_text else NO
        given = _entries(value)
        if given is None:
            return NO
        old = value if isinstance(value, list | tuple) else list(islice(given, _MOST + 1))
        if len(old) > _MOST:
            return NO
        new = old if entry is None else [entry(part) for part in old]
        if any(part is NO for part in new):
            return NO
        is_same = old is value and all(one is other for one, other in zip(old, new, strict=True))
        return value if is_same and (isinstance(value, tuple) or not is_tuple) else tuple(new)

    return take


def _fixed(entries: Sequence[Take | None]) -> Take:
    """Return the check of a tuple with one annotation for each entry."""

    def take(value: Any) -> Any:  # noqa: ANN401
        given = _entries(value)
        if given is None:
            return NO
        old = tuple(islice(given, len(entries) + 1))
        if len(old) != len(entries):
            return NO
        new = tuple(part if entry is None else entry(part) for entry, part in zip(entries, old, strict=True))
        return NO if any(part is NO for part in new) else new

    return take


def _mapped(key: Take | None, entry: Take | None) -> Take:
    def take(value: Any) -> Any:  # noqa: ANN401
        if not isinstance(value, Mapping):
            return NO
        new = {}
        is_same = True
        for old_name, old in value.items():
            name = old_name if key is None else key(old_name)
            found = old if entry is None else entry(old)
            if name is NO or found is NO:
                return NO
            new[name] = found
            is_same = is_same and name is old_name and found is old
        return value if is_same else new

    return take


def _restricted(inner: Take | None, rules: Sequence[AtLeast | OneOf | Such]) -> Take:
    def take(value: Any) -> Any:  # noqa: ANN401
        found = value if inner is None else inner(value)
        return found if found is not NO and all(rule.holds(found) for rule in rules) else NO

    return take


_PLAIN: Final[Mapping[object, Take]] = {
    str: _take_text,
    int: _take_integer,
    float: _take_number,
    bool: _take_flag,
    type(None): _take_nothing,
    Callable: _take_function,
}
LISTS: Final = frozenset({Sequence, Iterable, Collection, list})


@cache
def take(hint: Any) -> Take | None:  # noqa: ANN401 - an annotation
    """Return the check of an annotation, None if it accepts everything."""
    origin, arguments = get_origin(hint), get_args(hint)
    plain = _PLAIN.get(hint) or _PLAIN.get(origin)
    if plain is not None:
        return plain
    if origin is Annotated and EXPLAINED in hint.__metadata__:
        return _explained(take(arguments[0]))
    if origin is Annotated:
        rules = [rule for rule in hint.__metadata__ if isinstance(rule, AtLeast | OneOf | Such)]
        return _restricted(take(arguments[0]), rules)
    if origin in (Union, types.UnionType):
        parts = [take(part) for part in arguments]
        checks = [part for part in parts if part is not None]
        exact = {part: check for part, check in zip(arguments, parts, strict=True) if part in _PLAIN and check}
        return _either(checks, exact) if len(checks) == len(parts) else None
    if origin is Literal:
        return _member(arguments)
    if origin in LISTS:
        return _listed(take(arguments[0]), is_text=origin is not list and arguments[0] is str)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is ...:
            return _listed(take(arguments[0]), is_tuple=True)
        return _fixed([take(part) for part in arguments])
    if origin is Mapping:
        return _mapped(take(arguments[0]), take(arguments[1]))
    kind = origin if isinstance(origin, type) else hint
    return _instance(kind) if isinstance(kind, type) and _is_checkable(kind) else None


def _is_checkable(kind: type) -> bool:
    is_open = getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False)
    return kind not in (object, Any) and not is_open


def fits(hint: Any, value: object) -> bool:  # noqa: ANN401 - an annotation
    """Return whether an annotation lets *value* through."""
    check = take(hint)
    return check is None or check(value) is not NO


def is_exact(hint: Any, value: object) -> bool:  # noqa: ANN401 - an annotation
    """Return whether an annotation lets *value* through as it is, and makes nothing else of it."""
    check = take(hint)
    found = value if check is None else check(value)
    return found is value or (found is not NO and type(found) is type(value) and found == value)
