"""Language tables of C-like targets, with the entries of their device functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from polyloop.codegen.device.entries import Entry, Threads, lacking
from polyloop.errors import CodegenError
from polyloop.kernel.limits import DeviceLimits

__all__ = ["AXIS_NAMES", "Definition", "Language"]

_E = TypeVar("_E", bound=Entry)

AXIS_NAMES: Final[Mapping[str, str]] = {
    "g.0": "bx", "g.1": "by", "g.2": "bz", "l.0": "tx", "l.1": "ty", "l.2": "tz",
}  # fmt: skip
"""Names of hardware axes in generated code, unless the user has taken the name."""


@dataclass(frozen=True)
class Definition:
    """Source text that defines a name, and the names that must be defined before."""

    text: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Language:
    """Tables for one language of the C family.

    Attributes
    ----------
    name
        ``GeneratedProgram.target``.
    types
        C type of each NumPy type that is supported, by the NumPy name.
    index_types
        C type of index arithmetic, by its width [bits].
    header
        Text at the top of the file.
    function, restrict
        Qualifiers and result type of a function, and the qualifier of an array argument, as ``__restrict__``.
    launch_bounds
        Format of the launch bounds with a field ``{threads}``, or an empty string.
    helper
        Qualifiers of a helper function, ahead of the result type.
    unroll, unroll_hint, unroll_by
        Pragmas; the first and the last have a field ``{count}``.
    infinity, not_a_number
        Positive infinity and a quiet NaN, by NumPy name of the type.
    functions
        Spelling of each function of expressions, by ``(name, NumPy name of the argument type)``: a name, or a format
        with a field for each argument.  Besides those of expressions: ``complex`` (of two parts), ``convert`` (between
        complex types), ``widen``, ``narrow`` and ``narrow_double`` (16-bit floating-point numbers from and to float).
    fast_functions
        The same, for statements that prefer speed to accuracy.
    definitions
        Definition of each type and function that is not built in: of a type, by its C name, and of a function, by
        ``"name type"``, as in ``functions``.
    operators
        Key in ``definitions`` of an operator, by ``(symbol, left type, right type)``; the left type of a unary operator
        is empty.  Without any, complex arithmetic is built in.
    extremes
        Name of ``min`` and ``max`` of integers, by ``(name, type)``; missing ones become helper functions.
    results
        Statement that computes a function with several results at once, by ``(name, type)``: a format of the argument
        and of the variable for each result.  Without one, each result is computed by the function of its name.
    constant, large_constant
        Storage class of a constant table at file scope, as long as the tables have at most ``constant_bytes``
        together, and beyond that.
    constant_bits
        Infinity or NaN in such a table: a format of the C type and the bits, as an integer.  Without one, they are
        spelled as in expressions.
    limits
        Limits of the device; None for a host.
    device
        Entries of device functions (:mod:`polyloop.codegen.device.entries`); without :class:`Threads`, axes are loops.
    """

    name: str
    types: Mapping[str, str]
    index_types: Mapping[int, str]
    header: str
    function: str
    restrict: str
    launch_bounds: str
    helper: str
    unroll: str
    unroll_hint: str
    unroll_by: str
    infinity: Mapping[str, str]
    not_a_number: Mapping[str, str]
    functions: Mapping[tuple[str, str], str]
    extremes: Mapping[tuple[str, str], str]
    constant: str = "static const "
    large_constant: str = "static const "
    constant_bytes: int = 0
    fast_functions: Mapping[tuple[str, str], str] = field(default_factory=dict)
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    operators: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    constant_bits: str = ""
    limits: DeviceLimits | None = None
    has_vectors: bool = False
    """True if there are types such as ``float4``, with ``make_float4``, and operators can be defined for them."""
    has_overloads: bool = False
    """True if functions can be overloaded on the types of their arguments."""
    aligned: str = ""
    """Alignment specifier of a variable or a structure, with a field ``{bytes}``; empty if there is none."""
    static_assert: str = "_Static_assert"
    device: tuple[Entry, ...] = ()
    results: Mapping[tuple[str, str], str] = field(default_factory=dict)
    full_blocks: bool = True
    """True if full blocks get code of their own, without tests."""
    load_once: str = ""
    """Function of a streaming load through a pointer, for numbers of 4 and 8 bytes and vectors of these."""

    @cached_property
    def _entries(self) -> dict[type[Entry], Entry]:
        """Entries of device functions by their class."""
        return {type(entry): entry for entry in self.device}

    @property
    def warp_size(self) -> int:
        """Threads of a warp."""
        assert self.limits is not None, f"target '{self.name}' has no threads"
        return self.limits.warp_size

    @property
    def has_axes(self) -> bool:
        """True if axes are blocks and threads of a device, False if they become loops."""
        return Threads in self._entries

    def find(self, kind: type[_E]) -> _E | None:
        """Return the device functions of a *kind*, None if the language has none."""
        found = self._entries.get(kind)
        assert found is None or isinstance(found, kind), f"an entry {kind.__name__} is one"
        return found

    def need(self, kind: type[_E]) -> _E:
        """Return the device functions of a *kind*.

        Raises
        ------
        CodegenError
            ``unsupported-device-function``, where there are none.
        """
        found = self.find(kind)
        if found is None:
            raise CodegenError("generate_code", None, [lacking(self.name, kind)])
        return found
