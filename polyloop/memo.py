"""Memoisation, the one way of it: a result about an immutable object is stored in the object.

Kernels and their parts, expressions, sets and relations of ISL are made once and never changed.  So what a function
finds of one of them holds for good, and goes when the object goes: no table beside it keeps anything alive, or knows an
object by a number that another one may get.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from inspect import signature
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, overload
from weakref import WeakValueDictionary

__all__ = ["By", "Same", "forgotten", "interned", "known", "memoised"]

_K = TypeVar("_K")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_V = TypeVar("_V")

_MOST: Final = 1024
"""Values of one function that an object keeps: what lives as long as the process is asked about by many others."""


class Same(Generic[_V]):
    """An object as a key: equal to itself alone."""

    __slots__ = ("value",)

    def __init__(self, value: _V) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class By(Generic[_V]):
    """An argument that counts by *key*, by value: what of it matters to the function that is memoised."""

    __slots__ = ("key", "value")

    def __init__(self, key: Hashable, value: _V) -> None:
        self.key = key
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is By and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _Memory:
    """The switch of :func:`forgotten`."""

    is_off = False


@contextmanager
def forgotten() -> Iterator[None]:
    """Disable memoised results inside of the ``with``, for tests that they make no difference.

    A value that is equal to itself alone is a part of its object: the program of a kernel stays that program.
    """
    before, _Memory.is_off = _Memory.is_off, True
    try:
        yield
    finally:
        _Memory.is_off = before


def _is_forgotten(value: object) -> bool:
    kind = type(value)
    return value is None or (kind.__eq__ is not object.__eq__ and not getattr(kind, "is_lasting", False))


@overload
def memoised(function: Callable[Concatenate[_K, _P], _R], /) -> Callable[Concatenate[_K, _P], _R]: ...


@overload
def memoised(
    *, unless: Callable[[_R], bool]
) -> Callable[[Callable[Concatenate[_K, _P], _R]], Callable[Concatenate[_K, _P], _R]]: ...


def memoised(function: Any = None, /, *, unless: Callable[[Any], bool] | None = None) -> Any:
    """Remember *function* of one immutable object, and of further arguments, for as long as the object lives.

    The object itself keeps the value, among its attributes.  Further arguments count by value, and are passed by
    position; expressions, sets and relations, annotated ``Expression`` and ``isl.``, count by identity: ``x + 1`` is
    equal to ``x + 1.0``, and sets that are equal may have different pieces, which show in a text.  A value for which
    *unless* holds is looked for again the next time.

    A set, annotated ``isl.Set``, is kept with its equalities detected and without redundant rows.  Questions to ISL
    find these in the object that all who ask share, and what is read of it next would depend on who asked before.
    """
    if function is None:
        return partial(memoised, unless=unless)
    declared = signature(function)
    _, *others = declared.parameters.values()
    name = _name(function)
    if declared.return_annotation == "isl.Set":
        function = _settled(function)
    if not others:
        return _of_one(function, name)
    kinds = ("Expression", "isl.")
    by_identity = [n for n, entry in enumerate(others) if str(entry.annotation).startswith(kinds)]
    if not by_identity:
        return _of_several(function, name, unless)
    if len(others) > 1:
        return _of_several_by_identity(function, name, by_identity, unless)
    return _of_one_by_identity(function, name, unless)


def _settled(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def find(*arguments: Any) -> Any:  # noqa: ANN401
        return function(*arguments).detect_equalities().remove_redundancies()

    return find


def _name(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{function.__qualname__}()"


def _of_one(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def look_up(key: Any) -> Any:  # noqa: ANN401
        kept = key.__dict__
        try:
            value = kept[name]
        except KeyError:
            return kept.setdefault(name, function(key))
        return function(key) if _Memory.is_off and _is_forgotten(value) else value

    return look_up


def _of_several(
    function: Callable[..., Any], name: str, unless: Callable[[Any], bool] | None
) -> Callable[..., Any]:
    @wraps(function)
    def look_up(key: Any, *others: Any) -> Any:  # noqa: ANN401
        try:
            value = key.__dict__[name][others]
        except KeyError:
            value = function(key, *others)
            return value if unless is not None and unless(value) else _kept(key, name, others, value)
        return function(key, *others) if _Memory.is_off and _is_forgotten(value) else value

    return look_up


def _of_one_by_identity(
    function: Callable[..., Any], name: str, unless: Callable[[Any], bool] | None
) -> Callable[..., Any]:
    @wraps(function)
    def look_up(key: Any, other: Any) -> Any:  # noqa: ANN401
        try:
            value = key.__dict__[name][id(other)][1]
        except KeyError:
            value = function(key, other)
            return value if unless is not None and unless(value) else _kept(key, name, id(other), (other, value))[1]
        return function(key, other) if _Memory.is_off and _is_forgotten(value) else value

    return look_up


def _of_several_by_identity(
    function: Callable[..., Any], name: str, by_identity: Sequence[int], unless: Callable[[Any], bool] | None
) -> Callable[..., Any]:
    @wraps(function)
    def look_up(key: Any, *others: Any) -> Any:  # noqa: ANN401
        numbers = [*others]
        for position in by_identity:
            numbers[position] = id(numbers[position])
        asked = tuple(numbers)
        try:
            value = key.__dict__[name][asked][1]
        except KeyError:
            value = function(key, *others)
            return value if unless is not None and unless(value) else _kept(key, name, asked, (others, value))[1]
        return function(key, *others) if _Memory.is_off and _is_forgotten(value) else value

    return look_up


def _kept(key: Any, name: str, asked: Hashable, value: _V) -> _V:  # noqa: ANN401
    """Return the value for *asked*, this one if it is the first; it keeps alive what is asked about by its number."""
    kept: dict[Hashable, _V] = key.__dict__.setdefault(name, {})
    if len(kept) >= _MOST:
        kept.clear()
    return kept.setdefault(asked, value)


_interned: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


def interned(key: Hashable, make: Callable[[], _V]) -> _V:
    """Return the one object for *key*, made at the first time, for as long as it is in use."""
    found: _V | None = None if _Memory.is_off else _interned.get(key)
    return _interned.setdefault(key, make()) if found is None else found


def known(function: Callable[Concatenate[_K, _P], _R], key: _K) -> dict[tuple[object, ...], _R]:
    """Return the results of a memoised *function* of several values for *key*, by the others; mutable."""
    found: dict[tuple[object, ...], _R] = key.__dict__.setdefault(_name(function), {})
    return found
