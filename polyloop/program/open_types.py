"""Types of variables with constant initial values: a fixpoint in which they stay open as long as possible.

``acc = 0.0`` makes ``acc`` a floating-point number, and ``acc = acc + x[i]`` gives its width.  If only constants are
assigned, the type follows from the other operands where ``acc`` is read, or from the variable that it is stored in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from polyloop.expr.dtypes import DType, as_complex, as_real, computed, is_inexact, is_integer
from polyloop.expr.nodes import Expression, Lookup
from polyloop.expr.promotion import (
    DEFAULT_INT,
    WEAK_INTEGERS,
    ScalarType,
    TypeConflictError,
    Weak,
    adapted,
    common_type,
    settle,
)
from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import KindOf, TypeInference, infer_type
from polyloop.kernel.kernel import LoopKernel
from polyloop.program.index_types import widened

__all__ = ["settled_types"]


def settled_types(
    kernel: LoopKernel, known: Mapping[str, DType | None], settle_all: bool, weak: Mapping[str, Weak] | None = None
) -> Mapping[str, DType | None]:
    """Return the types of all names of *kernel*: those in *known*, and those that follow from them.

    With *settle_all*, a variable made of constants gets a type even if operands that it is combined with have none.
    Arguments in *weak* stand for constants of these kinds: others have the types that they would have beside constants.
    """
    search = _Search(kernel, known)
    numbers = weak or {}
    search.kinds.update(numbers)
    search.follow(search.assigned)
    while search.ask_readers(numbers):
        pass
    found: dict[str, DType | None] = {name: search.of_number(name, kind) for name, kind in numbers.items()}
    for name, kind in search.kinds.items():
        if name in numbers:
            continue
        is_open = isinstance(kind, Weak) and not settle_all and search.may_meet_more(name)
        found[name] = None if kind is None or is_open else settle(kind)
    return found


class _Search:
    """State of the fixpoint: ``kinds`` of names, which are weak as long as they follow from constants alone."""

    def __init__(self, kernel: LoopKernel, known: Mapping[str, DType | None]) -> None:
        self.kinds: dict[str, ScalarType | None] = {**known}
        unknown = {name for name, dtype in known.items() if dtype is None}
        self.assigned: dict[str, list[Expression]] = {name: [] for name in sorted(unknown)}
        self.readers: dict[str, set[str]] = {}
        self.uses: dict[str, list[tuple[Expression, Expression | None]]] = {}
        """For each open name, the expressions that read it, with the assignees of their values, if any."""
        for instruction in kernel.instructions:
            if instruction.is_c or (isinstance(instruction.assignee, Lookup) and instruction.target in unknown):
                continue
            expression = expand_rules(instruction.expression, kernel.substitutions)
            conditions = [expand_rules(part, kernel.substitutions) for part in instruction.predicates]
            pairs = [(expression, instruction.assignee), (instruction.assignee, None), *((c, None) for c in conditions)]
            for part, target in pairs:
                for name in variables(part) & unknown:
                    self.uses.setdefault(name, []).append((part, target))
            if instruction.target in unknown:
                self.assigned[instruction.target].append(widened(kernel, instruction, expression, known.get))
                for name in variables(expression) & unknown:
                    self.readers.setdefault(name, set()).add(instruction.target)

    def follow(self, names: Mapping[str, object]) -> None:
        """Update ``kinds`` of *names* from their assignments, and then of the variables that read them."""
        waiting = dict.fromkeys(name for name in names if self.assigned.get(name))
        while waiting:
            name = next(iter(waiting))
            del waiting[name]
            kind = _assigned_kind(self.assigned[name], self.kinds)
            if kind is not None and (self.kinds[name] is None or kind != self.kinds[name]):  # float64 == None holds
                self.kinds[name] = kind
                waiting.update(dict.fromkeys(sorted(self.readers.get(name, ()))))

    def of_number(self, name: str, kind: Weak) -> DType:
        """Return the type of an argument that stands for constants: of what it is combined with, once this is known."""
        met = [dtype for dtype in self._met(name) if is_inexact(dtype) or kind in WEAK_INTEGERS]
        return _of_constants(kind, met, is_variable=False) or settle(kind)

    def ask_readers(self, constants: Collection[str]) -> bool:
        """Give one variable of constants the type of its co-operands; return True if there was such a variable.

        The arguments *constants* stay what they are.
        """
        for name in self.assigned:
            kind = self.kinds[name]
            if not isinstance(kind, Weak) or name in constants:
                continue
            met = [dtype for dtype in self._met(name) if is_inexact(dtype) or kind in WEAK_INTEGERS]
            dtype = _of_constants(kind, met)
            if dtype is not None:
                self.kinds[name] = dtype
                self.follow(dict.fromkeys(sorted(self.readers.get(name, ()))))
                return True
        return False

    def _met(self, name: str) -> Iterator[DType]:
        """Yield the types of the operands that the variable *name* is combined with, and of assignees of its value."""
        for expression, target in self.uses.get(name, ()):
            try:
                met, kind = _met_types(expression, name, self.kinds.get)
                stored = None if target is None else infer_type(target, self.kinds.get)
            except TypeConflictError:
                continue  # reported by type_violations
            yield from met
            if isinstance(kind, Weak) and stored is not None and not isinstance(stored, Weak):
                yield stored

    def may_meet_more(self, name: str) -> bool:
        """Return True if the type of *name* may follow from one that is still unknown."""
        pending, seen = [name], {name}
        while pending:
            at = pending.pop()
            for expression, target in (*((e, None) for e in self.assigned[at]), *self.uses.get(at, ())):
                names = variables(expression) | (frozenset() if target is None else variables(target))
                if any(self.kinds.get(other, DEFAULT_INT) is None for other in names):
                    return True
                more = {x for x in names if isinstance(self.kinds.get(x), Weak)} - seen
                seen |= more
                pending += sorted(more)
        return False


def _met_types(expr: Expression, name: str, lookup: KindOf) -> tuple[list[DType], ScalarType | None]:
    """Return the operation types that the weakly typed variable *name* meets in *expr*, and the type of *expr*.

    Raises
    ------
    TypeConflictError
        As :func:`polyloop.expr.typing.infer`.
    """
    meeting = _Meeting(name, lookup)
    kind = meeting.visit(expr)
    return meeting.met, kind


class _Meeting(TypeInference):
    """Type inference that records the types with which a variable is combined."""

    def __init__(self, name: str, lookup: KindOf) -> None:
        super().__init__(lookup)
        self.name = name
        self.met: list[DType] = []

    def quick_sum(self, types: Sequence[ScalarType | None]) -> None:
        del types

    def common(
        self, expr: Expression, parts: Sequence[Expression], types: Sequence[ScalarType | None]
    ) -> ScalarType | None:
        found = super().common(expr, parts, types)
        if found is not None and not isinstance(found, Weak):
            pairs = zip(parts, types, strict=True)
            if any(isinstance(kind, Weak) and self.name in variables(part) for part, kind in pairs):
                self.met.append(found)
        return found


def _assigned_kind(expressions: Sequence[Expression], kinds: Mapping[str, ScalarType | None]) -> ScalarType | None:
    try:
        found = [infer_type(expression, kinds.get) for expression in expressions]
        known = [kind for kind in found if kind is not None]
        kind = common_type(known) if known else None
    except TypeConflictError:
        return None  # reported by type_violations or record_violations
    if any(isinstance(other, Weak) for other in known) and isinstance(kind, np.dtype):
        return _wide(kind)
    return kind


def _wide(dtype: DType) -> DType:
    """Return the type of a variable that is assigned a constant and a *dtype*: at least int32, or float32."""
    return DEFAULT_INT if is_integer(dtype) and dtype.itemsize < DEFAULT_INT.itemsize else computed(dtype)


_FLOATS: Final = (Weak.FLOAT, Weak.COMPLEX)


def _of_constants(kind: Weak, met: Sequence[DType], *, is_variable: bool = True) -> DType | None:
    """Return the type of a variable of constants that is combined with the types *met*, None if none fits.

    A variable of integers has at least 32 bits.
    """
    wanted = [dtype for dtype in met if (is_inexact(dtype) if kind in _FLOATS else is_integer(dtype))]
    if not wanted:
        return None
    try:
        common = settle(common_type(wanted))
    except TypeConflictError:
        return None
    if kind in _FLOATS:
        return computed(as_complex(common) if kind is Weak.COMPLEX else as_real(common))
    return _wide(adapted(kind, common)) if is_variable else adapted(kind, common)
