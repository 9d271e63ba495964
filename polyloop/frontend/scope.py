"""Scopes of a function that becomes a kernel: arguments, locals, loops, and captured values."""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NoReturn, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.functions import FUNCTIONS
from polyloop.expr.names import check_identifier
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.frontend.source import DECORATOR, FunctionSource, Node
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable

__all__ = ["NOTHING", "LocalFunction", "Names", "Number", "Scope", "Use", "own_nodes"]

Number: TypeAlias = int | float | complex | bool
"""A number from outside of the function."""


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


def own_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of *tree* but for those inside of functions that it defines, which have names of their own."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from own_nodes(child)


@dataclass(frozen=True)
class LocalFunction:
    """A function in the body of a kernel.

    Attributes
    ----------
    parameters
        Its parameters.
    locals
        All names that it binds: parameters, and variables that it assigns.
    """

    tree: ast.FunctionDef
    parameters: tuple[str, ...]
    locals: frozenset[str]

    @staticmethod
    def of(tree: ast.FunctionDef) -> LocalFunction:
        """Return the function that *tree* defines."""
        entries = tree.args
        parameters = tuple(entry.arg for entry in (*entries.posonlyargs, *entries.args, *entries.kwonlyargs))
        return LocalFunction(tree, parameters, frozenset((*parameters, *_stored(tree))))

    def defaults(self) -> dict[str, ast.expr]:
        """Return the default of each parameter that has one."""
        entries = self.tree.args
        plain = [*entries.posonlyargs, *entries.args]
        found = dict(zip((entry.arg for entry in reversed(plain)), reversed(entries.defaults), strict=False))
        found.update({x.arg: value for x, value in zip(entries.kwonlyargs, entries.kw_defaults, strict=True) if value})
        return found

    def passed(self, call: ast.Call) -> dict[str, ast.expr]:
        """Return the arguments that *call* passes, by parameter.

        Raises
        ------
        TypeError
            Python would not take the call.
        """
        entries, kinds = self.tree.args, inspect.Parameter
        groups = ((entries.posonlyargs, kinds.POSITIONAL_ONLY), (entries.args, kinds.POSITIONAL_OR_KEYWORD),
                  (entries.kwonlyargs, kinds.KEYWORD_ONLY))  # fmt: skip
        defaults = self.defaults()
        signature = inspect.Signature([
            kinds(entry.arg, kind, default=defaults.get(entry.arg, kinds.empty))
            for group, kind in groups for entry in group
        ])  # fmt: skip
        if any(isinstance(entry, ast.Starred) for entry in call.args) or any(x.arg is None for x in call.keywords):
            raise TypeError("its arguments are no list in the text")
        return signature.bind(*call.args, **{str(entry.arg): entry.value for entry in call.keywords}).arguments


def _stored(tree: ast.FunctionDef) -> Counter[str]:
    """Return the names that the function of *tree* assigns, each with the number of places."""
    nodes = list(own_nodes(tree))
    comprehensions = [node for node in nodes if isinstance(node, ast.comprehension)]
    generated = {name for node in comprehensions for name in ast.walk(node.target)}
    names = [node for node in nodes if isinstance(node, ast.Name) and node not in generated]
    return Counter(node.id for node in names if isinstance(node.ctx, ast.Store))


@dataclass(frozen=True)
class Names:
    """Names of the body by their syntax, before it is read.

    Attributes
    ----------
    locals
        Names that the body assigns.
    once
        Those that it assigns in one place.
    loops
        Variables of the ``for`` loops; those of generators are not seen outside of them.
    defined
        Functions that the body defines.
    words
        All names in the text.
    captured
        Objects of the names around the function: builtins, globals, variables of enclosing functions.
    counters
        Variables that exist as counters of ``while`` loops only.
    """

    locals: frozenset[str]
    once: frozenset[str]
    loops: frozenset[str]
    defined: frozenset[str]
    words: frozenset[str]
    captured: Mapping[str, object]
    counters: frozenset[str] = frozenset()

    @staticmethod
    def of(tree: ast.FunctionDef, function: Callable[..., object], arguments: Collection[str]) -> Names:
        """Return the names of *function*, which *tree* defines."""
        nodes = list(ast.walk(tree))
        loops = {
            name.id
            for node in own_nodes(tree)
            if isinstance(node, ast.For)
            for name in ast.walk(node.target)
            if isinstance(name, ast.Name)
        }
        stored = _stored(tree)
        words = {node.id for node in nodes if isinstance(node, ast.Name)}
        defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        around = {key: value for key, value in _surroundings(function).items() if key not in defined}
        written = words.union(defined, arguments)
        own = frozenset(stored.keys() - loops - set(arguments))
        once = frozenset(name for name in own if stored[name] == 1)
        return Names(own, once, frozenset(loops), frozenset(defined), frozenset(written), around)


@dataclass(frozen=True)
class View:
    """Names at one place of the body.

    Attributes
    ----------
    bound
        Names that stand for expressions: variables of open loops, over inames; names of the function being read.
    open
        Inames of the open loops, those of generators among them.
    parameters
        Parameters of the rules that are being made: no loop is bounded by them.
    hidden
        Names of the function of the body that is being read; those without a value are not in ``bound``.
    aliases
        Parameter of that function -> the array that was passed.
    """

    bound: Mapping[str, Expression] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass
class NewNames:
    """Every iname so far; every other name that was made up; inames that are not the values of their variables."""

    inames: list[str] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    turned: set[str] = field(default_factory=set)


@dataclass
class Scope:
    """Symbol table of the body, while it is read from top to bottom.

    Attributes
    ----------
    arguments
        Arguments, and the sizes that their shapes mention.
    conditions
        Arguments of type bool.
    view
        Names that change with the place: those of open loops, and of the function that is being read.
    assigned
        Locals that some statement above has assigned, with whether all values were conditions.
    functions
        Functions defined in the body so far.
    new
        Names that were made up.
    lengths
        Extent of the first axis of each array that has one.
    """

    source: FunctionSource
    arguments: dict[str, Use]
    conditions: frozenset[str]
    names: Names
    view: View = field(default_factory=View)
    assigned: dict[str, bool] = field(default_factory=dict)
    arrays: set[str] = field(default_factory=set)
    functions: dict[str, LocalFunction] = field(default_factory=dict)
    new: NewNames = field(default_factory=NewNames)
    lengths: dict[str, Expression] = field(default_factory=dict)

    @property
    def bound(self) -> Mapping[str, Expression]:
        """The names that stand for expressions."""
        return self.view.bound

    @property
    def hidden(self) -> frozenset[str]:
        """The names of the function of the body that is being read."""
        return self.view.hidden

    @property
    def open(self) -> frozenset[str]:
        """The inames of the open loops."""
        return self.view.open

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters of the rules that are being made."""
        return self.view.parameters

    @property
    def aliases(self) -> Mapping[str, str]:
        """The arrays that were passed for parameters."""
        return self.view.aliases

    def bind(self, values: Mapping[str, Expression]) -> None:
        """Let names stand for *values* from here on."""
        self.view = replace(self.view, bound={**self.view.bound, **values})

    def measure(self, entries: Iterable[object]) -> None:
        """Note the lengths of declared arrays."""
        for entry in entries:
            if isinstance(entry, ArrayArg | TemporaryVariable) and isinstance(entry.shape, tuple) and entry.shape:
                self.lengths[entry.name] = entry.shape[0]

    def deny(self, node: Node, code: str, message: str, *hints: str) -> NoReturn:
        """Raise the error *code* at *node*."""
        self.report(node, Diagnostic(code, message, hints=hints))

    def report(self, node: Node, diagnostic: Diagnostic) -> NoReturn:
        """Raise *diagnostic* at *node*."""
        raise KernelError(DECORATOR, None, [replace(diagnostic, span=self.source.span(node))])

    def check_name(self, node: Node, name: str, kind: str = "name") -> None:
        """Refuse a name that generated code cannot have."""
        wrong = check_identifier(name, kind)
        if wrong is not None:
            self.report(node, wrong)

    # loops

    @contextmanager
    def looping(self, names: Mapping[str, Expression], inames: Collection[str]) -> Iterator[None]:
        """Bind loop variables to expressions over new *inames* in the body of the ``with``."""
        before = self.view
        turned = (value for value in names.values() if not isinstance(value, p.Variable))
        self.new.turned.update(*(variables(value).intersection(inames) for value in turned))
        self.view = replace(before, bound={**before.bound, **names}, open=before.open.union(inames))
        try:
            yield
        finally:
            self.view = before

    @contextmanager
    def calling(
        self, function: LocalFunction, values: Mapping[str, Expression], arrays: Mapping[str, str]
    ) -> Iterator[None]:
        """Read the body of *function*, with *values* of its parameters, in the body of the ``with``.

        It sees the names of the kernel as they are at the call, but for its own.
        """
        before = self.view
        around = {name: value for name, value in self.bound.items() if name not in function.locals}
        parameters = self.parameters.union(*map(variables, values.values()))
        self.view = View({**around, **values}, before.open, parameters, function.locals, arrays)
        try:
            yield
        finally:
            self.view = before

    def new_iname(self, node: ast.Name, hides: bool, wish: str | None = None) -> str:
        """Return the iname for a loop variable: its name, or the name with a number where that is taken.

        A variable that *hides* others is one of a generator.
        """
        name = node.id
        self.check_name(node, name, "iname")
        if not hides and name in self.bound:
            hint = "end that loop first, or use another name"
            self.deny(node, "duplicate-iname", f"a loop over '{name}' is open already", hint)
        if not hides and (name in self.arguments or name in self.functions):
            what = "a function" if name in self.functions else "an argument, or of a size in a shape"
            self.deny(node, "name-taken", f"loop variable '{name}' has the name of {what}", "choose another name")
        iname = self._free(wish or name, self.taken(), name)
        self.new.inames.append(iname)
        return iname

    def taken(self) -> set[str]:
        """Return the names that a new one must avoid."""
        return {
            *self.new.inames, *self.arguments, *self.names.locals - self.names.counters, *self.assigned,
            *self.functions, *self.parameters, *self.new.made,
        }  # fmt: skip

    def fresh(self, wish: str) -> str:
        """Return a name for what the function has no name for: *wish*, with a number where that is taken."""
        name = self._free(wish, self.taken())
        self.new.made.add(name)
        return name

    def _free(self, wish: str, taken: Collection[str], written: str | None = None) -> str:
        """Return *wish* or a name with a number that is not *taken*; only *written* may be a word of the text."""
        name, number = wish, 0
        while name in taken or (name != written and name in self.names.words):
            number += 1
            name = f"{wish}_{number}"
        return name

    # names

    def is_own(self, name: str) -> bool:
        """Return whether *name* belongs to the function: a loop, a local, an argument, a size or a function in it."""
        names = self.names
        known = name in self.bound or name in self.hidden or name in names.locals or name in names.loops
        return known or name in self.arguments or name in self.names.defined

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

    def number(self, node: Node) -> Number | None:
        """Return a captured number as a Python scalar, None for other objects."""
        value = self.find(node)
        if isinstance(value, np.bool_ | np.number):
            item: object = value.item()
            return item if isinstance(item, bool | int | float | complex) else None
        return value if type(value) in (bool, int, float, complex) else None  # type: ignore[return-value] # tested

    def unknown(self, node: ast.Name) -> NoReturn:
        """Refuse a name that is no variable of the kernel and no number."""
        name = node.id
        if name in self.names.loops:
            hint = "assign what is needed after the loop to a variable inside of it"
            self.deny(node, "unknown-iname", f"loop variable '{name}' has no value outside of its loop", hint)
        value = self.captured(name)
        if value is NOTHING:
            known = {*self.arguments, *self.names.locals, *self.bound}
            hints = unknown_name("argument", name, known).hints
            self.deny(node, "undeclared-name", f"'{name}' is not defined", *hints)
        if isinstance(value, np.ndarray):
            hint = f"make it an argument: {name}: pl.Array[np.{value.dtype}, ...]"
            self.deny(node, "bad-capture", f"'{name}' is an array from outside of the function", hint)
        if callable(value) or name in FUNCTIONS:
            self.deny(node, "bad-capture", f"'{name}' is a function, not a value", f"call it: {name}(x)")
        what = f"'{name}' comes from outside of the function and is a {type(value).__name__}"
        self.deny(node, "bad-capture", what, "only numbers are taken over; make anything else an argument")
