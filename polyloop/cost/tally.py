"""Tallies of operations, accesses and barriers by kind, each a polynomial in the parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from polyloop.display import Shown, brief, clipped
from polyloop.edge.words import Choice, misfit
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.expr.dtypes import dtype_diagnostic, dtype_name, find_dtype
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.poly.polynomial import PiecewisePolynomial, Polynomial

__all__ = ["CountGranularity", "MemAccess", "Op", "Stride", "Sync", "ToCountMap"]

Stride: TypeAlias = int | Polynomial | None
"""Elements from one index of an axis to the next; None where that is not one number."""


class CountGranularity(Choice):
    """Unit of a count: threads, warps or blocks."""

    WORKITEM = "workitem"
    SUBGROUP = "subgroup"
    WORKGROUP = "workgroup"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Op(Shown):
    """One kind of operation.

    Attributes
    ----------
    dtype
        The type that it computes in: NumPy's, from anything that means one.
    name
        ``"add"`` (subtractions too), ``"mul"``, ``"div"``, ``"pow"``, ``"shift"``, ``"bw"`` (on bits), ``"maxmin"``, or
        ``"func:"`` and the name of a function.
    is_phantom
        Whether the result has no use: over-execution by a transform, as in the corners of a bounding box.
    """

    dtype: Any = None
    name: str | None = None
    count_granularity: CountGranularity | None = None
    kernel_name: str | None = None
    is_phantom: bool | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _entry("Op", "dtype", self.dtype))

    def __str__(self) -> str:
        name = [self.name] if self.name is not None else []
        return " ".join([*_typed(self.dtype), *name, *(["unused"] if self.is_phantom else [])])


@dataclass(frozen=True)
class MemAccess(Shown):
    """One kind of access to memory.

    Attributes
    ----------
    lid_strides, gid_strides
        Elements from one thread (block) to the next along each axis that the kernel has; None where that varies.
        Given as a mapping, ``{0: 1}``, kept as pairs of an axis and a stride.
    direction
        ``"load"``, ``"store"`` or ``"atomic"``.
    count_granularity
        ``SUBGROUP`` where all threads of a warp touch one element: then warps are counted.
    is_phantom
        Whether the value has no use; None if a warp may move values of both kinds, or if telling them apart takes too
        many cases.
    """

    address_space: AddressSpace | None = None
    dtype: Any = None
    lid_strides: Any = None
    gid_strides: Any = None
    direction: str | None = None
    variable: str | None = None
    count_granularity: CountGranularity | None = None
    kernel_name: str | None = None
    is_phantom: bool | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        for name in ("dtype", "lid_strides", "gid_strides"):
            object.__setattr__(self, name, _entry("MemAccess", name, getattr(self, name)))

    def lid_stride(self, axis: int) -> Stride:
        """Return the stride along thread axis *axis*, 0 if the kernel does not have it."""
        strides: Mapping[int, Stride] = dict(self.lid_strides or ())
        return strides.get(axis, 0)

    def __str__(self) -> str:
        parts = [f"{self.address_space}"] * (self.address_space is not None)
        parts += [f"{self.direction}"] * (self.direction is not None)
        parts += [f"of {self.variable}"] * (self.variable is not None)
        parts += _typed(self.dtype)
        parts += _strides("l", self.lid_strides) + _strides("g", self.gid_strides)
        parts += ["by subgroup"] * (self.count_granularity is CountGranularity.SUBGROUP)
        parts += ["unused"] * (self.is_phantom is True)
        return " ".join(parts)


def _entry(operation: str, name: str, given: Any) -> Any:  # noqa: ANN401 - an attribute of any kind
    """Return the attribute *name* of a kind of event as kinds have it: types of NumPy, pairs, members of choices.

    Raises
    ------
    ArgumentError
        ``unknown-dtype``, ``wrong-argument-type``.
    """
    if name == "dtype" and given is not None:
        # arrays may have types of their own, such as vectors: a dtype is one
        is_holder = not isinstance(given, type) and hasattr(given, "dtype")
        found = given if isinstance(given, np.dtype) else find_dtype(given.dtype if is_holder else given)
        if found is None:
            raise ArgumentError(operation, None, [dtype_diagnostic(given)])
        return found
    if name in ("lid_strides", "gid_strides") and given is not None:
        pairs = tuple(given.items()) if isinstance(given, Mapping) else given
        if not isinstance(pairs, tuple) or any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
            raise ArgumentError(operation, None, [misfit(name, Mapping[int, Stride], given)])
        return tuple(sorted(pairs, key=lambda pair: pair[0]))
    if isinstance(given, str) and name in _CHOICES:
        return _CHOICES[name]({"shared": "local"}.get(given, given))
    return given


_CHOICES: Final[Mapping[str, type[Choice]]] = {"address_space": AddressSpace, "count_granularity": CountGranularity}
_OTHERWISE: Final = {"mtype": "address_space", "read_write": "direction"}
"""Other names of attributes, in versions of Loopy."""


def _typed(dtype: np.dtype[np.generic] | None) -> list[str]:
    return [] if dtype is None else [dtype_name(dtype)]


def _strides(letter: str, strides: tuple[tuple[int, Stride], ...] | None) -> list[str]:
    shown = [f"{letter}.{axis}: {'varies' if stride is None else stride}" for axis, stride in strides or ()]
    return [f"{{{', '.join(shown)}}}"] if shown else []


@dataclass(frozen=True)
class Sync(Shown):
    """``"barrier_local"`` (a block waits), ``"barrier_warp"``, ``"barrier_cluster"``, or ``"kernel_launch"``."""

    kind: str | None = None
    kernel_name: str | None = None

    __repr__ = brief

    def __str__(self) -> str:
        return self.kind or ""


_SHOWN = 6

K = TypeVar("K", Op, MemAccess, Sync)


class ToCountMap(Shown, Mapping[K, PiecewisePolynomial], Generic[K]):
    """Number of events of each kind, as polynomials.

    ``counts[key]`` is the sum over all entries that agree with what is not None in *key*:
    ``counts[pl.Op(np.float32, "add")]``; 0 if there are none.  Counts are added, and multiplied by numbers.

    Raises
    ------
    ArgumentError
        By each method: ``unknown-attribute``, ``unknown-dtype``, ``wrong-argument-type``, ``missing-argument``.
    """

    def __init__(self, counts: Iterable[tuple[K, PiecewisePolynomial]] = ()) -> None:
        found: dict[K, list[PiecewisePolynomial]] = {}
        for key, count in counts:
            found.setdefault(key, []).append(count)
        totals = ((key, PiecewisePolynomial.total(parts)) for key, parts in found.items())
        self._counts: dict[K, PiecewisePolynomial] = {key: total for key, total in totals if not total.is_zero}

    def __getitem__(self, key: K) -> PiecewisePolynomial:
        given: object = key
        if not isinstance(given, Op | MemAccess | Sync):
            raise _wrong("[]", "key", Op | MemAccess | Sync, given)
        known = self._counts.get(key)
        return self._like(key) if known is None else known

    def __contains__(self, key: object) -> bool:
        return isinstance(key, Op | MemAccess | Sync) and super().__contains__(key)

    def _like(self, key: K) -> PiecewisePolynomial:
        wanted = [(field.name, value) for field in fields(key) if (value := getattr(key, field.name)) is not None]
        return PiecewisePolynomial.total(
            count
            for entry, count in self._counts.items()
            if type(entry) is type(key) and all(getattr(entry, name) == value for name, value in wanted)
        )

    def __iter__(self) -> Iterator[K]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __add__(self, other: object) -> ToCountMap[K]:
        """Return the counts of both."""
        return ToCountMap(chain(self.items(), other.items())) if isinstance(other, ToCountMap) else NotImplemented

    def __radd__(self, other: int) -> ToCountMap[K]:
        """Return the counts, as the sum of several begins with 0."""
        return self if other == 0 else NotImplemented

    def __mul__(self, factor: PiecewisePolynomial | Polynomial | int) -> ToCountMap[K]:
        """Return each count times *factor*."""
        if not isinstance(factor, PiecewisePolynomial | Polynomial | int):
            return NotImplemented
        return ToCountMap((key, count * factor) for key, count in self.items())

    __rmul__ = __mul__

    def filter_by(self, **wanted: Any) -> ToCountMap[K]:  # noqa: ANN401 - attributes of any type
        """Return the entries with attributes among the given values: ``filter_by(dtype=[np.float32], name=["add"])``.

        Types may be given as anything that means one, strides as mappings, address spaces and units of counts by name;
        one value that is in no list stands for itself.  Entries of a kind without such an attribute are left out, where
        others have it.
        """
        allowed = {self._attribute("filter_by", name): (name, values) for name, values in wanted.items()}
        among = {name: [_entry("filter_by", name, value) for value in _several(given, values)]
                 for name, (given, values) in allowed.items()}  # fmt: skip
        return self.filter_by_func(
            lambda key: all(hasattr(key, name) and getattr(key, name) in values for name, values in among.items())
        )

    def _attribute(self, operation: str, name: object) -> str:
        """Return the attribute of keys that is meant by *name*."""
        if not isinstance(name, str):
            raise _wrong(operation, "attributes", str, name)
        meant = _OTHERWISE.get(name, name)
        kinds = list(dict.fromkeys(map(type, self._counts))) or [Op, MemAccess, Sync]
        known = list(dict.fromkeys(field.name for kind in kinds for field in fields(kind)))
        if meant not in known:
            near: list[str] = get_close_matches(name, known, n=1, cutoff=0.7)
            hints = (*(f"did you mean '{entry}'?" for entry in near), f"attributes: {', '.join(known)}")
            what = f"these counts have no attribute '{name}'"
            raise ArgumentError(operation, None, [Diagnostic("unknown-attribute", what, hints=hints)])
        return meant

    def filter_by_func(self, function: Callable[[K], bool]) -> ToCountMap[K]:
        """Return the entries whose key *function* accepts."""
        if not callable(function):
            raise _wrong("filter_by_func", "function", Callable[..., bool], function)
        return ToCountMap((key, count) for key, count in self.items() if function(key))

    def group_by(self, *attributes: str) -> ToCountMap[K]:
        """Return the counts summed over all but *attributes*: ``group_by("dtype")``; the others are None."""
        kept = [self._attribute("group_by", name) for name in attributes]
        return ToCountMap((_only(key, kept), count) for key, count in self.items())

    def with_set_attributes(self, **values: Any) -> ToCountMap[K]:  # noqa: ANN401 - attributes of any type
        """Return the counts with attributes of all keys replaced."""
        step = "with_set_attributes"
        meant = {name: self._attribute(step, name) for name in values}
        found = {meant[name]: _entry(step, meant[name], value) for name, value in values.items()}
        return ToCountMap((_with(key, found), count) for key, count in self.items())

    def to_bytes(self) -> ToCountMap[K]:
        """Return accesses as bytes: each count times the size of the type."""
        return ToCountMap((key, count * _itemsize(key)) for key, count in self.items())

    def sum(self) -> PiecewisePolynomial:
        """Return all counts together."""
        return PiecewisePolynomial.total(self.values())

    def eval_and_sum(self, params: Mapping[str, int] | None = None) -> int:
        """Return all counts together where the parameters have the values *params*."""
        return self.sum().eval_with_dict(params or {})

    def eval(self, params: Mapping[str, int] | None = None) -> dict[K, int]:
        """Return each count where the parameters have the values *params*."""
        return {key: count.eval_with_dict(params or {}) for key, count in self.items()}

    def __repr__(self) -> str:
        entries: list[str] = [f"{key}: {count}" for key, count in islice(self.items(), _SHOWN)]
        more: list[str] = [f".. {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        lines = (f"\n    {clipped(entry, 110)}" for entry in [*entries, *more])
        return f"<{type(self).__name__} of {len(self)}{''.join(lines)}>"

    def __str__(self) -> str:
        names = [str(key) for key in self]
        width = max(map(len, names), default=0)
        return "\n".join(f"{name:<{width}} : {count}" for name, count in zip(names, self.values(), strict=True))


def _several(name: str, values: Any) -> list[Any]:  # noqa: ANN401 - attributes of any type
    """Return the values that an attribute may have; a string, a type or a mapping is one."""
    if values is None:
        raise _wrong("filter_by", name, Collection[Any], values)
    is_list = isinstance(values, Collection) and not isinstance(values, str | np.dtype | type | Mapping | Choice)
    return list(values) if is_list else [values]


def _wrong(operation: str, name: str, hint: Any, given: object) -> ArgumentError:  # noqa: ANN401 - an annotation
    return ArgumentError(operation, None, [misfit(name, hint, given)])


def _with(key: K, values: Mapping[str, Any]) -> K:
    return replace(key, **{name: value for name, value in values.items() if hasattr(key, name)})


def _only(key: K, attributes: Collection[str]) -> K:
    gone = {field.name: None for field in fields(key) if field.name not in attributes}
    return replace(key, **gone)


def _itemsize(key: Op | MemAccess | Sync) -> int:
    dtype = getattr(key, "dtype", None)
    if dtype is None:
        hint = "group after to_bytes(): counts.to_bytes().group_by('direction')"
        what = f"'{key}' has no type, and so no number of bytes" if str(key) else "these counts have no type left"
        raise ArgumentError("to_bytes", None, [Diagnostic("unknown-attribute", what, hints=(hint,))])
    return int(dtype.itemsize)
