"""Foreign functions: scalar functions of the user's, written in the language of the target."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Annotated, Any, Final, Literal, TypeAlias

import pymbolic.primitives as p
from pymbolic.primitives import expr_dataclass

from polyloop.display import Shown
from polyloop.edge.checks import EXPLAINED
from polyloop.edge.words import spelt
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.dtypes import DType, computed, dtype_name, is_inexact, is_number, to_dtype
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression
from polyloop.expr.promotion import (
    DEFAULT_FLOAT,
    ScalarType,
    TypeConflictError,
    adapted,
    common_type,
    kind_name,
    settle,
)
from polyloop.expr.records import is_record
from polyloop.expr.rewrite import calls

__all__ = ["ForeignFunction", "ForeignName", "choose", "conflicting_definitions", "foreign_calls", "words"]

PerTarget: TypeAlias = "str | tuple[tuple[str, str], ...]"
"""Text for every target, or for each of those that are named."""

Effects: TypeAlias = Literal["none", "reads"]
"""The memory that a call has to do with, besides its arguments."""

_TARGETS: Final = ("c", "cuda", "hip", "opencl")
_PART: Final = r"[A-Za-z_]\w*(<[\w:, ]+>)?"
_C_NAME: Final = re.compile(f"{_PART}(::{_PART})*", re.ASCII)
"""A name in C or C++, with namespaces and the arguments of templates."""
_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MACRO: Final = re.compile(r"^\s*#\s*define\s+([A-Za-z_]\w*)", re.ASCII | re.MULTILINE)


@dataclass(frozen=True, init=False, repr=False)
class ForeignFunction(Shown):
    """A scalar function written in the language of the target, to be called in expressions.

    ::

        logistic = pl.ForeignFunction(
            "logistic", (np.float32,), np.float32,
            preamble={"c": "static inline float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }",
                      "cuda": "__device__ float logistic(float x) { return 1.0f / (1.0f + __expf(-x)); }"},
            reference=lambda x: 1 / (1 + np.exp(-x)))
        knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = logistic(x[i])", [...], functions=[logistic])

    Parameters
    ----------
    name
        By which expressions call it.  Several functions of one name with other arguments are overloads: a call selects
        the narrowest one whose parameters can hold the arguments.
    arguments
        Types of the arguments.  A value of another type is converted where an operation on both would be computed in
        the type of the argument (an int32 for a float32, not a float64); otherwise the call is refused.
    result
        Type of the result; None for the common type of the arguments.
    c_name
        Name in generated code, by default *name*, in C++ with namespaces and the arguments of a template,
        ``"mylib::power<3>"``; a mapping such as ``{"cuda": "__expf"}`` says it for each target, and the others cannot
        run the kernel.
    preamble
        Text that defines it, put in front of the functions of the program, once; a mapping gives one for each target,
        and the targets without an entry cannot run the kernel.
    reference
        Python function that computes the same, with NumPy scalars, for the interpreter; without one the interpreter
        refuses the kernel.
    effects
        ``"none"``: the result depends on the arguments alone.  ``"reads"``: also on memory that nothing writes while
        the kernel runs and that is no array of the kernel, such as a table in constant memory or a texture, so that a
        later call of the kernel may find another value.  A function that writes is refused here (``bad-function``).
    convergent
        True: all threads of a block have to call it together, because it has barriers or exchanges values between lanes
        (``__syncthreads``, ``__shfl_sync``).  A call under a condition that may differ between threads is refused.

    Raises
    ------
    KernelError
        ``bad-function``, ``bad-identifier``, ``reserved-name``, ``unknown-dtype``.

    Notes
    -----
    Calls have no side effects: they may be repeated, moved or left out.  What writes memory, or reads what the kernel
    writes, is called in a :class:`polyloop.CInstruction`, which declares both.
    That it returns the declared type is not checked.
    """

    name: str
    arguments: tuple[DType, ...]
    result: DType
    c_name: PerTarget
    preamble: PerTarget
    reference: Callable[..., Any] | None
    convergent: bool = False
    effects: Effects = "none"

    def __init__(
        self,
        name: str,
        arguments: Sequence[object],
        result: object = None,
        c_name: Annotated[str | Mapping[str, str] | None, EXPLAINED] = None,
        preamble: Annotated[str | Mapping[str, str], EXPLAINED] = "",
        reference: Annotated[Callable[..., Any] | None, EXPLAINED] = None,
        *,
        convergent: bool = False,
        effects: Annotated[str, EXPLAINED] = "none",
    ) -> None:
        problem = check_identifier(name, "function name")
        if problem is not None:
            raise KernelError("ForeignFunction", None, [problem])
        if name in FUNCTIONS:
            raise _refused("reserved-name", f"'{name}' is a function that expressions can call", "choose another name")
        if isinstance(arguments, str) or not arguments:
            raise _refused("bad-function", f"'{name}' has no arguments", "list their types: arguments=(np.float32,)")
        dtypes = tuple(_scalar_type(given, name) for given in arguments)
        if reference is not None and not callable(reference):
            raise _refused("bad-function", f"the reference of '{name}' cannot be called", "pass a Python function")
        spelling = _per_target(c_name or name, name)
        for text in (spelling,) if isinstance(spelling, str) else (text for _, text in spelling):
            if not _C_NAME.fullmatch(text):
                raise _refused("bad-identifier", f"'{text}' is no name of a function in C",
                               'give the name alone, such as "f", or "mylib::f<float, 4>" in C++')
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", dtypes)
        object.__setattr__(self, "result", _result_type(name, dtypes, result))
        object.__setattr__(self, "c_name", spelling)
        object.__setattr__(self, "preamble", _trimmed(_per_target(preamble, name)))
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "convergent", convergent)
        object.__setattr__(self, "effects", _effects(name, effects))

    def _loaded(self) -> None:
        """Check the parts of a function that was read from its form, as those that are given are."""
        c_name, preamble = (given if isinstance(given, str) else dict(given) for given in (self.c_name, self.preamble))
        ForeignFunction(self.name, self.arguments, self.result, c_name, preamble, effects=self.effects)

    def spelling(self, target: str) -> str | None:
        """Return the function name for *target*, None if it has no entry."""
        found = self.c_name if isinstance(self.c_name, str) else dict(self.c_name).get(target)
        if not isinstance(self.preamble, str) and target not in dict(self.preamble):
            return found if not isinstance(self.c_name, str) else None
        return found

    def text(self, target: str) -> str:
        """Return the preamble for *target*."""
        return self.preamble if isinstance(self.preamble, str) else dict(self.preamble).get(target, "")

    def names(self) -> frozenset[str]:
        """Return the names that variables must not have: its own ones, and the macros of its preambles."""
        spellings = (self.c_name,) if isinstance(self.c_name, str) else tuple(text for _, text in self.c_name)
        found = (name for target in _TARGETS for name in _MACRO.findall(self.text(target)))
        return frozenset((self.name, *(text.partition("<")[0] for text in spellings), *found))

    def targets(self) -> tuple[str, ...]:
        """Return the targets that have an entry."""
        return tuple(target for target in _TARGETS if self.spelling(target) is not None)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(dtype_name, self.arguments))}) -> {dtype_name(self.result)}"

    def __repr__(self) -> str:
        return f"<ForeignFunction {self}>"

    def python(self) -> str:
        """Return the expression that makes it, without the reference."""
        arguments = "".join(f"np.{dtype_name(dtype)}, " for dtype in self.arguments)
        parts = [repr(self.name), f"({arguments.rstrip(' ') if len(self.arguments) == 1 else arguments[:-2]})"]
        parts.append(f"np.{dtype_name(self.result)}")
        if self.c_name != self.name:
            parts.append(f"c_name={_shown(self.c_name)}")
        if self.preamble:
            parts.append(f"preamble={_shown(self.preamble)}")
        if self.convergent:
            parts.append("convergent=True")
        if self.effects != "none":
            parts.append(f"effects={spelt(self.effects)}")
        return f"pl.ForeignFunction({', '.join(parts)})"


@expr_dataclass()
class ForeignName(p.Variable):
    """The function name of a foreign call, with its overloads."""

    overloads: tuple[ForeignFunction, ...]


def _refused(code: str, message: str, hint: str) -> KernelError:
    return KernelError("ForeignFunction", None, [Diagnostic(code, message, hints=(hint,))])


def _scalar_type(given: object, name: str) -> DType:
    dtype = to_dtype(given, "ForeignFunction")
    if is_record(dtype) or not is_number(dtype):
        message = f"'{name}' takes or returns {dtype_name(dtype)}, which is no number"
        raise _refused("bad-function", message, "pass the fields one by one")
    if computed(dtype) != dtype:
        message = f"'{name}' takes or returns {dtype_name(dtype)}"
        raise _refused("bad-function", message, f"declare {dtype_name(computed(dtype))}, in which it is computed")
    return dtype


def _effects(name: str, given: object) -> Effects:
    match given:
        case "none" | "reads":
            return given
        case "writes":
            message = f"'{name}' writes memory, but an expression may be evaluated any number of times"
            hint = "call it in a pl.CInstruction, whose read_variables and assignees declare what it reads and writes"
        case _:
            message = f"'{name}' has unknown effects {spelt(given)}"
            hint = 'effects: "none", "reads"; what writes is called in a pl.CInstruction'
    raise _refused("bad-function", message, hint)


def _result_type(name: str, arguments: tuple[DType, ...], given: object) -> DType:
    if given is not None:
        return _scalar_type(given, name)
    try:
        return settle(common_type(arguments))
    except TypeConflictError as conflict:
        message = f"the result of '{name}' has no type: {conflict.diagnostic.message}"
        raise _refused("bad-function", message, "give result=") from None


def _per_target(given: object, name: str) -> PerTarget:
    if isinstance(given, str):
        return given
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        hint = 'pass text, or {"c": "..", "cuda": ".."}'
        raise _refused("bad-function", f"'{name}' cannot be spelt {spelt(given)}", hint)
    for target in given:
        if target not in _TARGETS:
            message = f"'{name}' is spelt for an unknown target {spelt(target)}"
            raise _refused("bad-function", message, "targets: c, cuda, hip, opencl")
    return tuple(sorted(given.items()))


def _trimmed(given: PerTarget) -> PerTarget:
    """Return the text without the indentation of the script that it stood in."""
    if isinstance(given, str):
        return dedent(given).strip()
    return tuple((target, dedent(text).strip()) for target, text in given)


def _shown(given: PerTarget) -> str:
    """Return a literal for *given*, over several lines where the text has several."""
    if not isinstance(given, str):
        return "{" + ", ".join(f"{spelt(target)}: {_shown(text)}" for target, text in given) + "}"
    plain = "\n" in given and "\\" not in given and '"' not in given
    return f'"""{given}"""' if plain else repr(given)



# {{{ resolution of calls


def choose(function: ForeignName, types: Sequence[ScalarType | None]) -> ForeignFunction | None:
    """Return the overload selected by argument types, None while unknown types leave several.

    Raises
    ------
    TypeConflictError
        ``wrong-argument-count``, ``type-conflict``.
    """
    name, count = function.name, len(types)
    fitting = [entry for entry in function.overloads if len(entry.arguments) == count]
    if not fitting:
        counts = " or ".join(str(number) for number in sorted({len(entry.arguments) for entry in function.overloads}))
        message = f"'{name}' takes {counts} argument{'s' if counts != '1' else ''}, not {count}"
        raise TypeConflictError(Diagnostic("wrong-argument-count", message, hints=_forms(function)))
    known = [kind for kind in types if kind is not None]
    if len(known) < count:
        possible = [entry for entry in fitting if _holds(entry, types)]
        return possible[0] if len(possible) == 1 else None
    found = [entry for entry in fitting if _holds(entry, known)]
    if not found:
        message = f"'{name}' does not take ({', '.join(map(kind_name, known))})"
        hints = (*_forms(function), "or cast the arguments")
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=hints))
    preferred = [entry for entry in found if _holds(entry, _preferred(entry, known))] or found
    narrowest = [
        entry for entry in preferred if all(_holds(other, entry.arguments) for other in preferred)
    ]
    if len(narrowest) != 1:
        message = f"'{name}' of ({', '.join(map(kind_name, known))}) may mean several functions"
        notes = tuple(map(str, preferred))
        raise TypeConflictError(Diagnostic("type-conflict", message, notes, ("cast the arguments",)))
    return narrowest[0]


def _forms(function: ForeignName) -> tuple[str, ...]:
    return (f"there is {', '.join(map(str, function.overloads))}",)


def _preferred(entry: ForeignFunction, types: Sequence[ScalarType]) -> Sequence[ScalarType]:
    """Return *types*, with integers and untyped numbers as an operation on all of them and a float would have them.

    So integers alone prefer float64, as they do as arguments of ``sqrt``, and next to a float32 its type.
    """
    try:
        common = settle(common_type(types))
    except TypeConflictError:
        return types
    floating = common if is_inexact(common) else DEFAULT_FLOAT
    found: list[ScalarType] = []
    for dtype, kind in zip(entry.arguments, types, strict=True):
        strong = adapted(kind, common)
        found.append(floating if is_inexact(dtype) and not is_inexact(strong) else strong)
    return found


def _holds(entry: ForeignFunction, types: Sequence[ScalarType | None]) -> bool:
    """Return whether every parameter of *entry* can hold its argument; an unknown type (None) always fits."""
    for dtype, kind in zip(entry.arguments, types, strict=True):
        if kind is None:
            continue
        if is_record(kind):
            return False
        try:
            if settle(common_type((dtype, kind))) != dtype:
                return False
        except TypeConflictError:
            return False
    return True


# }}}
# {{{ calls of a kernel


def foreign_calls(expr: Expression) -> Iterator[ForeignName]:
    """Yield the foreign functions that *expr* calls."""
    for call in calls(expr):
        if isinstance(call.function, ForeignName):
            yield call.function


def conflicting_definitions(functions: Sequence[ForeignFunction]) -> Iterator[Diagnostic]:
    """Yield ``name-taken`` for functions with the same name and parameters but different definitions."""
    seen: dict[tuple[str, tuple[DType, ...]], ForeignFunction] = {}
    for function in functions:
        other = seen.setdefault((function.name, function.arguments), function)
        if other != function:
            message = f"there are two definitions of {function}"
            yield Diagnostic("name-taken", message, hints=("give one of them another name",))


def words(function: ForeignFunction, target: str) -> frozenset[str]:
    """Return every identifier in the code generated for *function*."""
    return frozenset(_WORD.findall(f"{function.spelling(target)} {function.text(target)}"))


# }}}
