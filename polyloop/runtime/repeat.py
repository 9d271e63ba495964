"""Calls that were checked before: found again by everything that the checks looked at, launched as they were packed.

A call from Python that is checked afresh costs more than most small kernels run for.  What the checks and the packing
of arguments depend on is of each array its library, type, shape, strides and address, and of each number its type and
its bits.  For each combination of the former (a *signature*) a function is compiled that compares just these, and looks
up by the addresses and numbers what is to be launched.  No array is kept alive; an address that another array of the
same layout has taken over is as good as before.
"""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from polyloop.runtime.arguments import Result

__all__ = ["MOST_REPEATS", "MOST_SIGNATURES", "PackedCall", "Repeats"]

MOST_REPEATS: Final = 1024
"""Calls that one signature of a kernel remembers."""
MOST_SIGNATURES: Final = 32
"""Signatures that one kernel remembers."""

Launch: TypeAlias = Callable[[int | None], bool]
"""Called with the handle of a stream, None for the one that the arrays' library is using; False: nothing was launched,
because another context is current."""


class PackedCall:
    """All launches of a call with their arguments packed.

    Attributes
    ----------
    run
        Launches everything, as one launch.
    """

    __slots__ = ("run",)

    def __init__(self, launches: Sequence[Launch], stream: Callable[[], int] | None = None) -> None:
        self.run: Final = launches[0] if len(launches) == 1 else _in_order(tuple(launches), stream)


def _in_order(launches: tuple[Launch, ...], current: Callable[[], int] | None) -> Launch:
    def run(stream: int | None) -> bool:
        handle = current() if stream is None and current is not None else stream
        for number, launch in enumerate(launches):
            if not launch(handle):
                assert number == 0, "the context changed between two launches of one call"
                return False
        return True

    return run


@dataclass(frozen=True)
class _Probe:
    """What the checks depend on of one kind of argument, as Python expressions of ``{v}``.

    Attributes
    ----------
    layout
        Expressions that have the value that they had when the call was checked.
    key
        The rest: an address, or the bits of a number.
    needed
        What else has to be true; a value of which it is not has no key.
    """

    key: str
    layout: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()


_DTYPE_AND_SHAPE: Final = ("{v}.dtype", "{v}.shape")
_NUMBERS: Final[Mapping[type, _Probe]] = {
    int: _Probe("{v}"),
    bool: _Probe("{v}"),
    float: _Probe("pack('d', {v})"),  # -0.0 equals 0.0, and has other bits
    complex: _Probe("pack('dd', {v}.real, {v}.imag)"),
}


def _probe(value: Any) -> _Probe | None:
    """Return what there is to know of *value*, and of others of its type; None where too little is known."""
    kind = type(value)
    if issubclass(kind, np.generic) and not issubclass(kind, np.void):
        return _Probe("{v}.tobytes()")
    match kind.__module__.partition(".")[0], kind.__qualname__:
        case "numpy", "ndarray":
            # the address, and whether it is read-only; one without axes may be passed as a number
            return _Probe("{v}.__array_interface__['data']", (*_DTYPE_AND_SHAPE, "{v}.strides"), ("{v}.shape",))
        case "torch", ("Tensor" | "Parameter"):
            return _torch_probe(value)
        case "cupy", "ndarray":
            rows = _in_rows(value.shape) and getattr(value, "_c_contiguous", False)
            strides = "{v}._c_contiguous" if rows else "{v}.strides"
            return _Probe("{v}.data.ptr", (*_DTYPE_AND_SHAPE, strides))
        case "pycuda", "GPUArray":
            return _Probe("int({v}.gpudata)", (*_DTYPE_AND_SHAPE, "{v}.strides"), ("{v}.gpudata is not None",))
    return _NUMBERS.get(kind)


def _torch_probe(tensor: Any) -> _Probe:
    strides = "{v}.is_contiguous()" if _in_rows(tensor.shape) and tensor.is_contiguous() else "{v}.stride()"
    # not the views whose memory holds other values than they have; only complex numbers have conjugates
    true = ("not {v}.is_neg()", "not {v}.is_conj()") if tensor.dtype.is_complex else ("not {v}.is_neg()",)
    return _Probe("{v}.data_ptr()", (*_DTYPE_AND_SHAPE, strides), true)


def _in_rows(shape: Sequence[int]) -> bool:
    """Return whether an array of *shape* without gaps can have no strides but those of rows; that takes less to see."""
    return min(shape, default=2) > 1


Find: TypeAlias = Callable[[Mapping[str, Any], int | None], Result | None]
Keep: TypeAlias = Callable[[Mapping[str, Any], PackedCall], bool]


def _finds_nothing(_: Mapping[str, Any], __: int | None) -> None:
    return None


class Repeats:
    """The calls of one kernel that were checked before.

    Attributes
    ----------
    latest
        Like :meth:`again`, and looks only at the signature that was met last.
    """

    __slots__ = ("_outputs", "_signatures", "latest")

    def __init__(self, outputs: Sequence[str]) -> None:
        self._outputs = tuple(outputs)
        self._signatures: tuple[tuple[Find, Keep], ...] = ()
        self.latest: Find = _finds_nothing

    def again(self, arguments: Mapping[str, Any], stream: int | None) -> Result | None:
        """Launch the call with *arguments* if it was checked before; None where it was not, or cannot be launched."""
        for signature in self._signatures:
            found = signature[0](arguments, stream)
            if found is not None:
                self.latest = signature[0]
                return found
        return None

    def remember(self, arguments: Mapping[str, Any], packed: PackedCall) -> None:
        """Keep *packed* for later calls with *arguments*, if these can be told from others."""
        if any(keep(arguments, packed) for _, keep in self._signatures):
            return
        made = _compiled(arguments, self._outputs)
        if made is not None and made[1](arguments, packed):
            known = self._signatures if len(self._signatures) < MOST_SIGNATURES else ()
            self._signatures = (made, *known)
            self.latest = made[0]


def _compiled(
    arguments: Mapping[str, Any], outputs: Sequence[str]
) -> tuple[Find, Keep] | None:
    """Return functions that find and keep calls with the signature of *arguments*; None where there is no key."""
    names = list(arguments)
    space: dict[str, Any] = {"pack": struct.pack, "Result": Result, "calls": {}, "MOST_REPEATS": MOST_REPEATS}
    taken, conditions, keys = [], [f"len(given) == {len(names)}"], []
    for number, (name, value) in enumerate(arguments.items()):
        probe = _probe(value)
        if probe is None:
            return None
        variable = f"v{number}"
        space[f"kind{number}"], space[variable] = type(value), value
        taken.append(f"{variable} = given[{name!r}]")
        conditions.append(f"type({variable}) is kind{number}")
        for place, expression in enumerate(probe.layout):
            text = expression.format(v=variable)
            constant = f"c{number}_{place}"
            space[constant] = eval(text, space)  # an expression of this module
            same = f"{text} is {constant} or " if place == 0 else ""  # types are compared slowly
            conditions.append(f"({same}{text} == {constant})")
        conditions += [text.format(v=variable) for text in probe.needed]
        keys.append(probe.key.format(v=variable))
        del space[variable]
    shown = ", ".join(f"{name!r}: v{names.index(name)}" for name in outputs if name in names)
    source = _TEMPLATE.format(
        taken="; ".join(taken) or "pass", conditions=" and ".join(conditions), key="".join(f"{key}, " for key in keys),
        shown=shown,
    )  # fmt: skip
    exec(source, space)  # as a dataclass does
    return space["find"], space["keep"]


_TEMPLATE: Final = """
def find(given, stream):
    try:
        {taken}
    except KeyError:
        return None
    if {conditions}:
        known = calls.get(({key}))
        if known is not None and known(stream):
            return Result({{{shown}}})
    return None

def keep(given, packed):
    try:
        {taken}
    except KeyError:
        return False
    if {conditions}:
        if len(calls) >= MOST_REPEATS:
            calls.clear()
        calls[{key}] = packed.run
        return True
    return False
"""
