"""Schedules of one program: transformed kernels, or functions of sizes that return them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Final, TypeAlias

import islpy as isl

from polyloop.codegen.program import GeneratedProgram
from polyloop.display import brief
from polyloop.edge.callbacks import asked
from polyloop.errors import Diagnostic, PolyloopError, TuningError, unknown_name
from polyloop.frozen import replace as renewed
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import NoScriptError, Written
from polyloop.runtime.executor import compiled
from polyloop.runtime.invoke import CompiledKernel
from polyloop.runtime.specialize import open_arguments
from polyloop.target.base import Target
from polyloop.target.source import generate_code
from polyloop.transform.base import Transform
from polyloop.tuning.conditions import CallFacts, Condition, conditions_of

__all__ = ["Family", "Refused", "Schedule", "TargetFor"]

TargetFor: TypeAlias = Callable[[LoopKernel], Target]
_MOST_MEMBERS: Final = 64
"""Kernels that a function of sizes made, which are kept."""


_OF_A_KERNEL: Final = frozenset({"name", "target", "assumptions", "silenced_warnings"})
"""Options of ``make_kernel`` that say nothing of what a program computes."""
_SAME: Final = frozenset({
    "assume", "fix_parameters", "add_dtypes", "reduce_atomically", "add_barrier", "add_nosync", "split_array_axis",
    "tag_array_axes", "add_padding", "hoist_reduction_factors", "collect_common_factors_on_increment",
})  # fmt: skip
"""Steps with a reference program of their own, which computes the same, for some of the sizes; what they make of
arguments is compared."""


def fingerprint(kernel: LoopKernel) -> str:
    """Return the meaning of a kernel as text: how it was made, and the steps since that changed it on purpose."""
    made = kernel.made
    if isinstance(made, Written):
        made = replace(made, options=tuple(option for option in made.options if option[0] not in _OF_A_KERNEL))
    try:
        text = None if made is None else made.script("program")
    except NoScriptError:
        text = None
    if text is None:
        written = kernel if kernel.reference is None else kernel.reference.kernel
        universe = isl.Set.universe(written.assumptions.get_space())
        text = str(renewed(written, name="program", assumptions=universe, conditions=()))
    steps = [step.call() for step in kernel.trace
             if isinstance(step, Transform) and step.changes_meaning and step.name not in _SAME]
    return "\n".join((text, *steps))


@dataclass(frozen=True, eq=False)
class Schedule:
    """One schedule of a program.

    Attributes
    ----------
    name
        Its name among the others.
    kernel
        The transformed kernel; ``print(schedule.kernel.trace)`` lists its transforms.
    target
        What it is compiled for.
    open_types
        The arguments of the program whose types schedules choose.
    """

    name: str
    kernel: LoopKernel
    target: Target
    open_types: tuple[str, ...] = ()

    __repr__ = brief

    @cached_property
    def program(self) -> GeneratedProgram:
        """The generated program, not compiled yet."""
        return generate_code(self.kernel, self.target)

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions under which it is valid."""
        return conditions_of(self.kernel, self.program, self.target, self.open_types)

    @cached_property
    def compiled(self) -> CompiledKernel:
        """The compiled kernel."""
        said = self.kernel.target is not None and self.target.arch
        return compiled(self.kernel, self.target, self.target.arch if said else None)

    def failed(self, call: CallFacts) -> tuple[str, ...]:
        """Return the conditions that *call* does not fulfil, with why."""
        return tuple(why for condition in self.conditions if (why := condition.failed(call)))


@dataclass(frozen=True)
class Refused:
    """A function of sizes refused the sizes of a call."""

    why: str

    __repr__ = brief


class Family:
    """The schedules that a function of sizes returns, or a kernel alone: checked to be of one program when made.

    Parameters
    ----------
    made
        A transformed kernel; or a function whose parameters are sizes of the program, none where they do not matter,
        called when a call's conditions are first looked at.
    vouched
        Whether what programs compute is not compared.
    """

    def __init__(self, name: str, made: LoopKernel | Callable[..., LoopKernel], program: LoopKernel,
                 target_for: TargetFor, *, vouched: bool = False) -> None:  # fmt: skip
        self._vouched = vouched
        self.name, self._made, self._program, self._target_for = name, made, program, target_for
        self.sizes = () if isinstance(made, LoopKernel) else tuple(_parameters(name, made, program))
        self._known: dict[tuple[int, ...], Schedule | Refused] = {}
        if isinstance(made, LoopKernel):
            self._known[()] = self._schedule(made)

    def known(self) -> Iterator[Schedule]:
        """Yield the schedules that were made."""
        yield from (found for found in self._known.values() if isinstance(found, Schedule))

    def member(self, sizes: Mapping[str, int]) -> Schedule | Refused:
        """Return the schedule for these sizes.

        Raises
        ------
        TuningError
            ``bad-build``, ``other-program``, ``callback-failed``.
        """
        key = tuple(sizes[name] for name in self.sizes)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_MEMBERS:
                self._known.clear()
            found = self._known[key] = self._made_for(dict(zip(self.sizes, key, strict=True)))
        return found

    def _made_for(self, sizes: Mapping[str, int]) -> Schedule | Refused:
        assert not isinstance(self._made, LoopKernel), "a kernel is known from the beginning"
        try:
            found: object = asked(_refusal, self.name, self._made, **sizes)
            if not isinstance(found, LoopKernel):
                raise _refusal(Diagnostic(
                    "bad-build", f"'{self.name}' returns no kernel but {type(found).__name__}", (),
                    ("return the transformed kernel",)))  # fmt: skip
            schedule = self._schedule(found)
            schedule.conditions  # noqa: B018 - generates the program, which may be refused
        except TuningError:
            raise
        except PolyloopError as error:
            first = error.found[0]
            return Refused(f"{first.message} [{first.code}]" + (f": {first.notes[0]}" if first.notes else ""))
        return schedule

    def _schedule(self, kernel: LoopKernel) -> Schedule:
        """Return the schedule *kernel*, of which the program is checked to be the one that all have."""
        open_types = tuple(argument.name for argument in open_arguments(self._program))
        if still := open_arguments(kernel):
            raise _refusal(Diagnostic(
                "unknown-dtype", f"schedule '{self.name}' leaves the type of '{still[0].name}' open", (),
                (f'state it: knl.add_dtypes({{"{still[0].name}": "float32"}})',)))
        if problem := _difference(self._program, kernel, self.name, vouched=self._vouched):
            raise _refusal(problem)
        return Schedule(self.name, kernel, self._target_for(kernel), open_types)


def _refusal(problem: Diagnostic) -> TuningError:
    return TuningError("dispatch", None, [problem])


def _parameters(name: str, function: Callable[..., object], program: LoopKernel) -> Iterator[str]:
    """Yield the parameters of a function that makes schedules, each a size of the program."""
    for entry in inspect.signature(function).parameters.values():
        if entry.name in program.parameters:
            yield entry.name
        elif entry.default is entry.empty and entry.kind not in (entry.VAR_KEYWORD, entry.VAR_POSITIONAL):
            problem = unknown_name("parameter", entry.name, program.parameters)
            raise _refusal(renewed(problem, notes=(*problem.notes, f"schedule '{name}' is a function of it")))


def _difference(program: LoopKernel, kernel: LoopKernel, name: str, *, vouched: bool) -> Diagnostic | None:
    """Return the difference of the program of *kernel* from *program*; None if it is not, for some sizes and types.

    If it is *vouched* for what they compute, arguments are compared alone.
    """
    mine = program
    types = {argument.name: argument.dtype for argument in kernel.arguments if argument.dtype is not None}
    wanted = {argument.name: types[argument.name] for argument in open_arguments(program) if argument.name in types}
    try:
        mine = mine.add_dtypes(wanted) if wanted else mine
        mine = mine.fix_parameters(**kernel.fixed) if kernel.fixed else mine
    except PolyloopError as error:
        return renewed(error.found[0], notes=(*error.found[0].notes, f"schedule '{name}' has it"))
    texts = (f"{'' if vouched else fingerprint(each)}\n{_interface(each)}" for each in (mine, kernel))
    one, other = (text.splitlines() for text in texts)
    if one == other:
        return None
    here = next((pair for pair in zip_longest(one, other, fillvalue="") if pair[0] != pair[1]), ("", ""))
    return Diagnostic(
        "other-program", f"schedule '{name}' is of another program",
        (f"the program has: {here[0].strip()}", f"the schedule's has: {here[1].strip()}"),
        ("make all schedules by transforms of one kernel", "sizes may be fixed and assumed, and types be added"),
    )  # fmt: skip


def _interface(kernel: LoopKernel) -> str:
    """Return the arguments of a kernel with their layouts, as text."""
    return "\n".join(sorted(str(argument) for argument in kernel.arguments if isinstance(argument, ArrayArg)))
