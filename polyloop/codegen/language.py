"""Language tables of C-like targets, with the entries of their device functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeVar

from polyloop.codegen.device.entries import Entry, Threads, lacking
from polyloop.codegen.tree.team import Team
from polyloop.errors import CodegenError
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.limits import DeviceLimits

__all__ = ["AXIS_NAMES", "Constants", "Definition", "Functions", "Language", "LoopStyle", "Syntax", "Vectors"]

_E = TypeVar("_E", bound=Entry)

AXIS_NAMES: Final[Mapping[str, str]] = {
    "g.0": "bx", "g.1": "by", "g.2": "bz", "c.0": "rank", "l.0": "tx", "l.1": "ty", "l.2": "tz",
}  # fmt: skip
"""Names of hardware axes in generated code, unless the user has taken the name."""


@dataclass(frozen=True)
class Definition:
    """Source text that defines a name, and the names that must be defined before."""

    text: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Syntax:
    """Words around the declarations of a file, its functions and its variables.

    Attributes
    ----------
    header
        Text at the top of the file.
    function
        Qualifiers and result type of a function.
    helper
        Qualifiers of a helper function, ahead of the result type.
    restrict
        Qualifier of an array argument, as ``__restrict__``.
    launch_bounds
        Format of the launch bounds with the fields ``{threads}``, and ``{x}``, ``{y}``, ``{z}`` for the extents of a
        block, or an empty string.
    aligned
        Alignment specifier of a variable or a structure, with a field ``{bytes}``; empty if there is none.
    static_assert
        Keyword of an assertion that the compiler checks.
    long
        Suffix of a literal of 64 bits.
    passed
        C type of a parameter that is passed by value, by NumPy name, where it is not that of a variable.
    words
        Lists in ``polyloop/data`` of reserved words: words that cannot name a variable, and names that cannot be
        declared at file scope.
    """

    header: str
    function: str
    helper: str
    restrict: str
    launch_bounds: str = ""
    aligned: str = ""
    static_assert: str = "_Static_assert"
    long: str = "ll"
    passed: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class Functions:
    """Functions of expressions and operators, by ``(name, NumPy name of the argument type)``.

    Attributes
    ----------
    spellings
        Name of each function, or a format with a field for each argument.  Besides functions of expressions:
        ``complex`` (of two parts), ``convert`` (between complex types), ``widen``, ``narrow`` and ``narrow_double``
        (16-bit floating-point numbers from and to float), and ``bits`` of them, where the type is a class of its own.
    fast
        The same, for statements that prefer speed to accuracy.
    extremes
        Name of ``min`` and ``max`` of integers; missing ones become helper functions.
    results
        Statement that computes a function with several results at once: a format of the argument and of the variable
        for each result.  Without one, each result is computed by the function of its name.
    operators
        Name of the definition of an operator, by ``(symbol, left type, right type)``; the left type of a unary operator
        is empty.  Without any, complex arithmetic is built in.
    has_overloads
        True if functions can be overloaded on the types of their arguments.
    """

    spellings: Mapping[tuple[str, str], str]
    fast: Mapping[tuple[str, str], str] = field(default_factory=dict)
    extremes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    results: Mapping[tuple[str, str], str] = field(default_factory=dict)
    operators: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    has_overloads: bool = False


@dataclass(frozen=True)
class LoopStyle:
    """Pragmas of loops, and code of full blocks.

    Attributes
    ----------
    unroll
        Pragma that unrolls a loop of ``{count}`` iterations.
    unroll_hint
        Pragma that leaves the factor to the compiler.
    unroll_by
        Pragma that unrolls by a factor ``{count}``.
    full_blocks
        True if full blocks have code of their own, without tests.
    lanes
        Pragma of a loop that a vector unit executes; empty if the compiler finds such loops by itself.
    called
        Functions of C that a vector unit has no instruction for: they are called for each lane.
    blocks
        Pragma by which the threads of a processor share the iterations of a loop over blocks; empty if one executes
        them all.
    team
        Directives by which one team of threads executes several such loops; None if each has a team of its own.
    line
        Directive that names the ``{line}`` and ``{file}`` of the user's of the text that follows; empty if none is
        wanted.
    """

    unroll: str
    unroll_hint: str
    unroll_by: str
    full_blocks: bool = True
    lanes: str = ""
    called: frozenset[str] = frozenset()
    blocks: str = ""
    team: Team | None = None
    line: str = ""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Built-in vector types, such as ``float4``.

    Attributes
    ----------
    names
        C type of each vector type, by its name in the package; others are structures.
    make
        What stands ahead of the components in brackets; the field is the type.
    nothing, empty
        Formats of a vector of zeros, and of a structure of zeros; the field is the type.
    structure
        Format of the declaration of a structure with the ``name`` and the ``body``; ``aligned`` is an alignment
        specifier.
    packed
        Format of the name of a structure in place of a built-in type.
    has_operators
        True if arithmetic is built in, False if operators have to be defined.
    most_aligned
        Limit on the alignment of a vector, which is its size if that is smaller [bytes].
    """

    names: Mapping[str, str]
    make: str
    nothing: str
    empty: str
    structure: str
    packed: str = "{name}"
    has_operators: bool = False
    most_aligned: int = 16


@dataclass(frozen=True, eq=False)
class Constants:
    """Numbers that have no literal, and constant tables at file scope.

    Attributes
    ----------
    infinity, not_a_number
        Positive infinity and a quiet NaN, by NumPy name of the type.
    table, large_table
        Storage class of a table, as long as the tables have at most ``table_bytes`` together, and beyond that.
    table_bits
        Infinity or NaN in a table: a format of the C ``{type}`` and the ``{bits}``, as an integer.  Without one, they
        are spelled as in expressions.
    clearing
        Statement that sets the elements of an array to zero: a format of the ``{first}`` element and their ``{count}``.
        Without one, an initializer without values does.
    table_infinity, table_nan
        Infinity and NaN in a table, by NumPy name of the type, where the spelling in expressions is no constant.
    """

    infinity: Mapping[str, str]
    not_a_number: Mapping[str, str]
    table: str = "static const "
    large_table: str = "static const "
    table_bytes: int = 0
    table_bits: str = ""
    clearing: str = ""
    table_infinity: Mapping[str, str] = field(default_factory=dict)
    table_nan: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Language:
    """Tables for one language of the C family.

    Attributes
    ----------
    name
        ``GeneratedProgram.target``.
    types
        C type of each NumPy type that is supported, by the NumPy name; those of index arithmetic are int32 and int64.
    definitions
        Definition of each type and function that is not built in: of a type, by its C name, and of a function, by
        ``"name type"``, as in ``functions``.
    vectors
        Built-in vector types; None if there are none.
    limits
        Limits of the device; None for a host.
    device
        Entries of device functions (:mod:`polyloop.codegen.device.entries`); without :class:`Threads`, axes are loops.
    """

    name: str
    types: Mapping[str, str]
    syntax: Syntax
    functions: Functions
    loops: LoopStyle
    constants: Constants
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    vectors: Vectors | None = None
    limits: DeviceLimits | None = None
    device: tuple[Entry, ...] = ()

    def index_type(self, bits: int) -> str:
        """Return the type of index arithmetic of a width [bits]."""
        return self.types[f"int{bits}"]

    @cached_property
    def _entries(self) -> dict[type[Entry], Entry]:
        """Entries of device functions by their class."""
        return {type(entry): entry for entry in self.device}

    def space_of(self, space: AddressSpace) -> str:
        """Return the qualifier of what a pointer into memory of an address space points to, empty if it has none."""
        threads = self.find(Threads)
        if threads is None or space is AddressSpace.PRIVATE:
            return ""
        return threads.global_space if space is AddressSpace.GLOBAL else threads.shared_space

    @cached_property
    def with_shared_barriers(self) -> Language:
        """The language for programs whose threads exchange values through shared memory alone."""
        threads = self.find(Threads)
        if threads is None or not threads.shared_barrier:
            return self
        own = replace(threads, block_barrier=threads.shared_barrier)
        return replace(self, device=tuple(own if entry is threads else entry for entry in self.device))

    @property
    def warp_size(self) -> int:
        """Threads of a warp."""
        assert self.limits is not None, f"target '{self.name}' has no threads"
        return self.limits.warp_size

    @property
    def has_axes(self) -> bool:
        """True if axes are blocks and threads of a device, False if they become loops."""
        return Threads in self._entries

    @property
    def is_parallel(self) -> bool:
        """True if blocks are executed at the same time."""
        return self.has_axes or bool(self.loops.blocks)

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
