"""State of code generation: definitions and findings of a program, and names, types and storage of one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from polyloop.codegen.definitions import guarded, guarded_by_content
from polyloop.codegen.expressions.magnitude import Magnitudes
from polyloop.codegen.helpers import FLOAT_FUNCTIONS, helper_source
from polyloop.codegen.language import Language, Vectors
from polyloop.codegen.names import Names, Spelling
from polyloop.codegen.program import SplitArray
from polyloop.codegen.structs import struct_source
from polyloop.codegen.tree.c_expr import Apply, Cast, Code, Name, element, integer, integer_of, value_of
from polyloop.codegen.tree.indices import Indices
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.dtypes import as_real, is_complex
from polyloop.expr.foreign import ForeignFunction
from polyloop.expr.records import is_record, is_vector, record_name
from polyloop.expr.typing import TypeOf
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.poly.residues import Divisibility
from polyloop.schedule.storage import Storage
from polyloop.verification.addresses import WideAccess

__all__ = ["Chain", "Definitions", "Findings", "Memory", "NameTypes", "Scope"]

_INDEX_DTYPES: Final[Mapping[int, np.dtype[np.generic]]] = {32: np.dtype("int32"), 64: np.dtype("int64")}


@dataclass(eq=False)
class Definitions:
    """Definitions at file scope, which are added as functions need them.

    Attributes
    ----------
    kernel
        Name of the program.
    spelling_of
        The renaming of fields and definitions.
    users
        Names of variables in any function.
    kept_records
        Records that keep the user's names in the text.
    records, structs
        C names of the records, and their declarations.
    helper_names, helpers
        Names of helper functions, and their source, by a key that describes the function.
    foreign_functions
        Foreign functions that the text calls, by C name, and by argument types if functions can be overloaded.
    """

    kernel: str
    spelling_of: Spelling
    users: frozenset[str] = frozenset()
    kept_records: frozenset[str] = frozenset()
    records: dict[np.dtype[np.generic], str] = field(default_factory=dict)
    structs: dict[str, str] = field(default_factory=dict)
    helper_names: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    foreign_functions: dict[tuple[str, tuple[np.dtype[np.generic], ...]], ForeignFunction] = field(default_factory=dict)


@dataclass(eq=False)
class Findings:
    """Conditions and notes that follow from the generated text.

    Attributes
    ----------
    magnitudes
        Bounds of values in index arithmetic.
    aligned
        Required alignment of arrays, if it is more than that of an element [bytes].
    notes
        Notes on accesses that are slower than the kernel asks for, by instruction and text.
    wide
        Vector accesses, to be proven.
    """

    magnitudes: Magnitudes
    aligned: dict[str, int] = field(default_factory=dict)
    notes: dict[tuple[str, str], Diagnostic] = field(default_factory=dict)
    wide: list[WideAccess] = field(default_factory=list)

    @classmethod
    def of(cls, divisibility: Divisibility, natural: Sequence[str]) -> Findings:
        """Return the findings before the first function, with parameters that are known not to be negative."""
        return cls(Magnitudes(divisibility, natural))


@dataclass(frozen=True, eq=False)
class Memory:
    """Arrays and temporaries of a function, and the C variables in which they are.

    Attributes
    ----------
    arrays, storage
        Array arguments, and temporaries.
    split
        Array arguments that are passed in parts.
    pools
        C name of the storage that a temporary shares with others.
    table_names
        C names of constant tables.
    expanded
        Private storage that the C target keeps once per thread, with the thread axes, outermost first.
    bounds
        Bound variables: scalar temporaries in conditions and bounds of loops.
    """

    arrays: Mapping[str, ArrayArg] = field(default_factory=dict)
    storage: Mapping[str, Storage] = field(default_factory=dict)
    split: Mapping[str, SplitArray] = field(default_factory=dict)
    pools: Mapping[str, str] = field(default_factory=dict)
    table_names: Mapping[str, str] = field(default_factory=dict)
    expanded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bounds: frozenset[str] = frozenset()

    @cached_property
    def of_lanes(self) -> frozenset[str]:
        """Variables of each lane of a warp, which lanes read from one another."""
        return frozenset([name for name, storage in self.storage.items() if storage.lane is not None])


@dataclass(frozen=True, eq=False)
class NameTypes:
    """Types of the names in expressions of a function.

    Attributes
    ----------
    of_names
        Type of each name; of inames, axes and parameters the type of indices.
    as_values
        Type of inames, axes and parameters as values, as opposed to parts of an index.
    index_bits
        Width of index arithmetic [bits].
    """

    of_names: Mapping[str, np.dtype[np.generic] | None]
    as_values: Mapping[str, np.dtype[np.generic]]
    index_bits: int


@dataclass(eq=False)
class Scope:
    """State of the generation of one function.

    Attributes
    ----------
    definitions, findings
        Definitions and findings of the program, which all of its functions share.
    divisibility
        Modulus and residue of parameters.
    names
        Identifiers in use.
    values
        C name, or constant value, of each iname, axis and parameter.
    indices
        Variables for indices that occur more than once.
    used
        Axes whose value the text needs.
    fast
        True if the statement that is printed prefers speed to accuracy.
    """

    definitions: Definitions
    findings: Findings
    divisibility: Divisibility
    names: Names
    values: dict[str, str | int]
    types: NameTypes
    memory: Memory
    indices: Indices = field(default_factory=Indices)
    used: set[str] = field(default_factory=set)
    fast: bool = False

    @property
    def language(self) -> Language:
        """Language of the text."""
        return self.definitions.spelling_of.language

    def read_dtype(self, name: str) -> np.dtype[np.generic] | None:
        """Return the type of a name that is read from memory or passed by value, None for an index."""
        return None if name in self.values else self.types.of_names.get(name)

    @property
    def types_of_names(self) -> tuple[TypeOf, TypeOf]:
        """Two functions from names to types: :meth:`read_dtype`, and one for all names."""
        return self.read_dtype, self.types.of_names.get

    @property
    def index_dtype(self) -> np.dtype[np.generic]:
        """Type of index arithmetic."""
        return _INDEX_DTYPES[self.types.index_bits]

    @property
    def index_type(self) -> str:
        """C spelling of :attr:`index_dtype`."""
        return self.language.index_type(self.types.index_bits)

    def error(self, diagnostic: Diagnostic) -> CodegenError:
        """Return the error to raise for *diagnostic*."""
        return CodegenError("generate_code", self.definitions.kernel, [diagnostic])

    def ctype(self, dtype: np.dtype[np.generic]) -> str:
        """Return the C spelling of *dtype*."""
        if is_record(dtype):
            return self._record_type(dtype)
        found = self.language.types.get(_name(dtype))
        if found is None:
            known = ", ".join(self.language.types)
            raise self.error(
                Diagnostic(
                    "unsupported-dtype",
                    f"target '{self.language.name}' cannot compute with '{dtype.name}'",
                    hints=(f"use one of {known}",),
                )
            )
        self.define(found)
        return found

    def vectors_of(self, dtype: np.dtype[np.generic]) -> Vectors | None:
        """Return the language's entry of built-in vectors, None if *dtype* is none of them."""
        vectors = self.language.vectors
        return vectors if vectors is not None and is_vector(dtype) and record_name(dtype) in vectors.names else None

    def space_of(self, name: str) -> str:
        """Return the qualifier of what a pointer into an array or a temporary points to, empty if it has none."""
        storage = self.memory.storage.get(name)
        return self.language.space_of(AddressSpace.GLOBAL if storage is None else storage.address_space)

    def _record_type(self, dtype: np.dtype[np.generic]) -> str:
        """Return the C name of a record, and declare it at its first use."""
        name = self.definitions.records.get(dtype)
        vectors = self.language.vectors
        if name is None and vectors is not None and (built_in := self.vectors_of(dtype)) is not None:
            name = self.definitions.records[dtype] = built_in.names[record_name(dtype)]
        if name is None:
            wish = record_name(dtype)
            if is_vector(dtype) and vectors is not None:
                wish = vectors.packed.format(name=wish)
            is_kept = is_vector(dtype) or wish in self.definitions.kept_records
            own = wish if is_vector(dtype) else self.definitions.spelling_of.of_record(wish)
            name = self.definitions.records[dtype] = own if is_kept else self._own_name(wish)
            source = struct_source(dtype, name, self.language, self.ctype, self.definitions.spelling_of.field)
            if isinstance(source, Diagnostic):
                raise self.error(source)
            if is_kept:
                source = (guarded if is_vector(dtype) else guarded_by_content)(name, source)
            self.definitions.structs[name] = source
        return name

    def shared_helper(self, key: str, name: str, define: Callable[[], str]) -> str:
        """Return *name*, of a helper function that is the same in all programs, and define it at its first use.

        *key* distinguishes overloads.
        """
        if key not in self.definitions.helper_names:
            is_reserved = not name.isidentifier() or self.definitions.spelling_of.local(name) != name
            assert is_reserved, f"variables may be called '{name}'"
            self.definitions.helper_names[key] = name
            text = define()  # may define further functions, which must precede it
            self.definitions.helpers[key] = guarded(key, text)
        return name

    def own_helper(self, key: str, wish: str, define: Callable[[str], str]) -> str:
        """Return the name of a helper function of this program (kernel's name and *wish*); define it at first use."""
        name = self.definitions.helper_names.get(key)
        if name is None:
            name = self.definitions.helper_names[key] = self._own_name(wish)
            text = define(name)
            self.definitions.helpers[key] = text
        return name

    def _own_name(self, wish: str) -> str:
        """Return an unused name at file scope, with the kernel's name in front."""
        name = self.names.fresh(self.definitions.spelling_of.at_file_scope(f"{self.definitions.kernel}_{wish}"))
        return name if name not in self.definitions.users else self._own_name(wish)

    def define(self, name: str) -> None:
        """Add the definition of *name* to the file, if it is not built in, and those that it needs."""
        definition = self.language.definitions.get(name)
        into = self.definitions.structs if name in self.language.types.values() else self.definitions.helpers
        if definition is not None and name not in into:
            for other in definition.needs:
                self.define(other)
            is_text = definition.text and not definition.text.startswith("#")
            into[name] = guarded(name, definition.text) if is_text else definition.text

    def has_spelling(self, name: str, dtype: np.dtype[np.generic]) -> bool:
        """Return True if the language has a function *name* for arguments of *dtype*."""
        return (name, dtype.name) in self.language.functions.spellings

    def spelling(self, name: str, dtype: np.dtype[np.generic]) -> str:
        """Return the spelling of a function of arguments of *dtype*."""
        self.ctype(dtype)
        key = (name, dtype.name)
        found = self.language.functions.fast.get(key) if self.fast else None
        if found is not None:
            self.define(f"fast {name} {dtype.name}")
            return found
        found = self.language.functions.spellings.get(key)
        if found is None:
            raise self.error(
                Diagnostic(
                    "unsupported-function",
                    f"target '{self.language.name}' has no '{name}' for '{dtype.name}'",
                    hints=("cast the arguments to float32 or float64, or write the function out",),
                )
            )
        self.define(f"{name} {dtype.name}")
        return found

    def foreign(self, function: ForeignFunction) -> str:
        """Return the C name of a foreign function, and add its preamble to the file."""
        for dtype in (*function.arguments, function.result):
            self.ctype(dtype)
        target = self.language.name
        found = function.spelling(target)
        if found is None:
            known = ", ".join(function.targets()) or "none"
            message = f"the foreign function '{function.name}' has no entry for target '{target}'"
            hint = f'give it one: c_name={{"{target}": ".."}}, or preamble={{"{target}": ".."}}'
            problem = Diagnostic("unsupported-function", message, (f"targets with an entry: {known}",), (hint,))
            raise self.error(problem)
        signature = function.arguments if self.language.functions.has_overloads else ()
        known_as = self.definitions.foreign_functions.setdefault((found, signature), function)
        if (known_as.arguments, known_as.result, known_as.text(target)) != (
            function.arguments, function.result, function.text(target)
        ):  # fmt: skip
            message = f"target '{target}' would call two functions '{found}'"
            hint = f'give each its own name there: c_name={{"{target}": ".."}}'
            problem = Diagnostic("unsupported-function", message, (f"{known_as}", f"{function}"), (hint,))
            raise self.error(problem)
        if text := function.text(target):
            self.definitions.helpers.setdefault(text, guarded_by_content(function.name, text))
        return found

    def operator(
        self, symbol: str, left: np.dtype[np.generic] | None, right: np.dtype[np.generic] | None
    ) -> None:
        """Add the definition of an operator between two types, if it needs one; *left* is None for a unary operator."""
        if self.language.functions.operators:
            name = self.language.functions.operators.get((symbol, _operand(left, right), _operand(right, left)))
            if name is not None:
                self.define(name)

    def chain(self) -> Chain:
        """Return a recorder for the operators of a chain of operands."""
        return Chain(self)

    def variable(self, name: str) -> str | int:
        """Return the C name or the value of an iname, axis or parameter."""
        self.used.add(name)
        return self.values.get(name, name)

    def value(self, name: str) -> Code:
        """Return the expression of an iname, axis or parameter."""
        return value_of(self.variable(name))

    def of_thread(self, variable: Code, name: str) -> Code:
        """Return a thread's own element of *variable*, if the C target keeps *name* once per thread."""
        return element(variable, *map(self.value, self.memory.expanded.get(name, ())))

    def bound_variable(self, name: str) -> Code:
        """Return the value of a bound variable as an operand of index arithmetic."""
        own = self.of_thread(Name(name, name), name)
        is_index = self.types.of_names[name] == self.index_dtype or self.types.index_bits == 32
        return own if is_index else Cast(self.index_type, own)

    def call(self, operation: str, dtype: np.dtype[np.generic], *arguments: Code) -> Code:
        """Return a call of a helper function, one of :data:`polyloop.codegen.helpers.OPERATIONS`."""
        self.ctype(dtype)
        builtin = self.language.functions.extremes.get((operation, dtype.name))
        if builtin is None:
            builtin = f"{operation}_{dtype.name}"
            self.shared_helper(builtin, builtin, lambda: self._operation_source(operation, dtype))
        return Apply(builtin, arguments)

    def _operation_source(self, operation: str, dtype: np.dtype[np.generic]) -> str:
        ctype, unsigned = self.ctype(dtype), self.language.types["uint64" if dtype.itemsize == 8 else "uint32"]
        signature = f"{self.language.syntax.helper} {ctype}"
        spelt = {name: self.language.functions.spellings.get((name, dtype.name), name) for name in FLOAT_FUNCTIONS}
        return helper_source(operation, f"{operation}_{dtype}", signature, (ctype, unsigned), dtype, spelt)

    def index_extreme(self, operation: str, parts: Iterable[Code]) -> Code:
        """Return the ``min`` or ``max`` of index expressions, without repetitions."""
        distinct = list(dict.fromkeys(parts))
        numbers = [number for part in distinct if (number := integer_of(part)) is not None]
        if len(numbers) > 1:
            best = integer(min(numbers) if operation == "min" else max(numbers))
            distinct = list(dict.fromkeys(part if integer_of(part) is None else best for part in distinct))
        result = distinct[0]
        for part in distinct[1:]:
            result = self.call(operation, self.index_dtype, self._widened(result), self._widened(part))
        return result

    def _widened(self, code: Code) -> Code:
        number = integer_of(code) if self.types.index_bits == 64 else None
        return code if number is None else integer(number, self.language.syntax.long.upper())


def _operand(dtype: np.dtype[np.generic] | None, other: np.dtype[np.generic] | None) -> str:
    """Return the name of an operand's type; a real number next to a complex one has the type of its parts."""
    if dtype is None:
        return ""
    is_part = other is not None and is_complex(other) and not is_complex(dtype)
    return _name(as_real(other) if is_part and other is not None else dtype)


@lru_cache(maxsize=256)
def _name(dtype: np.dtype[np.generic]) -> str:
    """Return the name of a type, memoised because NumPy computes it at each call."""
    return dtype.name


class Chain:
    """Recorder of the operators between the operands of a sum or product, which C applies from left to right."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.dtype: np.dtype[np.generic] | None = None

    def add(self, symbol: str, dtype: np.dtype[np.generic]) -> None:
        """Record *symbol* between the chain so far and an operand of *dtype*."""
        if self.dtype is None:
            self.dtype = dtype
            return
        self._scope.operator(symbol, self.dtype, dtype)
        if is_complex(dtype):
            self.dtype = dtype
