"""Tallies of operations, accesses and barriers by kind, each a polynomial in the parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain, islice
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from polyloop.display import Shown, brief, clipped
from polyloop.edge.words import Choice
from polyloop.expr.dtypes import dtype_name
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
        The type that it computes in.
    name
        ``"add"`` (subtractions too), ``"mul"``, ``"div"``, ``"pow"``, ``"shift"``, ``"bw"`` (on bits), ``"maxmin"``, or
        ``"func:"`` and the name of a function.
    is_phantom
        Whether the result has no use: over-execution by a transform, as in the corners of a bounding box.
    """

    dtype: np.dtype[np.generic] | None = None
    name: str | None = None
    count_granularity: CountGranularity | None = None
    kernel_name: str | None = None
    is_phantom: bool | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        if self.dtype is not None:
            object.__setattr__(self, "dtype", np.dtype(self.dtype))

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
        Given as a mapping, ``{0: 1}``, kept as pairs.
    direction
        ``"load"``, ``"store"`` or ``"atomic"``.
    count_granularity
        ``SUBGROUP`` where all threads of a warp touch one element: then warps are counted.
    is_phantom
        Whether the value has no use; None if a warp may move values of both kinds, or if telling them apart takes too
        many cases.
    """

    address_space: AddressSpace | None = None
    dtype: np.dtype[np.generic] | None = None
    lid_strides: tuple[tuple[int, Stride], ...] | None = None
    gid_strides: tuple[tuple[int, Stride], ...] | None = None
    direction: str | None = None
    variable: str | None = None
    count_granularity: CountGranularity | None = None
    kernel_name: str | None = None
    is_phantom: bool | None = None

    __repr__ = brief

    def __post_init__(self) -> None:
        if self.dtype is not None:
            object.__setattr__(self, "dtype", np.dtype(self.dtype))
        for name in ("lid_strides", "gid_strides"):
            object.__setattr__(self, name, _pairs(getattr(self, name)))

    def lid_stride(self, axis: int) -> Stride:
        """Return the stride along thread axis *axis*, 0 if the kernel does not have it."""
        return dict(self.lid_strides or ()).get(axis, 0)

    def __str__(self) -> str:
        parts = [f"{self.address_space}"] * (self.address_space is not None)
        parts += [f"{self.direction}"] * (self.direction is not None)
        parts += [f"of {self.variable}"] * (self.variable is not None)
        parts += _typed(self.dtype)
        parts += _strides("l", self.lid_strides) + _strides("g", self.gid_strides)
        parts += ["by subgroup"] * (self.count_granularity is CountGranularity.SUBGROUP)
        parts += ["unused"] * (self.is_phantom is True)
        return " ".join(parts)


def _pairs(strides: Mapping[int, Stride] | tuple[tuple[int, Stride], ...] | None) -> object:
    return tuple(sorted(strides.items())) if isinstance(strides, Mapping) else strides


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
    ``counts[pl.Op(np.float32, "add")]``; 0 if there are none.
    """

    def __init__(self, counts: Iterable[tuple[K, PiecewisePolynomial]] = ()) -> None:
        found: dict[K, list[PiecewisePolynomial]] = {}
        for key, count in counts:
            found.setdefault(key, []).append(count)
        totals = ((key, PiecewisePolynomial.total(parts)) for key, parts in found.items())
        self._counts: dict[K, PiecewisePolynomial] = {key: total for key, total in totals if not total.is_zero}

    def __getitem__(self, key: K) -> PiecewisePolynomial:
        known = self._counts.get(key)
        return self._like(key) if known is None else known

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

    def __add__(self, other: ToCountMap[K]) -> ToCountMap[K]:
        """Return the counts of both."""
        return ToCountMap(chain(self.items(), other.items()))

    def filter_by(self, **wanted: Collection[Any]) -> ToCountMap[K]:
        """Return the entries with attributes among the given values: ``filter_by(dtype=[np.float32], name=["add"])``.

        Types may be given as anything that NumPy takes for one, strides as mappings.
        """
        if "dtype" in wanted:
            wanted = {**wanted, "dtype": [np.dtype(entry) for entry in wanted["dtype"]]}
        for name in ("lid_strides", "gid_strides"):
            if name in wanted:
                wanted = {**wanted, name: [_pairs(entry) for entry in wanted[name]]}
        return self.filter_by_func(lambda key: all(getattr(key, name) in values for name, values in wanted.items()))

    def filter_by_func(self, function: Callable[[K], bool]) -> ToCountMap[K]:
        """Return the entries whose key *function* accepts."""
        return ToCountMap((key, count) for key, count in self.items() if function(key))

    def group_by(self, *attributes: str) -> ToCountMap[K]:
        """Return the counts summed over all but *attributes*: ``group_by("dtype")``; the others are None."""
        return ToCountMap((_only(key, attributes), count) for key, count in self.items())

    def with_set_attributes(self, **values: Any) -> ToCountMap[K]:  # noqa: ANN401 - attributes of any type
        """Return the counts with attributes of all keys replaced."""
        return ToCountMap((replace(key, **values), count) for key, count in self.items())

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


def _only(key: K, attributes: Collection[str]) -> K:
    gone = {field.name: None for field in fields(key) if field.name not in attributes}
    return replace(key, **gone)


def _itemsize(key: Op | MemAccess | Sync) -> int:
    dtype = getattr(key, "dtype", None)
    assert dtype is not None, "bytes are those of a type"
    return int(dtype.itemsize)
