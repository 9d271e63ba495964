"""``assume``, ``fix_parameters``, ``add_dtypes``, ``set_temporary_address_space``: specialization of a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final

import islpy as isl

from polyloop.edge.checks import EXPLAINED
from polyloop.errors import Diagnostic, KernelError, unknown_name
from polyloop.expr.dtypes import dtype_name, find_dtype, to_dtype, type_spelling, type_words
from polyloop.expr.rewrite import substitute
from polyloop.kernel.arrays import AddressSpace, Argument
from polyloop.kernel.build.declare import fixed_argument, fixed_extents
from polyloop.kernel.build.domains.shared_domains import fixed_domains
from polyloop.kernel.domains import align, fixed_set, parameters_of
from polyloop.kernel.instruction import Instruction, Origin, Term
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import Written
from polyloop.kernel.text.domain_text import parse_domain
from polyloop.poly.affine import Affine
from polyloop.poly.sets import parameter_space
from polyloop.program.infer_types import bound_violations, infer_dtypes, type_violations
from polyloop.program.operand_types import changed_types
from polyloop.program.reference import in_loops_of, restated
from polyloop.transform.base import Applied, Transform
from polyloop.transform.declare import Keyed, Names, Takes
from polyloop.transform.parameters import Pairs, Space, TemporaryNames, names_of
from polyloop.verification.bounds import bounds_conditions, bounds_violations

__all__ = ["AddDtypes", "Assume", "FixParameters", "SetTemporaryAddressSpace", "inferred_names"]

_PARAM = isl.dim_type.param


@dataclass(frozen=True)
class Assume(Transform):
    """Assume a condition on the parameters, which each call checks.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]").split_iname("i", 16)
    >>> print(body(knl.assume("n mod 16 = 0")))
    for (int i_outer = 0; i_outer < n / 16; ++i_outer) {
        for (int i_inner = 0; i_inner < 16; ++i_inner) {
            const int i = 16 * i_outer + i_inner;
            b[i] = 2.0f * a[i];
        }
    }

    Parameters
    ----------
    assumptions
        In ISL's syntax: ``"n >= 1 and n mod 16 = 0"``.

    Raises
    ------
    TransformError
        ``syntax-domain``, ``unknown-parameter``, ``contradiction``.

    Notes
    -----
    Changes the meaning on purpose: the kernel is defined for fewer sizes. Source: Loopy's function of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    assumptions: str

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        try:
            condition = parse_domain(f"{{ : {self.assumptions} }}")
        except KernelError as error:
            yield from error.found
            return
        for name in parameters_of(condition):
            if name not in kernel.parameters:
                yield unknown_name("parameter", name, kernel.parameters)
                return
        if self._together(kernel).is_empty():
            yield Diagnostic(
                "contradiction",
                f"no parameters fulfil '{self.assumptions}' together with the earlier assumptions",
                (f"assumed so far: {kernel.assumptions}",),
                ("leave one of the two out",),
            )

    def _together(self, kernel: LoopKernel) -> isl.Set:
        condition = parse_domain(f"{{ : {self.assumptions} }}")
        condition = condition if condition.is_params() else condition.params()
        return kernel.assumptions.intersect(align(condition, kernel.assumptions)).coalesce()

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        together = self._together(kernel)
        conditions = tuple(c for c in kernel.conditions if c.inside is not None or not together.is_subset(c.set))
        result = replace(kernel, assumptions=together, conditions=conditions)
        if kernel.reference is None:
            return result
        base = replace(kernel.reference.kernel, assumptions=together, conditions=conditions)
        return replace(result, reference=replace(kernel.reference, kernel=base))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return changed_types(before, after)


@dataclass(frozen=True)
class FixParameters(Transform):
    """Replace integer parameters by numbers; they are no arguments any more.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]")
    >>> print(body(knl.fix_parameters(n=1000)))
    for (int i = 0; i < 1000; ++i)
        b[i] = 2.0f * a[i];

    Parameters
    ----------
    values
        Parameter -> its value, as keywords: ``n=1000``.

    Raises
    ------
    TransformError
        ``unknown-parameter``, ``bad-value``, ``contradiction``, ``out-of-bounds``.

    Notes
    -----
    Changes the meaning on purpose.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    values: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> FixParameters:
        return cls(tuple(given.items()))

    def given(self) -> dict[str, object]:
        return dict(self.values)

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        for name, value in self.values:
            if name not in kernel.parameters:
                yield unknown_name("parameter", name, kernel.parameters)
            elif type(value) is not int:
                yield Diagnostic("bad-value", f"parameter '{name}' cannot be {value!r}", hints=("give an integer",))
            elif fixed_set(kernel.assumptions, {name: int(value)}).is_empty():
                yield Diagnostic(
                    "contradiction",
                    f"{name} = {value} contradicts the assumptions",
                    (f"assumed: {kernel.assumptions}",),
                    ("give a value that the kernel was made for, or make it with other assumptions",),
                )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        values = {name: int(value) for name, value in self.values}
        result = in_loops_of(_fixed_kernel(kernel, values), kernel)
        if kernel.reference is None:
            return result
        base = _fixed_kernel(kernel.reference.kernel, values)
        conditions = bounds_conditions(base)
        base, result = replace(base, conditions=conditions), replace(result, conditions=conditions)
        return replace(result, reference=restated(kernel.reference, base))

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from bounds_violations(after)
        yield from changed_types(before, after)

    @staticmethod
    def call(kernel: LoopKernel, /, **values: Annotated[int, EXPLAINED]) -> LoopKernel:
        return FixParameters(tuple(values.items()))(kernel)


def _fixed_kernel(kernel: LoopKernel, values: Mapping[str, int]) -> LoopKernel:
    parameters = tuple(name for name in kernel.parameters if name not in values)
    space = parameter_space(parameters)

    def fixed(domain: isl.Set) -> isl.Set:
        return align(fixed_set(domain, values), space)

    numbers = {name: Affine((), value) for name, value in values.items()}

    def instruction(old: Instruction) -> Instruction:
        return replace(
            old,
            origin=_fixed_origin(old.origin, numbers),
            domain=fixed(old.domain),
            terms=tuple(Term(term.inames, fixed(term.domain)) for term in old.terms),
            assignee=substitute(old.assignee, values),
            expression=substitute(old.expression, values),
            predicates=tuple(substitute(predicate, values) for predicate in old.predicates),
            reads=old.reads - values.keys(),
        )

    arguments = tuple(new for old in kernel.arguments if (new := fixed_argument(old, values)) is not None)
    rules = {
        name: rule.mapped(lambda value: substitute(value, values))
        for name, rule in kernel.substitutions.items()
    }
    return replace(
        kernel,
        parameters=parameters,
        assumptions=fixed(kernel.assumptions),
        domains=tuple(new for piece in kernel.domains for new in fixed_domains(piece, values)),
        instructions=tuple(instruction(old) for old in kernel.instructions),
        arguments=arguments,
        temporaries={
            name: replace(temporary, shape=fixed_extents(temporary.shape, values))
            for name, temporary in kernel.temporaries.items()
        },
        substitutions=rules,
        fixed={**kernel.fixed, **values},
    )


def _fixed_origin(origin: Origin, numbers: Mapping[str, Affine]) -> Origin:
    """Return *origin* with numbers in the place of parameters, which a reversal or a shift may have put there."""
    return replace(origin, forms={iname: form.substitute(numbers) for iname, form in origin.forms.items()})


def _spelt(dtypes: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return pairs of names and type spellings; a value that is no type keeps its text, for the check to refuse."""
    names: list[tuple[str, str]] = []
    for key, dtype in dtypes.items():
        found = find_dtype(dtype)
        spelling = type_words(dtype) if found is None else type_spelling(found)
        names.extend((name, spelling) for name in names_of(key))
    return tuple(names)


@dataclass(frozen=True)
class AddDtypes(Transform):
    """Set the element types of arrays, scalars and temporaries; other types are inferred again.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]")
    >>> print(knl.add_dtypes({"x": np.float32}).argument("x").dtype)
    float32

    Parameters
    ----------
    dtypes
        Variable, or several separated by commas, -> element type.

    Raises
    ------
    TransformError
        ``unknown-variable``, ``unknown-dtype``, ``type-conflict``.

    Notes
    -----
    Source: Loopy's function of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    dtypes: Annotated[Pairs, Takes(Mapping[str, object], _spelt), Names.ARRAY, Keyed(Names.NOTHING)]

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        known = {argument.name: argument.dtype for argument in kernel.arguments}
        known.update((name, temporary.dtype) for name, temporary in kernel.temporaries.items())
        for name, dtype in self.dtypes:
            if name not in known:
                yield unknown_name("variable", name, known)
                continue
            try:
                wanted = to_dtype(dtype)
            except KernelError as error:
                yield from error.found
                continue
            old = known[name]
            if old is not None and old != wanted and name not in inferred_names(kernel):
                yield Diagnostic(
                    "type-conflict",
                    f"'{name}' is {dtype_name(old)} already and cannot become {dtype_name(wanted)}",
                    hints=("state the type in kernel_data",),
                )

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return (*type_violations(after), *bound_violations(after))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        wanted = {name: to_dtype(dtype) for name, dtype in self.dtypes}
        known = {name: entry.dtype for name, entry in (*_named(kernel.arguments), *kernel.temporaries.items())}
        changes = any(known[name] not in (None, dtype) for name, dtype in wanted.items())
        types = {**(dict.fromkeys(inferred_names(kernel)) if changes else {}), **wanted}

        def stated(old: LoopKernel) -> LoopKernel:
            arguments = tuple(replace(a, dtype=types.get(a.name, a.dtype)) for a in old.arguments)
            temporaries = {
                name: replace(t, dtype=types.get(name, t.dtype)) for name, t in old.temporaries.items()
            }
            return infer_dtypes(replace(old, arguments=arguments, temporaries=temporaries))

        result = in_loops_of(stated(kernel), kernel)
        if kernel.reference is None:
            return result
        return replace(result, reference=restated(kernel.reference, stated(kernel.reference.kernel)))


_DECLARED: Final = re.compile(r"<\s*\w+\s*>\s*(\w+)", re.ASCII)


def _named(entries: Iterable[Argument]) -> Iterator[tuple[str, Argument]]:
    return ((entry.name, entry) for entry in entries)


def inferred_names(kernel: LoopKernel) -> frozenset[str]:
    """Return the variables whose types follow from others, so that another type may be stated.

    There are none where a transform has made temporaries: their types follow from those that would change.
    """
    made = kernel.made
    reference = None if kernel.reference is None else kernel.reference.kernel
    if not isinstance(made, Written) or reference is None or {*kernel.temporaries} != {*reference.temporaries}:
        return frozenset()
    texts = (made.instructions,) if isinstance(made.instructions, str) else made.instructions
    declared = {name for text in texts if isinstance(text, str) for name in _DECLARED.findall(text)}
    for entry in made.kernel_data or ():
        if getattr(entry, "dtype", None) is not None or getattr(entry, "initializer", None) is not None:
            declared.update(part.strip() for part in str(getattr(entry, "name", "")).split(","))
    for step in kernel.trace:
        if isinstance(step, Applied) and isinstance(step.transform, AddDtypes):
            declared.update(name for name, _ in step.transform.dtypes)
    return frozenset({*(a.name for a in kernel.arguments), *kernel.temporaries} - declared - {*kernel.parameters})


@dataclass(frozen=True)
class SetTemporaryAddressSpace(Transform):
    """Set the address space of temporaries: ``"private"``, ``"local"`` (shared by a block), ``"global"`` or ``"auto"``.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 64}", ["<> t[i] = 2*a[i]", "b[i] = t[i]"]).tag_inames("i:l.0")
    >>> print(body(knl.set_temporary_address_space("t", "local"), "cuda"))
    const int tx = threadIdx.x;
    __shared__ float t[64];
    t[tx] = 2.0f * a[tx];
    b[tx] = t[tx];

    Parameters
    ----------
    temp_var_names, address_space
        The temporaries, and their new address space.  A temporary in a ``"cluster"`` is spread over the blocks of one:
        its first axis is their position, and all of them see it.

    Raises
    ------
    TransformError
        ``unknown-temporary``, ``bad-address-space``.

    Notes
    -----
    The schedule proves that each read still sees its value. Source: Loopy's transform of the same name.
    """

    temp_var_names: TemporaryNames
    address_space: Space

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        for name in self.temp_var_names:
            if name not in kernel.temporaries:
                yield unknown_name("temporary", name, kernel.temporaries)
        if self.address_space not in {space.value for space in AddressSpace}:
            yield Diagnostic(
                "bad-address-space",
                f"no address space '{self.address_space}'",
                hints=("one of auto, private, local, cluster, global",),
            )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        space = AddressSpace(self.address_space)
        temporaries = {
            name: replace(t, address_space=space) if name in self.temp_var_names else t
            for name, t in kernel.temporaries.items()
        }
        return replace(kernel, temporaries=temporaries)
