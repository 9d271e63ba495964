"""The reference interpreter: the reference program, executed literally, one instance at a time.

Slow and meant to be obviously right: it is the oracle that every other target is compared with.  It walks
``knl.reference.tree`` in order, evaluates with NumPy scalars, and ignores transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import islpy as isl
import numpy as np

from polyloop.codegen.checks import condition_check
from polyloop.creation.divided_loops import divided_violations
from polyloop.edge.words import shown
from polyloop.errors import ArgumentError, Diagnostic, VerificationError, unknown_name
from polyloop.expr.dtypes import DType, accepted_types, has_room, is_bool, is_integer
from polyloop.expr.nodes import Expression, Reduction, element_of, field_path
from polyloop.expr.records import is_record
from polyloop.expr.rewrite import variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.domains import bound_variables, without_bound_variables
from polyloop.kernel.instruction import Instruction, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.passed import masked_problem, too_large
from polyloop.kernel.tree import Loop, Run, Tree, runs
from polyloop.poly.affine import affine_of
from polyloop.program.infer_types import dtype_table, require_dtypes
from polyloop.program.ir import Init, Lowered
from polyloop.program.lower import lower
from polyloop.program.reference import accumulation_steps
from polyloop.target.points import DataPoints, Points, at, is_there, level, trie
from polyloop.target.scalars import Closure, Compiler, converted

__all__ = ["POISON", "Outputs", "interpret", "interpret_with"]

_PARAM = isl.dim_type.param

Array: TypeAlias = np.ndarray[Any, Any]

Watch: TypeAlias = Callable[[Instruction, Mapping[str, int], Any, Any], None]
"""Of instruction, values of inames, subscripts, and the value that is assigned."""

POISON: Final = 0xFF
"""The bytes of elements that nothing has written: NaN in every floating-point type, -1 in signed integers."""
_FARTHEST: Final = 2**62
"""Magnitude of a loop bound that is read from memory, so that the arithmetic of the loop fits into 64 bits."""


class Outputs(dict[str, Array]):
    """The outputs of one call: a mapping by name, with entries as attributes too."""

    def __getattr__(self, name: str) -> Array:
        if name not in self:
            raise AttributeError(f"no output '{name}'; outputs: {', '.join(self)}")
        return self[name]


def interpret(kernel: LoopKernel, /, **arguments: object) -> Outputs:
    """Run the reference program of *kernel* and return its outputs.

    The result defines the meaning of the kernel; transforms do not change it. Every instance is executed by itself, in
    Python; use it on small sizes.

    Parameters
    ----------
    **arguments
        NumPy arrays and numbers by name.  Integer sizes that are not passed are solved from shapes, outputs that are
        not passed are allocated and hold NaN (or 0xFF bytes) where the kernel writes nothing.  Arrays that are passed
        are not changed: the result has copies.

    Returns
    -------
    Outputs
        Every array that the kernel writes, by name and as attribute.

    Raises
    ------
    ArgumentError
        ``missing-argument``, ``unknown-argument``, ``wrong-type``, ``wrong-dtype``, ``wrong-shape``,
        ``inconsistent-size``, ``assumption-violated`` for the arguments; ``out-of-bounds``, ``index-overflow`` and
        ``division-by-zero`` for the instance that does that.
    VerificationError
        ``unknown-dtype``, ``divided-loop``.
    """
    return interpret_with(kernel, arguments)


def interpret_with(
    kernel: LoopKernel, arguments: Mapping[str, object], *, poison: int = POISON, watch: Watch | None = None
) -> Outputs:  # fmt: skip
    """Run the reference program as :func:`interpret` does, with these bytes in temporaries that nothing has written.

    Parameters
    ----------
    arguments
        By name.
    poison
        In 0 to 255.  Results depend on it if the program reads such an element.
    watch
        Is told of each assignment behind it: the instruction, the values of the inames, the subscripts, and the value.

    Raises
    ------
    ArgumentError, VerificationError
        As :func:`interpret` does.
    """
    reference = kernel.reference
    assert reference is not None, "the kernel has no reference program"
    if found := tuple(divided_violations(kernel)):
        raise VerificationError("interpret", kernel.name, found)
    typed = require_dtypes(reference.kernel)
    call = _Call(typed, arguments, poison)
    call.bind()
    with np.errstate(all="ignore"):
        _Execution(call, watch).run(reference.tree)
    return Outputs(
        (argument.name, call.arrays[argument.name])
        for argument in typed.arguments
        if isinstance(argument, ArrayArg) and argument.is_output
    )


# {{{ arguments


class _Call:
    """The arguments of one call: sizes, scalars and arrays by name."""

    def __init__(self, kernel: LoopKernel, given: Mapping[str, object], poison: int) -> None:
        self.kernel = kernel
        self.poison = poison
        self.given = {name: value for name, value in given.items() if value is not None}
        problems = [p for name, value in self.given.items() if (p := masked_problem(name, value)) is not None]
        if problems:
            raise ArgumentError("interpret", kernel.name, problems)
        self.sizes: dict[str, int] = {}
        self.scalars: dict[str, Any] = {}
        self.arrays: dict[str, Array] = {}

    def error(self, code: str, message: str, notes: Sequence[str], hint: str) -> ArgumentError:
        return ArgumentError("interpret", self.kernel.name, [Diagnostic(code, message, tuple(notes), (hint,))])

    def bind(self) -> None:
        """Check the arguments, infer sizes, and allocate missing arrays."""
        kernel = self.kernel
        array_args = [argument for argument in kernel.arguments if isinstance(argument, ArrayArg)]
        known = {argument.name for argument in kernel.arguments} | set(kernel.parameters)
        for name in self.given:
            if name not in known:
                raise ArgumentError("interpret", kernel.name, [unknown_name("argument", name, known)])
        self.scalar_arguments()
        for argument in array_args:
            if argument.name in self.given:
                self.arrays[argument.name] = self.copied(argument)
            elif argument.is_input:
                message = f"the array '{argument.name}' was not passed"
                what = "read and written" if argument.is_output else "an input"
                raise self.error("missing-argument", message, (f"it is {what}",), f"pass {argument.name}=")
        self.solve(array_args)
        self.check_sizes()
        for argument in array_args:
            assert argument.shape is not None, f"the shape of '{argument.name}' is unknown"
            assert argument.dtype is not None, f"the type of '{argument.name}' is unknown"
            shape = self.shape_of(argument.name, argument.shape)
            passed = self.arrays.get(argument.name)
            if passed is None:
                self.arrays[argument.name] = self.poisoned(argument.name, shape, argument.dtype, POISON)
            elif passed.shape != shape:
                wanted = f"the kernel wants {shape}" + "".join(f", {n} = {v}" for n, v in self.sizes.items())
                message = f"'{argument.name}' has the shape {passed.shape}"
                raise self.error("wrong-shape", message, (wanted,), f"reshape '{argument.name}'")
        for name, temporary in kernel.temporaries.items():
            assert temporary.shape is not None, f"the shape of '{name}' is unknown"
            assert temporary.dtype is not None, f"the type of '{name}' is unknown"
            table = temporary.initializer
            self.arrays[name] = (
                self.poisoned(name, self.temporary_shape(temporary.shape), temporary.dtype, self.poison)
                if table is None
                else table.array
            )

    def temporary_shape(self, shape: Sequence[Expression]) -> tuple[int, ...]:
        """Return the shape of a temporary for the present sizes."""
        return tuple(max(0, n) for n in self.extents(shape))

    def poisoned(self, name: str, shape: tuple[int, ...], dtype: DType, poison: int) -> Array:
        """Return a new array of bytes *poison*."""
        try:
            return _poisoned(shape, dtype, poison)
        except (MemoryError, ValueError, OverflowError) as error:
            problem = too_large(name, shape, dtype.itemsize, error)
            raise ArgumentError("interpret", self.kernel.name, [problem]) from None

    def scalar_arguments(self) -> None:
        """Read the scalar arguments."""
        values = {name: value for name, value in self.kernel.values().items() if value.layout_of is None}
        for name in {**values, **dict.fromkeys(self.kernel.parameters)}:
            dtype = values[name].dtype if name in values else self.kernel.index_dtype
            assert dtype is not None, f"the type of '{name}' is unknown"
            if name in self.given:
                self.scalars[name] = self.scalar(name, self.given[name], dtype)
                if is_integer(dtype):
                    self.sizes[name] = int(self.scalars[name])
            elif not is_integer(dtype):
                message = f"the value '{name}' was not passed"
                raise self.error("missing-argument", message, (), f"pass {name}= as {dtype}")

    def scalar(self, name: str, value: object, dtype: DType) -> Any:  # noqa: ANN401
        number = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
        if is_record(dtype) and isinstance(number, np.void) and number.dtype == dtype:
            return number
        good = isinstance(number, accepted_types(dtype)) and (is_bool(dtype) or not isinstance(number, bool))
        if not good or not has_room(dtype, number):
            message = f"'{name}' must be {dtype}, not {type(number).__name__} {shown(number)}"
            raise self.error("wrong-type", message, (), f"the kernel takes '{name}' as {dtype}")
        return converted(number, dtype)

    def copied(self, argument: ArrayArg) -> Array:
        value, name = self.given[argument.name], argument.name
        if not isinstance(value, np.ndarray):
            note = f"it is a {type(value).__module__}.{type(value).__qualname__}"
            raise self.error("wrong-type", f"'{name}' must be an array", (note,), f"pass np.asarray({name})")
        if value.dtype != argument.dtype:
            message = f"'{name}' has dtype {value.dtype}, expected {argument.dtype}"
            hint = f"pass {name}.astype(np.{argument.dtype})"
            raise self.error("wrong-dtype", message, (), "use that dtype" if is_record(argument.dtype) else hint)
        assert argument.shape is not None, f"the shape of '{name}' is unknown"
        if value.ndim != len(argument.shape):
            message = f"'{name}' has {value.ndim} axes, and the kernel has {len(argument.shape)}"
            raise self.error("wrong-shape", message, (f"its shape is {value.shape}",), f"reshape '{name}'")
        return value.copy()

    def solve(self, array_args: Sequence[ArrayArg]) -> None:
        """Find the sizes that were not passed: equations with one unknown, until no more follows."""
        pending = [
            (extent, length, argument.name)
            for argument in array_args
            if argument.name in self.arrays
            for extent, length in zip(argument.shape or (), self.arrays[argument.name].shape, strict=True)
        ]
        progress = True
        while progress:
            progress = False
            for extent, length, array in pending:
                form = affine_of(extent)
                unknown = sorted(variables(extent) - self.sizes.keys())
                if form is None or len(unknown) != 1 or not form.coefficient(unknown[0]):
                    continue
                name = unknown[0]
                at_zero = form.evaluate({**self.sizes, name: 0})
                value, rest = divmod(length - at_zero, form.coefficient(name))
                if rest or form.evaluate({**self.sizes, name: value}) != length:
                    message = f"no integer '{name}' fits '{array}'"
                    raise self.error("inconsistent-size", message, (), f"check the shape of '{array}'")
                self.sizes[name] = value
                declared = next((a.dtype for a in self.kernel.arguments if a.name == name), None)
                self.scalars[name] = self.scalar(name, value, declared or self.kernel.index_dtype)
                progress = True

    def check_sizes(self) -> None:
        """Check that every size in use is known, and that sizes satisfy the kernel's assumptions."""
        values = {name for name, value in self.kernel.values().items() if value.layout_of is None}
        for name in sorted({*values, *self.kernel.parameters} - self.scalars.keys()):
            if self.needs(name):
                message = f"the size '{name}' follows from no array that was passed"
                raise self.error("missing-argument", message, (), f"pass {name}= as an integer")
        if self.fixed(self.kernel.assumptions).is_empty():
            sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
            message = f"the kernel assumes {self.kernel.assumptions}"
            hint = "pass sizes that the kernel was made for"
            raise self.error("assumption-violated", message, (f"it is false for {sizes}",), hint)

        for condition in self.kernel.conditions:
            inside = condition.inside
            if self.fixed(condition.set).is_empty() or (inside is not None and not inside.holds(self.sizes)):
                check = condition_check(condition)
                sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
                raise self.error(check.code, check.message, (f"it is false for {sizes}",), check.hint)

    def needs(self, name: str) -> bool:
        """Return whether *name* occurs anywhere but in strides, which mean nothing here."""
        kernel = self.kernel
        shapes = [v.shape or () for v in kernel.arrays().values()]
        if any(name in variables(extent) for shape in shapes for extent in shape):
            return True
        for instruction in kernel.instructions:
            sets = [instruction.domain, *(term.domain for term in instruction.terms)]
            if name in instruction.reads or name in variables(instruction.assignee):
                return True
            for domain in sets:
                position = domain.find_dim_by_name(_PARAM, name)
                if position >= 0 and domain.involves_dims(_PARAM, position, 1):
                    return True
        return False

    def fixed(self, domain: isl.Set) -> isl.Set:
        """Return *domain* with the sizes put in, and without parameters."""
        domain = self.with_sizes(domain)
        return domain.project_out(_PARAM, 0, domain.dim(_PARAM))

    def with_sizes(self, domain: isl.Set) -> isl.Set:
        """Return *domain* with the sizes put in."""
        for name, value in self.sizes.items():
            position = domain.find_dim_by_name(_PARAM, name)
            if position >= 0:
                domain = domain.fix_val(_PARAM, position, value)
        return domain

    def shape_of(self, name: str, shape: Sequence[Expression]) -> tuple[int, ...]:
        """Return the shape of an argument, of which no extent may be negative."""
        found = self.extents(shape)
        if min(found, default=0) < 0:
            message = f"'{name}' would have the negative shape {found}"
            raise self.error("wrong-shape", message, (), "pass larger arrays or sizes")
        return found

    def extents(self, shape: Sequence[Expression]) -> tuple[int, ...]:
        """Return the shape of an array for the present sizes."""
        point: dict[str, int] = {}
        compiler = Compiler(self.kernel.name, point, self.scalars, {}, dtype_table(self.kernel))
        return tuple(compiler.index(extent)() for extent in shape)


def _poisoned(shape: tuple[int, ...], dtype: DType, poison: int) -> Array:
    """Return an array of bytes *poison* (true, if bool, unless they are 0)."""
    array = np.empty(shape, dtype)
    if is_bool(dtype):
        array.fill(poison != 0)
    elif array.size:
        array.reshape(-1).view(np.uint8).fill(poison)
    return array


# }}}
# {{{ execution


@dataclass(frozen=True)
class _Statement:
    """One instruction: where it executes, whether, and how."""

    points: Points
    condition: Closure
    execute: Callable[[], None]


class _Collected:
    """The terms of a reduction that are evaluated by a loop around it, for each point of the *inames* around."""

    def __init__(self, inames: Sequence[str]) -> None:
        self.inames = inames
        self.values: dict[tuple[int, ...], list[Any]] = {}
        self.closure: Closure | None = None

    def key(self, point: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(point[name] for name in self.inames)

    def reader(self, point: Mapping[str, int]) -> Callable[[Closure], Callable[[], Iterable[Any]]]:
        """Return a function from the closure of a term to a closure for the terms collected at *point*."""

        def take(closure: Closure) -> Callable[[], Iterable[Any]]:
            self.closure = closure
            return lambda: self.values[self.key(point)]

        return take


class _Execution:
    """The state while the tree is walked: the value of each iname."""

    def __init__(self, call: _Call, watch: Watch | None = None) -> None:
        self.call = call
        self.watch = watch
        self.point: dict[str, int] = {}
        kernel = call.kernel
        self.compiler = Compiler(
            kernel.name, self.point, call.scalars, call.arrays, dtype_table(kernel), kernel.parameters
        )
        self.homes = {name: frozenset(i.inames) for i in kernel.instructions for name in i.writes}
        self.steps = accumulation_steps(lower(kernel))
        self.collected: dict[tuple[str, int], _Collected] = {}

    def run(self, tree: Tree) -> None:
        """Execute the whole program."""
        statements = {i.id: self.statement(i) for i in self.call.kernel.instructions}
        statements.update((name, self.accumulation(step)) for name, step in self.steps.items())
        domains = {i.id: i.domain for i in self.call.kernel.instructions}
        domains.update((name, step.exact) for name, step in self.steps.items())
        occupied = [name for name, domain in domains.items() if not self.call.fixed(domain).is_empty()]
        self.walk(tree, statements, {name: statements[name].points for name in occupied})

    def walk(self, tree: Tree, statements: Mapping[str, _Statement], here: Mapping[str, Points]) -> None:
        """Execute *tree* for the instances in *here*: the remaining points of each statement."""
        for node in tree:
            if isinstance(node, Run):
                if node.name in here and is_there(here[node.name]):
                    statement = statements[node.name]
                    if statement.condition():
                        statement.execute()
            elif isinstance(node, Loop):
                inside = {name: level(here[name]) for name in runs(node.body) if name in here}
                for value in sorted({value for values in inside.values() for value in values}):
                    self.point[node.iname] = value
                    below = {name: values[value] for name, values in inside.items() if value in values}
                    self.walk(node.body, statements, below)
                self.point.pop(node.iname, None)

    def statement(self, instruction: Instruction) -> _Statement:
        """Return *instruction*, ready to be executed."""
        if instruction.is_c:
            message = f"'{instruction.id}' is C text, which the interpreter cannot run"
            raise self.call.error("c-instruction", message, (str(instruction),), "run the kernel on target C or CUDA")
        compiler, call = self.compiler, self.call
        numbered = enumerate(instruction.terms)
        compiler.terms = lambda reduction: self.terms(instruction, reduction, *next(numbered))
        target = call.arrays[instruction.target]
        expression = expand_rules(instruction.expression, call.kernel.substitutions)
        for field in field_path(instruction.assignee):
            target = target[field]
        value = compiler.value(expression, target.dtype)
        assert next(numbered, None) is None, f"'{instruction.id}' has more term domains than reductions"
        compiler.terms = None
        place = compiler.place(element_of(instruction.assignee))
        predicates = [compiler.value(predicate) for predicate in instruction.predicates]
        watch = self.watch

        def execute() -> None:
            where = place()
            target[where] = converted(value(), target.dtype)
            if watch is not None:
                watch(instruction, self.point, where, target[where])

        points = self.points(instruction.domain)
        return _Statement(points, lambda: all(predicate() for predicate in predicates), execute)

    def terms(
        self, instruction: Instruction, reduction: Reduction, number: int, term: Term
    ) -> Callable[[Closure], Callable[[], Iterable[Any]]]:
        """Return a function from the closure of a term to a closure for the values of all terms."""
        count = len(reduction.inames)
        assert term.inames[-count:] == reduction.inames, f"terms over {term.inames} for {reduction}"
        if any(s.instruction.id == instruction.id and s.number == number for s in self.steps.values()):
            collected = self.collected[instruction.id, number] = _Collected(term.inames[:-count])
            return collected.reader(self.point)
        points = self.points(term.domain)
        return lambda closure: lambda: self.sweep(points, term.inames, count, closure)

    def sweep(self, points: Points, inames: Sequence[str], count: int, closure: Closure) -> Iterator[Any]:
        """Yield the values of *closure* at *points*; the last *count* inames are those of a reduction."""
        outer, inner, here = inames[:-count], inames[-count:], self.point

        def over(points: Points, depth: int) -> Iterator[Any]:
            if depth == count:
                yield closure()
                return
            for value, below in level(points).items():
                here[inner[depth]] = value
                yield from over(below, depth + 1)

        for name in outer:
            points = at(points, here[name])
        yield from over(points, 0)
        for name in inner:
            here.pop(name, None)

    def accumulation(self, step: Lowered) -> _Statement:
        """Return an init or update of a reduction that collects its terms in a loop around, ready to be executed."""
        assert step.number is not None, f"{step.name} belongs to no reduction"
        collected = self.collected[step.instruction.id, step.number]

        def execute() -> None:
            key = collected.key(self.point)
            if isinstance(step.part, Init):
                collected.values[key] = []
            else:
                assert collected.closure is not None, f"{step.name} has no term"
                collected.values[key].append(collected.closure())

        return _Statement(self.points(step.exact), lambda: True, execute)

    def points(self, domain: isl.Set) -> Points:
        """Return the points of *domain* for the sizes of this call."""
        bounds = bound_variables(domain, self.call.kernel.parameters)
        if not bounds:
            return trie(self.call.fixed(domain))
        return DataPoints(without_bound_variables(self.call.with_sizes(domain), bounds), self.present)

    def present(self, name: str) -> int | None:
        """Return the value of a bound variable, None outside of the loops that assign it."""
        if not self.homes[name] <= self.point.keys():
            return None
        value = int(self.call.arrays[name][()])
        if abs(value) > _FARTHEST:
            message = f"'{name}' is {value}, and bounds a loop"
            at = ", ".join(f"{iname} = {number}" for iname, number in self.point.items())
            hint = "generated code does not check what it reads: keep such bounds within -2**62 and 2**62"
            raise self.call.error("index-overflow", message, (f"at {at}",) if at else (), hint)
        return value


# }}}
