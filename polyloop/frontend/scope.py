"""Scopes of a function that becomes a kernel: arguments, locals, loops, and captured values."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NoReturn

import numpy as np

from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.names import check_identifier
from polyloop.frontend.source import DECORATOR, FunctionSource, Node

__all__ = ["NOTHING", "Names", "Scope", "Use"]


class Use(Enum):
    """Kind of an argument."""

    ARRAY = "an array"
    SCALAR = "a scalar"
    INTEGER = "an integer scalar"


class _Nothing:
    """Value of a name without an object."""


NOTHING: Final = _Nothing()


def _surroundings(function: Callable[..., object]) -> dict[str, object]:
    """Return the names that the function captures: builtins, globals, variables of enclosing functions."""
    assert isinstance(function, types.FunctionType), "a Python function has globals"
    found = {**vars(builtins), **function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            found.pop(name, None)
    return found


@dataclass(frozen=True)
class Names:
    """Names of the body by their syntax, before it is read.

    Attributes
    ----------
    locals
        Names that the body assigns.
    loops
        Variables of the ``for`` loops; those of generators are not seen outside of them.
    words
        All names in the text.
    captured
        Objects of the names around the function: builtins, globals, variables of enclosing functions.
    """

    locals: frozenset[str]
    loops: frozenset[str]
    words: frozenset[str]
    captured: Mapping[str, object]

    @staticmethod
    def of(tree: ast.FunctionDef, function: Callable[..., object], arguments: Collection[str]) -> Names:
        """Return the names of *function*, which *tree* defines."""
        nodes = list(ast.walk(tree))
        comprehensions = [node for node in nodes if isinstance(node, ast.comprehension)]
        generated = {name for node in comprehensions for name in ast.walk(node.target)}
        loops = {
            name.id
            for node in nodes
            if isinstance(node, ast.For)
            for name in ast.walk(node.target)
            if isinstance(name, ast.Name)
        }
        stored = {
            node.id
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in generated
        }
        words = {node.id for node in nodes if isinstance(node, ast.Name)}
        defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        around = {key: value for key, value in _surroundings(function).items() if key not in defined}
        written = words.union(defined, arguments)
        return Names(frozenset(stored - loops - set(arguments)), frozenset(loops), frozenset(written), around)


@dataclass
class Scope:
    """Symbol table of the body, while it is read from top to bottom.

    Attributes
    ----------
    arguments
        Arguments, and the sizes that their shapes mention.
    conditions
        Arguments of type bool.
    loops
        Loop variable -> iname, for the loops that are open.
    assigned
        Locals that some statement above has assigned, with whether all values were conditions.
    rules
        Functions defined in the body so far -> number of parameters.
    parameters
        Parameters of the function in the body that is being read.
    inames
        Every iname so far.
    """

    source: FunctionSource
    arguments: dict[str, Use]
    conditions: frozenset[str]
    names: Names
    loops: dict[str, str] = field(default_factory=dict)
    assigned: dict[str, bool] = field(default_factory=dict)
    arrays: set[str] = field(default_factory=set)
    rules: dict[str, int] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()
    inames: list[str] = field(default_factory=list)

    def deny(self, node: Node, code: str, message: str, *hints: str) -> NoReturn:
        """Raise the error *code* at *node*."""
        self.report(node, Diagnostic(code, message, hints=hints))

    def report(self, node: Node, diagnostic: Diagnostic) -> NoReturn:
        """Raise *diagnostic* at *node*."""
        raise KernelError(DECORATOR, None, [replace(diagnostic, span=self.source.span(node))])

    def check_name(self, node: Node, name: str) -> None:
        """Refuse a name that generated code cannot have."""
        wrong = check_identifier(name)
        if wrong is not None:
            self.report(node, wrong)

    # loops

    @contextmanager
    def looping(self, names: Mapping[str, str]) -> Iterator[None]:
        """Bind loop variables to inames in the body of the ``with``."""
        before = self.loops
        self.loops = {**before, **names}
        try:
            yield
        finally:
            self.loops = before

    def new_iname(self, node: ast.Name, hides: bool) -> str:
        """Return the iname for a loop variable: its name, or the name with a number where that is taken.

        A variable that *hides* others is one of a generator.
        """
        name = node.id
        self.check_name(node, name)
        if not hides and name in self.loops:
            hint = "end that loop first, or use another name"
            self.deny(node, "duplicate-iname", f"a loop over '{name}' is open already", hint)
        if not hides and (name in self.arguments or name in self.rules):
            what = "a function" if name in self.rules else "an argument, or of a size in a shape"
            self.deny(node, "name-taken", f"loop variable '{name}' has the name of {what}", "choose another name")
        taken = {*self.inames, *self.arguments, *self.names.locals, *self.rules, *self.parameters}
        iname = name
        number = 0
        while iname in taken or (number and iname in self.names.words):
            number += 1
            iname = f"{name}_{number}"
        self.inames.append(iname)
        return iname

    # names

    def is_own(self, name: str) -> bool:
        """Return whether *name* belongs to the function: a loop, a local, an argument, a size or a rule."""
        known = name in self.loops or name in self.names.locals or name in self.names.loops
        return known or name in self.arguments or name in self.rules or name in self.parameters

    def captured(self, name: str) -> object:
        """Return the object that *name* refers to outside of the function, or ``NOTHING``."""
        return NOTHING if self.is_own(name) else self.names.captured.get(name, NOTHING)

    def find(self, node: Node) -> object:
        """Return the object of a captured name or of a module's attribute, ``NOTHING`` if there is none."""
        if isinstance(node, ast.Name):
            return self.captured(node.id)
        if isinstance(node, ast.Attribute):
            around = self.find(node.value)
            if isinstance(around, types.ModuleType):
                return getattr(around, node.attr, NOTHING)
        return NOTHING

    def number(self, node: Node) -> int | float | bool | None:
        """Return a captured number as a Python scalar, None for other objects."""
        value = self.find(node)
        if isinstance(value, np.bool_ | np.integer | np.floating):
            item: object = value.item()
            return item if isinstance(item, bool | int | float) else None
        return value if type(value) in (bool, int, float) else None  # type: ignore[return-value] # tested

    def unknown(self, node: ast.Name) -> NoReturn:
        """Refuse a name that is no variable of the kernel and no number."""
        name = node.id
        if name in self.names.loops:
            hint = "assign what is needed after the loop to a variable inside of it"
            self.deny(node, "unknown-iname", f"loop variable '{name}' has no value outside of its loop", hint)
        value = self.captured(name)
        if value is NOTHING:
            known = {*self.arguments, *self.names.locals, *self.loops}
            hints = unknown_name("argument", name, known).hints
            self.deny(node, "undeclared-name", f"'{name}' is not defined", *hints)
        if isinstance(value, np.ndarray):
            hint = f"make it an argument: {name}: pl.Array[np.{value.dtype}, ...]"
            self.deny(node, "bad-capture", f"'{name}' is an array from outside of the function", hint)
        if callable(value) or name in FUNCTIONS:
            self.deny(node, "bad-capture", f"'{name}' is a function, not a value", f"call it: {name}(x)")
        what = f"'{name}' comes from outside of the function and is a {type(value).__name__}"
        self.deny(node, "bad-capture", what, "only numbers are taken over; make anything else an argument")
