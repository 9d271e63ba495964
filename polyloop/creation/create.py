"""``make_kernel``: a kernel is built from the user's text, completed by inference, and checked."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Final

import islpy as isl
import numpy as np

from polyloop.creation.ambiguity import ambiguities, moved_instructions
from polyloop.creation.array_layout import layout_names_violations, layout_violations, with_layouts
from polyloop.creation.c_text import c_text_violations
from polyloop.creation.divided_loops import settled
from polyloop.creation.lint import creation_warnings, idle_assumptions, name_clashes
from polyloop.creation.open_shapes import open_shapes
from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.nosync import hidden_conflicts
from polyloop.dataflow.value_flow import is_exact, known_may_flow, writers_of
from polyloop.edge.checks import EXPLAINED
from polyloop.errors import Diagnostic, KernelError, VerificationError, warn
from polyloop.expr.dtypes import to_dtype
from polyloop.expr.nodes import Expression
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg
from polyloop.kernel.build.builder import build_kernel
from polyloop.kernel.build.declare import condition_of
from polyloop.kernel.build.function import Callee, function_table
from polyloop.kernel.build.plain.foreign import foreign_clashes
from polyloop.kernel.build.text_order import LoopPriority, priority_chains
from polyloop.kernel.cinstruction import CInstruction
from polyloop.kernel.kernel import LoopKernel, Reference
from polyloop.kernel.objects import InstructionObject, spelled
from polyloop.kernel.recorded import recorded
from polyloop.kernel.reductions import ReductionOperation, operations_of
from polyloop.kernel.text.options import PRECISIONS, Division
from polyloop.kernel.text.parser import Parsed
from polyloop.kernel.text.specs import Defaults, GlobalArg, check_order, read_offset
from polyloop.kernel.tree import runs
from polyloop.mapping.thread_mapping import Placed, Placement, common_loops
from polyloop.poly.affine import Affine, affine_of
from polyloop.poly.budget import ASIDE, NoAnswer, aside, budget
from polyloop.poly.sets import Row, add_rows
from polyloop.program.infer_types import bound_violations, infer_dtypes, record_violations, type_violations
from polyloop.program.ir import Access, Kept, Other
from polyloop.program.lower import lower
from polyloop.program.reference import reference_of
from polyloop.proof.access_spans import site_of_access
from polyloop.proof.obligation import in_time, within_budget
from polyloop.proof.witness import element, instance, pair, sizes
from polyloop.verification.bounds import (
    bounds_conditions,
    bounds_violations,
    footprint_shape,
    rank_violations,
    unbounded_inames,
)
from polyloop.verification.correspondence import initial_reads

__all__ = ["complete_kernel", "create_kernel", "make_kernel"]


@recorded
def make_kernel(
    domains: str | isl.Set | isl.BasicSet | Sequence[str | isl.Set | isl.BasicSet],
    instructions: Annotated[str | Sequence[str | InstructionObject | CInstruction], EXPLAINED],
    kernel_data: Sequence[object] | None = None,
    *,
    name: str = "loop_kernel",
    assumptions: str | isl.Set | None = None,
    fixed_parameters: Mapping[str, int] | None = None,
    loop_priority: LoopPriority = (),
    default_order: str = "C",
    default_offset: object = 0,
    index_dtype: object = np.int32,
    seq_dependencies: bool = False,
    target: Hashable | None = None,
    lang_version: tuple[int, int] | None = None,
    silenced_warnings: str | Sequence[str] = (),
    preambles: Sequence[tuple[str, str]] = (),
    functions: Sequence[Annotated[Callee, EXPLAINED]] = (),
    reductions: Sequence[Annotated[ReductionOperation, EXPLAINED]] = (),
    precision: str = "exact",
) -> LoopKernel:
    """Create a kernel from iteration domains and instructions.

    ::

        knl = pl.make_kernel(
            "{[i, j, k]: 0 <= i, j, k < n}",
            "c[i, j] = sum(k, a[i, k] * b[k, j])",
            [pl.GlobalArg("a, b, c", np.float32, shape="n, n"), ...])

    Parameters
    ----------
    domains
        ISL sets as text or as islpy objects, one or several.  Their dimensions are the inames; parameters are
        inferred from the text.
    instructions
        Assignments, one a line: ``lhs = rhs {id=.., dep=.., inames=.., if=.., tags=..}``, ``a, b = x, y`` (both right
        sides first), ``<> t = ..`` for a temporary, ``f(x) := ..`` for a substitution rule, ``for i .. end``, ``if ..
        elif .. else .. end``, ``with {options} .. end``, ``... nop {id=.., dep=..}``, ``... lbarrier``, ``...
        gbarrier``.  ``cse(e)`` or ``cse(e, name)`` in a right side is computed once for each instance, into a
        temporary, which replaces every equal ``cse(e)`` in the statement. A list may have :class:`polyloop.Assignment`
        and the other objects too; :class:`polyloop.CInstruction` is C text.
    kernel_data
        Arguments and temporaries in order; ``...`` (or None) infers the others.
    name
        C identifier of the generated function.
    assumptions
        Conditions on the parameters that every caller guarantees: ``"n >= 1 and n mod 16 = 0"``.  Checked at launch.
    fixed_parameters
        Parameters to replace by numbers.
    loop_priority
        Orders of loops, such as ``("i, j",)``, the outermost first; ``{("i", "j")}`` as in Loopy will do, too.
    default_order, default_offset
        Order (``"C"`` or ``"F"``) and offset of array arguments that say nothing else.
    index_dtype
        Type of inames, and of integer parameters that are given no type: int32 or int64.
    seq_dependencies
        Each instruction depends on the one before it in the text, as if by ``dep=``.
    target
        Default target of :func:`generate_code` and :func:`compile`.
    lang_version
        Accepted so that Loopy scripts run; has no effect.
    silenced_warnings
        Warnings not to give: codes such as ``"dead-instruction"``, or ``"dead-instruction(copy)"`` for one warning's
        subject; ``*`` and ``?`` stand for anything.
    preambles
        Names and texts of C code in front of the generated functions, once each, in the order of the names: definitions
        for the text of a :class:`polyloop.CInstruction`.
    functions
        Functions for statements (:func:`polyloop.make_function`), and expressions (:class:`polyloop.ForeignFunction`),
        alone or in lists.
    reductions
        Operations for reductions in this kernel, besides the built-in ones; each under its name.
    precision
        ``"exact"``, or ``"fast"``: CUDA code calls approximations such as ``__expf`` where the hardware has them for
        float32.  An instruction can say otherwise with ``{precision=exact}``.  C and the interpreter ignore it.

    Raises
    ------
    KernelError
        With a caret: ``syntax``, ``syntax-domain``, ``unknown-option``, ``reserved-name`` and the other codes of the
        parser; with the instruction: ``iname-twice``, ``unknown-iname``, ``undeclared-name``, ``wrong-rank``,
        ``unbounded-domain``, ``out-of-bounds`` (with the instance), ``dependency-cycle``, ``read-before-write``,
        ``output-not-written``, ``shape-not-inferred``, ``bad-c-instruction``, ``ambiguous-loop``,
        ``ambiguous-nest``, ``ambiguous-order``.

    Warns
    -----
    PolyloopWarning
        ``dead-instruction``, ``unused-iname``, ``unused-variable``, ``shadowed-name``, ``idle-nosync``.

    Notes
    -----
    The reference program defines the meaning of the text: see ``print(knl.reference)``.
    """
    del lang_version
    return create_kernel(
        domains,
        instructions,
        kernel_data,
        name=name,
        assumptions=assumptions,
        fixed_parameters=fixed_parameters,
        loop_priority=loop_priority,
        default_order=default_order,
        default_offset=default_offset,
        index_dtype=index_dtype,
        seq_dependencies=seq_dependencies,
        target=target,
        silenced_warnings=silenced_warnings,
        preambles=preambles,
        functions=functions,
        reductions=reductions,
        precision=precision,
    )


@in_time
def create_kernel(
    domains: str | isl.Set | isl.BasicSet | Sequence[str | isl.Set | isl.BasicSet],
    instructions: str | Sequence[str | InstructionObject | CInstruction] | Sequence[Parsed],
    kernel_data: Sequence[object] | None,
    *,
    name: str,
    assumptions: str | isl.Set | None = None,
    fixed_parameters: Mapping[str, int] | None = None,
    loop_priority: LoopPriority = (),
    default_order: str = "C",
    default_offset: object = 0,
    index_dtype: object = np.int32,
    seq_dependencies: bool = False,
    target: Hashable | None = None,
    silenced_warnings: str | Sequence[str] = (),
    preambles: Sequence[tuple[str, str]] = (),
    functions: Sequence[Callee] = (),
    reductions: Sequence[Annotated[ReductionOperation, EXPLAINED]] = (),
    precision: str = "exact",
) -> LoopKernel:
    """Create a kernel as :func:`make_kernel` does, from *instructions* that may have been parsed already."""
    read_offset(default_offset)
    if precision not in PRECISIONS:
        message = f"no precision {precision!r}"
        raise KernelError("make_kernel", name, [Diagnostic("bad-value", message, hints=("pass 'exact' or 'fast'",))])
    build = partial(
        build_kernel,
        domains,
        spelled(instructions),
        kernel_data,
        name=name,
        assumptions=assumptions,
        fixed_parameters=fixed_parameters or {},
        loop_priority=priority_chains(loop_priority),
        defaults=Defaults(check_order(default_order), default_offset),
        index_dtype=_index_dtype(index_dtype),
        functions=function_table(functions),
        seq_dependencies=seq_dependencies,
        operations=operations_of(reductions),
    )
    try:
        kernel = build()
    except KernelError as error:
        build = _otherwise_divided(build, kernel_data, error)
        kernel = build()
    if shapes := open_shapes(kernel, kernel_data):
        build = partial(build, shapes=shapes)
        kernel = build()
    codes = tuple(sorted({(key, text) for key, text in preambles}))
    if codes:
        kernel = replace(kernel, preambles=codes)
    patterns = (silenced_warnings,) if isinstance(silenced_warnings, str) else tuple(silenced_warnings)
    try:
        kernel = complete_kernel(kernel, kernel_data)
    except KernelError as error:
        if not kernel.barriers:
            raise
        build = _otherwise_divided(build, kernel_data, error)
        kernel = complete_kernel(replace(build(), preambles=codes), kernel_data)
    if kernel.barriers:
        kernel = settled(kernel, lambda: complete_kernel(build(division=Division.NONE), kernel_data))
    if patterns or target is not None or precision == "fast":
        kernel = replace(kernel, silenced_warnings=patterns, target=target, fast=precision == "fast")
    assert kernel.reference is not None, "a complete kernel has its reference program"
    _raise_if(kernel, moved_instructions(kernel.reference.kernel))
    if any(instruction.nosync for instruction in kernel.reference.kernel.instructions):
        _raise_if(kernel, hidden_conflicts(place(kernel.reference.kernel)))
    assumed = condition_of(assumptions, fixed_parameters or {})
    found = (*creation_warnings(kernel.reference.kernel), *idle_assumptions(kernel, assumed))
    warn("make_kernel", kernel.name, found, patterns)
    return kernel


_MEANINGS: Final = frozenset({"crosses-barrier", "read-before-write"})
"""Errors that another meaning of a barrier in a nest may not have."""


def _otherwise_divided(
    build: partial[LoopKernel], kernel_data: Sequence[object] | None, error: KernelError
) -> partial[LoopKernel]:  # fmt: skip
    """Return *build* with another meaning of a barrier in a nest, where values cannot cross it in the innermost loop.

    ::

        for i
            for t
                s[i] = a[i] + t
                ... lbarrier            each t is as it stands, or in each t all i meet
                b[i] = s[7 - i]
            end
        end

    Raises
    ------
    KernelError
        *error*, if no other meaning is a program.
    """
    if not _MEANINGS.issuperset(error.codes):
        raise error
    for division in (Division.NONE, Division.OUTER):
        other = partial(build, division=division)
        try:
            complete_kernel(other(), kernel_data)
        except KernelError:
            continue
        return other
    raise error


def complete_kernel(kernel: LoopKernel, kernel_data: Sequence[object] | None) -> LoopKernel:
    """Return *kernel*, as :func:`polyloop.kernel.build.builder.build_kernel` made it, completed and checked."""
    try:
        kernel = _completed(kernel)
        _raise_if(kernel, _wrong_directions(kernel, kernel_data or ()))
        return kernel
    except VerificationError as error:
        raise KernelError("make_kernel", kernel.name, error.found) from error


def _index_dtype(given: object) -> np.dtype[np.generic]:
    dtype = to_dtype(given)
    if dtype not in {np.dtype(np.int32), np.dtype(np.int64)}:
        hint = "the type of integer arguments is said by pl.ValueArg"
        problem = Diagnostic("bad-value", f"index_dtype is int32 or int64, not {dtype}", hints=(hint,))
        raise KernelError("make_kernel", None, [problem])
    return dtype


def _raise_if(kernel: LoopKernel, found: Iterator[Diagnostic]) -> None:
    problems = tuple(found)
    if problems:
        raise KernelError("make_kernel", kernel.name, problems)


def _completed(kernel: LoopKernel) -> LoopKernel:
    _raise_if(kernel, name_clashes(kernel))
    _raise_if(kernel, foreign_clashes(kernel))
    _raise_if(kernel, c_text_violations(kernel))
    _raise_if(kernel, unbounded_inames(kernel))
    kernel = with_layouts(_with_shapes(kernel))
    _raise_if(kernel, layout_names_violations(kernel))
    kernel = _with_extents(kernel)
    _raise_if(kernel, rank_violations(kernel))
    _raise_if(kernel, bounds_violations(kernel))
    if conditions := bounds_conditions(kernel):
        kernel = replace(kernel, conditions=conditions)
    _raise_if(kernel, _unwritten(kernel))
    _raise_if(kernel, _stale_bounds(kernel))
    _raise_if(kernel, layout_violations(kernel))
    _raise_if(kernel, _uninitialised(kernel))
    _raise_if(kernel, type_violations(kernel))
    before = _with_directions(kernel)
    kernel = infer_dtypes(before)
    _raise_if(kernel, bound_violations(kernel))
    _raise_if(kernel, record_violations(kernel, before))
    reference = reference_of(kernel)
    _raise_if(kernel, _group_conflicts(reference))
    _raise_if(kernel, ambiguities(reference))
    return replace(kernel, reference=reference)


def _group_conflicts(reference: Reference) -> Iterator[Diagnostic]:
    """Yield ``group-conflict`` for an instruction between members of a group that it conflicts with."""
    by_id = {instruction.id: instruction for instruction in reference.kernel.instructions}
    order = [by_id[name] for name in runs(reference.tree) if name in by_id]
    for position, instruction in enumerate(order):
        for group in sorted(instruction.conflicts):
            before = [other for other in order[:position] if group in other.groups]
            after = [other for other in order[position + 1 :] if group in other.groups]
            if before and after:
                yield Diagnostic(
                    "group-conflict",
                    f"'{instruction.id}' conflicts with group '{group}' and stands inside it",
                    (f"the group has '{before[0].id}' before it and '{after[-1].id}' after it",),
                    (f"let it run before '{before[0].id}' or after '{after[-1].id}': dep=, or another place",),
                    sites=(before[0].site(), instruction.site(), after[-1].site()),
                )


def _with_shapes(kernel: LoopKernel) -> LoopKernel:
    if all(array.shape is not None for array in kernel.arrays().values()):
        return kernel
    arguments: list[Argument] = []
    for argument in kernel.arguments:
        if isinstance(argument, ArrayArg) and argument.shape is None:
            arguments.append(replace(argument, shape=_footprint(kernel, argument.name)))
        else:
            arguments.append(argument)
    temporaries = {}
    for name, temporary in kernel.temporaries.items():
        open_shape = temporary.shape is None
        temporaries[name] = replace(temporary, shape=_footprint(kernel, name)) if open_shape else temporary
    return replace(kernel, arguments=tuple(arguments), temporaries=temporaries)


def _with_extents(kernel: LoopKernel) -> LoopKernel:
    """Assume of every array argument that its extents are not negative: no array has others."""
    forms: dict[Affine, None] = {}
    for argument in kernel.arguments:
        for extent in (argument.shape or ()) if isinstance(argument, ArrayArg) else ():
            form = affine_of(extent)
            if form is not None and form.terms and form.names() <= set(kernel.parameters):
                forms.setdefault(form)
    rows = [Row(form) for form in forms]
    return replace(kernel, assumptions=add_rows(kernel.assumptions, (), rows).coalesce()) if rows else kernel


def _footprint(kernel: LoopKernel, name: str) -> tuple[Expression, ...]:
    shape = footprint_shape(kernel, name)
    if isinstance(shape, Diagnostic):
        raise KernelError("make_kernel", kernel.name, [shape])
    return shape


def _unwritten(kernel: LoopKernel) -> Iterator[Diagnostic]:
    written = {name for instruction in kernel.instructions for name in instruction.writes}
    for instruction in kernel.instructions:
        for name in sorted(instruction.reads & kernel.temporaries.keys()):
            if name not in written and kernel.temporaries[name].initializer is None:
                yield Diagnostic(
                    "read-before-write",
                    f"temporary '{name}' is read, and nothing writes it",
                    hints=(f"assign it first: <> {name} = ...",),
                    sites=(instruction.site(),),
                )
        for name in instruction.writes:
            table = kernel.temporaries.get(name)
            assert table is None or table.initializer is None, f"'{instruction.id}' writes a constant table"
            if name in kernel.values() or name in kernel.parameters:
                what = "a parameter" if name in kernel.parameters else "a scalar argument"
                yield Diagnostic(
                    "not-assignable",
                    f"'{name}' is {what} and cannot be assigned",
                    hints=("assign a temporary (<> t = ...) or an array",),
                    sites=(instruction.site(),),
                )
    for argument in kernel.arguments:
        if isinstance(argument, ArrayArg) and argument.is_output and argument.name not in written:
            yield Diagnostic(
                "output-not-written",
                f"array '{argument.name}' is declared an output, and no instruction writes it",
                hints=("assign it, or drop is_output=True",),
            )


def _wrong_directions(kernel: LoopKernel, kernel_data: Sequence[object]) -> Iterator[Diagnostic]:
    """Yield arrays that are not used as their declaration says."""
    for entry in kernel_data:
        if not isinstance(entry, GlobalArg):
            continue
        for name in (part.strip() for part in entry.name.split(",")):
            array = kernel.argument(name)
            if not isinstance(array, ArrayArg):
                continue
            for word, said, found in (
                ("input", entry.is_input, array.is_input),
                ("output", entry.is_output, array.is_output),
            ):
                if said is not None and said != found:
                    yield Diagnostic(
                        "wrong-direction",
                        f"array '{name}' is declared is_{word}={said}, and its accesses say {found}",
                        (f"it is {'' if array.is_input else 'not '}read before it is written, and "
                         f"{'' if array.is_output else 'not '}written",),
                        (f"drop is_{word}={said}, or change the instructions",),
                    )  # fmt: skip


def _stale_bounds(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield ``bad-bound`` for a loop whose bound is not assigned before it in the same iteration."""
    if not any(statement.bounds for statement in lower(kernel).statements.values()):
        return
    placement = place(kernel)
    for reader in placement.statements.values():
        for name in reader.lowered.bounds:
            for writer in writers_of(placement, name):
                loops, earlier = common_loops(placement, writer, reader)
                if earlier and set(writer.dims) <= set(loops):
                    continue
                yield Diagnostic(
                    "bad-bound",
                    f"'{name}' bounds a loop that does not follow its assignment in the same iteration",
                    ("another loop assigns it, or the same loop in a later instruction",),
                    ("write both in one 'for' block, the assignment first",),
                    sites=(writer.lowered.instruction.site(), reader.lowered.instruction.site()),
                )
                return


def _uninitialised(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield reads of temporary elements that nothing has written, with the instance."""
    read = {name for instruction in kernel.instructions for name in instruction.reads}
    for name in kernel.temporaries:
        if name not in read or kernel.temporaries[name].initializer is not None:
            continue
        placement = place(kernel)
        with within_budget(kernel, f"each element of '{name}' is written before it is read"):
            reads = initial_reads(placement, name, kernel.temporaries[name].dtype)
            found = list(reads if is_exact(placement, name) else _never_written(placement, name))
        for statement, access, initial in found:
            if statement.lowered.bounds and access.kind is not Other.BOUND:
                continue
            at, _ = pair(isl.Map.from_domain_and_range(initial, initial), statement, statement)
            note = f"instance {instance(statement, at)}{sizes(statement, at)} reads {element(statement, access, at)}"
            yield Diagnostic(
                "read-before-write",
                f"temporary '{name}' is read where nothing has written it",
                (note,),
                ("write every element first, or shrink the domain of the read",),
                sites=(site_of_access(statement.lowered, access),),
            )
            break


def _never_written(placement: Placement, name: str) -> Iterator[tuple[Placed, Access, isl.Set]]:
    """Yield the reads of *name* with the instances that no data-dependent write can reach."""
    flow = known_may_flow(placement, name)
    for (statement, access), sources in zip(flow.reads, flow.sources, strict=True):
        if statement.lowered.is_conditional or access.is_guarded or isinstance(access.kind, Kept) or access.fields:
            continue
        left = statement.domain_of(access)
        for _, link in sources:
            left = left.subtract(link.domain())
        if not left.is_empty():
            yield statement, access, left


def _sees_initial(placement: Placement, name: str, dtype: np.dtype[np.generic] | None) -> bool:
    """Return whether a read of *name* may see its initial value, True if that stays open.

    It may where that stays open: then the array has to be passed.
    """
    if budget() > ASIDE:
        try:
            with aside():
                return _has_initial_reads(placement, name, dtype)
        except NoAnswer:
            return True
    with within_budget(placement.program.kernel, f"whether '{name}' is read before it is written"):
        return _has_initial_reads(placement, name, dtype)


def _has_initial_reads(placement: Placement, name: str, dtype: np.dtype[np.generic] | None) -> bool:
    if is_exact(placement, name):
        return any(True for _ in initial_reads(placement, name, dtype))
    return any(not initial.is_empty() for initial in known_may_flow(placement, name).initial)


def _with_directions(kernel: LoopKernel) -> LoopKernel:
    """Mark arrays as outputs where they are written, as inputs where some read sees their initial value."""
    written = {name for instruction in kernel.instructions for name in instruction.writes}
    read = {name for instruction in kernel.instructions for name in instruction.reads}
    arguments: list[Argument] = []
    for argument in kernel.arguments:
        if isinstance(argument, ArrayArg):
            name = argument.name
            needed = name in read
            if needed and name in written:
                needed = _sees_initial(place(kernel), name, argument.dtype)
            if (argument.is_input, argument.is_output) != (needed, name in written):
                arguments.append(replace(argument, is_input=needed, is_output=name in written))
                continue
        arguments.append(argument)
    return replace(kernel, arguments=tuple(arguments))
