"""``assignment_to_subst``: substitution rules from assignments, evaluated at each use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.address_spaces import place
from polyloop.dataflow.value_flow import flow_of, is_exact, readers_of, writers_of
from polyloop.errors import Diagnostic, VerificationError, unknown_name
from polyloop.expr.dtypes import DType, dtype_name, is_narrow
from polyloop.expr.nodes import Expression, TypeCast, array_name
from polyloop.expr.rewrite import accesses, children, rebuild, reductions, substitute, variables
from polyloop.expr.rules import expand_rules
from polyloop.expr.typing import infer, infer_type
from polyloop.kernel.arrays import ArrayArg
from polyloop.kernel.instruction import Copy, Instruction, SubstitutionRule
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.reads import with_reads
from polyloop.kernel.tree import Loop, Tree
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import map_from_forms
from polyloop.program.infer_types import dtype_table
from polyloop.program.ir import Access
from polyloop.program.reference import reference_of
from polyloop.proof.witness import element, instance, pair
from polyloop.transform.base import Transform
from polyloop.transform.instructions.instructions import find_instructions
from polyloop.transform.instructions.matching import match_violations, reference_id
from polyloop.transform.parameters import Inames, InsnMatch, TemporaryName
from polyloop.transform.staging.uses import expanded_to
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["AssignmentToSubst"]


@dataclass(frozen=True)
class AssignmentToSubst(Transform):
    """Turn the assignment of a variable into a substitution rule, which is evaluated at each use.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 64}", ["<> t[i] = 2*a[i]", "b[i] = t[i] + 1"])
    >>> print(knl.assignment_to_subst("t"))
    kernel loop_kernel
    ...
    rules:
        t_subst(i_) := 2*a[i_]
    instructions:
        [i]  b[i] = t_subst(i) + 1    {id=insn_1}

    The rule can then be computed elsewhere (:func:`precompute`), or at each use.

    Parameters
    ----------
    lhs_name
        The variable. It has one assignment, and the inames in its subscripts become the arguments of the rule.
    extra_arguments
        Further inames of the assignment that become arguments.
    within
        Match expression for the instructions that use the rule; by default all. The assignment and the temporary are
        kept if other instructions need them.
    force_retain_argument
        Accepted for compatibility with Loopy: an output argument is always kept.

    Raises
    ------
    TransformError
        ``unknown-variable``, ``bad-instructions`` (several assignments, a condition, a reduction in the value),
        ``unknown-iname``, ``unknown-instruction``, ``name-taken``, ``not-used``, ``uses-apart``, ``already-staged``,
        ``not-proven``; ``illegal-order``, with two instances, where
        the variable or what it is computed from has another value at the use.

    Notes
    -----
    The reference program's dataflow proves that each use sees exactly the value of the assignment. The program with the
    rule becomes the reference program. The rule keeps the conversion to the variable's type.  Source: Loopy's transform
    of the same name; forward substitution, Allen and Kennedy, TOPLAS 1987, https://doi.org/10.1145/29873.29875.
    """

    lhs_name: TemporaryName
    extra_arguments: Inames = ()
    within: InsnMatch | None = None
    force_retain_argument: bool = False

    @property
    def rule(self) -> str:
        """Name of the rule."""
        return f"{self.lhs_name}_subst"

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.lhs_name not in kernel.arrays():
            yield unknown_name("variable", self.lhs_name, kernel.arrays())
            return
        if self.rule in kernel.names():
            message = f"the name '{self.rule}' is already in use"
            yield Diagnostic("name-taken", message, hints=("rename what has it",))
            return
        if self.within is not None:
            yield from match_violations(kernel, (self.within,), self.name)
        found = self._assignment_violations(kernel)
        if found is not None:
            yield found
            return
        yield from self._use_violations(kernel)

    def _assignment_violations(self, kernel: LoopKernel) -> Diagnostic | None:
        """Return the reason why the assignment cannot become a rule, None if it can."""
        writers = [i for i in kernel.instructions if self.lhs_name in i.writes]
        base = _base(kernel)
        sources = [i for i in base.instructions if self.lhs_name in i.writes]
        if len(writers) != 1 or len(sources) != 1:
            message = f"'{self.lhs_name}' is assigned by {len(writers)} instructions"
            sites = tuple(i.site() for i in writers)
            return Diagnostic("bad-instructions", message, hints=("one assignment becomes one rule",), sites=sites)
        (source,) = sources
        problem = ""
        subscripts, value = _subscripts(source), expand_rules(source.expression, base.substitutions)
        if source.is_c or source.atomic or source.predicates:
            problem = "it is C text, atomic, or has a condition that data decides"
        elif subscripts is None:
            problem = "its subscripts are not distinct inames"
        elif reductions(value):
            problem = "its value has a reduction in it"
        elif self.lhs_name in variables(value):
            problem = f"its value uses '{self.lhs_name}'"
        if problem:
            message = f"'{source.id}' cannot become a rule: {problem}"
            return Diagnostic("bad-instructions", message, hints=("keep the assignment",), sites=(source.site(),))
        unknown = [x for x in self.extra_arguments if x not in source.inames]
        return unknown_name("iname", unknown[0], source.inames) if unknown else None

    def _use_violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        users = self.users(kernel)
        if not users:
            where = "" if self.within is None else f" by instructions that match '{self.within}'"
            message = f"'{self.lhs_name}' is read{where} in no expression"
            yield Diagnostic("not-used", message, hints=("there is nothing to replace",))
            return
        chosen = {reference_id(i) for i in users}
        for instruction in kernel.instructions:
            reads = self.lhs_name in instruction.reads
            if reads and not isinstance(instruction.origin, Copy):
                yield Diagnostic(
                    "already-staged",
                    f"'{instruction.id}', which a transform made, reads '{self.lhs_name}' ahead of its use",
                    hints=("make the rule first, and fetch or compute ahead after that",),
                    sites=(instruction.site(),),
                )
                return
            if reads and reference_id(instruction) in chosen and instruction not in users:
                yield Diagnostic(
                    "uses-apart",
                    f"'{instruction.id}' runs other instances of an instruction that is to use the rule",
                    hints=(f"let within= match '{instruction.id}' too",),
                    sites=(instruction.site(),),
                )
                return
        for instruction in users:
            if self._arguments(kernel, instruction) != self._meant(kernel, instruction):
                yield Diagnostic(
                    "bad-instructions",
                    f"'{self.lhs_name}' has other axes or subscripts than in the program",
                    ("a transform changed them; the rule is made of the program's assignment",),
                    ("make the rule first, and change the axes after that",),
                    sites=(instruction.site(),),
                )
                return
        yield from self._flow_violations(kernel, chosen)

    def _arguments(self, kernel: LoopKernel, instruction: Instruction) -> list[list[Affine | None]]:
        """Return the subscripts of each use of the variable, in the order of the text."""
        expanded = expand_rules(instruction.expression, kernel.substitutions)
        return [
            [affine_of(index) for index in node.index_tuple] if isinstance(node, p.Subscript) else []
            for node in accesses(expanded)
            if (array_name(node) if isinstance(node, p.Subscript) else node.name) == self.lhs_name
        ]

    def _meant(self, kernel: LoopKernel, instruction: Instruction) -> list[list[Affine | None]]:
        """Return the same of the program's instruction, in terms of the present inames."""
        origin = instruction.origin
        assert isinstance(origin, Copy), "only copies use the variable"
        original = _base(kernel).instruction(origin.instruction)
        return [
            [None if form is None else form.substitute(origin.forms) for form in indices]
            for indices in self._arguments(_base(kernel), original)
        ]

    def users(self, kernel: LoopKernel) -> tuple[Instruction, ...]:
        """Return the selected instructions that read the variable, directly or through rules."""
        return tuple(
            i
            for i in find_instructions(kernel, self.within)
            if not i.is_c and self.lhs_name in variables(expand_rules(i.expression, kernel.substitutions))
        )

    def _flow_violations(self, kernel: LoopKernel, users: Iterable[str]) -> Iterator[Diagnostic]:
        """Yield uses that would not see the value of the assignment, in the reference program."""
        base = _base(kernel)
        flows = _Flows(base, self.lhs_name)
        if not is_exact(flows.old, self.lhs_name):
            yield Diagnostic(
                "not-proven",
                f"not all accesses to '{self.lhs_name}' are known exactly",
                hints=("only an assignment whose uses are known can become a rule",),
                sites=(flows.source.lowered.instruction.site(),),
            )
            return
        for reader, access in readers_of(flows.old, self.lhs_name):
            if reader.lowered.instruction.id in users:
                found = next(flows.violations(reader, access), None)
                if found is not None:
                    yield found
                    return

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        base = _base(kernel)
        users = {i.id for i in self.users(kernel)}
        chosen = {reference_id(i) for i in kernel.instructions if i.id in users}
        rule, shared = self._made(kernel, base)
        new_base = self._inlined(base, rule, shared, chosen)
        result = self._inlined(kernel, rule, shared, users)
        reference = reference_of(new_base)
        gone = {i.id for i in base.instructions} - {i.id for i in new_base.instructions}
        assert kernel.reference is not None, "a kernel has its reference program"
        if _shape(kernel.reference.tree, gone) != _shape(reference.tree, frozenset()):
            raise VerificationError(self.name, kernel.name, [_other_loops(self.lhs_name)])
        return replace(result, reference=reference)

    def _made(self, kernel: LoopKernel, base: LoopKernel) -> tuple[SubstitutionRule, tuple[str, ...]]:
        """Return the rule, and the inames of the assignment that are arguments besides the subscripts."""
        (source,) = (i for i in base.instructions if self.lhs_name in i.writes)
        subscripts = _subscripts(source)
        assert subscripts is not None, "the subscripts were not checked"
        rest = [x for x in source.inames if x not in subscripts]
        users = [i for i in kernel.instructions if self.lhs_name in i.reads and isinstance(i.origin, Copy)]
        changed = [x for x in rest if any(i.origin.forms.get(x) != Affine.variable(x) for i in users)]
        shared = tuple(x for x in rest if x in self.extra_arguments or x in changed)
        names: dict[str, str] = {}
        for iname in (*subscripts, *shared):
            names[iname] = kernel.fresh(f"{iname}_", names.values())
        value = expand_rules(source.expression, base.substitutions)
        dtype = base.arrays()[self.lhs_name].dtype
        if dtype is not None and not _is_of(value, dtype, dtype_table(base)):
            value = TypeCast(dtype_name(dtype), value)
        value = substitute(value, {old: p.Variable(new) for old, new in names.items()})
        return SubstitutionRule.of(self.rule, tuple(names.values()), value), shared

    def _inlined(
        self, kernel: LoopKernel, rule: SubstitutionRule, shared: Sequence[str], users: Iterable[str]
    ) -> LoopKernel:
        """Return *kernel* with the rule in *users*, and without the assignment if nothing else needs it."""
        rules = {**kernel.substitutions, rule.name: rule}

        def inlined(old: Instruction) -> Instruction:
            origin = old.origin
            assert isinstance(origin, Copy), "only copies use the rule"
            more = tuple(to_expression(origin.forms[x]) for x in shared)
            expression = _applied(expanded_to(kernel, old.expression, self.lhs_name), self.lhs_name, rule.name, more)
            return replace(old, expression=expression)

        instructions = [inlined(i) if i.id in users else i for i in kernel.instructions]
        result = with_reads(replace(kernel, instructions=tuple(instructions), substitutions=rules))
        is_needed = isinstance(kernel.arrays()[self.lhs_name], ArrayArg) or any(
            self.lhs_name in i.reads for i in result.instructions
        )
        return result if is_needed else _without(result, self.lhs_name)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from value_violations(after)
        yield from order_violations(after)


def _base(kernel: LoopKernel) -> LoopKernel:
    return kernel if kernel.reference is None else kernel.reference.kernel


def _subscripts(source: Instruction) -> tuple[str, ...] | None:
    """Return the subscripts of the element assigned, None if they are not distinct inames."""
    if isinstance(source.assignee, p.Variable):
        return ()
    if not isinstance(source.assignee, p.Subscript):
        return None
    names = [index.name if isinstance(index, p.Variable) else "" for index in source.assignee.index_tuple]
    known = len(set(names)) == len(names) and all(name in source.inames for name in names)
    return tuple(names) if known else None


def _applied(expr: Expression, array: str, rule: str, more: tuple[Expression, ...]) -> Expression:
    """Return *expr* with the rule in place of the elements of *array*."""
    if isinstance(expr, p.Variable) and expr.name == array:
        return p.Call(p.Variable(rule), more)
    old = children(expr)
    new = tuple(_applied(child, array, rule, more) for child in old)
    if isinstance(expr, p.Subscript) and array_name(expr) == array:
        return p.Call(p.Variable(rule), (*new, *more))
    return expr if all(a is b for a, b in zip(old, new, strict=True)) else rebuild(expr, new)


def _without(kernel: LoopKernel, temporary: str) -> LoopKernel:
    """Return *kernel* without a temporary and its assignment, whose dependencies pass on to its dependents."""
    (source,) = (i for i in kernel.instructions if temporary in i.writes)
    left = [
        replace(i, depends_on=(i.depends_on - {source.id}) | source.depends_on) if source.id in i.depends_on else i
        for i in kernel.instructions
        if i is not source
    ]
    temporaries = {name: t for name, t in kernel.temporaries.items() if name != temporary}
    barriers = tuple(replace(barrier, before=barrier.before - {reference_id(source)}) for barrier in kernel.barriers)
    return replace(kernel, instructions=tuple(left), temporaries=temporaries, barriers=barriers)


def _shape(tree: Tree, gone: Collection[str]) -> tuple[object, ...]:
    """Return a loop tree without the instructions in *gone* and the loops that have no other."""
    found: list[object] = []
    for node in tree:
        if isinstance(node, Loop):
            body = _shape(node.body, gone)
            if body:
                found.append((node.iname, body))
        elif node.name is None or node.name not in gone:
            found.append(node.name)
    return tuple(found)


def _other_loops(name: str) -> Diagnostic:
    return Diagnostic(
        "not-proven",
        f"without the assignment of '{name}' the program has other loops",
        ("the order of what is left was proven for the loops that it has now",),
        ("keep the assignment: name only some of the uses with within=",),
    )


class _Flows:
    """The reference program's flow of the values that an assignment reads, and of its own."""

    def __init__(self, base: LoopKernel, name: str) -> None:
        self.name = name
        self.old: Placement = place(base)
        (self.source,) = writers_of(self.old, name)

    def violations(self, reader: Placed, access: Access) -> Iterator[Diagnostic]:
        """Yield a diagnostic if the rule, at this access of *reader*, has another value than the variable."""
        sources, initial = flow_of(self.old, self.name, [(reader, access)]).of(reader, access)
        if not initial.is_empty() or len(sources) != 1:
            yield _not_from(self.name, reader)
            return
        ((_, link),) = sources
        forms = self._forms(access)
        missing = [x for x, form in forms.items() if not form.names() <= {*reader.lowered.inames, *self._parameters()}]
        if missing:
            yield self._unknown_iname(missing[0], reader)
            return
        meant = map_from_forms(
            reader.domain, reader.dims, [forms[x].substitute(reader.forms) for x in self.source.dims]
        )
        if not link.is_subset(meant):
            yield self._other_instance(reader, access, link, meant)
            return
        for leaf in self.source.lowered.reads:
            yield from self._changed(reader, leaf, forms, link)

    def _parameters(self) -> tuple[str, ...]:
        return self.old.program.kernel.parameters

    def _forms(self, access: Access) -> Mapping[str, Affine]:
        """Return each iname of the assignment as a form of the inames of a use."""
        subscripts = _subscripts(self.source.lowered.instruction) or ()
        forms = {x: Affine.variable(x) for x in self.source.lowered.inames}
        for name, form in zip(subscripts, access.indices, strict=True):
            assert form is not None, "the accesses are exact"
            forms[name] = form
        return forms

    def _changed(
        self, reader: Placed, leaf: Access, forms: Mapping[str, Affine], link: isl.Map
    ) -> Iterator[Diagnostic]:
        """Yield a diagnostic if an operand of the assignment may have changed when the rule is evaluated."""
        array = leaf.array
        if not writers_of(self.old, array):
            return
        if not is_exact(self.old, array):
            yield Diagnostic(
                "not-proven",
                f"'{array}' is written, and not all accesses to it are known exactly",
                (f"the value of '{self.name}' depends on it",),
                ("keep the assignment",),
                sites=(self.source.lowered.instruction.site(),),
            )
            return
        late = Access(array, tuple(None if f is None else f.substitute(forms) for f in leaf.indices))
        sources, initial = flow_of(self.old, array, [(reader, late)]).of(reader, late)
        known, known_initial = flow_of(self.old, array, [(self.source, leaf)]).of(self.source, leaf)
        changed = link.intersect_domain(initial).subtract(link.intersect_range(known_initial))
        if not changed.is_empty():
            yield self._other_value(reader, late, link, changed)
            return
        for writer, got in sources:
            wanted = [link.apply_range(way) for other, way in known if other is writer]
            bad = got.subtract(wanted[0]) if wanted else got
            if not bad.is_empty():
                yield self._overwritten(reader, late, writer, bad)
                return

    def _unknown_iname(self, iname: str, reader: Placed) -> Diagnostic:
        source, user = self.source.lowered.instruction, reader.lowered.instruction
        return Diagnostic(
            "uses-apart",
            f"'{user.id}' uses '{self.name}' outside of loop '{iname}', in which it is assigned",
            (f"the rule would not know for which '{iname}' to compute its value",),
            ("keep the assignment, or choose other uses with within=",),
            sites=(source.site(), user.site()),
        )

    def _other_instance(self, reader: Placed, access: Access, link: isl.Map, meant: isl.Map) -> Diagnostic:
        source, user = self.source.lowered.instruction, reader.lowered.instruction
        at, when = pair(link.subtract(meant), reader, self.source)
        return Diagnostic(
            "illegal-order",
            f"the rule would be another value of '{self.name}' than the one that is there",
            (f"instance {instance(reader, at)} of '{user.id}' reads {element(reader, access, at)} as assigned by "
             f"instance {instance(self.source, when)} of '{source.id}'",),
            ("keep the assignment, or choose other uses with within=",),
            sites=(source.site(), user.site()),
        )  # fmt: skip

    def _other_value(self, reader: Placed, late: Access, link: isl.Map, changed: isl.Map) -> Diagnostic:
        source, user = self.source.lowered.instruction, reader.lowered.instruction
        at, when = pair(changed, reader, self.source)
        return Diagnostic(
            "illegal-order",
            f"'{late.array}' has another value where '{self.name}' is used than where it is assigned",
            (f"instance {instance(reader, at)} of '{user.id}' would read {element(reader, late, at)} unchanged; "
             f"instance {instance(self.source, when)} of '{source.id}' reads it later",),
            ("keep the assignment, which holds the earlier value",),
            sites=(source.site(), user.site()),
        )  # fmt: skip

    def _overwritten(self, reader: Placed, late: Access, writer: Placed, bad: isl.Map) -> Diagnostic:
        source, user = self.source.lowered.instruction, reader.lowered.instruction
        at, when = pair(bad, reader, writer)
        return Diagnostic(
            "illegal-order",
            f"'{late.array}' is overwritten between the assignment of '{self.name}' and its use",
            (f"instance {instance(writer, when)} of '{writer.lowered.instruction.id}' writes "
             f"{element(reader, late, at)}; instance {instance(reader, at)} of '{user.id}' would read it after that",),
            ("keep the assignment, which holds the earlier value",),
            sites=tuple(dict.fromkeys((source.site(), writer.lowered.instruction.site(), user.site()))),
        )  # fmt: skip


def _not_from(name: str, reader: Placed) -> Diagnostic:
    return Diagnostic(
        "illegal-order",
        f"'{name}' is read where the assignment has not set it",
        hints=("keep the assignment, or choose other uses with within=",),
        sites=(reader.lowered.instruction.site(),),
    )


def _is_of(value: Expression, dtype: DType, table: Mapping[str, DType | None]) -> bool:
    """Return True if *value* is the same number of type *dtype* wherever it stands.

    An integer is exact in a subscript, half precision is computed in float32, and a number of no type of its own takes
    that of what it is combined with.
    """
    if isinstance(value, p.Variable | p.Subscript):
        return infer(value, table.get) == dtype
    return dtype.kind == "f" and not is_narrow(dtype) and infer_type(value, table.get) == dtype
