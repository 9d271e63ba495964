"""Array layouts: strides from ``dim_tags`` and storage orders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, TypeAlias

import pymbolic.primitives as p

from polyloop.display import Shown
from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.nodes import Expression
from polyloop.expr.parser import parse_expression
from polyloop.expr.source import Source, split_outside_brackets
from polyloop.frozen import quick
from polyloop.serial.form import Adapter, adapt

__all__ = [
    "Auto",
    "DimTag",
    "Nested",
    "Separate",
    "Strided",
    "Vectorized",
    "apart_axes",
    "auto",
    "auto_axes",
    "is_layout",
    "order_tags",
    "packed",
    "parse_dim_tags",
    "part_names",
    "shared_address",
    "strides_of",
    "with_long_vectors",
]


class Auto(Shown):
    """Request to find out a fact: a shape from the accesses, a type by inference, a stride from the array passed."""

    def __repr__(self) -> str:
        return "auto"

    def __reduce__(self) -> str:
        """Return the name of the only one, for copies and pickles."""
        return "auto"


auto: Final = Auto()
"""Find this out: a shape from the footprint of the accesses, a type by inference, a stride from the array passed."""

adapt(Auto, Adapter("Auto", lambda _: None, lambda _: auto))


# {{{ the tags


@quick
@dataclass(frozen=True)
class Nested:
    """``N0``, ``N1``, ..: packed with the other axes of this kind, level 0 the fastest.

    With ``N0(pad=16)`` the next level begins at a multiple of 16 elements.
    """

    level: int
    pad: int = 1

    def __str__(self) -> str:
        return f"N{self.level}" + (f"(pad={self.pad})" if self.pad > 1 else "")


@dataclass(frozen=True)
class Strided:
    """``stride:16``: neighbours along the axis are so far apart [elements]; None (``stride:auto``) asks the array."""

    stride: Expression | None

    def __str__(self) -> str:
        return f"stride:{'auto' if self.stride is None else self.stride}"


@dataclass(frozen=True)
class Separate:
    """``sep``: each index along the axis is an argument of its own, ``a_s0``, ``a_s1``, .."""

    def __str__(self) -> str:
        return "sep"


@dataclass(frozen=True)
class Vectorized:
    """``vec``: the axis, which must be the last, holds the components of a vector type."""

    def __str__(self) -> str:
        return "vec"


DimTag: TypeAlias = Nested | Strided | Separate | Vectorized

_ENTRIES: Final = (str, Nested, Strided, Separate, Vectorized)
_NESTED: Final = re.compile(r"N(\d+)")
_PAD: Final = re.compile(r":?\(pad=(\d+)\)$")


def parse_dim_tags(given: object) -> tuple[DimTag, ...]:
    """Parse the tags of axes, from text such as ``"N1,N0"`` or a list with an entry for each axis.

    ``C`` makes an axis the fastest so far, ``F`` the slowest.

    Raises
    ------
    KernelError
        ``bad-dim-tags``.
    """
    if isinstance(given, str):
        words = [part.text.strip() for part in split_outside_brackets(Source.of(given), ",")]
    elif isinstance(given, Sequence) and all(isinstance(entry, _ENTRIES) for entry in given):
        words = [str(entry) for entry in given]
    else:
        raise _refused(f"dim_tags cannot be {spelt(given)}")
    tags = [_parse_tag(word.strip()) for word in words]
    if any(isinstance(tag, str) for tag in tags):
        if any(isinstance(tag, Nested) for tag in tags):
            raise _refused(f"dim_tags '{','.join(words)}' mix C or F with N0, N1, ..")
        speed: list[int] = []
        for axis, tag in enumerate(tags):
            if isinstance(tag, str):
                speed.insert(0 if tag == "C" else len(speed), axis)
        tags = [Nested(speed.index(axis)) if isinstance(tag, str) else tag for axis, tag in enumerate(tags)]
    found = tuple(tag for tag in tags if not isinstance(tag, str))
    _check_tags(found, ",".join(words))
    return found


def _check_tags(found: Sequence[DimTag], text: str) -> None:
    levels = sorted(tag.level for tag in found if isinstance(tag, Nested))
    if levels != list(range(len(levels))):
        raise _refused(f"dim_tags '{text}' do not number their nesting levels N0, N1, ..")
    for kind in (Separate, Vectorized):
        if sum(isinstance(tag, kind) for tag in found) > 1:
            raise _refused(f"dim_tags '{text}' have more than one axis tagged {kind()}", "tag one of them")
    if any(isinstance(tag, Vectorized) for tag in found[:-1]):
        raise _refused(f"dim_tags '{text}' tag an axis vec that is not the last", "make it the last axis")


def is_layout(tags: Sequence[DimTag]) -> bool:
    """Return whether *tags*, which no text of the user's spells, are ones that it could."""
    try:
        _check_tags(tags, "")
    except KernelError:
        return False
    return all(tag.pad >= 1 for tag in tags if isinstance(tag, Nested))


def apart_axes(tags: tuple[DimTag, ...] | Auto | None) -> tuple[int, ...]:
    """Return the axes that are no distance in memory: separate arguments, and components of vectors."""
    if not isinstance(tags, tuple):
        return ()
    return tuple(axis for axis, tag in enumerate(tags) if isinstance(tag, Separate | Vectorized))


_LONG: Final = (8, 16)
"""Numbers of components for which CUDA and C have no type: their vectors are stored as an axis of their own."""


def with_long_vectors(tags: tuple[DimTag, ...], shape: Sequence[Expression]) -> tuple[DimTag, ...]:
    """Return tags in which a ``vec`` axis of 8 or 16 components is the contiguous axis, at the same addresses.

    ::

        N0,vec of (n, 8)    =>    N1,N0
    """
    if not tags or not isinstance(tags[-1], Vectorized) or shape[-1] not in _LONG or len(tags) != len(shape):
        return tags
    count: Expression = shape[-1]

    def around(tag: DimTag) -> DimTag:
        match tag:
            case Nested(level, pad):
                return Nested(level + 1, pad if pad == 1 else pad * count)
            case Strided(stride) if stride is not None:
                return Strided(stride * count if isinstance(stride, int) else p.Product((stride, count)))
        return tag

    return (*map(around, tags[:-1]), Nested(0))


def part_names(name: str, tags: Sequence[DimTag], shape: Sequence[Expression]) -> tuple[str, ...]:
    """Return the names of the C arguments that hold an array: several if an axis is stored separately."""
    for tag, extent in zip(tags, shape, strict=True):
        if isinstance(tag, Separate):
            assert isinstance(extent, int), f"'{name}' is not a constant number of arrays"
            return tuple(f"{name}_s{number}" for number in range(extent))
    return (name,)


def _parse_tag(word: str) -> DimTag | str:
    if word.upper() in {"C", "F"}:
        return word.upper()
    if word == "sep":
        return Separate()
    if word.startswith("stride:"):
        stride = word.removeprefix("stride:").strip()
        return Strided(None if stride == "auto" else parse_expression(stride))
    if word == "vec":
        return Vectorized()
    padded = _PAD.search(word)
    nested = _NESTED.fullmatch(word[: padded.start()] if padded else word)
    if nested is None or (padded is not None and int(padded[1]) < 1):
        raise _refused(f"there is no dim_tag '{word}'")
    return Nested(int(nested[1]), int(padded[1]) if padded else 1)


_HINT: Final = "an axis is N0, N1, .. (N0 is the fastest), stride:16, stride:auto, C, F, sep or vec"


def _refused(message: str, hint: str = _HINT) -> KernelError:
    return KernelError("make_kernel", None, [Diagnostic("bad-dim-tags", message, hints=(hint,))])


def order_tags(rank: int, order: str) -> tuple[DimTag, ...]:
    """Return the tags of a packed array with *rank* axes, in order ``"C"`` or ``"F"``."""
    return tuple(Nested(rank - 1 - axis if order == "C" else axis) for axis in range(rank))


# }}}
# {{{ strides


def strides_of(shape: Sequence[Expression], tags: Sequence[DimTag], names: Sequence[str]) -> tuple[Expression, ...]:
    """Return the strides [elements] of an array.

    Parameters
    ----------
    shape
        Extents [elements].
    tags
        How each axis is stored; separate arguments and components of vectors have stride 0.
    names
        For each axis the argument that holds its stride, if that is left to the array passed.
    """
    strides: list[Expression] = [0] * len(shape)
    step: Expression = 1
    for axis in sorted(range(len(tags)), key=lambda axis: _level(tags[axis])):
        match tags[axis]:
            case Nested(_, pad):
                strides[axis] = step
                step = _rounded(_times(step, shape[axis]), pad)
            case Separate() | Vectorized():
                strides[axis] = 0
            case Strided(stride):
                strides[axis] = p.Variable(names[axis]) if stride is None else stride
    return tuple(strides)


def _level(tag: DimTag) -> int:
    return tag.level if isinstance(tag, Nested) else 0


def _times(step: Expression, extent: Expression) -> Expression:
    if isinstance(step, int) and isinstance(extent, int):
        return step * extent
    if isinstance(step, int) and step == 1:
        return extent
    return p.Product((*(step.children if isinstance(step, p.Product) else (step,)), extent))


def _rounded(size: Expression, pad: int) -> Expression:
    """Return *size*, rounded up to a multiple of *pad*."""
    if pad == 1:
        return size
    if isinstance(size, int):
        return -(-size // pad) * pad
    return p.Product((pad, p.FloorDiv(p.Sum((size, pad - 1)), pad)))


def packed(shape: Sequence[Expression], order: str = "C") -> tuple[Expression, ...]:
    """Return the strides [elements] of a packed array of *shape*."""
    return strides_of(shape, order_tags(len(shape), order), ())


def auto_axes(tags: Sequence[DimTag]) -> tuple[int, ...]:
    """Return the axes with ``stride:auto``, whose stride comes from the array passed."""
    return tuple(axis for axis, tag in enumerate(tags) if tag == Strided(None))


# }}}
# {{{ injectivity

_MOST_ELEMENTS: Final = 1 << 16


def shared_address(
    shape: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | bool:
    """Return two subscripts with one address, False if there are none, True if there may be.

    Sorted by stride, an axis that steps over everything that the faster ones span shares no address; where that does
    not hold, the addresses are compared, unless there are too many.
    """
    if min(shape, default=1) <= 0:
        return False
    axes = sorted((abs(stride), extent) for extent, stride in zip(shape, strides, strict=True) if extent > 1)
    reach, elements = 0, 1
    clear = True
    for stride, extent in axes:
        clear = clear and stride > reach
        reach += stride * (extent - 1)
        elements *= extent
    if clear:
        return False
    if elements > _MOST_ELEMENTS:
        return _shared_along(shape, strides) or True
    seen: dict[int, tuple[int, ...]] = {}
    for subscript in product(*map(range, shape)):
        address = sum(index * stride for index, stride in zip(subscript, strides, strict=True))
        if address in seen:
            return seen[address], subscript
        seen[address] = subscript
    return False


def _shared_along(shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return two subscripts with one address for an axis with stride 0, None if there is no such axis."""
    origin = (0,) * len(shape)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if extent > 1 and stride == 0:
            return origin, tuple(int(k == axis) for k in range(len(shape)))
    return None


# }}}
