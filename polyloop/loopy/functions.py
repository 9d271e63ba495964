"""Functions, symbols and texts that scripts for Loopy give as Python objects: callables, manglers, generators.

Each becomes what the package has: a :class:`polyloop.ForeignFunction` with an overload for each type that the object
knows, a rule, or a preamble.
"""
# ruff: noqa: ANN401  # objects of scripts

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.foreign import ForeignFunction
from polyloop.expr.rewrite import calls
from polyloop.kernel.kernel import LoopKernel
from polyloop.loopy.view import Kernel
from polyloop.target.c import CTarget

__all__ = ["NumpyType", "PreambleInfo", "ScalarCallable", "SeenFunction", "foreign_of", "generated", "mangled"]

_TYPES: Final = ("int32", "int64", "float32", "float64", "complex64", "complex128")
_MOST: Final = 4
"""Most arguments of a callable."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_STRING: Final = re.compile(r"[\"'][^\"']*[\"']|#.*")

Generator: TypeAlias = Callable[["PreambleInfo"], Iterable[tuple[str, str]]]
Mangler: TypeAlias = Callable[[Any, str], "tuple[Any, str] | None"]


class NumpyType:
    """An element type, as Loopy's objects hold it.

    Attributes
    ----------
    dtype
        NumPy's.
    """

    def __init__(self, dtype: Any) -> None:
        given: Any = dtype.dtype if isinstance(dtype, NumpyType) else dtype
        self.dtype: np.dtype[Any] = np.dtype(given)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy's type."""
        return self.dtype

    @property
    def itemsize(self) -> int:
        """Size of an element [bytes]."""
        return int(self.dtype.itemsize)

    @property
    def kind(self) -> str:
        """NumPy's letter for the kind."""
        return str(self.dtype.kind)

    def is_complex(self) -> bool:
        """Return whether elements are complex."""
        return self.kind == "c"

    def is_integral(self) -> bool:
        """Return whether elements are integers."""
        return self.kind in "iu"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumpyType) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"np:{self.dtype}"


# {{{ callables


class ScalarCallable:
    """A function of scalars that scripts for Loopy derive a class of.

    ::

        class Sinc(lp.ScalarCallable):
            def with_types(self, arg_id_to_dtype, callables_table):
                dtype = arg_id_to_dtype[0]
                if dtype.kind != "f":
                    raise TypeError("sinc is of real numbers")
                return self.copy(name_in_target="sinc", arg_id_to_dtype={0: dtype, -1: dtype}), callables_table

            def generate_preambles(self, target):
                yield "10_sinc", "static double sinc(double x) { return x == 0 ? 1 : sin(x)/x; }"

        knl = lp.register_callable(knl, "sinc", Sinc("sinc"))

    It is asked for each type of arguments, and becomes a :class:`polyloop.ForeignFunction` with an overload for each
    that it accepts.

    Attributes
    ----------
    name, name_in_target
        By which kernels call it, and its name in generated code.
    arg_id_to_dtype
        Number of an argument -> its type; -1: the result.
    """

    def __init__(
        self, name: str, arg_id_to_dtype: Any = None, arg_id_to_descr: Any = None, name_in_target: str | None = None
    ) -> None:  # fmt: skip
        self.name, self.name_in_target = name, name_in_target
        self.arg_id_to_dtype, self.arg_id_to_descr = arg_id_to_dtype, arg_id_to_descr

    def copy(self, **changes: Any) -> ScalarCallable:
        """Return the callable with other attributes."""
        made = object.__new__(type(self))
        made.__dict__.update({**self.__dict__, **changes})
        return made

    def with_types(self, arg_id_to_dtype: Mapping[int, Any], callables_table: Any) -> tuple[ScalarCallable, Any]:
        """Return the callable for arguments of these types; a class of a script says for which."""
        del arg_id_to_dtype, callables_table
        raise NotImplementedError("with_types")

    def with_descrs(self, arg_id_to_descr: Any, callables_table: Any) -> tuple[ScalarCallable, Any]:
        """Return the callable for arguments of these shapes: scalars have none."""
        return self.copy(arg_id_to_descr=arg_id_to_descr), callables_table

    def generate_preambles(self, target: Any) -> Iterator[tuple[str, str]]:
        """Yield texts that define it, each with a key."""
        del target
        return iter(())


def foreign_of(callable_: Any, name: str) -> list[ForeignFunction]:
    """Return a callable as overloads of a function.

    Raises
    ------
    KernelError
        ``bad-function``: it accepts no arguments.
    """
    found: dict[tuple[str, ...], ForeignFunction] = {}
    reasons: list[str] = []
    for count in range(1, _MOST + 1):
        for dtype in _TYPES:
            given = {number: NumpyType(dtype) for number in range(count)}
            try:
                made, _ = callable_.with_types(given, {})
                types = {number: NumpyType(entry) for number, entry in made.arg_id_to_dtype.items()}
            except Exception as error:
                reasons.append(f"{count} of {dtype}: {type(error).__name__} {error}".rstrip())
                continue
            if set(types) != {*range(-1, count)} or made.name_in_target is None:
                continue
            arguments = tuple(types[number].dtype for number in range(count))
            text = "\n".join(dict.fromkeys(entry for _, entry in sorted(made.generate_preambles(CTarget()))))
            overload = ForeignFunction(name, arguments, types[-1].dtype, made.name_in_target, text)
            found.setdefault(tuple(map(str, arguments)), overload)
    if not found:
        hint = "with_types returns a copy with name_in_target and arg_id_to_dtype, of each argument and of -1"
        message = f"'{name}' accepts no numbers as arguments"
        raise KernelError("register_callable", None, [Diagnostic("bad-function", message, tuple(reasons[:2]), (hint,))])
    return list(found.values())


# }}}
# {{{ preambles and symbols


@dataclass(frozen=True)
class SeenFunction:
    """A function that a kernel calls."""

    name: str
    c_name: str


@dataclass(frozen=True)
class PreambleInfo:
    """Facts of a kernel, for a generator of preambles.

    Attributes
    ----------
    kernel
        The kernel.
    seen_dtypes
        Types of its arrays and scalars that are known.
    seen_functions
        Functions that it calls.
    """

    kernel: Kernel
    seen_dtypes: frozenset[NumpyType]
    seen_functions: frozenset[SeenFunction]
    seen_atomic_dtypes: frozenset[NumpyType] = frozenset()
    codegen_state: None = field(default=None)


def generated(kernel: LoopKernel, generators: Sequence[Generator]) -> tuple[tuple[str, str], ...]:
    """Return the preambles of a kernel with those that *generators* yield for it."""
    known = (*kernel.arguments, *kernel.temporaries.values())
    dtypes = frozenset(NumpyType(entry.dtype) for entry in known if isinstance(entry.dtype, np.dtype))
    names = {call.function.name for entry in kernel.instructions for call in calls(entry.expression)}
    info = PreambleInfo(Kernel(kernel), dtypes, frozenset(SeenFunction(name, name) for name in names))
    more = [(str(key), str(text)) for generator in generators for key, text in generator(info)]
    return tuple(sorted({*kernel.preambles, *more}))


def mangled(
    instructions: Any, declared: Iterable[str], manglers: Sequence[Mangler]
) -> tuple[Any, list[ForeignFunction]]:  # fmt: skip
    """Return *instructions* with rules for the symbols in them that *manglers* know, and the functions of the rules.

    ::

        y[i] = M_PI*x[i]        =>      M_PI := symbol_M_PI(0)
                                        y[i] = M_PI*x[i]

    Parameters
    ----------
    instructions
        Text, or a list with texts.
    declared
        Names that are variables of the kernel.
    """
    texts = [instructions] if isinstance(instructions, str) else list(instructions)
    words = {word for text in texts if isinstance(text, str) for word in _NAME.findall(_STRING.sub("", text))}
    rules, functions = [], []
    for word in sorted(words - {*declared}):
        found = next((entry for mangler in manglers if (entry := mangler(None, word)) is not None), None)
        if found is None:
            continue
        dtype, text = found
        name = f"symbol_{word}"
        define = f"#define {name}(x) ({text})"
        functions.append(ForeignFunction(name, (np.int32,), NumpyType(dtype).dtype, name, define))
        rules.append(f"{word} := {name}(0)")
    return ["\n".join(rules), *texts] if rules else instructions, functions


# }}}
