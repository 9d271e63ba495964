"""Generation of program text from a finished schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod

import numpy as np

from polyloop.codegen.checks import assumption_checks, condition_check, index_checks, natural_names
from polyloop.codegen.definitions import comment, preamble_text, record_names, words_of_c_text
from polyloop.codegen.device.async_copy import with_groups, without_starts
from polyloop.codegen.device.decoupled_lookback import (
    Chains,
    chains_of,
    clear_launch,
    clear_text,
    passing_statements,
    ticket_lines,
    with_totals_stored,
)
from polyloop.codegen.device.tensors import with_matrices
from polyloop.codegen.expressions.linear import form_text
from polyloop.codegen.expressions.magnitude import Magnitudes
from polyloop.codegen.language import AXIS_NAMES, Language
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.digits import digit_lines, digits_of, without_digits
from polyloop.codegen.loops.grid import GridAxis, grid_axes, hardware_axes
from polyloop.codegen.loops.regions import sequential_tree
from polyloop.codegen.loops.rows import hull, in_order, rows_of
from polyloop.codegen.memory import asks_for_shared, declare_temporaries
from polyloop.codegen.names import local_words, spelling
from polyloop.codegen.parts import is_split, parts_of
from polyloop.codegen.pointers import may_merge_loads
from polyloop.codegen.program import DeviceLaunch, GeneratedProgram, LaunchCheck, SplitArray
from polyloop.codegen.renaming import Spelt, names_of, spell
from polyloop.codegen.scope import Names, Scope
from polyloop.codegen.tables import table_text, table_violations
from polyloop.codegen.tree.c_ast import Block, Group
from polyloop.codegen.tree.c_expr import Literal, Name
from polyloop.codegen.tree.cprinter import print_block
from polyloop.codegen.tree.divergence import refuse_divergent
from polyloop.codegen.tree.indices import Indices
from polyloop.codegen.tree.registers import IndexedArray, indexed_arrays, queue_notes
from polyloop.codegen.tree.shuffles import shared_shuffles
from polyloop.codegen.walk import Walker
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.dtypes import computed
from polyloop.expr.foreign import ForeignFunction, foreign_calls, words
from polyloop.expr.nodes import Expression, array_name, targets_of
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace, Argument, ArrayArg, ValueArg
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Tree, runs
from polyloop.kernel.tree import Scope as BarrierScope
from polyloop.mapping.mixed_radix import Digit, digit_form
from polyloop.poly.affine import Affine
from polyloop.poly.axes import AXES, BLOCK_AXES, Level, is_axis, level_of, thread_axis
from polyloop.poly.residues import residues
from polyloop.proof.obligation import discharged
from polyloop.schedule.plan import Launch, Schedule, Statement, Storage, shared_bytes
from polyloop.verification.addresses import WideAccess, wide_obligations

__all__ = ["generate"]

_INT_MAX = 2**31 - 1
_ZERO = ((Affine((), 0),),)


def generate(schedule: Schedule, language: Language, *, index_bits: int = 32) -> GeneratedProgram:
    """Return the program text of *schedule* in *language*.

    Parameters
    ----------
    index_bits
        32 or 64: width of index arithmetic.  With 32, ``index_checks`` of the result says where that is enough; where
        it never is, as for sums of bounds that are read from memory or for numbers beyond it, the result has 64.

    Raises
    ------
    CodegenError
        ``unroll-not-constant``, ``unbounded-loop``, ``unsupported-dtype``, ``unsupported-function``,
        ``unsupported-expression``, ``grid-barrier``, ``shared-memory-exceeded``,
        ``block-too-large``.
    """
    assert index_bits in language.index_types, f"no index type of {index_bits} bits"
    types = {name for a in schedule.arguments if a.dtype is not None for name in record_names(a.dtype)}
    spelt = spell(schedule, spelling(language, (text for _, text in schedule.preambles), types))
    try:
        program = _Program(spelt, index_bits)
        generated = program.generate()
        return spelt.described(_Program(spelt, 64).generate() if program.never_fits() else generated)
    except CodegenError as error:
        raise spelt.error(error) from None


@dataclass
class _Function:
    """A launch on its way to text."""

    launch: Launch
    scope: Scope
    body: Block
    dynamic_shared: int
    axes: Sequence[GridAxis]


class _Program:
    """Everything that the functions of one program share."""

    def __init__(self, spelt: Spelt, index_bits: int) -> None:
        self.spelt, schedule, language = spelt, spelt.schedule, spelt.how.language
        schedule = with_totals_stored(schedule) if language.has_axes else schedule
        self.language = language
        self.bounds = _bound_dtypes(schedule)
        is_wide = any(not np.can_cast(dtype, np.int32) for dtype in self.bounds.values())
        self.index_bits = 64 if is_wide else index_bits
        index_dtype = np.dtype(f"int{self.index_bits}")
        given = tuple(_completed(argument, index_dtype) for argument in schedule.arguments)
        self.split: dict[str, SplitArray] = {}
        self.divisibility = residues(schedule.assumptions)
        self.context = self._initial_context(schedule)
        self.statements = {
            name: statement
            for name, statement in schedule.statements.items()
            if not statement.domain.intersect_params(schedule.assumptions).is_empty()
        }
        self.foreign_words = _foreign_words(schedule, language.name)
        apart = (*self._taken_apart(schedule.name, given), *schedule.workspace)
        self.chains = self._chains(schedule, apart) if language.has_axes else {}
        passed = tuple(array for chains in self.chains.values() for array in chains.arrays)
        self.workspace = (*schedule.workspace, *passed)
        self.arguments = (*apart, *passed)
        self.whole = {part: split.name for split in self.split.values() for part in split.parts}
        layouts = (a.name for a in self.arguments if isinstance(a, ValueArg) and a.layout_of is not None)
        self.index_names = (*schedule.parameters, *layouts)
        self.arrays = {a.name: a for a in (*given, *self.workspace) if isinstance(a, ArrayArg)}
        self.foreign_functions: dict[tuple[str, tuple[np.dtype[np.generic], ...]], ForeignFunction] = {}
        self.users = frozenset(names_of(schedule)).union(a.name for a in self.arguments)
        names, at_file_scope = self._names(self.users | self.foreign_words), spelt.how.at_file_scope
        self.table_names = {n: names.fresh(at_file_scope(f"{schedule.name}_{n}")) for n in schedule.tables}
        self.helpers: dict[str, str] = {}
        self.records: dict[np.dtype[np.generic], str] = {}
        self.helper_names: dict[str, str] = {}
        self.structs: dict[str, str] = {}
        self.kept_records = spelt.how.types | self.foreign_words | words_of_c_text(schedule)
        self.aligned: dict[str, int] = {}
        self.notes: dict[tuple[str, str], Diagnostic] = {}
        self.wide: list[WideAccess] = []
        self.natural = natural_names(self.index_names, self.context, self.divisibility)
        self.magnitudes = Magnitudes(self.divisibility, self.natural)
        self.digits: Mapping[str, Digit] = {}
        if not language.has_axes:
            block = max((launch.local_size for launch in schedule.launches), default=())
            sizes = {thread_axis(n): size for n, size in enumerate(block)}
            self.digits = digits_of(self.statements.values())
            self.statements = {name: without_digits(s, sizes) for name, s in self.statements.items()}
        self.schedule = replace(schedule, statements=self.statements)

    def _names(self, taken: Iterable[str]) -> Names:
        """Return names beside those that are *taken*, and beside the words of the language."""
        return Names(taken, local_words(self.language))

    def _taken_apart(self, kernel: str, given: Iterable[Argument]) -> tuple[Argument, ...]:
        """Return the arguments as functions take them."""
        taken: list[Argument] = []
        for argument in given:
            if not isinstance(argument, ArrayArg) or not is_split(argument):
                taken.append(argument)
                continue
            found = parts_of(argument)
            if isinstance(found, Diagnostic):
                raise CodegenError("generate_code", kernel, [found])
            self.split[argument.name], parts = found
            taken += parts
        return tuple(taken)

    def _initial_context(self, schedule: Schedule) -> Context:
        basics = schedule.assumptions.compute_divs().get_basic_sets()
        pieces = in_order(rows_of(basic, (), self.divisibility) for basic in basics)
        return Context().add(Affine(terms, const) for terms, const in hull(pieces).items())

    def _chains(self, schedule: Schedule, arguments: Iterable[Argument]) -> dict[str, Chains]:
        """Return the arrays through which the blocks of each launch pass on totals, by launch."""
        names = self._names({a.name for a in arguments} | {t.name for u in schedule.launches for t in u.temporaries})
        names.taken.update(self.foreign_words, *(statement.dims for statement in self.statements.values()))
        found: dict[str, Chains] = {}
        for launch in schedule.launches:
            passing = list(passing_statements(launch, self.statements))
            if passing:
                own = [self.statements[name] for name in runs(launch.tree) if name in self.statements]
                (axis,) = grid_axes(launch.group_axes, own, self.context, self.divisibility)
                found[launch.name] = chains_of(launch, passing, axis.extent, names)
        return found

    def generate(self) -> GeneratedProgram:
        """Return the program."""
        functions = [self._function(launch) for launch in self.schedule.launches]
        if self.language.has_axes:
            texts = [self._device_text(function) for function in functions]
            launches = tuple(self._device_launch(function) for function in functions)
            if self.chains:
                clear = self._names(launch.name for launch in launches).fresh(f"{self.schedule.name}_clear")
                texts.insert(0, clear_text(clear, tuple(self.chains.values()), self.language))
                launches = (clear_launch(clear, tuple(self.chains.values())), *launches)
        else:
            texts = [self._host_text(functions)]
            names = tuple(argument.name for argument in self.arguments)
            one = (1, 1, 1)
            launches = (DeviceLaunch(self.schedule.name, one, one, 0, names),)
        parts = [
            comment((*self.schedule.remarks(), *self.spelt.lines())),
            self.language.header,
            *self.structs.values(),
            *(preamble_text(name, text.strip("\n")) for name, text in self.schedule.preambles),
            self._table_text(functions),
            "\n".join(self.helpers.values()),
            *texts,
        ]
        proofs = tuple(map(discharged, wide_obligations(self.wide, self.divisibility)))
        if torn := [finding for proof in proofs for finding in proof.found]:
            raise CodegenError("generate_code", self.schedule.name, torn)
        return GeneratedProgram(
            kernel=self.schedule.name,
            target=self.language.name,
            device_code="\n\n".join(part for part in parts if part) + "\n",
            launches=launches,
            arguments=self.arguments[: len(self.arguments) - len(self.workspace)],
            workspace=self.workspace,
            split=tuple(self.split.values()),
            alignments=tuple((name, most) for name, most in self.aligned.items() if name in self.arrays),
            indexed=(indexed := self._indexed_arrays()),
            notes=(*self.schedule.left_open, *((name, note) for (name, _), note in self.notes.items()),
                   *queue_notes(indexed)),
            checks=(*assumption_checks(self.schedule.assumptions), *map(condition_check, self.schedule.conditions)),
            index_checks=self._index_checks(),
            index_bits=self.index_bits,
            proofs=proofs,
        )  # fmt: skip

    def _indexed_arrays(self) -> tuple[IndexedArray, ...]:
        """Return the private arrays of which a subscript is known only when the program runs, on a device."""
        if not self.language.has_axes:
            return ()
        tags = self.schedule.loop_tags
        return tuple(a for launch in self.schedule.launches for a in indexed_arrays(launch, self.statements, tags))

    def never_fits(self) -> bool:
        """Return whether index arithmetic may exceed 32 bits for all sizes: by what is read, or by numbers alone."""
        return self.index_bits == 32 and any(bound.get((), 0) > _INT_MAX for bound in self.magnitudes.bounds(32))

    def _index_checks(self) -> tuple[LaunchCheck, ...]:
        return index_checks(
            self.arguments, self.index_names, self.magnitudes.bounds(self.index_bits), self.context,
            self.natural, self.index_bits, self.magnitudes.bounds(64, wide=True),
        )

    def _table_text(self, functions: Sequence[_Function]) -> str:
        """Return the constant tables that are read, one definition each."""
        if not self.schedule.tables:
            return ""
        launches = [function.launch for function in functions]
        read = {name for s in self._statements_of(launches) for part in (s.rhs, s.lhs, *s.predicates)
                for name in variables(part)}  # fmt: skip
        texts, used = [], 0
        for name, table in self.schedule.tables.items():
            if name in read:
                if found := table_violations(name, table, self.language):
                    raise CodegenError("generate_code", self.schedule.name, found)
                ctype = functions[0].scope.ctype(table.dtype)
                text, used = table_text(self.table_names[name], table, ctype, self.language, used)
                texts.append(text)
        return "\n".join(texts)

    # {{{ functions

    def _scope(self, launch: Launch, expanded: Mapping[str, tuple[str, ...]], used: Iterable[str]) -> Scope:
        storage = {t.name: t for t in launch.temporaries}
        tables = {n: Storage(n, t.dtype, t.shape, AddressSpace.GLOBAL) for n, t in self.schedule.tables.items()}
        storage |= tables
        bounds = frozenset(name for statement in used for name in self.statements[statement].bounds)
        own = {dim for name in used for dim in self.statements[name].dims if dim not in bounds}
        taken = {argument.name for argument in self.arguments} | set(storage) | {d for d in own if not is_axis(d)}
        taken |= {*self.records.values(), *self.helper_names.values()}
        taken |= self.foreign_words.union(self.table_names.values())
        names = self._names(taken)
        values: dict[str, str | int] = {p: p for p in self.index_names}
        hardware = self._hardware(launch)
        values |= {axis: names.fresh(AXIS_NAMES[hardware.get(axis, axis)]) for axis in AXES}
        digits = digits_of(self.statements[name] for name in used)
        values |= {axis: names.fresh(self.schedule.digit_names.get(axis, "t")) for axis in digits}
        values |= {dim: dim for dim in own if not is_axis(dim)}
        dtypes: dict[str, np.dtype[np.generic] | None] = {a.name: _held(a) for a in self.arguments}
        dtypes |= {name: array.dtype for name, array in self.arrays.items()}
        dtypes |= {t.name: t.dtype for t in storage.values()}
        dtypes |= dict.fromkeys(values, np.dtype(f"int{self.index_bits}"))
        for name in bounds:
            self.magnitudes.define_read(name, self.bounds[name])
        shared: dict[str, list[str]] = {}
        for temporary in launch.temporaries if not asks_for_shared(launch, self.language) else ():
            if temporary.pool is not None:
                shared.setdefault(temporary.pool, []).append(temporary.name)
        pools = {m: own for pool, many in shared.items() if len(many) > 1 for own in [names.fresh(pool)] for m in many}
        value_dtypes = dict.fromkeys(values, self.schedule.index_dtype)
        value_dtypes |= dict.fromkeys(self.schedule.long & values.keys(), np.dtype(np.int64))
        value_dtypes |= {a.name: a.dtype for a in self.arguments if a.name in values and a.dtype is not None}
        return Scope(
            self.schedule.name, self.spelt.how, self.language, self.index_bits, self.divisibility, names, values,
            dtypes,
            self.arrays, storage, self.helpers, self.magnitudes, expanded, bounds,
            records=self.records, helper_names=self.helper_names, structs=self.structs,
            kept_records=self.kept_records, users=self.users,
            table_names=self.table_names, value_dtypes=value_dtypes, pools=pools, split=self.split,
            foreign_functions=self.foreign_functions, aligned=self.aligned, notes=self.notes,
            indices=Indices(self._indices(used, launch), self.index_names), wide=self.wide,
        )  # fmt: skip

    def _indices(self, used: Iterable[str], launch: Launch) -> Iterator[tuple[str, Affine]]:
        """Yield the named indices of a function, as forms of what has a value in it."""
        dims = {dim for name in used for dim in self.statements[name].dims}
        sizes = {thread_axis(n): size for n, size in enumerate(launch.local_size)}
        places = {axis: digit_form(digit, sizes) for axis, digit in self.digits.items()}
        for name, form in self.schedule.indices:
            present = form.substitute(places)
            if present.names() <= dims.union(self.index_names):
                yield name, present

    def _function(self, launch: Launch) -> _Function:
        self._check_launch(launch)
        tree = _pruned(launch.tree, self.statements)
        tree = (with_groups if self.language.copies else without_starts)(tree, self.statements)
        used = tuple(runs(tree))
        statements = [self.statements[name] for name in used]
        is_empty = any(all(axis not in s.dims for s in statements) for axis in launch.group_axes)
        if is_empty or not used:
            nothing = [GridAxis(axis, _ZERO, _ZERO, 0, ()) for axis in launch.group_axes]
            return _Function(launch, self._scope(launch, {}, ()), (), 0, nothing)
        extents = {thread_axis(n): size for n, size in enumerate(launch.local_size)}
        if not self.language.has_axes:
            taken = self._names({a.name for a in self.arguments} | {t.name for t in launch.temporaries})
            sequential = sequential_tree(replace(launch, tree=tree), self.schedule, taken)
            launch = replace(launch, temporaries=(*launch.temporaries, *sequential.temporaries))
            scope = self._scope(launch, sequential.expanded, used)
            schedule = replace(self.schedule, statements={**self.statements, **sequential.statements})
            body = Walker(scope, schedule, (), extents).run(sequential.tree, self.context)
            return _Function(launch, scope, *declare_temporaries(body, launch, scope), ())
        tree, self.schedule, registers = with_matrices(tree, self.schedule, self.language)
        if registers:
            launch, used = replace(launch, temporaries=(*launch.temporaries, *registers)), tuple(runs(tree))
        self.statements = dict(self.schedule.statements)
        statements = [self.statements[name] for name in used]
        scope = self._scope(launch, {}, used)
        axes = grid_axes(launch.group_axes, statements, self.context, self.divisibility)
        context = self.context.add(row for axis in axes for row in axis.rows)
        for axis in axes:
            self.magnitudes.define(axis.name, (*axis.upper, *axis.lower), context.interval(axis.name)[0])
        extents |= {axis: digit.extent for axis, digit in digits_of(statements).items()}
        for name, size in extents.items():
            context = context.add([Affine(((name, 1),), 0), Affine(((name, -1),), size - 1)])
            self.magnitudes.define(name, ((Affine((), size),),), 0)
        walker = Walker(scope, self.schedule, (*launch.group_axes, *extents), extents)
        body = walker.run(tree, context)
        for axis in axes:
            if axis.name in scope.used and not axis.starts_at_zero:
                self.magnitudes.record(Affine.variable(axis.name))
        body = shared_shuffles(body, scope)
        refuse_divergent(body, scope, digits_of(statements).values())
        return _Function(launch, scope, *declare_temporaries(body, launch, scope), axes)

    def _check_launch(self, launch: Launch) -> None:
        limits = self.language.limits
        found = []
        if _has_grid_barrier(launch.tree):
            found.append(
                Diagnostic(
                    "grid-barrier",
                    f"launch '{launch.name}' has a barrier of the whole grid",
                    hints=("split the kernel in two launches at that place",),
                )
            )
        if limits is not None:
            threads, shared = prod(launch.local_size), shared_bytes(launch.temporaries)
            sizes = zip(launch.local_size, limits.max_block_dims, strict=False)
            if threads > limits.max_threads_per_block or any(size > most for size, most in sizes):
                found.append(
                    Diagnostic(
                        "block-too-large",
                        f"a block of {' x '.join(map(str, launch.local_size))} threads is too large",
                        notes=(f"the limit is {limits.max_threads_per_block}, {limits.max_block_dims} along x, y, z",),
                        hints=("split the inames with local tags by smaller factors",),
                    )
                )
            if shared > limits.shared_bytes:
                found.append(
                    Diagnostic(
                        "shared-memory-exceeded",
                        f"{shared} bytes of shared memory are too much: a block can have {limits.shared_bytes}",
                        hints=("prefetch smaller tiles",),
                    )
                )
        if found:
            raise CodegenError("generate_code", self.schedule.name, found)

    # }}}
    # {{{ text

    def _signature(
        self, arguments: Sequence[Argument], launches: Sequence[Launch], scope: Scope
    ) -> tuple[str, list[str]]:
        """Return the parameters of a function, and lines that narrow or widen integer ones."""
        passed = {array.name for launch in launches for array in self._passed(launch)}
        written = self._written(launches) | passed
        exchanged = frozenset(name for launch in launches for name in launch.exchanged) & written
        arrays = frozenset(self.whole.get(a.name, a.name) for a in arguments if isinstance(a, ArrayArg))
        merged = may_merge_loads(self._statements_of(launches), arrays)
        texts, lines = [], []
        for argument in arguments:
            dtype = _held(argument)
            assert dtype is not None, f"'{argument.name}' has no type"
            ctype = scope.ctype(dtype)
            if isinstance(argument, ArrayArg):
                whole = self.whole.get(argument.name, argument.name)
                const = "" if whole in written else "const "
                # Told that no other pointer reaches the array, the compiler would keep a loaded value across a barrier
                # behind which another thread has stored a new one.
                meet = whole in exchanged or whole in passed
                shared = self.language.has_axes and (meet or (const and merged))
                restrict = "" if shared else f"{self.language.restrict} "
                texts.append(f"{const}{ctype} *{restrict}{argument.name}")
            elif argument.name in self.schedule.parameters and argument.dtype != scope.index_dtype:
                given = scope.names.fresh(f"{argument.name}_arg")
                texts.append(f"{ctype} {given}")
                lines.append(f"    const {scope.index_type} {argument.name} = ({scope.index_type}){given};")
            else:
                texts.append(f"{ctype} {argument.name}")
        return ", ".join(texts), lines

    def _device_text(self, function: _Function) -> str:
        scope, launch = function.scope, function.launch
        arguments = self._arguments_of(launch)
        parameters, lines = self._signature(arguments, [launch], scope)
        bounds = self.language.launch_bounds.format(threads=prod(launch.local_size)) if launch.local_size else ""
        head = " ".join(part for part in (self.language.function, bounds, f"{launch.name}({parameters})") if part)
        body = self._body_lines(function, self._has_several([launch]))
        lines += self._axis_lines(function)
        lines += body
        return "\n".join([head, "{", *lines, "}"])

    def _passed(self, launch: Launch) -> tuple[ArrayArg, ...]:
        """Return the arrays through which the blocks of a launch pass totals on."""
        return self.chains[launch.name].arrays if launch.name in self.chains else ()

    def _body_lines(self, function: _Function, is_named: bool) -> list[str]:
        """Return the lines of a function's body, with names for indices that occur often."""
        names = function.scope.names

        def fresh(name: str) -> str | None:
            return None if name in names.taken else names.fresh(name)

        return print_block(function.scope.indices.settle(function.body, fresh), name_instructions=is_named)

    def _axis_lines(self, function: _Function) -> list[str]:
        """Return the definitions of the axes in use."""
        scope = function.scope
        shifts = {axis.name: axis for axis in function.axes if not axis.starts_at_zero}
        chains, hardware = self.chains.get(function.launch.name), self._hardware(function.launch)
        sizes = {thread_axis(n): size for n, size in enumerate(function.launch.local_size)}
        digits = digits_of(self._statements_of([function.launch]))
        digit_text = digit_lines(digits, sizes, scope)
        lines: list[str] = []
        if chains is not None:
            lines += ticket_lines(chains, function.launch.local_size)
        for kind in Level:
            parts = []
            for axis in AXES:
                if level_of(axis) is kind and axis in scope.used:
                    own = self.language.axes[hardware.get(axis, axis)]
                    text = chains.ticket if chains is not None and kind is Level.GRID else own
                    if axis in shifts:
                        text = f"({scope.index_type}){text} + {self._first_text(shifts[axis], scope)}"
                    parts.append(f"{scope.values[axis]} = {text}")
            if parts:
                lines.append(f"    const {scope.index_type} {', '.join(parts)};")
        return lines + digit_text

    def _first_text(self, axis: GridAxis, scope: Scope) -> str:
        show = partial(form_text, scope=scope, context=self.context)
        extreme = scope.index_extreme
        first = extreme("min", [extreme("max", [show(form) for form in forms]) for forms in axis.lower])
        return first.text if isinstance(first, Name | Literal) else f"({first})"

    def _host_text(self, functions: Sequence[_Function]) -> str:
        launches = [function.launch for function in functions]
        parameters, lines = self._signature(self.arguments, launches, functions[0].scope)
        is_named = self._has_several(launches)
        if len(functions) == 1:
            lines += self._body_lines(functions[0], is_named)
        else:
            grouped = [replace(function, body=(Group(function.body),)) for function in functions if function.body]
            lines += chain.from_iterable(self._body_lines(function, is_named) for function in grouped)
        return "\n".join([f"{self.language.function} {self.schedule.name}({parameters or 'void'})", "{", *lines, "}"])

    def _statements_of(self, launches: Iterable[Launch]) -> list[Statement]:
        return [self.statements[name] for launch in launches for name in runs(launch.tree) if name in self.statements]

    def _has_several(self, launches: Iterable[Launch]) -> bool:
        return len({statement.instruction for statement in self._statements_of(launches)}) > 1

    def _written(self, launches: Iterable[Launch]) -> frozenset[str]:
        return frozenset(array_name(target) for s in self._statements_of(launches) for target in targets_of(s.lhs))

    def _arguments_of(self, launch: Launch) -> tuple[Argument, ...]:
        """Return the arguments of a device function: of several functions, each has those that it uses."""
        if len(self.schedule.launches) == 1:
            return self.arguments
        used: set[str] = set()
        for statement in self._statements_of([launch]):
            for part in (statement.lhs, statement.rhs, *statement.predicates):
                used |= variables(part)
        for name in used & self.arrays.keys():
            for part in (*(self.arrays[name].strides or ()), self.arrays[name].offset):
                used |= variables(part)
        used |= {array.name for array in self._passed(launch)}
        parameters = set(self.schedule.parameters)
        return tuple(a for a in self.arguments if self.whole.get(a.name, a.name) in used or a.name in parameters)

    def _hardware(self, launch: Launch) -> dict[str, str]:
        """Return the axis of the grid that each group axis of a launch is."""
        return hardware_axes(launch.group_axes if self.language.has_axes else ())

    def _device_launch(self, function: _Function) -> DeviceLaunch:
        launch = function.launch
        extents: dict[str, Expression] = {axis.name: axis.extent for axis in function.axes}
        by_hardware = {self._hardware(launch)[axis]: extent for axis, extent in extents.items()}
        x, y, z = (by_hardware.get(axis, 1) for axis in BLOCK_AXES)
        sizes = (*launch.local_size, 1, 1, 1)
        names = tuple(argument.name for argument in self._arguments_of(launch))
        block = (sizes[0], sizes[1], sizes[2])
        shared = function.dynamic_shared or shared_bytes(launch.temporaries)
        most = None if self.language.limits is None else self.language.limits.max_grid_dims
        return DeviceLaunch(launch.name, (x, y, z), block, shared, names, function.dynamic_shared, most)

    # }}}


def _bound_dtypes(schedule: Schedule) -> dict[str, np.dtype[np.generic]]:
    """Return the types of the temporaries that bound loops."""
    bounds = {name for statement in schedule.statements.values() for name in statement.bounds}
    storages = {storage.name: storage for launch in schedule.launches for storage in launch.temporaries}
    return {name: storages[name].dtype for name in bounds}


def _foreign_words(schedule: Schedule, target: str) -> frozenset[str]:
    """Return the identifiers in the foreign functions of a program, none of which a generated name may be."""
    parts = (part for s in schedule.statements.values() for part in (s.lhs, s.rhs, *s.predicates))
    called = {function for part in parts for function in foreign_calls(part)}
    return frozenset().union(*(words(entry, target) for function in called for entry in function.overloads))


def _completed(argument: Argument, index_dtype: np.dtype[np.generic]) -> Argument:
    """Return an argument with a type; parameters are int32 where nothing else was said."""
    if isinstance(argument, ValueArg) and argument.layout_of is not None:
        return replace(argument, dtype=index_dtype)
    if isinstance(argument, ValueArg) and argument.dtype is None:
        return replace(argument, dtype=np.dtype("int32"))
    return argument


def _held(argument: Argument) -> np.dtype[np.generic] | None:
    """Return the type that a function sees: a 16-bit floating-point number is passed by value as a float."""
    dtype = argument.dtype
    return computed(dtype) if isinstance(argument, ValueArg) and dtype is not None else dtype


def _pruned(tree: Tree, statements: Mapping[str, Statement]) -> Tree:
    """Return *tree* without statements that have no instances, and loops without statements."""
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


def _has_grid_barrier(tree: Tree) -> bool:
    return any(
        (isinstance(node, Barrier) and node.scope is BarrierScope.GRID)
        or (isinstance(node, Loop) and _has_grid_barrier(node.body))
        for node in tree
    )
