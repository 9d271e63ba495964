"""Arguments of the functions of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from polyloop.codegen.device.arrivals import counters_in
from polyloop.codegen.device.decoupled_lookback import Chains, chains_in
from polyloop.codegen.language import Language
from polyloop.codegen.loops.context import Known
from polyloop.codegen.parts import is_split, parts_of
from polyloop.codegen.program import SplitArray
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.dtypes import computed
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.schedule.plan import Schedule, Statement

__all__ = ["Inputs", "held_dtype", "inputs_of"]


@dataclass(frozen=True)
class Inputs:
    """Arguments of the functions of a program.

    Attributes
    ----------
    arguments
        Arguments as functions take them: each part of a split array by itself, and the workspace at the end.
    workspace
        Arrays that the caller allocates, which are no arguments of the kernel.
    split
        Arrays that are passed in parts.
    arrays
        All arrays, as statements access them.
    parameters
        Integer parameters of the domains.
    chains
        Workspace of scans over blocks, by launch.
    counters
        Counters of blocks that arrive, by launch: they are 0 when their memory is allocated.
    """

    arguments: tuple[Argument, ...]
    workspace: tuple[ArrayArg, ...]
    split: Mapping[str, SplitArray]
    arrays: Mapping[str, ArrayArg]
    parameters: tuple[str, ...]
    chains: Mapping[str, Chains] = field(default_factory=dict)
    counters: Mapping[str, ArrayArg] = field(default_factory=dict)

    @property
    def index_names(self) -> tuple[str, ...]:
        """Integer arguments that occur in index arithmetic."""
        layouts = (a.name for a in self.arguments if isinstance(a, ValueArg) and a.layout_of is not None)
        return (*self.parameters, *layouts)

    @property
    def whole(self) -> dict[str, str]:
        """The split array of each argument that is a part of one."""
        return {part: split.name for split in self.split.values() for part in split.parts}

    def used_by(self, launch: str, statements: Iterable[Statement]) -> tuple[Argument, ...]:
        """Return the arguments that the function of *launch* uses in *statements*."""
        used: set[str] = set()
        for statement in statements:
            for part in (statement.lhs, statement.rhs, *statement.predicates):
                used |= variables(part)
        for name in used & self.arrays.keys():
            for part in (*(self.arrays[name].strides or ()), self.arrays[name].offset):
                used |= variables(part)
        used.update(array.name for array in self.passed(launch))
        whole = self.whole
        return tuple(a for a in self.arguments if whole.get(a.name, a.name) in used or a.name in self.parameters)

    def passed(self, launch: str) -> tuple[ArrayArg, ...]:
        """Return the workspace through which blocks of *launch* wait for each other."""
        counters = (self.counters[launch],) if launch in self.counters else ()
        return (*(self.chains[launch].arrays if launch in self.chains else ()), *counters)


def inputs_of(schedule: Schedule, language: Language, known: Known, index_bits: int) -> Inputs:
    """Return the arguments of the functions of *schedule*.

    Raises
    ------
    CodegenError
        ``unsupported-dtype``, for vectors that do not exist.
    """
    given = [_completed(argument, np.dtype(f"int{index_bits}")) for argument in schedule.contract.arguments]
    split: dict[str, SplitArray] = {}
    arguments: list[Argument] = []
    for argument in given:
        if not isinstance(argument, ArrayArg) or not is_split(argument):
            arguments.append(argument)
            continue
        found = parts_of(argument)
        if isinstance(found, Diagnostic):
            raise CodegenError("generate_code", schedule.name, [found])
        split[argument.name], parts = found
        arguments += parts
    arguments += schedule.contract.workspace
    chains = chains_in(schedule, language, known, {argument.name for argument in arguments})
    taken = {argument.name for argument in arguments}.union(a.name for own in chains.values() for a in own.arrays)
    counters = counters_in(schedule, language, known, taken)
    passed = (*(array for own in chains.values() for array in own.arrays), *counters.values())
    workspace = (*schedule.contract.workspace, *passed)
    arrays = {a.name: a for a in (*given, *workspace) if isinstance(a, ArrayArg)}
    return Inputs((*arguments, *passed), workspace, split, arrays, schedule.contract.parameters, chains, counters)


def _completed(argument: Argument, index_dtype: np.dtype[np.generic]) -> Argument:
    """Return an argument with a type; value arguments without one are int32."""
    if isinstance(argument, ValueArg) and argument.layout_of is not None:
        return replace(argument, dtype=index_dtype)
    if isinstance(argument, ValueArg) and argument.dtype is None:
        return replace(argument, dtype=np.dtype("int32"))
    return argument


def held_dtype(argument: Argument) -> np.dtype[np.generic] | None:
    """Return the type of the function's parameter: a 16-bit floating-point number is passed by value as a float."""
    dtype = argument.dtype
    return computed(dtype) if isinstance(argument, ValueArg) and dtype is not None else dtype
