"""Lint warnings at creation: dead instructions, unused names, names that shadow others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import islpy as isl

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.conflicts import conflict_pairs, conflicts
from polyloop.dataflow.nosync import idle_denials
from polyloop.dataflow.value_flow import is_exact, writers_of, writes_of
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Lookup
from polyloop.expr.rewrite import variables
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.domains import outer_inames, parameters_of
from polyloop.kernel.instruction import Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.budget import NoAnswer, aside
from polyloop.poly.sets import set_text
from polyloop.verification.correspondence import reference_flow

__all__ = ["creation_warnings", "idle_assumptions", "name_clashes"]


def creation_warnings(kernel: LoopKernel) -> Iterator[tuple[str, Diagnostic]]:
    """Yield likely mistakes of the user: the subject of each finding, and the finding.

    *kernel* is a reference program, complete.
    """
    yield from _dead_instructions(kernel)
    yield from _unused_inames(kernel)
    yield from _unused_variables(kernel)
    yield from _shadowed_names(kernel)
    yield from _idle_denials(kernel)


def idle_assumptions(kernel: LoopKernel, condition: isl.Set | None) -> Iterator[tuple[str, Diagnostic]]:
    """Yield the temporaries that the assumptions *condition* mention: their values are not known at launch."""
    for name in () if condition is None else sorted(kernel.temporaries.keys() & set(parameters_of(condition))):
        yield name, Diagnostic(
            "idle-assumption",
            f"what the assumptions say about '{name}' has no effect: the kernel computes it",
            hints=(f"write the condition into the domain that '{name}' bounds",),
        )


def _idle_denials(kernel: LoopKernel) -> Iterator[tuple[str, Diagnostic]]:
    if not any(instruction.nosync for instruction in kernel.instructions):
        return
    for instruction, name, array in idle_denials(place(kernel)):
        yield instruction.id, Diagnostic(
            "idle-nosync",
            f"'nosync={name}' of '{instruction.id}' has no effect: the conflict on '{array}' is a fact",
            ("their subscripts and conditions are known exactly, and only what is supposed can be denied",),
            (f"drop nosync={name}",),
            sites=(instruction.site(),),
        )


# {{{ dead instructions


def _dead_instructions(kernel: LoopKernel) -> Iterator[tuple[str, Diagnostic]]:
    writers: dict[str, list[Instruction]] = {}
    for instruction in kernel.instructions:
        for name in instruction.writes:
            writers.setdefault(name, []).append(instruction)
    alive = _plainly_alive(kernel, writers)
    if all(instruction.id in alive for instruction in kernel.instructions) and all(
        len(entry) == 1 for entry in writers.values()
    ):
        return
    try:
        with aside():
            exact = _alive(kernel, writers) & alive
    except NoAnswer:
        exact = alive
    for instruction in kernel.instructions:
        if instruction.id not in exact:
            yield instruction.id, _dead(kernel, instruction, instruction.id in alive)


def _dead(kernel: LoopKernel, instruction: Instruction, is_overwritten: bool) -> Diagnostic:
    name = instruction.writes[0]
    if is_overwritten:
        why = f"all that it writes to '{name}' is overwritten before anything of use reads it"
    elif any(name in other.reads for other in kernel.instructions if other.id != instruction.id):
        why = f"what reads '{name}' reaches no output either"
    else:
        why = f"nothing reads '{name}', which is a temporary"
    return Diagnostic(
        "dead-instruction",
        f"instruction '{instruction.id}' has no effect on any output",
        (why,),
        ("remove it, or assign its result to an array argument",),
        sites=(instruction.site(),),
    )


def _plainly_alive(kernel: LoopKernel, writers: dict[str, list[Instruction]]) -> set[str]:
    """Return the instructions whose results may reach an output, by variables alone (elements are not compared)."""
    arguments = {argument.name for argument in kernel.arguments}
    waiting = [i for i in kernel.instructions if not i.writes or not arguments.isdisjoint(i.writes)]
    alive = {instruction.id for instruction in waiting}
    while waiting:
        done = waiting.pop()
        for name in done.reads.union(done.writes if done.is_c else ()):
            for writer in writers.get(name, ()):
                if writer.id not in alive:
                    alive.add(writer.id)
                    waiting.append(writer)
    return alive


def _alive(kernel: LoopKernel, writers: dict[str, list[Instruction]]) -> set[str]:
    """Return the instructions with a path from their writes to an output: exact, where accesses are."""
    placement = place(kernel)
    outputs = {argument.name for argument in kernel.arguments if isinstance(argument, ArrayArg)}
    exact = {name: len(entry) > 1 and _is_exact(placement, name) for name, entry in writers.items()}
    waiting = [
        placement.statements[instruction.id]
        for instruction in kernel.instructions
        if not instruction.writes or any(_is_wanted(kernel, instruction, x, outputs, exact) for x in instruction.writes)
    ]
    alive = {statement.name for statement in waiting}
    while waiting:
        done = waiting.pop().lowered.instruction
        kept = {*done.writes} if done.is_c or isinstance(done.assignee, Lookup) else set()
        for name in (done.reads | kept) & writers.keys():
            if exact[name]:
                flow = reference_flow(placement, name)
                found = [
                    source
                    for (reader, _), sources in zip(flow.reads, flow.sources, strict=True)
                    if reader.lowered.instruction is done
                    for source, link in sources
                    if not link.is_empty()
                ]
            else:
                found = [placement.statements[writer.id] for writer in writers[name]]
            new = [source for source in found if source.name not in alive]
            alive.update(source.name for source in new)
            waiting.extend(new)
    return alive


def _is_exact(placement: Placement, array: str) -> bool:
    """Return whether the dataflow of *array* is known element by element, and no write leaves a part of its element."""
    return is_exact(placement, array) and not any(write.fields for _, write in writes_of(placement, array))


def _is_wanted(
    kernel: LoopKernel, instruction: Instruction, name: str, outputs: Collection[str], exact: Mapping[str, bool]
) -> bool:
    """Return whether a value that *instruction* writes to *name* is an output."""
    return name in outputs and (not exact[name] or _survives(kernel, place(kernel).statements[instruction.id]))


def _survives(kernel: LoopKernel, writer: Placed) -> bool:
    """Return whether some element written by *writer*, an assignment, is never overwritten."""
    placement = place(kernel)
    array = writer.lowered.write.array
    left = writer.domain
    for other in writers_of(placement, array):
        kills = other is not writer and other.lowered.write.covers(writer.lowered.write.fields)
        if kills and not left.is_empty():
            pairs = conflict_pairs(placement, writer, writer.lowered.write, other, other.lowered.write)
            for conflict in conflicts(placement, writer, other, pairs):
                left = left.subtract(conflict.relation.domain())
    return not left.is_empty()


# }}}
# {{{ names


def _unused_inames(kernel: LoopKernel) -> Iterator[tuple[str, Diagnostic]]:
    used = {iname for i in kernel.instructions for iname in i.inames}
    used.update(iname for i in kernel.instructions for term in i.terms for iname in term.inames)
    outer = outer_inames(kernel.domains)
    for iname in list(used):
        used.update(outer.get(iname, ()))
    for domain in kernel.domains:
        for iname in domain.inames:
            if iname not in used:
                yield iname, Diagnostic(
                    "unused-iname",
                    f"no instruction uses iname '{iname}'",
                    (f"its domain is {set_text(domain.set)}",),
                    (f"drop '{iname}' from the domain; an instruction runs over the inames that it names",),
                )


def _unused_variables(kernel: LoopKernel) -> Iterator[tuple[str, Diagnostic]]:
    used = {name for domain in kernel.domains for name in parameters_of(domain.set)}
    for instruction in kernel.instructions:
        used |= {*instruction.writes, *instruction.reads}
    arrays = kernel.arrays()
    for array in arrays.values():
        layout = (*(array.strides or ()), array.offset) if isinstance(array, ArrayArg) else ()
        for extent in (*(array.shape or ()), *layout):
            used |= variables(extent)
    temporaries = [name for name in kernel.temporaries if name not in used]
    for name in [argument.name for argument in kernel.arguments if argument.name not in used]:
        if not _in_sets(kernel, name):
            yield name, _unused("argument", name)
    for name in temporaries:
        yield name, _unused("temporary", name)


def _in_sets(kernel: LoopKernel, name: str) -> bool:
    """Return whether a parameter matters to the assumptions or to a condition of an instruction."""
    for domain in (kernel.assumptions, *(instruction.domain for instruction in kernel.instructions)):
        position = domain.find_dim_by_name(isl.dim_type.param, name)
        if position >= 0 and domain.involves_dims(isl.dim_type.param, position, 1):
            return True
    return False


def _unused(kind: str, name: str) -> Diagnostic:
    return Diagnostic(
        "unused-variable",
        f"no instruction and no shape uses {kind} '{name}'",
        hints=(f"drop '{name}' from kernel_data",),
    )


def _shadowed_names(kernel: LoopKernel) -> Iterator[tuple[str, Diagnostic]]:
    """Yield substitution rules, and parameters of rules, that have the name of something else."""
    variable_names = {**dict.fromkeys(kernel.arrays(), "array"), **dict.fromkeys(kernel.values(), "argument")}
    variable_names.update(dict.fromkeys(kernel.temporaries, "temporary"))
    known = {**dict.fromkeys(kernel.inames, "iname"), **variable_names}
    for rule in kernel.substitutions.values():
        if rule.name in known:
            yield rule.name, Diagnostic(
                "shadowed-name",
                f"rule '{rule.name}' has the name of {_article(known[rule.name])}",
                (_told_apart(rule),),
                ("give one of them another name",),
            )
        for parameter in rule.arguments:
            if parameter in variable_names:
                yield parameter, Diagnostic(
                    "shadowed-name",
                    f"parameter '{parameter}' of rule '{rule.name}' hides {_article(variable_names[parameter])}",
                    (f"the rule is {rule}",),
                    ("give the parameter another name",),
                )


def _told_apart(rule: SubstitutionRule) -> str:
    if rule.parameters:
        return f"'{rule.name}(...)' is the rule, and '{rule.name}' without parentheses is not"
    return f"'{rule.name}' is the rule, and '{rule.name}[...]' is not"


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def name_clashes(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield ``name-taken`` for a name with two meanings in expressions."""
    arguments = {argument.name: "an argument" for argument in kernel.arguments}
    for iname in kernel.inames:
        other = arguments.get(iname) or ("a temporary" if iname in kernel.temporaries else None)
        if other is not None:
            yield Diagnostic(
                "name-taken",
                f"'{iname}' is an iname and {other}",
                hints=("rename one of them; values of inames come from the domain alone",),
            )
    scalars = dict.fromkeys((name for name, array in kernel.arrays().items() if array.shape == ()), "a variable")
    scalars.update(dict.fromkeys(kernel.values(), "an argument"))
    scalars.update(dict.fromkeys(kernel.parameters, "a parameter"))
    scalars.update(dict.fromkeys(kernel.inames, "an iname"))
    for rule in kernel.substitutions.values():
        if not rule.parameters and rule.name in scalars:
            yield Diagnostic(
                "name-taken",
                f"'{rule.name}' is a substitution rule without parameters and {scalars[rule.name]}",
                hints=("rename one of them; rules occur in expressions, not in domains, shapes or on left sides",),
            )
    for name in kernel.parameters:
        array = kernel.arrays().get(name)
        if array is not None and array.shape != ():
            yield Diagnostic(
                "name-taken",
                f"'{name}' is a parameter of the domains and an array",
                hints=(f"rename one of them; for a bound that is read from memory write <> t = {name}[..] and use t",),
            )


# }}}
