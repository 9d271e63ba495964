"""Counts of a kernel at given sizes, for any device: operations by functional unit, bytes that have to be moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Final

from polyloop.codegen.program import GeneratedProgram
from polyloop.cost.instance_counts import Census
from polyloop.cost.operations import Operation, operations
from polyloop.cost.traffic import Traffic, footprints, polynomial_of, traffic
from polyloop.errors import ArgumentError, Diagnostic, VerificationError
from polyloop.expr.dtypes import dtype_name, is_complex, is_inexact
from polyloop.expr.printer import show
from polyloop.kernel.tree import runs
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import to_expression
from polyloop.poly.polynomial import PiecewisePolynomial
from polyloop.program.ir import Update
from polyloop.proof.obligation import within_budget
from polyloop.runtime.evaluate import evaluate
from polyloop.schedule.counts import combinations, footprint_size
from polyloop.schedule.plan import Launch

__all__ = ["Counted", "access_text", "by_type", "checked_sizes", "homes_of"]

_FLOATS: Final = ("float64", "float32", "float16", "bfloat16")


def homes_of(launches: Iterable[Launch], placement: Placement) -> dict[str, str]:
    """Return statement -> launch; a statement that the schedule merged runs in the launch of its instruction."""
    statements = placement.statements
    homes = {name: launch.name for launch in launches for name in runs(launch.tree)}
    known = {statements[name].lowered.instruction.id: home for name, home in homes.items() if name in statements}
    return {name: homes.get(name) or known[s.lowered.instruction.id] for name, s in statements.items()}


def checked_sizes(census: Census, program: GeneratedProgram, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes as integers, checked to be complete and to satisfy the launch conditions."""
    kernel = census.kernel
    bounds = dict.fromkeys(name for s in census.placement.statements.values() for name in s.lowered.bounds)
    wanted = (*kernel.parameters, *(name for name in bounds if name not in kernel.parameters))
    missing = [name for name in wanted if name not in sizes]
    if missing:
        example = ", ".join(f'"{name}": {sizes.get(name, 1024)}' for name in wanted)
        notes = [f"'{name}' is computed by the kernel: give a typical value" for name in missing if name in bounds]
        notes += [f"'{name}' is no size of the kernel" for name in sizes if name not in wanted]
        message = f"no size for {', '.join(repr(name) for name in missing)}"
        problem = Diagnostic("bad-sizes", message, tuple(notes), (f"pass sizes={{{example}}}",))
        raise ArgumentError("explain", kernel.name, [problem])
    for name in sizes:
        if name not in wanted:
            hints = (f"the kernel has {', '.join(wanted)}" if wanted else "the kernel has no sizes",)
            problem = Diagnostic("bad-sizes", f"the kernel has no size '{name}'", hints=hints)
            raise ArgumentError("explain", kernel.name, [problem])
    for check in program.checks:
        if not evaluate(check.condition, sizes):
            raise ArgumentError("explain", kernel.name, [Diagnostic(check.code, check.message, hints=(check.hint,))])
    return {name: int(value) for name, value in sizes.items()}


def by_type(work: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the floating-point operations of each type, of work by launch and functional unit."""
    totals: dict[str, int] = {}
    for (_, unit), count in work.items():
        dtype = unit.removeprefix("tensor ").replace("tf32", "float32")
        totals[dtype] = totals.get(dtype, 0) + count
    return {name: count for name, count in totals.items() if name in _FLOATS}


_MUCH: Final = 0.1
_DONE = {"read": "read", "write": "written"}


class Counted:
    """The counts of one kernel for given sizes; *homes* are the launches of its statements."""

    def __init__(self, census: Census, sizes: Mapping[str, int], homes: Mapping[str, str]) -> None:
        self.homes = homes
        self.census = census
        self.placement = census.placement
        self.kernel = census.kernel
        self.sizes = sizes
        self.notes: list[str] = []
        self.is_estimate = False

    def number(self, count: PiecewisePolynomial) -> int:
        """Return a count at the sizes."""
        return count.value_at(self.sizes)

    # {{{ operations

    def operations(self) -> tuple[dict[str, dict[str, int]], dict[tuple[str, str], int]]:
        """Return operation counts by type and kind, and work by launch and functional unit."""
        kinds: dict[str, dict[str, int]] = {}
        work: dict[tuple[str, str], int] = {}
        for placed in self.placement.statements.values():
            if placed.lowered.instruction.is_c:
                self.notes.append(f"the operations of C text are not counted: '{placed.lowered.instruction.id}'")
            for entry in operations(self.kernel, placed.lowered, within_subscripts=False):
                count = self.number(self.census.count(placed, self.census.under(placed, entry.guards)))
                count *= entry.times * combinations(self.census, placed)
                name = dtype_name(entry.dtype)
                kinds.setdefault(name, {})
                kinds[name][entry.name] = kinds[name].get(entry.name, 0) + count
                for unit in self.units(placed, entry):
                    key = (self.homes[placed.name], unit)
                    work[key] = work.get(key, 0) + _weight(entry) * count
            if placed.lowered.predicates:
                self.notes.append(f"'{placed.lowered.instruction.id}' is counted as if its condition always held")
            self.unused(placed)
        return kinds, work

    def units(self, placed: Placed, entry: Operation) -> tuple[str, ...]:
        """Return the functional units of a statement's operations: tensor cores for matrix instructions."""
        matrix = placed.lowered.instruction.matrix
        if matrix is None or not isinstance(placed.lowered.part, Update):
            return _units(entry)
        name = dtype_name(matrix.intrinsic.operands)
        is_sum = is_inexact(entry.dtype) or entry.dtype == matrix.intrinsic.results
        name = "tf32" if name == "float32" and not matrix.intrinsic.devices else name
        return (f"tensor {name}",) if is_sum else ()

    def unused(self, placed: Placed) -> None:
        """Add a note if most of the values that a statement computes or fetches are unused."""
        parts = {use: self.number(count) for use, count in self.census.by_use(placed, self.census.executed(placed))}
        wasted, useful = parts.get(True, 0), parts.get(False, 0)
        if wasted > _MUCH * useful:
            what = f"what '{placed.lowered.instruction.id}' computes or fetches is"
            part = wasted / (wasted + useful)
            self.notes.append(f"{part:.0%} of {what} not used" if useful else f"nothing of {what} used")

    # }}}
    # {{{ memory

    def footprints(self) -> dict[str, int]:
        """Return the bytes of each array that are read and written."""
        found: dict[str, int] = {}
        with within_budget(self.kernel, "which elements of arrays are touched"):
            touched = footprints(self.placement)
        for (name, direction), entry in touched.items():
            dtype = self.kernel.arrays()[name].dtype
            assert dtype is not None, f"{name} has no type"
            if not entry.is_exact:
                estimate = self.estimate(name, direction)
                what = f"data decides which elements of '{name}' are {_DONE[direction]}"
                if estimate is None:
                    self.notes.append(f"{what}: they are not among what has to be moved")
                    continue
                self.notes.append(f"{what}: {estimate} are supposed, another one for each access")
                found[f"{name} {direction}"] = estimate * dtype.itemsize
                self.is_estimate = True
                continue
            try:
                count = self.number(footprint_size(self.kernel, name, entry.elements))
            except VerificationError as error:
                self.notes.append(error.found[0].message)
                continue
            found[f"{name} {direction}"] = count * dtype.itemsize
        return found

    def estimate(self, name: str, direction: str) -> int | None:
        """Return an upper bound on the elements accessed: the number of accesses, at most all; None if unknown."""
        shape = self.kernel.arrays()[name].shape
        forms = [None if extent is None else polynomial_of(extent) for extent in shape or ()]
        if shape is None or any(form is None or not form.names() <= self.sizes.keys() for form in forms):
            return None
        total = prod(int(form.evaluate(self.sizes)) for form in forms if form is not None)
        wanted = {"read": {"load", "atomic"}, "write": {"store", "atomic"}}[direction]
        accesses = 0
        for entry in traffic(self.placement):
            if entry.access.array == name and entry.direction in wanted:
                domain = self.census.of_access(entry.placed, entry.access)
                accesses += self.number(self.census.count(entry.placed, domain))
        return min(total, accesses)

    # }}}


def _units(entry: Operation) -> tuple[str, ...]:
    """Return the functional units that an operation uses: that of its type, and special functions."""
    name = dtype_name(entry.dtype)
    if is_inexact(entry.dtype):
        real = {"complex64": "float32", "complex128": "float64"}.get(name, name)
        is_special = entry.name in _SPECIAL and real != "float64"
        return (real, "special functions") if is_special else (real,)
    return ("int32",) if name in ("int32", "uint32") else ()


_SPECIAL: Final = frozenset({"func:exp", "func:exp2", "func:exp10", "func:sqrt", "func:rsqrt", "func:tanh"})
"""Functions of float32 that take one operation of the special function units at least."""


def _weight(entry: Operation) -> int:
    """Return the floating-point operations that one operation is, at least."""
    if entry.name == "pow":
        return max(1, (abs(entry.power) - 1).bit_length()) if entry.power is not None else 1
    if entry.name == "func:fma":
        return 2
    if is_complex(entry.dtype):
        return {"mul": 6, "div": 6}.get(entry.name, 2)
    return 1


def access_text(entry: Traffic) -> str:
    """Return an access as it is written."""
    access = entry.access
    subscripts = ", ".join("?" if form is None else show(to_expression(form)) for form in access.indices)
    return f"{access.array}[{subscripts}]" if access.indices else access.array
