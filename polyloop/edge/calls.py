"""Argument checks of public functions, at the call.

A declaration is annotated anyway. :func:`public` reads the annotations once, when a function is first called, and
compiles a check for each parameter: a value of another type ends in a diagnostic that names the argument, its value,
and the types that are accepted.  Checks that need the kernel (is there such an iname?) are made behind the edge.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from enum import Enum
from functools import cache, wraps
from inspect import Parameter, signature, unwrap
from typing import Any, Final, ParamSpec, TypeVar, cast, get_type_hints

from polyloop.edge.checks import NO, fits, take
from polyloop.edge.words import misfit
from polyloop.errors import ArgumentError, Diagnostic, KernelError, PolyloopError, TransformError
from polyloop.tracebacks import bare, told_by_name

__all__ = ["entrance", "field_misfits", "guard", "public", "too_deep"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_PACKAGE: Final = "polyloop"


class _Declaration:
    """Parameters of a function and their checks, read from its declaration."""

    def __init__(self, declared: Callable[..., object], name: str) -> None:
        self.name = name
        self.refusal = _MisuseError if _is_raised(declared) else _refusal(declared.__module__)
        code = _code(declared)
        hints = get_type_hints(code, vars(sys.modules[declared.__module__]), include_extras=True)
        found = list(signature(code).parameters.values())[isinstance(declared, type) :]
        self.hints = {entry.name: hints.get(entry.name, Any) for entry in found}
        self.takes = {entry.name: take(self.hints[entry.name]) for entry in found}
        named = [entry for entry in found if entry.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
        self.by_place = tuple(entry.name for entry in named if entry.kind is not Parameter.KEYWORD_ONLY)
        self.by_name = frozenset(entry.name for entry in named if entry.kind is not Parameter.POSITIONAL_ONLY)
        self.needed = frozenset(entry.name for entry in named if entry.default is Parameter.empty)
        self.others = next((entry.name for entry in found if entry.kind is Parameter.VAR_KEYWORD), None)
        self.more = next((entry.name for entry in found if entry.kind is Parameter.VAR_POSITIONAL), None)

    def checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments to call the function with.

        Raises
        ------
        PolyloopError
            ``wrong-call``, ``wrong-argument-type``.
        """
        places = self.by_place
        if (
            (len(args) > len(places) and self.more is None)
            or not self.needed <= kwargs.keys() | places[: len(args)]
            or not (kwargs.keys() <= self.by_name or self.others)
            or not kwargs.keys().isdisjoint(places[: len(args)])
        ):
            raise self._refused(args, kwargs, self._wrong_call(args, kwargs))
        takes, new = self.takes, None
        for number, value in enumerate(args):
            name = places[number] if number < len(places) else cast("str", self.more)
            check = takes[name]
            if check is not None and (found := check(value)) is not value:
                if found is NO:
                    raise self._refused(args, kwargs, misfit(name, self.hints[name], value))
                new = list(args) if new is None else new
                new[number] = found
        for name, value in kwargs.items():
            declared = name if name in takes else cast("str", self.others)
            check = takes[declared]
            if check is not None and (found := check(value)) is not value:
                if found is NO:
                    raise self._refused(args, kwargs, misfit(name, self.hints[declared], value))
                kwargs[name] = found
        return args if new is None else tuple(new), kwargs

    def _wrong_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Diagnostic:
        """Return the error in the number and the names of the arguments."""
        takes = (f"{self.name}({', '.join(self._spelled())})",)
        given = self.by_place[: len(args)]
        if len(args) > len(self.by_place):
            message = f"{len(args)} arguments are given by position, and it takes {len(self.by_place)}"
            return Diagnostic("wrong-call", message, takes)
        if twice := [name for name in given if name in kwargs]:
            return Diagnostic("wrong-call", f"argument '{twice[0]}' is given twice", takes)
        if unknown := [name for name in kwargs if name not in self.by_name and self.others is None]:
            near = get_close_matches(unknown[0], sorted(self.by_name), n=1, cutoff=0.5)
            hints = (f"did you mean '{near[0]}'?",) if near else ()
            return Diagnostic("wrong-call", f"there is no argument '{unknown[0]}'", takes, hints)
        missing = [name for name in self.by_place if name in self.needed and name not in {*given, *kwargs}]
        missing = missing or sorted(self.needed - {*given, *kwargs})
        return Diagnostic("wrong-call", f"argument '{missing[0]}' is missing", takes)

    def _spelled(self) -> Iterator[str]:
        for name in (*self.by_place, *sorted(self.needed.difference(self.by_place))):
            yield name if name in self.needed else f"{name}=.."
        if self.by_name.difference(self.by_place, self.needed) or self.others:
            yield ".."

    def _refused(self, args: tuple[Any, ...], kwargs: dict[str, Any], finding: Diagnostic) -> PolyloopError:
        kernels = (value for value in (*args, *kwargs.values()) if type(value).__name__ == "LoopKernel")
        kernel: str | None = getattr(next(kernels, None), "name", None)
        return self.refusal(self.name, kernel, [finding])


class _MisuseError(ArgumentError, TypeError):
    """An error or a warning cannot be made so.

    What carries them between processes makes them anew, and expects a TypeError where it cannot.
    """


def _is_raised(declared: object) -> bool:
    return isinstance(declared, type) and issubclass(declared, BaseException)


def _refusal(module: str) -> type[PolyloopError]:
    """Return the error class of the functions of a module."""
    package = module.partition(".")[2].partition(".")[0]
    if package in ("expr", "kernel", "frontend") or module == "polyloop.creation.create":
        return KernelError
    return TransformError if package == "transform" else ArgumentError


def _code(declared: Callable[..., object]) -> Callable[..., object]:
    """Return the function that a call of *declared*, which may be a class, runs."""
    runs: Callable[..., object] = getattr(declared, _maker(declared)) if isinstance(declared, type) else declared
    found: Callable[..., object] = unwrap(runs)
    return found


def _maker(kind: type) -> str:
    """Return the name of the method that takes the arguments of a class's constructor."""
    return "__new__" if "__new__" in vars(kind) and "__init__" not in vars(kind) else "__init__"


def too_deep() -> Diagnostic:
    """Return ``too-deep``, for nesting beyond Python's recursion limit."""
    limit = sys.getrecursionlimit()
    return Diagnostic(
        "too-deep",
        "loops, expressions or rules are nested too deeply",
        (f"Python's stack has {limit} frames, and takes a few for each level",),
        ("divide the expression or the nest", f"allow a deeper stack: sys.setrecursionlimit({10 * limit})"),
    )


def public(function: Callable[_P, _R], name: str | None = None) -> Callable[_P, _R]:
    """Return a function of the package with its arguments checked, as users see it under *name*."""
    spelling = name or function.__name__
    known: list[_Declaration] = []

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        __tracebackhide__ = True
        if not known:
            known.append(_Declaration(function, spelling))
        try:
            given, named = known[0].checked(args, kwargs)
            return function(*given, **named)
        except RecursionError as error:
            raise known[0].refusal(spelling, None, [too_deep()]) from bare(error)
        except PolyloopError as error:
            raise bare(error)  # noqa: B904 - the same error

    call.__module__, call.__name__, call.__qualname__ = _PACKAGE, spelling, spelling
    told_by_name(call, spelling)
    return call


def guard(kind: type) -> None:
    """Check the arguments of a class in calls from outside of the package."""
    maker = _maker(kind)
    plain: Callable[..., object] = getattr(kind, maker)
    known: list[_Declaration] = []

    @wraps(plain)
    def make(made: object, /, *args: Any, **kwargs: Any) -> object:  # noqa: ANN401 - the user's argument
        __tracebackhide__ = True
        if _is_ours(sys._getframe(1)):  # noqa: SLF001 - as inspect does
            return plain(made, *args, **kwargs)
        if not known:
            known.append(_Declaration(kind, kind.__name__))
        try:
            given, named = known[0].checked(args, kwargs)
            return plain(made, *given, **named)
        except PolyloopError as error:
            raise bare(error)  # noqa: B904 - the same error

    told_by_name(make, kind.__name__)
    setattr(kind, maker, make)


def _is_ours(frame: types.FrameType | None) -> bool:
    """Return whether the package makes an instance there, by itself or through ``dataclasses.replace``."""
    if frame is not None and frame.f_globals.get("__name__") == "dataclasses":
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith(f"{_PACKAGE}.")


def entrance(value: _R) -> _R:
    """Return a public name as users see it: functions and classes with their arguments checked."""
    if isinstance(value, types.FunctionType):
        return value if value.__module__ == _PACKAGE else cast("_R", public(value))
    if isinstance(value, type) and not issubclass(value, Enum):
        guard(value)
    return value




@cache
def _annotations(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a class
    return get_type_hints(kind)


def field_misfits(value: Any) -> Iterator[Diagnostic]:  # noqa: ANN401 - any dataclass
    """Yield the errors in the fields of a dataclass instance that was made of data."""
    kind: Any = type(value)
    hints = _annotations(kind)
    for entry in fields(value):
        given = getattr(value, entry.name)
        if not fits(hints[entry.name], given):
            yield misfit(entry.name, hints[entry.name], given)
