"""Random Python functions, from a seed: loops, conditions, scalars, temporary arrays, reductions, local functions.

Loops run upward and downward, over ranges and by counting, to bounds that may be read from memory.

Each is run twice: as a kernel, and by Python itself, statement after statement.  Python's result is the expected one.
A variable that Python finds without a value raises :class:`UndefinedError`.
"""

from __future__ import annotations

import linecache
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np

from polyloop.frontend import intrinsics
from polyloop.frontend.python import kernel
from polyloop.kernel.kernel import LoopKernel

__all__ = ["PythonSource", "UndefinedError", "random_function"]

MARGIN: Final = 4
"""Elements of each array beyond those that a loop below ``n`` subscripts."""
_MODULUS: Final = 97
_ARRAYS: Final = ("a", "b", "c")
_TEMPORARIES: Final = ("t", "u")
_LATE: Final = "late"
"""A temporary array that is read above its first assignment, in later iterations."""
_LOOPS: Final = (
    "range(n)", "range(n)", "range(3)", "range(1, n)", "range(2)", "range({v}, n)", "range({v})", "range({v} + 1)",
    "range(0, n, 2)", "range(1, {v} + 1)", "range(min({v}, 3))", "range(0)",
    "range(n - 1, -1, -1)", "range({v}, -1, -1)", "range(n - 1, {v}, -2)", "reversed(range(n))",
    "reversed(range(1, n, 2))", "range(min(n - 1, 2), 0, -1)", "range(n // 2)",
)  # fmt: skip
_READ: Final = ("range(min({x} % 5, n))", "range({x} % 3, n)", "range(min(n, {x} % 4) - 1, -1, -1)", "range({x} % 3)")
"""Loops to bounds that are read from memory."""
_COUNTING: Final = (
    ("0", "{w} < n", "{w} += 1"), ("1", "n > {w}", "{w} = {w} + 1"), ("0", "{w} <= {v}", "{w} += 2"),
    ("n - 1", "{w} >= 0", "{w} -= 1"), ("{v}", "{w} > 0", "{w} -= 2"), ("{x} % 3", "{w} < min(n, 4)", "{w} += 1"),
)  # fmt: skip
"""First value, condition and increment of ``while`` loops."""
_COUNTERS: Final = ("w", "x", "y")
_OUTER: Final = "<scalar>"
"""Stands for a scalar of the whole function, until all are known."""
_N: Final = re.compile(r"\bn\b")


class UndefinedError(Exception):
    """Python read a variable that has no value."""


class _Memory:
    """A temporary array with Python semantics, whose elements are undefined at first."""

    def __init__(self, size: int) -> None:
        self.values: list[int | None] = [None] * size

    def __getitem__(self, index: int) -> int:
        assert 0 <= index < len(self.values), "a subscript outside of a temporary array"
        found = self.values[index]
        if found is None:
            raise UndefinedError
        return found

    def __setitem__(self, index: int, value: int) -> None:
        assert 0 <= index < len(self.values), "a subscript outside of a temporary array"
        self.values[index] = int(value)


@dataclass(frozen=True)
class PythonSource:
    """The text of a function with the parameters ``n, a, b, c``; *temporaries* are its arrays."""

    lines: tuple[str, ...]
    temporaries: tuple[str, ...]
    name: str = "drawn"
    features: tuple[str, ...] = ("Python",)

    def script(self, variable: str = "knl") -> str:
        """Return the creation of the kernel as Python text."""
        options = 'assumptions="0 <= n <= 5", silenced_warnings="*"'
        return f"@pl.kernel({options})\n{self.text()}\n\n{variable} = {self.name}"

    def text(self) -> str:
        """Return the text of the function, as passed to the decorator."""
        data = ", ".join(f'{name}: pl.Array[np.int64, "n + {MARGIN}"]' for name in _ARRAYS)
        declared = [f"    {name}: pl.Array[np.int64, 8]" for name in self.temporaries]
        return "\n".join([f"def {self.name}(n: pl.int32, {data}):", *declared, *self.lines]) + "\n"

    def make(self) -> LoopKernel:
        """Create the kernel."""
        return kernel(assumptions="0 <= n <= 5", silenced_warnings="*")(self._function(self.text()))

    def run(self, n: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays after Python has run the function.

        Raises
        ------
        UndefinedError
            A variable was read that had no value.
        """
        arrays = {name: [int(x) for x in arguments[name]] for name in _ARRAYS}
        memory = "".join(f"    {name} = _memory(8)\n" for name in self.temporaries)
        body = "\n".join(self.lines)
        function = self._function(f"def {self.name}(n, {', '.join(_ARRAYS)}):\n{memory}{body}\n")
        try:
            function(n, **arrays)
        except NameError:
            raise UndefinedError from None
        return {name: np.array(values, np.int64) for name, values in arrays.items()}

    def expected(self, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the arrays after Python has run the function, None where it reads a variable without a value."""
        zeros = np.zeros(int(arguments["n"]) + MARGIN, np.int64)
        try:
            return self.run(int(arguments["n"]), {name: arguments.get(name, zeros) for name in _ARRAYS})
        except UndefinedError:
            return None

    def _function(self, text: str) -> Callable[..., object]:
        name = "<drawn function>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        names: dict[str, Any] = {"pl": _names(), "np": np, "_memory": _Memory}
        exec(compile(text, name, "exec"), names)
        made: Callable[..., object] = names[self.name]
        return made


def _names() -> ModuleType:
    """Return a module that stands for ``pl`` in a drawn function."""
    found = ModuleType("pl")
    vars(found).update(Array=intrinsics.Array, int32=np.int32)
    return found


class _Writer:
    """Writes the statements of one function."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.scalars: list[str] = []
        self.loops: list[str] = []
        self.short: set[str] = set()
        self.indent: tuple[str, ...] = ()
        self.late_arrays: list[str] = []
        self.counters: list[str] = []
        self.functions: list[str] = []
        self.left = rng.randint(3, 10)
        for name in _TEMPORARIES:
            if rng.random() < 0.9:
                self.lines.append(f"    for {name}_ in range(8):")
                self.lines.append(f"        {name}[{name}_] = {rng.randint(-2, 5)}*{name}_")
        while rng.random() < 0.75:
            self.scalar()
        while rng.random() < 0.3:
            self.function()

    def line(self, text: str) -> None:
        self.lines.append("    " * (len(self.indent) + 1) + text)

    def element(self) -> str:
        """Return an element of an array: of an argument, or of a temporary."""
        rng = self.rng
        if rng.random() < 0.45:
            return f"{rng.choice(_TEMPORARIES)}[{self.index(wide=True)}]"
        return f"{rng.choice(_ARRAYS)}[{self.index(wide=False)}]"

    def index(self, wide: bool) -> str:
        rng = self.rng
        if not self.loops or rng.random() < 0.3:
            return str(rng.randint(0, 2))
        name = rng.choice(self.loops)
        shape = rng.random()
        if shape < 0.6:
            return name
        if shape < 0.85:
            return f"{name} + 1"
        if wide:
            return f"7 - {name}"
        return name if name in self.short else f"n - 1 - {name}"

    def value(self, depth: int = 0) -> str:
        rng = self.rng
        draw = rng.random()
        if draw < 0.3 or depth > 2:
            return self.element()
        if draw < 0.5 and self.scalars:
            return rng.choice(self.scalars)
        if draw < 0.58:
            return str(rng.randint(-3, 9))
        if draw < 0.65 and self.loops:
            return rng.choice(self.loops)
        if draw < 0.72:
            return f"({self.value(depth + 1)} if {self.condition()} else {self.value(depth + 1)})"
        if draw < 0.78:
            return f"{rng.choice(('min', 'max'))}({self.value(depth + 1)}, {self.value(depth + 1)})"
        if draw < 0.86 and depth == 0:
            return self.total()
        if draw < 0.9:
            return f"{rng.randint(2, 5)}*{self.value(depth + 1)}"
        if draw < 0.93 and self.functions:
            return f"{rng.choice(self.functions)}({self.value(depth + 1)})"
        return f"({self.value(depth + 1)} {rng.choice('++-')} {self.value(depth + 1)})"

    def total(self) -> str:
        """Return a reduction with a range that may be empty."""
        rng = self.rng
        known = self.loops or ["n"]
        over = rng.choice((*_LOOPS, *_READ)).format(v=rng.choice(known), x=self.plain())
        array = rng.choice((*_ARRAYS, *_ARRAYS, "t"))
        return f"sum({array}[q]*{rng.randint(1, 3)} for q in {over})"

    def plain(self) -> str:
        """Return a scalar or an element, which bounds a loop."""
        return self.rng.choice([*self.scalars, self.element()])

    def condition(self) -> str:
        rng = self.rng
        draw = rng.random()
        if self.loops and draw < 0.6:
            left = rng.choice(self.loops)
            right = rng.choice((*self.loops, "0", "1", "n - 1", "2"))
            return f"{left} {rng.choice(('<', '>', '==', '!=', '<=', '>='))} {right}"
        if draw < 0.7:
            return f"n > {rng.randint(0, 3)}"
        return f"{rng.choice([*self.scalars, self.element()])} {rng.choice('<>')} {rng.randint(0, 30)}"

    def statement(self) -> None:
        rng = self.rng
        self.left -= 1
        draw = rng.random()
        if draw < 0.05 and self.loops and self.indent[-1].startswith("for"):
            self.late(self.loops[-1])
        elif draw < 0.27 and len(self.loops) < 3:
            self.loop()
        elif draw < 0.33 and len(self.loops) < 3 and len(self.counters) < len(_COUNTERS):
            self.counting()
        elif draw < 0.42 and len(self.indent) < 5:
            self.branches()
        elif draw < 0.62:
            self.scalar()
        elif draw < 0.68 and len(self.scalars) > 1:
            self.several()
        elif draw < 0.75:
            self.line(f"{self.element()} += ({self.value(1)}) % {_MODULUS}")
        else:
            self.line(f"{self.element()} = ({self.value()}) % {_MODULUS}")

    def scalar(self) -> None:
        rng = self.rng
        if self.scalars and rng.random() < 0.6:
            name = rng.choice(self.scalars)
            if rng.random() < 0.4:
                self.line(f"{name} += {self.element()} % {_MODULUS}")
            else:
                self.line(f"{name} = ({self.value()}) % {_MODULUS}")
            return
        name = f"s{len(self.scalars)}"
        self.line(f"{name}: np.int64 = ({self.value()}) % {_MODULUS}")
        self.scalars.append(name)

    def several(self) -> None:
        """Write an assignment to several targets."""
        rng = self.rng
        first, second = rng.sample(self.scalars, 2)
        element, other = self.element(), self.element()
        form = rng.randint(0, 4)
        if form == 0:
            self.line(f"{first}, {second} = {second}, {first}")
        elif form == 1:
            self.line(f"{element}, {other} = {other}, {element}")
        elif form == 2:
            self.line(f"{first} = {second} = ({self.value()}) % {_MODULUS}")
        elif form == 3:
            self.line(f"{element} = {first} = ({self.value()}) % {_MODULUS}")
        else:
            self.line(f"({first}, [{element}, {second}]) = {element}, ({second}, {first} % {_MODULUS})")

    def function(self) -> None:
        """Write a function, which may read variables of the kernel that are assigned later."""
        rng = self.rng
        name = f"f{len(self.functions)}"
        names = rng.choice([("z",), ("z", "s0"), ("z", "b")])
        self.line(f"def {name}({names[0]}):")
        inner, self.indent = self.indent, (*self.indent, "def")
        if len(names) > 1:
            self.line(f"{names[1]} = {names[0]} + {rng.randint(1, 3)}")
        if rng.random() < 0.3:
            self.line(f"if z > {rng.randint(0, 20)}:")
            self.indent = (*self.indent, "if")
            self.line(f"return {names[-1]} - {rng.choice(('1', _OUTER, 'a[0]'))}")
            self.indent = self.indent[:-1]
        more = rng.choice(("1", _OUTER, "a[1]", "u[2]", "sum(c[q] for q in range(n))", "z*2"))
        self.line(f"return {names[-1]} + {more}")
        self.indent = inner
        self.functions.append(name)

    def block(self, head: str, last: str = "") -> None:
        self.line(head)
        self.indent = (*self.indent, head)
        for _ in range(self.rng.randint(1, 3)):
            if self.left > 0:
                self.statement()
        if last:
            self.line(last)
        elif self.lines[-1].endswith(":"):
            self.line("pass")
        self.indent = self.indent[:-1]

    def counting(self) -> None:
        """Write a ``while`` loop, statements below its increment, and at times the last value of its counter."""
        rng = self.rng
        name = rng.choice([x for x in _COUNTERS if x not in self.counters])
        known, parts = rng.choice(self.loops) if self.loops else "1", rng.choice(_COUNTING)
        if any("{v}" in part for part in parts) and (known in self.short or known == "1"):
            self.short.add(name)
        start, condition, step = (part.format(w=name, v=known, x=self.plain()) for part in parts)
        self.line(f"{name} = {start}")
        self.counters.append(name)
        self.loops.append(name)
        is_used = rng.random() < 0.3 and step.endswith(" 1") and "-" not in step
        end = f"; {rng.choice(_ARRAYS)}[{name}] += {rng.randint(1, 3)}" if is_used else ""
        self.block(f"while {condition}:", f"{step}{end}")
        self.loops.pop()
        self.counters.pop()
        self.short.discard(name)
        if rng.random() < 0.3:
            self.line(f"{self.element()} = {name} + {rng.randint(0, 3)}")

    def loop(self) -> None:
        rng = self.rng
        name = rng.choice([x for x in ("i", "j", "k", "l") if x not in self.loops])
        over, below = rng.choice((*_LOOPS, *_READ)).replace("{x}", self.plain()), "n"
        if "{v}" in over:
            below = rng.choice(self.loops) if self.loops else "n"
            over = over.format(v=below) if self.loops else "range(n)"
        self.loops.append(name)
        if not _N.search(over) and (below == "n" or below in self.short):
            self.short.add(name)
        self.block(f"for {name} in {over}:")
        self.loops.pop()
        self.short.discard(name)

    def late(self, name: str) -> None:
        """Write a statement that, except in the first iterations, reads a value assigned later in the loop."""
        rng = self.rng
        array, place = f"{_LATE}{len(self.late_arrays)}", rng.randint(0, 7)
        self.late_arrays.append(array)
        start = int("range(1, " in self.indent[-1])
        self.line(f"{rng.choice(_ARRAYS)}[{name}] = {array}[{place}] if {name} > {start} else {rng.randint(0, 9)}")
        if self.left > 0 and rng.random() < 0.7:
            self.statement()
        self.line(f"{array}[{place}] = ({self.value()}) % {_MODULUS}")

    def branches(self) -> None:
        self.block(f"if {self.condition()}:")
        if self.rng.random() < 0.3:
            self.block(f"elif {self.condition()}:")
        if self.rng.random() < 0.5:
            self.block("else:")


def random_function(seed: int) -> PythonSource:
    """Return the function of a *seed*."""
    writer = _Writer(random.Random(seed))
    while writer.left > 0:
        writer.statement()
    writer.line("a[0] = a[0] + 1")
    outer = writer.rng.choice(writer.scalars or ["2"])
    lines = tuple(line.replace(_OUTER, outer) for line in writer.lines)
    return PythonSource(lines, (*_TEMPORARIES, *writer.late_arrays), f"drawn_{seed}")
