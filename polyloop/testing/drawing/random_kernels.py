"""Random kernels, from a seed.

All arrays have a margin, so that shifted subscripts stay inside.  Written values are only added up, never multiplied
with each other, and inputs are small integers: sums are exact in any order as long as values stay small.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import islpy as isl
import numpy as np
from pymbolic import parse

from polyloop.creation.create import make_kernel
from polyloop.errors import PolyloopWarning
from polyloop.kernel.arrays import AddressSpace, ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import python
from polyloop.kernel.text.specs import GlobalArg, TemporaryVariable
from polyloop.runtime.evaluate import evaluate
from polyloop.runtime.views import empty_numpy
from polyloop.target.interpreter import interpret
from polyloop.testing.drawing.numbers import Numbers, random_numbers
from polyloop.testing.drawing.random_rules import with_rules
from polyloop.testing.inputs import array_strides

__all__ = ["FACTOR", "INDICES", "Source", "is_allowed", "random_arguments", "random_source", "ruled_sources"]

_RULED: Final = 0.4
"""Fraction of the kernels that have rules put into them, in any place."""
SHIFTS: Final = (2**31 - 3, 2**31 - 3, 2**31 - 8, 2**31, 2**32 - 3, 2**40, -(2**31) - 2, 5, 0)
"""Values of the parameter ``far``, by which inames are shifted."""
FACTOR: Final = "factor"
"""The scalar that expressions of mixed types are multiplied by."""
INDICES: Final = frozenset({"idx", "cols", "rowptr", "div", "jump"})
"""Arrays whose contents fit each other and their names: subscripts, bounds, and divisors."""
MARGIN: Final = 3
"""Elements before the first and after the last that a plain subscript touches."""
EXTENT: Final = f"2*n + {2 * MARGIN + 2}"
FIXED_EXTENT: Final = "28"

FIXED: Final = ("0 <= i < 10", "0 <= i < 9 and 0 <= j < 6", "0 <= i < 7 and 0 <= j <= i")
"""Domains whose extents are numbers, so that temporaries fit into shared memory."""
ONE: Final = (
    "0 <= i < n", "1 <= i < n", "0 <= i < n - 1", "0 <= i < n and i mod 2 = 0", "2 <= i <= n + 1", "0 <= i < 6",
    "0 <= 3*i < n",
)  # fmt: skip
TWO: Final = (
    "0 <= i, j < n",
    "0 <= i, j < n",
    "0 <= i < n and 0 <= j <= i",
    "0 <= i < n and i <= j < n",
    "1 <= i < n and 0 <= j < n - 1",
    "0 <= i < n and 0 <= j < 5",
    "0 <= i < 4 and 1 <= j < n",
    "0 <= i, j and i + j < n",
    "0 <= i < n and 0 <= j < n and (i + j) mod 2 = 0",
    "0 <= i < n and 0 <= 2*j <= i",
)
TERMS: Final = ("0 <= k < n", "0 <= k < 5", "0 <= k <= i", "1 <= k < i", "i <= k < n", "0 <= k < n and k mod 3 = 1")


@dataclass(frozen=True)
class Source:
    """The text of a kernel, to be passed to ``make_kernel`` and to be printed when something is wrong.

    Attributes
    ----------
    options
        Other arguments of ``make_kernel``, by name.
    features
        Features drawn, for the counts.
    twin
        Another text of the same meaning.
    """

    name: str
    domains: tuple[str, ...]
    lines: tuple[str, ...]
    data: tuple[object, ...]
    options: tuple[tuple[str, object], ...] = ()
    features: tuple[str, ...] = ()
    twin: Source | None = None

    def script(self, variable: str = "knl") -> str:
        """Return the creation of the kernel as Python text."""
        body = "\n".join(f"    {line}" for line in self.lines)
        data = ", ".join(python(entry) for entry in self.data)
        options = "".join(f"    {name}={value!r},\n" for name, value in self.options)
        return (
            f'{variable} = pl.make_kernel(\n    {list(self.domains)!r},\n    """\n{body}\n    """,\n'
            f"    [{data}, ...],\n    name={self.name!r},\n{options})"
        )

    def make(self) -> LoopKernel:
        """Create the kernel, without warnings."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PolyloopWarning)
            options: dict[str, Any] = dict(self.options)
            return make_kernel(list(self.domains), "\n".join(self.lines), [*self.data, ...], name=self.name, **options)

    def expected(self, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the expected results of the program, computed without it; None where they are not known."""
        if self.twin is None:
            return None
        kernel = self.twin.make()
        names = {argument.name for argument in kernel.arguments}
        return interpret(kernel, **{x: np.copy(v) for x, v in arguments.items() if x in names})


class _Writer:
    """Writes the instructions of one kernel."""

    def __init__(self, rng: random.Random, inames: tuple[str, ...], *, is_plain: bool) -> None:
        self.rng = rng
        self.is_plain = is_plain
        self.inames = inames
        self.one = ["x", "y"]
        self.two = ["a", "b"]
        self.scalars: list[str] = []
        self.rules: list[str] = []
        self.reductions: list[str] = []
        self.uses_index = False

    def shift(self, iname: str) -> str:
        rng = self.rng
        draw = rng.random()
        if draw < 0.06:
            return f"n - 1 - {iname} + {MARGIN}"
        if draw < 0.10:
            return f"({iname} // 2) + {MARGIN}"
        if draw < 0.13:
            return f"2*{iname} + {MARGIN}"
        return f"{iname} + {MARGIN + rng.choice((0, 0, 0, 0, 1, -1, 2))}"

    def element(self, name: str, inames: tuple[str, ...]) -> str:
        if self.is_plain and name[0] in "ot" and set(self.inames) <= set(inames) and not {"k", "m"} & set(inames):
            rank = 2 if name in self.two else 1
            return f"{name}[{', '.join(f'{iname} + {MARGIN}' for iname in self.inames[:rank])}]"
        rank = 2 if name in self.two else 1
        if not inames:
            return f"{name}[{', '.join(str(self.rng.randint(2, 5)) for _ in range(rank))}]"
        chosen = [self.rng.choice(inames) for _ in range(rank)]
        if rank == 2 and len(inames) >= 2 and self.rng.random() < 0.85:
            chosen = self.rng.sample(inames, 2)
            if self.rng.random() < 0.7:
                chosen.sort(key=inames.index)
        return f"{name}[{', '.join(self.shift(iname) for iname in chosen)}]"

    def read(self, inames: tuple[str, ...]) -> str:
        rng = self.rng
        if self.scalars and rng.random() < 0.4:
            return rng.choice(self.scalars)
        if self.rules and inames and rng.random() < 0.5:
            return f"{rng.choice(self.rules)}({rng.choice(inames)} + {rng.choice((0, 0, 1))})"
        if self.uses_index and inames and rng.random() < 0.25:
            return f"{rng.choice(self.one)}[idx[{rng.choice(inames)} + {MARGIN}]]"
        return self.element(rng.choice((*self.one, *self.two, *self.two[2:], *self.one[2:])), inames)

    def expression(self, inames: tuple[str, ...], depth: int = 0) -> str:
        rng, draw = self.rng, self.rng.random()
        if draw < 0.45 or depth > 2 or not inames:
            return self.read(inames)
        if draw < 0.68:
            return f"{self.expression(inames, depth + 1)} {rng.choice('+-')} ({self.expression(inames, depth + 1)})"
        if draw < 0.75:
            return f"{rng.choice((2, 3))} * x[{rng.choice(inames)} + {MARGIN}] * {rng.choice(inames)}"
        if draw < 0.81:
            left, right = self.expression(inames, depth + 1), self.read(inames)
            return f"if({self.condition(inames)}, {left}, {right})"
        if draw < 0.86:
            return f"{rng.choice(('min', 'max'))}({self.read(inames)}, {self.read(inames)})"
        if draw < 0.95 and len(self.reductions) < 2 and not {"k", "m"} & set(inames):
            return self.reduction(inames)
        return f"{rng.choice(inames)} + {rng.randint(0, 3)}"

    def condition(self, inames: tuple[str, ...]) -> str:
        rng = self.rng
        if rng.random() < 0.3:
            return f"{self.element('x', inames)} > {rng.randint(0, 1)}"
        return f"{rng.choice(inames)} {rng.choice(('<', '>', '=='))} {rng.randint(0, 5)}"

    def reduction(self, inames: tuple[str, ...]) -> str:
        rng = self.rng
        iname = "m" if "k" in self.reductions else "k"
        self.reductions.append(iname)
        around = (*inames, iname)
        term = f"{self.expression(around, 3)} + {self.element('a', around)}"
        draw = rng.random()
        if draw < 0.55:
            return f"sum({iname}, {term})"
        if draw < 0.75:
            return f"{rng.choice(('max', 'min'))}({iname}, {term})"
        if draw < 0.80:
            return f"product({iname}, if(x[{iname} + {MARGIN}] > 0, 2, 1))"
        if draw < 0.87:
            return f"if({rng.choice(('any', 'all'))}({iname}, {self.element('x', around)} > 0), 1, 2)"
        return f"min(arg{rng.choice(('max', 'min'))}({iname}, {term}, {iname}).index, 99)"  # of no terms: the largest


def _declared(
    writer: _Writer, lines: list[str], outputs: list[str], rng: random.Random, *, fixed: bool
) -> list[object]:
    """Return the declarations of the arrays that *lines* use."""
    kind, text = np.dtype(_type(rng)), "\n".join(lines)
    data: list[object] = []
    extent = FIXED_EXTENT if fixed else EXTENT
    spaces = [AddressSpace.AUTO, AddressSpace.AUTO, AddressSpace.AUTO, AddressSpace.GLOBAL]
    spaces += [AddressSpace.LOCAL, AddressSpace.PRIVATE] if fixed else []
    for name in (*writer.one, *writer.two):
        if f"{name}[" not in text:
            continue
        rank = 2 if name in writer.two else 1
        if name in outputs and name.startswith("t"):
            shape = tuple(parse(extent) for _ in range(rank))
            space = rng.choice(spaces)
            more: Mapping[str, Any] = {} if space is AddressSpace.AUTO else {"address_space": space}
            data.append(TemporaryVariable(name, kind, shape=shape, **more))
        else:
            data.append(GlobalArg(name, kind, shape=", ".join((EXTENT,) * rank)))
    if "idx[" in text:
        data.append(GlobalArg("idx", np.dtype(np.int32), shape=EXTENT))
    return data


def random_source(seed: int) -> Source:
    """Return the text of a random kernel: one domain, written nests, or rows of data-dependent length."""
    source = _plain_source(seed)
    rng = random.Random(seed + 2_000_000_033)
    return _with_rules(source, rng) if rng.random() < _RULED else source


def _plain_source(seed: int) -> Source:
    rng = random.Random(seed)
    draw = rng.random()
    if draw < 0.62:
        return _one_domain(seed, rng)
    if draw < 0.90:
        return _written_nests(seed, rng)
    return _rows(seed, rng)


def ruled_sources(seed: int) -> tuple[Source, Source]:
    """Return the text of a random kernel, and the same with some of its expressions as substitution rules."""
    source = _plain_source(seed)
    return source, _with_rules(source, random.Random(seed + 2_000_000_033))


def _with_rules(source: Source, rng: random.Random) -> Source:
    inames = [name for name in ("i", "j") if re.search(rf"\[[^\]]*\b{name}\b[^\]]*:", source.domains[0])]
    lines = tuple(with_rules(rng, source.lines, inames))
    return source if lines == source.lines else replace(source, lines=lines, features=("rules",), twin=source)


def _type(rng: random.Random) -> str:
    return rng.choice(("float64", "float64", "float64", "float32", "uint32"))


def _rule(rng: random.Random, writer: _Writer) -> list[str]:
    if rng.random() >= 0.35:
        return []
    writer.rules.append("f")
    if rng.random() < 0.2:
        return [f"f(p) := a[p + {MARGIN}, p + {MARGIN}] - y[p + {MARGIN}]"]
    return [f"f(p) := {rng.choice((1, 2))} * x[p + {MARGIN}] + y[p + {MARGIN + rng.choice((0, 1))}]"]


def _terms(rng: random.Random, writer: _Writer) -> list[str]:
    """Return the domains of the reductions."""
    found = []
    for iname in writer.reductions:
        terms = rng.choice(TERMS).replace("k", iname)
        if "i" not in writer.inames:
            terms = f"0 <= {iname} < n"
        found.append(f"[n, i] -> {{[{iname}]: {terms}}}" if "i" in terms else f"[n] -> {{[{iname}]: {terms}}}")
    return found


def _one_domain(seed: int, rng: random.Random) -> Source:
    """Return a kernel of one to three statements, with loops inferred from the text."""
    dims = rng.choice((1, 2, 2))
    is_plain, is_fixed = rng.random() < 0.6, rng.random() < 0.25
    domain = rng.choice(ONE if dims == 1 else TWO)
    if is_fixed:
        domain = FIXED[0] if dims == 1 else rng.choice(FIXED[1:])
    writer = _Writer(rng, ("i", "j")[:dims], is_plain=is_plain)
    writer.uses_index = rng.random() < 0.12
    inames = writer.inames
    lines = _rule(rng, writer)
    targets: list[str] = []
    count = rng.choice((1, 1, 2, 2, 3))
    for number in range(count):
        draw = rng.random()
        if number + 1 < count and draw < 0.25:
            lines.append(f"<> s{number} = {writer.expression(inames)}")
            writer.scalars.append(f"s{number}")
            continue
        name = _target(rng, writer, targets, number, is_last=number + 1 == count)
        rank = 2 if name in writer.two else 1
        place = ", ".join(f"{iname} + {MARGIN}" for iname in inames[:rank])
        if writer.uses_index and rank == 1 and rng.random() < 0.3:
            place = f"idx[{rng.choice(inames)} + {MARGIN}]"
        lines.append(f"{name}[{place}] = {_value(rng, writer, f'{name}[{place}]')}")
    data = _declared(writer, lines, targets, rng, fixed=is_fixed)
    domains = [f"[n] -> {{[{', '.join(inames)}]: {domain}}}", *_terms(rng, writer)]
    return Source(f"random_{seed}", tuple(domains), tuple(lines), tuple(data))


def _target(rng: random.Random, writer: _Writer, targets: list[str], number: int, *, is_last: bool) -> str:
    """Return the target of a statement: an output, a temporary, or something that is there already."""
    draw = rng.random()
    if targets and draw < 0.30:
        return rng.choice(targets)
    if draw < 0.10:
        name = rng.choice(("x", "y", "a") if len(writer.inames) == 2 else ("x", "y"))
        targets.append(name)
        return name
    letter = "t" if not is_last and draw < 0.55 else "o"
    name = f"{letter}{number}"
    is_two = len(writer.inames) >= 2 and (writer.is_plain or rng.random() < 0.7)
    (writer.two if is_two else writer.one).append(name)
    targets.append(name)
    return name


def _value(rng: random.Random, writer: _Writer, target: str) -> str:
    """Return the right-hand side of a statement, with its options."""
    inames = writer.inames
    draw = rng.random()
    if draw < 0.10:
        operand = writer.read(inames)
        return f"{target} + {operand} {{atomic}}" if target.split("[", maxsplit=1)[0] not in operand else operand
    guard = f" {{if={rng.choice(inames)} < {rng.randint(2, 6)}}}" if draw < 0.18 else ""
    if 0.18 <= draw < 0.24:
        guard = f" {{if=x[{rng.choice(inames)} + {MARGIN}] > 0}}"
    value = writer.expression(inames)
    if 0.24 <= draw < 0.34:
        value = f"{target} + {value}"
    return value + guard


def _written_nests(seed: int, rng: random.Random) -> Source:
    """Return a kernel of written loops, which may be imperfectly nested."""
    domain = rng.choice(TWO[:8])
    writer = _Writer(rng, ("i", "j"), is_plain=False)
    targets: list[str] = []
    lines = _rule(rng, writer)
    state = _Nest(rng, writer, targets, rng.randint(2, 4))
    while state.left:
        state.block(lines, ())
    domains = [f"[n] -> {{[i, j]: {domain}}}", *_terms(rng, writer)]
    data = _declared(writer, lines, targets, rng, fixed=False)
    return Source(f"random_{seed}", tuple(domains), tuple(lines), tuple(data))


@dataclass
class _Nest:
    """State of writing a nest: statements left, and *bounded* scalars, which are functions of inputs alone."""

    rng: random.Random
    writer: _Writer
    targets: list[str]
    left: int
    number: int = 0
    bounded: set[str] = field(default_factory=set)

    def block(self, lines: list[str], around: tuple[str, ...]) -> None:
        """Write a loop, or a statement, inside of *around*."""
        open_ones = [x for x in ("i", "j") if x not in around]
        if around and (not open_ones or self.rng.random() < 0.5):
            self.statement(lines, around)
            return
        iname = self.rng.choice(open_ones)
        lines.append(f"for {iname}")
        for _ in range(self.rng.choice((1, 1, 2, 2, 3))):
            if self.left:
                self.block(lines, (*around, iname))
        lines.append("end")
        if lines[-2] == f"for {iname}":
            del lines[-2:]

    def statement(self, lines: list[str], around: tuple[str, ...]) -> None:
        rng, writer = self.rng, self.writer
        self.left -= 1
        self.number += 1
        if self.left and rng.random() < 0.25:
            value = writer.expression(around)
            lines.append(f"<> s{self.number} = {value}")
            if not any(scalar in value for scalar in writer.scalars):
                self.bounded.add(f"s{self.number}")
            writer.scalars.append(f"s{self.number}")
            return
        if writer.scalars and rng.random() < 0.15:
            name = rng.choice(writer.scalars)
            lines.append(f"{name} = {name} + {self._addend(name, around)}")
            return
        name = f"{'t' if self.left and rng.random() < 0.3 else 'o'}{self.number}"
        if self.targets and rng.random() < 0.45:
            name = rng.choice(self.targets)
        else:
            (writer.two if len(around) == 2 else writer.one).append(name)
            self.targets.append(name)
        rank = 2 if name in writer.two else 1
        place = [writer.shift(rng.choice(around)) for _ in range(rank)]
        if rng.random() < 0.7:
            place = [f"{x} + {MARGIN}" for x in (*around, *around)[:rank]]
        lines.append(f"{name}[{', '.join(place)}] = {writer.expression(around)}")

    def _addend(self, scalar: str, around: tuple[str, ...]) -> str:
        """Return an addend for *scalar* that does not grow with it: otherwise its values double in each iteration."""
        self.bounded.discard(scalar)
        found = self.writer.read(around)
        grows = found in self.writer.scalars and found not in self.bounded
        return self.writer.element("x", around) if grows else found


def _rows(seed: int, rng: random.Random) -> Source:
    """Return a kernel over rows with first and last entries read from memory."""
    weight = rng.choice(("values[j]", "values[j] * x[cols[j]]", "x[cols[j]] - values[j]", "values[j] + y[i]"))
    inner = rng.choice(
        (
            f"o0[i] = sum(j, {weight})",
            f"o0[i] = {rng.choice(('max', 'min'))}(j, {weight}) + y[i]",
            "o1[j] = values[j] + y[i]",
            f"o1[j] = 2*values[j]\n    o0[i] = sum(j, {weight})",
            f"<> s = y[i]\n    o0[i] = s + sum(j, {weight})",
            "o2[cols[j]] = o2[cols[j]] + values[j] {atomic}",
            "<> s = y[i]\n    for j\n    s = s + sum(k, values[j]*x[k])\n    end\n    o0[i] = s",
        )
    )
    lines = ["for i", "    <> begin = rowptr[i]", "    <> stop = rowptr[i + 1]"]
    lines += [f"    {line.strip()}" for line in inner.split("\n")]
    lines.append("end")
    text = "\n".join(lines)
    kind, index = np.dtype(_type(rng)), np.dtype(np.int32)
    data: list[object] = [GlobalArg("rowptr", index, shape="n + 1"), GlobalArg("values", kind, shape="nnz")]
    data += [GlobalArg("cols", index, shape="nnz")] if "cols" in text else []
    data += [GlobalArg(name, kind, shape="n") for name in ("x", "y", "o0", "o2") if f"{name}[" in text]
    data += [GlobalArg("o1", kind, shape="nnz")] if "o1[" in text else []
    domains = ("{[i]: 0 <= i < n}", "{[j]: begin <= j < stop}", *(["{[k]: 0 <= k < n}"] if "[k]" in text else []))
    return Source(f"random_{seed}", domains, tuple(lines), tuple(data))


def random_arguments(
    kernel: LoopKernel,
    n: int,
    seed: int,
    *,
    wild: bool = False,
    whole: bool = False,
    numbers: Numbers = Numbers.SMALL,
    sizes: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return arguments for a kernel of :func:`random_source`, for one size: small integers.

    Parameters
    ----------
    whole
        Whether all arrays are passed; otherwise some that are only written are left out.
    wild
        Whether rows may begin and end anywhere, overlap, or be in any order.
    numbers
        Those that arrays and scalars hold; small ones if data bounds loops, unless they are infinite.
    sizes
        Sizes beside *n* that are known.
    """
    rng, source = random.Random(seed), np.random.default_rng(seed)
    n = kernel.fixed.get("n", n)
    lengths = source.integers(0, 4, n)
    by = rng.choice(SHIFTS)
    known = {"n": n, "far": by, "nnz": int(lengths.sum()), **(sizes or {}), **kernel.fixed}
    lengths = _adding_up(lengths, known["nnz"])
    rowptr = np.concatenate([[0], np.cumsum(lengths)])
    if "rowptr" in kernel.arrays() and numbers is not Numbers.INFINITE:
        numbers = Numbers.SMALL
    types = [entry.dtype for entry in (*kernel.arguments, *kernel.temporaries.values()) if entry.dtype is not None]
    found: dict[str, Any] = {}
    for argument in kernel.arguments:
        if not isinstance(argument, ArrayArg):
            found[argument.name] = known.get(argument.name, by)
            if argument.name not in known and argument.dtype is not None:  # the factor, which may have another name
                value = random_numbers(argument.dtype, (), source, numbers, types)
                found[argument.name] = np.asarray(value).astype(argument.dtype)[()]
            continue
        passes = whole or argument.is_input or rng.random() < 0.3
        assert argument.shape is not None, f"the shape of '{argument.name}' is unknown"
        assert argument.dtype is not None, f"the type of '{argument.name}' is unknown"
        shape = tuple(max(0, evaluate(extent, known)) for extent in argument.shape)
        if argument.name == "rowptr":
            values = source.integers(0, rowptr[-1] + 1, shape) if wild else rowptr
        elif argument.name in ("idx", "cols"):
            values = source.integers(0, max(1, n), shape) + (MARGIN if argument.name == "idx" else 0)
        elif argument.name in ("div", "jump"):
            values = _guarding(argument.name, n, shape, seed)
        else:
            values = random_numbers(argument.dtype, shape, source, numbers, types)
        if passes:
            array = empty_numpy(argument.dtype, shape, array_strides(argument, shape, known), poison=False)
            array[...] = values.astype(argument.dtype)
            found[argument.name] = array
    return found


def is_allowed(kernel: LoopKernel, n: int) -> bool:
    """Return whether a caller may pass the size *n*."""
    sets = [kernel.assumptions, *(condition.set for condition in kernel.conditions)]
    for domain in sets:
        position = domain.find_dim_by_name(isl.dim_type.param, "n")
        if position >= 0 and domain.fix_val(isl.dim_type.param, position, n).is_empty():
            return False
        if domain.is_empty():
            return False
    return True


def _adding_up(lengths: np.ndarray[Any, Any], total: int) -> np.ndarray[Any, Any]:
    """Return row lengths with the sum *total*, as close to *lengths* as possible."""
    ends = np.minimum(np.cumsum(lengths), total)
    if len(ends):
        ends[-1] = total
    return np.diff(ends, prepend=0)


def _guarding(name: str, n: int, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Return divisors, of which many are 0, or subscripts, which lead far outside where the divisor is 0."""
    numbers = np.random.default_rng(seed + 1)
    divisors = numbers.choice((0, 0, 1, 2, 3), shape)
    inside = MARGIN + numbers.integers(0, max(1, n), shape)
    return divisors if name == "div" else np.where(divisors == 0, numbers.choice((-(10**9), 10**9), shape), inside)
