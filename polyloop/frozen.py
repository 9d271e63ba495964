"""Frozen dataclasses that are made and changed quickly, and print briefly (:mod:`polyloop.display`).

The ``__init__`` of a frozen dataclass sets one field after the other through ``object.__setattr__``, and
``dataclasses.replace`` examines each field first.  Kernels consist of many such values, and every step creates new
ones: here all fields are put into the dictionary of the object at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from polyloop.display import brief

__all__ = ["once", "quick", "replace"]

_T = TypeVar("_T")
_Owner = TypeVar("_Owner")

_fields: Final[dict[type, tuple[frozenset[str], int, dict[str, Callable[[], object]]]]] = {}
"""Of the classes that are :func:`quick`: the fields that are arguments, the number of all, and how the others begin."""


def quick(cls: type[_T]) -> type[_T]:
    """Let a frozen dataclass be made and changed quickly; the decorator above that of the dataclass."""
    assert dataclasses.is_dataclass(cls)
    entries = dataclasses.fields(cls)
    assert not any(entry.kw_only for entry in entries), f"{cls.__name__} has fields that are given by name alone"
    assert not hasattr(cls, "__post_init__"), f"{cls.__name__} has more to do than to keep its fields"
    assert cls.__dictoffset__, f"{cls.__name__} has no dictionary"
    known: dict[str, Any] = {"_unset": dataclasses.MISSING}
    arguments, values = ["self"], []
    others: dict[str, Callable[[], object]] = {}
    for entry in entries:
        value = entry.name
        if not entry.init:
            assert entry.default_factory is not dataclasses.MISSING, f"{entry.name} has no value to begin with"
            known[f"_new_{entry.name}"] = others[entry.name] = entry.default_factory
            value = f"_new_{entry.name}()"
        elif entry.default_factory is not dataclasses.MISSING:
            known[f"_new_{entry.name}"] = entry.default_factory
            arguments.append(f"{entry.name}=_unset")
            value = f"_new_{entry.name}() if {entry.name} is _unset else {entry.name}"
        elif entry.default is not dataclasses.MISSING:
            known[f"_default_{entry.name}"] = entry.default
            arguments.append(f"{entry.name}=_default_{entry.name}")
        else:
            arguments.append(entry.name)
        values.append(f"_own['{entry.name}'] = {value}")
    text = f"def __init__({', '.join(arguments)}):\n    _own = self.__dict__\n    {'; '.join(values)}"
    exec(text, known)
    made = known["__init__"]
    made.__qualname__, made.__doc__ = f"{cls.__qualname__}.__init__", cls.__init__.__doc__
    made.__annotations__ = cls.__init__.__annotations__
    setattr(cls, "__init__", made)  # noqa: B010 - the types know of no other
    for name, function in _COPYING.items():
        setattr(cls, name, function)
    if hasattr(cls.__repr__, "__wrapped__"):  # the one that a dataclass gets, which shows everything
        cls.__repr__ = brief  # type: ignore[method-assign]
    _fields[cls] = frozenset(entry.name for entry in entries if entry.init), len(entries), others
    return cls


class once(Generic[_Owner, _T]):  # noqa: N801 - a decorator
    """A property that is found out once, like ``functools.cached_property``, without the lock that this had once."""

    def __init__(self, find: Callable[[_Owner], _T]) -> None:
        self._find, self._name, self.__doc__ = find, find.__name__, find.__doc__

    def __get__(self, owner: _Owner, _: type | None = None) -> _T:
        if owner is None:  # a dataclass asks for the default of a field of this name: there is none
            raise AttributeError(self._name)
        found = owner.__dict__[self._name] = self._find(owner)
        return found


def _state(value: object) -> dict[str, object]:
    """Return the fields, for pickle, without memoised results, which can be computed again."""
    return {name: value.__dict__[name] for name in _fields[type(value)][0]}


def _restore(value: object, state: object) -> None:
    """Take the fields of a pickle.

    Raises
    ------
    pickle.UnpicklingError
        It has other fields than the class: another version of the package wrote it.
    """
    fields: set[object] = {*_fields[type(value)][0]}
    found: set[object] = {*state} if isinstance(state, Mapping) else set()
    if found != fields:
        given = ", ".join(sorted(map(str, found.symmetric_difference(fields)))) if found else "all"
        raise UnpicklingError(
            f"this pickle is of another version of polyloop: it has other fields of {type(value).__name__} ({given}); "
            "make the kernel again, or exchange kernels between versions as scripts (pl.kernel_to_python)")
    others = {name: begin() for name, begin in _fields[type(value)][2].items()}
    value.__dict__.update(cast("Mapping[str, object]", state), **others)


def _itself(value: _T, _: object = None) -> _T:
    """Return the object itself, which never changes."""
    return value


_COPYING: Final[dict[str, Callable[..., object]]] = {
    "__getstate__": _state, "__setstate__": _restore, "__copy__": _itself, "__deepcopy__": _itself,
}  # fmt: skip


if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - the checker knows its return type
else:

    def replace(value: _T, /, **changes: object) -> _T:
        """Return a dataclass instance with fields changed: ``dataclasses.replace``, faster for ``quick`` classes."""
        known = _fields.get(type(value))
        if known is None:
            return dataclasses.replace(value, **changes)
        fields, count, others = known
        if not changes.keys() <= fields:
            raise TypeError(f"{type(value).__name__} has no field {', '.join(sorted(changes.keys() - fields))}")
        old = value.__dict__
        result = object.__new__(type(value))
        own = result.__dict__
        own.update(old if len(old) == count else {name: old[name] for name in fields}, **changes)
        for name, begin in others.items():
            own[name] = begin()
        return result
