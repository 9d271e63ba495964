"""Translation unit: state of the generation of one program, which its functions share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from polyloop.codegen.arguments import Inputs, inputs_of
from polyloop.codegen.checks import natural_names
from polyloop.codegen.definitions import words_of_c_text
from polyloop.codegen.language import Language
from polyloop.codegen.loops.context import Known, known_of
from polyloop.codegen.names import Names, Spelling, foreign_words, local_words
from polyloop.codegen.renaming import names_of
from polyloop.codegen.scope import Definitions, Findings
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Tree, runs
from polyloop.schedule.joined import launch_behind, launch_in_front
from polyloop.schedule.plan import Launch, Schedule, Statement

__all__ = ["Unit", "unit_of", "without_empty"]

_INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Unit:
    """A program during code generation.

    Attributes
    ----------
    schedule
        The schedule, with C names.
    spelling
        The renaming of names of the kernel.
    index_bits
        Width of index arithmetic.
    known
        Assumptions about the parameters.
    inputs
        Arguments of its functions.
    natural
        Integer arguments that are known not to be negative.
    reserved
        Identifiers in foreign functions, which generated names must avoid.
    table_names
        C names of constant tables.
    definitions, findings
        Definitions that the text needs, and conditions and notes that follow from it.
    """

    schedule: Schedule
    spelling: Spelling
    index_bits: int
    known: Known
    inputs: Inputs
    natural: Sequence[str]
    reserved: frozenset[str]
    table_names: Mapping[str, str]
    definitions: Definitions
    findings: Findings

    @property
    def language(self) -> Language:
        """The language of the text."""
        return self.spelling.language

    @property
    def never_fits(self) -> bool:
        """True if index arithmetic may exceed 32 bits for all sizes, because of data or of constants."""
        bounds = self.findings.magnitudes.bounds(32)
        return self.index_bits == 32 and any(bound.get((), 0) > _INT_MAX for bound in bounds)

    def names(self, taken: Iterable[str]) -> Names:
        """Return a source of names that avoids *taken* ones and the reserved words of the language."""
        return Names(taken, local_words(self.language))

    def statements(self, *launches: Launch) -> list[Statement]:
        """Return the statements of *launches*, in the order of the text."""
        return [self.schedule.statements[name] for launch in launches for name in runs(launch.whole)]

    def arguments_of(self, launch: Launch) -> tuple[Argument, ...]:
        """Return the arguments of a device function: all if it is the only one, else those that it uses."""
        if len(self.schedule.launches) == 1:
            return self.inputs.arguments
        behind = launch_behind(self.schedule.launches, launch)
        return self.inputs.used_by(launch.name, self.statements(launch, *(() if behind is None else (behind,))))


def unit_of(schedule: Schedule, how: Spelling, index_bits: int) -> Unit:
    """Return the translation unit of *schedule*, without any definitions or findings yet."""
    language, bits = how.language, _index_width(schedule, index_bits)
    known = known_of(schedule.contract.assumptions)
    inputs = inputs_of(schedule, language, known, bits)
    reserved = foreign_words(schedule, language.name)
    users = frozenset(names_of(schedule)).union(a.name for a in inputs.arguments)
    names = Names(users | reserved, local_words(language))
    natural = natural_names(inputs.index_names, known.context, known.divisibility)
    return Unit(
        schedule, how, bits, known, inputs, natural, reserved,
        {name: names.fresh(how.at_file_scope(f"{schedule.name}_{name}")) for name in schedule.file_scope.tables},
        Definitions(schedule.name, how, users, how.types | reserved | words_of_c_text(schedule)),
        Findings.of(known.divisibility, natural),
    )  # fmt: skip


def _index_width(schedule: Schedule, index_bits: int) -> int:
    """Return the width of index arithmetic: 64 if a bound variable may exceed int32, else *index_bits*."""
    bounds = {name for statement in schedule.statements.values() for name in statement.bounds}
    dtypes = (t.dtype for launch in schedule.launches for t in launch.temporaries if t.name in bounds)
    return index_bits if all(np.can_cast(dtype, np.int32) for dtype in dtypes) else 64


def without_empty(schedule: Schedule) -> Schedule:
    """Return *schedule* without statements that have no instances, and without loops around nothing else.

    A program that executes nothing keeps one empty launch.
    """
    statements = {
        name: statement
        for name, statement in schedule.statements.items()
        if not statement.domain.intersect_params(schedule.contract.assumptions).is_empty()
    }
    launches = list[Launch]()
    for launch in schedule.launches:
        front = launch_in_front(schedule.launches, launch)
        if front is not None and not any(front.name == kept.name for kept in launches):
            launch = replace(launch, turns=replace(launch.turns, joins=None))  # noqa: PLW2901
        tree = _pruned(launch.tree, statements)
        used = [statements[name] for name in runs(tree)]
        has_blocks = all(any(axis in s.dims for s in used) for axis in launch.group_axes)
        if used and has_blocks:
            launches.append(replace(launch, tree=tree))
        elif not launch.home:  # a launch without blocks
            launches.append(replace(launch, tree=()))
    left = tuple(launches) or (replace(schedule.launches[0], tree=(), home=()),)
    return replace(schedule, statements=statements, launches=left)


def _pruned(tree: Tree, statements: Mapping[str, Statement]) -> Tree:
    out: list[Node] = []
    for node in tree:
        match node:
            case Run(name):
                if name in statements:
                    out.append(node)
            case Loop(iname, body):
                inner = _pruned(body, statements)
                if any(True for _ in runs(inner)):
                    out.append(Loop(iname, inner))
            case Barrier():
                out.append(node)
    return tuple(out)
