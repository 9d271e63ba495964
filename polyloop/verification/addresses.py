"""Address maps of layouts: elements have distinct addresses, and vector accesses are contiguous and aligned.

Transforms choose layouts, and code generation chooses vector accesses; each has its own argument for its choice.
Neither argument is trusted here: addresses are computed from strides and swizzles, and compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod

import numpy as np
import numpy.typing as npt

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression
from polyloop.kernel.layout import shared_address
from polyloop.kernel.swizzle import Swizzle
from polyloop.mapping.contiguity import Lanes, in_one_piece, known_factor
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.residues import Divisibility
from polyloop.proof.obligation import Claim, Obligation

__all__ = ["AddressMap", "WideAccess", "address_obligations", "wide_obligations"]

Addresses = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AddressMap:
    """Addresses of the elements of an array.

    Attributes
    ----------
    shape, strides
        Extents, and strides of the axes [elements].
    size
        Number of allocated elements, from address 0 on.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size: int
    swizzle: Swizzle | None = None

    def addresses(self) -> Addresses:
        """Return the address of each element, in C order of the subscripts [elements]."""
        found = np.zeros((), np.int64)
        for extent, stride in zip(self.shape, self.strides, strict=True):
            found = found[..., None] + stride * np.arange(extent, dtype=np.int64)
        return _moved(self.swizzle, found.ravel())

    def element(self, number: int) -> str:
        """Return the name of an element, by its place in C order."""
        return f"{self.name}[{', '.join(str(index) for index in np.unravel_index(number, self.shape))}]"


@dataclass(frozen=True)
class WideAccess:
    """A vector access: one load or store of the elements of several lanes.

    Attributes
    ----------
    text
        The access of one lane, for messages.
    forms, strides, offset
        Subscripts, strides of the axes, and offset of the array's first element [elements].
    multiple
        Required alignment of the address [elements].
    size
        Number of elements of a swizzled array.
    """

    instruction: str
    text: str
    forms: tuple[Affine, ...]
    strides: tuple[Expression, ...]
    offset: Expression
    lanes: Lanes
    multiple: int
    swizzle: Swizzle | None = None
    size: int = 0


def _moved(swizzle: Swizzle | None, addresses: Addresses) -> Addresses:
    """Return *addresses* after the swizzle."""
    if swizzle is None:
        return addresses
    return addresses ^ ((addresses >> swizzle.shift) & (((1 << swizzle.bits) - 1) << swizzle.base))


# {{{ distinct addresses


def address_obligations(maps: Iterable[AddressMap]) -> Iterator[Obligation]:
    """Yield the obligation that elements have distinct addresses inside of their arrays; none without own layouts."""
    listed = tuple(maps)
    if listed:
        says = "each element of an array has an address of its own, inside of the array"
        by = f"strides and swizzles of {', '.join(entry.name for entry in listed)}"
        yield Obligation(Claim.LAYOUT, "addresses", says, by, partial(_meetings, listed), listed)


def _meetings(maps: Iterable[AddressMap]) -> Iterator[Diagnostic]:
    for layout in maps:
        if prod(layout.shape):
            yield from _turned(layout) if layout.swizzle is not None else _linear(layout)


def _linear(layout: AddressMap) -> Iterator[Diagnostic]:
    """Yield diagnostics for a layout without a swizzle: elements that share an address or lie outside of the array."""
    if shared := shared_address(layout.shape, layout.strides):
        names = [f"{layout.name}[{', '.join(map(str, at))}]" for at in shared] if isinstance(shared, tuple) else []
        yield _shared(layout, names)
    ends = [(extent - 1) * stride for extent, stride in zip(layout.shape, layout.strides, strict=True)]
    low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
    if low < 0 or high >= layout.size:
        yield _leaving(layout, low if low < 0 else high)


def _turned(layout: AddressMap) -> Iterator[Diagnostic]:
    """Yield the diagnostics of :func:`_linear` for a layout with a swizzle, by computing every address."""
    addresses = layout.addresses()
    beyond = addresses[(addresses < 0) | (addresses >= layout.size)]
    if beyond.size:
        yield _leaving(layout, int(beyond[0]))
        return
    (same,) = np.nonzero(addresses == np.bincount(addresses).argmax())
    if same.size > 1:
        yield _shared(layout, [layout.element(int(number)) for number in same[:2]])


def _shared(layout: AddressMap, names: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "overlapping-elements",
        f"two elements of '{layout.name}' {'' if names else 'may '}have one address",
        (*([f"{' and '.join(names)} do"] if names else []), _described(layout)),
        ("lay the array out otherwise (pl.tag_array_axes)",),
    )


def _leaving(layout: AddressMap, address: int) -> Diagnostic:
    message = f"an element of '{layout.name}' lies at address {address}, and the array has {layout.size} elements"
    hint = "lay the array out otherwise (pl.tag_array_axes)"
    return Diagnostic("overlapping-elements", message, (_described(layout),), (hint,))


def _described(layout: AddressMap) -> str:
    swizzled = "" if layout.swizzle is None else f", and it has a {layout.swizzle}"
    return f"its shape is {layout.shape}, its strides are {layout.strides} elements{swizzled}"


# }}}
# {{{ vector accesses


def wide_obligations(accesses: Iterable[WideAccess], divisibility: Divisibility) -> Iterator[Obligation]:
    """Yield the obligation that vector accesses are contiguous and aligned; none without vector accesses."""
    listed = tuple(dict.fromkeys(accesses))
    if listed:
        says = "the elements of a vector access are neighbours in memory, and its address is aligned to its size"
        by = f"addresses of each lane in {len(listed)} access{'es' if len(listed) > 1 else ''}"
        yield Obligation(Claim.LAYOUT, "wide accesses", says, by, partial(_torn, listed, divisibility), listed)


def _torn(accesses: Iterable[WideAccess], divisibility: Divisibility) -> Iterator[Diagnostic]:
    for access in accesses:
        if reason := _why_torn(access, divisibility):
            yield Diagnostic(
                "torn-access",
                f"'{access.text}' in '{access.instruction}' is no vector access of {access.lanes.count} neighbours",
                (reason,),
                ("leave the lanes apart (no vec), or lay the array out otherwise",),
            )


def _why_torn(access: WideAccess, divisibility: Divisibility) -> str:
    """Return the reason why a vector access is not contiguous or not aligned, empty if it is both."""
    lanes = [
        [form.substitute({access.lanes.iname: Affine((), access.lanes.low + k)}) for form in access.forms]
        for k in range(access.lanes.count)
    ]
    for number, forms in enumerate(lanes):
        distance = _distance(lanes[0], forms, access.strides)
        if distance != number:
            shown = "a distance that is no number" if distance is None else f"{distance} elements"
            return f"lane {number} lies {shown} behind lane 0"
    step, first = _multiples(lanes[0], access, divisibility)
    if step % access.multiple or first % access.multiple:
        known = gcd(step, first)
        return f"lane 0 is aligned to a multiple of {known}, and a multiple of {access.multiple} is needed"
    return "" if access.swizzle is None else _scattered(access, access.swizzle, step, first)


def _distance(first: Sequence[Affine], other: Sequence[Affine], strides: Sequence[Expression]) -> int | None:
    """Return the distance between the elements of two lanes [elements], None if it is not constant."""
    total = Affine((), 0)
    for a, b, stride in zip(first, other, strides, strict=True):
        step = b.add(a, -1)
        if isinstance(stride, int):
            total = total.add(step, stride)
        elif step.terms or step.const:
            return None
    return None if total.terms else total.const


def _multiples(forms: Sequence[Affine], access: WideAccess, divisibility: Divisibility) -> tuple[int, int]:
    """Return ``(m, r)``: the address of these subscripts is r modulo m, or equal to r if m is 0."""
    step, first = 0, 0
    parts: list[tuple[Expression, Expression]] = [(access.offset, 1)]
    for form, stride in zip(*in_one_piece(forms, access.strides), strict=True):
        assert form is not None, "all of them are known"
        parts.append((form.const, stride))
        parts += ((to_expression(Affine(((var, coefficient),), 0)), stride) for var, coefficient in form.terms)
    for value, stride in parts:
        if isinstance(value, int) and isinstance(stride, int):
            first += value * stride
        else:
            step = gcd(step, known_factor(value, divisibility) * known_factor(stride, divisibility))
    return step, first


def _scattered(access: WideAccess, swizzle: Swizzle, step: int, first: int) -> str:
    """Return the first neighbours, as text, that a swizzle separates wherever an access can begin; empty if none."""
    begins = np.arange(first % step, access.size, step, dtype=np.int64) if step else np.array([first], np.int64)
    own = _moved(swizzle, begins)
    for number in range(access.lanes.count):
        (apart,) = np.nonzero(_moved(swizzle, begins + number) != own + number)
        if apart.size:
            at = int(begins[apart[0]])
            where = swizzle.moved(at), swizzle.moved(at + number)
            return f"the {swizzle} moves elements {at} and {at + number} of the array to {where[0]} and {where[1]}"
    return ""


# }}}
