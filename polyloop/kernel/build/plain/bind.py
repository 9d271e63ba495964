"""Binding of call arguments to parameters of a function: parts of arrays, values, and sizes inferred from shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.nodes import Expression, TypeCast, array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import free_variables, substitute, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import Argument, ArrayArg, TemporaryVariable, ValueArg
from polyloop.kernel.build.domains.shared_domains import Written, written
from polyloop.kernel.build.function import Function
from polyloop.kernel.kernel import Domain
from polyloop.kernel.text.calls import Slice, SubArray, plain
from polyloop.kernel.text.parser import ParsedCall
from polyloop.poly.affine import Affine, affine_of, to_expression
from polyloop.poly.sets import rows_of, set_text, settled

__all__ = ["Binding", "Part", "bind_arguments", "fail_call"]

_DType = np.dtype[np.generic]


@dataclass(frozen=True)
class Part:
    """A part of an array of the caller, as an array of the function.

    ``extents`` has one entry per axis of the function's array; ``axes`` says how an index along it enters: the
    iname that sweeps, or the position of a slice, and where it begins.
    """

    array: str
    indices: tuple[Expression, ...]
    axes: tuple[tuple[str, Affine], ...]
    extents: tuple[Affine, ...]

    def element(self, at: Sequence[Expression]) -> Expression:
        """Return the element that the function calls ``array[at]``."""
        if not self.indices:
            return p.Variable(self.array)
        assert len(at) == len(self.axes), f"'{self.array}' is passed with another number of axes"
        values = {name: _shifted(begin, index) for (name, begin), index in zip(self.axes, at, strict=True)}
        indices = tuple(substitute(index, values) for index in self.indices)
        return p.Subscript(p.Variable(self.array), indices if len(indices) > 1 else indices[0])

    def names(self) -> frozenset[str]:
        """Return every name of the caller in it, but the inames that sweep and the array."""
        found = {name for index in self.indices for name in variables(index)}
        found |= {name for _, begin in self.axes for name in begin.names()}
        found |= {name for extent in self.extents for name in extent.names()}
        return frozenset(found - {name for name, _ in self.axes})

    def shape(self) -> str:
        """Return the extents as text."""
        return f"({', '.join(show(to_expression(extent)) for extent in self.extents)})"


@dataclass(frozen=True)
class Binding:
    """Arguments of one call, by the parameters of the function.

    ``sizes`` has the integer parameters of the function; ``values`` its scalars, sizes included; ``parts`` its arrays.
    """

    call: ParsedCall
    parts: Mapping[str, Part]
    values: Mapping[str, Expression]
    sizes: Mapping[str, Affine]
    dtypes: Mapping[str, _DType] = field(default_factory=dict)

    def names(self) -> frozenset[str]:
        """Return the caller's names that the arguments use, without swept inames."""
        found = {name for value in self.values.values() for name in free_variables(value)}
        return frozenset(found.union(*(part.names() for part in self.parts.values())))


def _shifted(begin: Affine, index: Expression) -> Expression:
    if not begin.terms and begin.const == 0:
        return index
    form = affine_of(index)
    return p.Sum((to_expression(begin), index)) if form is None else to_expression(form.add(begin))


def fail_call(code: str, call: ParsedCall, message: str, hint: str, notes: Sequence[str] = ()) -> KernelError:
    """Return the error of a call, at the place of its statement."""
    problem = Diagnostic(code, message, tuple(notes), (hint,), span=call.frame.place.span)
    return KernelError("make_kernel", None, [problem])


def bind_arguments(
    call: ParsedCall,
    function: Function,
    domains: Sequence[Domain],
    arrays: Mapping[str, Argument | TemporaryVariable],
) -> Binding:
    """Return the binding of the arguments of *function* in *call*.

    Raises
    ------
    KernelError
        ``wrong-argument-count``, ``bad-call``, ``shape-mismatch``, ``type-conflict``.
    """
    return _Binder(call, function, domains, arrays).binding()


class _Binder:
    """One call while its arguments are matched."""

    def __init__(
        self,
        call: ParsedCall,
        function: Function,
        domains: Sequence[Domain],
        arrays: Mapping[str, Argument | TemporaryVariable],
    ) -> None:
        self.call = call
        self.function = function
        self.domains = domains
        self.arrays = arrays
        self.parts: dict[str, Part] = {}
        self.values: dict[str, Expression] = {}
        self.dtypes: dict[str, _DType] = {}

    def fail(self, code: str, message: str, hint: str, notes: Sequence[str] = ()) -> KernelError:
        return fail_call(code, self.call, message, hint, notes)

    def binding(self) -> Binding:
        for formal, given in self.matched():
            if isinstance(formal, ArrayArg):
                self.array(formal, given)
            else:
                self.value(formal, given)
        sizes = self.sizes()
        self.check_shapes(sizes)
        self.values.update({name: to_expression(form) for name, form in sizes.items()})
        return Binding(self.call, self.parts, self.values, sizes, self.dtypes)

    def matched(self) -> list[tuple[ArrayArg | ValueArg, SubArray | Expression]]:
        """Return pairs of the function's arguments and those of the call; sizes may be omitted."""
        function, call = self.function, self.call
        outputs, inputs = function.outputs, function.inputs
        short = [entry for entry in inputs if entry.name not in function.kernel.parameters]
        if len(call.arguments) not in {len(inputs), len(short)}:
            count = f"{len(short)} argument{'' if len(short) == 1 else 's'}"
            message = f"'{function.name}' takes {count}, not {len(call.arguments)}"
            raise self.fail("wrong-argument-count", message, f"write {function.form()}; sizes may be left out")
        if len(call.outputs) != len(outputs):
            count = f"{len(outputs)} array{'' if len(outputs) == 1 else 's'}"
            message = f"'{function.name}' writes {count}, not {len(call.outputs)}"
            raise self.fail("wrong-argument-count", message, f"write {function.form()}")
        chosen = inputs if len(call.arguments) == len(inputs) else short
        return [*zip(outputs, call.outputs, strict=True), *zip(chosen, call.arguments, strict=True)]

    # {{{ arrays

    def array(self, formal: ArrayArg, given: SubArray | Expression) -> None:
        if not isinstance(given, SubArray):
            part = self.element(formal, given)
        else:
            part = self.part(given, len(formal.shape or ()))
        rank = len(formal.shape or ())
        if len(part.extents) != rank:
            given_axes = _axes(len(part.extents))
            message = f"'{formal.name}' of '{self.function.name}' has {_axes(rank)}, and is passed {given_axes}"
            raise self.fail("shape-mismatch", message, f"write {self.function.form()} with parts of {_axes(rank)}")
        known = self.parts.get(formal.name)
        if known is not None and known != part:
            message = f"'{formal.name}' of '{self.function.name}' is read and written, and is passed two parts"
            raise self.fail("bad-call", message, "pass the same part on both sides")
        self.parts[formal.name] = part
        self.match_dtype(formal, part.array)

    def element(self, formal: ArrayArg, given: Expression) -> Part:
        """Return the part of an array that consists of the one element *given*."""
        if isinstance(given, p.Subscript) and array_name(given) in self.arrays:
            return Part(array_name(given), tuple(given.index_tuple), (), ())
        message = f"'{formal.name}' of '{self.function.name}' is an array, and is passed the value {show(given)}"
        raise self.fail("bad-call", message, "pass a part of an array: [j]: x[j], or x[:]")

    def part(self, given: SubArray, rank: int) -> Part:
        known = self.arrays.get(given.array)
        if isinstance(known, ValueArg) or (known is None and given.indices is None):
            message = f"'{given.array}' is no array"
            raise self.fail("bad-call", message, "pass a part of an array: [j]: x[j], or x[:]")
        if given.indices is None and rank and known is not None and known.shape is not None:
            given = replace(given, indices=(Slice(None, None),) * len(known.shape))
        if given.inames:
            axes = [(iname, *self.range(iname, given)) for iname in given.inames]
            used = {name for index in given.indices or () for name in variables(index)}
            if lost := [iname for iname in given.inames if iname not in used]:
                message = f"'{lost[0]}' sweeps over '{given.array}' and does not subscript it"
                raise self.fail("bad-call", message, f"use it: [{lost[0]}]: {given.array}[{lost[0]}]")
            indices = list(given.indices or ())
        else:
            axes, indices = self.sliced(given, known)
        return Part(
            given.array,
            tuple(indices),
            tuple((name, begin) for name, begin, _ in axes),
            tuple(extent for _, _, extent in axes),
        )

    def range(self, iname: str, given: SubArray) -> tuple[Affine, Affine]:
        """Return lower bound and extent of *iname*, affine in the other inames and parameters."""
        domain = self.around(next(entry for entry in self.domains if iname in entry.inames), given)
        pieces = settled(domain.set).get_basic_sets()
        lower: list[Affine] = []
        upper: list[Affine] = []
        for row in rows_of(pieces[0].remove_unknown_divs(), domain.inames) if len(pieces) == 1 else ():
            coefficient = row.form.coefficient(iname)
            rest = Affine(tuple(t for t in row.form.terms if t[0] != iname), row.form.const)
            if iname in rest.names() or abs(coefficient) > 1:
                lower.clear()
                break
            if coefficient and row.is_equality:
                lower, upper = 2 * ([rest.scale(-coefficient)],)
                break
            if coefficient == 1:
                lower.append(rest.scale(-1))
            elif coefficient == -1:
                upper.append(rest)
        swept = set(given.inames)
        if len(lower) != 1 or len(upper) != 1 or (lower[0].names() | upper[0].names()) & swept:
            message = f"'{iname}' sweeps over '{given.array}', and its values are no range by themselves"
            hint = f"give it a domain such as {{[{iname}]: 0 <= {iname} < n}}"
            raise self.fail("bad-call", message, hint, (f"its domain is {set_text(domain.set)}",))
        return lower[0], upper[0].add(lower[0], -1).add(Affine((), 1))

    def around(self, domain: Domain, given: SubArray) -> Domain:
        """Return *domain* without inames that the call does not use, unless the bounds of those that it uses do."""
        frame = self.call.frame
        used = self.call.names().union(given.inames, frame.loops.named(), *map(variables, frame.predicates))
        found = written(domain).restricted([iname for iname in domain.inames if iname in used])
        return found if isinstance(found, Written) else domain

    def sliced(
        self, given: SubArray, known: Argument | TemporaryVariable | None
    ) -> tuple[list[tuple[str, Affine, Affine]], list[Expression]]:
        """Return the swept axes ``(name, first, extent)`` of slices, and the subscripts with these names (``:0``)."""
        axes, indices = [], []
        shape = known.shape if isinstance(known, ArrayArg | TemporaryVariable) else None
        for position, index in enumerate(given.indices or ()):
            if not isinstance(index, Slice):
                indices.append(index)
                continue
            step = Affine((), 1) if index.step is None else self.affine(index.step, given)
            extent = shape[position] if shape is not None and position < len(shape) else None
            is_down = step.const < 0
            first: Expression | None = index.low
            if first is None:
                first = 0 if not is_down else None if extent is None else p.Sum((extent, -1))
            last = index.high if index.high is not None else -1 if is_down else extent
            if first is None or last is None:
                which = "beginning" if first is None else "end"
                message = f"the slice of '{given.array}' has no {which}, and its shape is not declared"
                raise self.fail("bad-call", message, f"declare the shape, or sweep: [i]: {given.array}[i]")
            low, high = self.affine(first, given), self.affine(last, given)
            name = f":{position}"
            if step == Affine((), 1):
                axes.append((name, low, high.add(low, -1)))
                indices.append(p.Variable(name))
            else:
                axes.append((name, Affine((), 0), self.steps(high.add(low, -1), step, given)))
                indices.append(p.Sum((first, p.Product((step.const, p.Variable(name))))))
        return axes, indices

    def steps(self, length: Affine, step: Affine, given: SubArray) -> Affine:
        """Return the number of elements of a slice of *length* elements with a *step*."""
        if step.terms or not step.const:
            message = f"the step of the slice of '{given.array}' is 0, or no number"
            raise self.fail("bad-call", message, f"sweep: [i]: {given.array}[2*i]")
        by = abs(step.const)
        if step.const < 0:
            length = Affine((), 0).add(length, -1)
        if any(factor % by for _, factor in length.terms):
            message = f"the number of elements of the slice of '{given.array}' is not affine"
            raise self.fail("bad-call", message, f"sweep over a domain of this length: [i]: {given.array}[{by}*i]")
        return Affine(tuple((name, factor // by) for name, factor in length.terms), -(-length.const // by))

    def affine(self, expr: Expression, given: SubArray) -> Affine:
        form = affine_of(expr)
        if form is None:
            message = f"{show(expr)} in the slice of '{given.array}' is not affine in inames and parameters"
            raise self.fail("bad-call", message, "slice with sums and integer multiples of them")
        return form

    def match_dtype(self, formal: ArrayArg, array: str) -> None:
        """Check an array's type against the function's declaration; infer it if the caller declares none."""
        known = self.arrays.get(array)
        if formal.dtype is None or formal.name not in self.function.typed:
            return
        given = self.dtypes.get(array) if known is None or known.dtype is None else known.dtype
        if given is None:
            self.dtypes[array] = formal.dtype
        elif given != formal.dtype:
            message = f"'{formal.name}' of '{self.function.name}' is {formal.dtype.name}, and '{array}' is {given.name}"
            raise self.fail("type-conflict", message, "declare one type for both, or leave it open in the function")

    # }}}

    # {{{ values

    def value(self, formal: ValueArg, given: SubArray | Expression) -> None:
        if isinstance(given, SubArray):
            if not given.is_plain():
                what = f"'{formal.name}' of '{self.function.name}'"
                message = f"{what} is a scalar, and is passed a part of '{given.array}'"
                raise self.fail("bad-call", message, "pass one element, or a value")
            given = plain(given)
        is_size = formal.name in self.function.kernel.parameters
        if not is_size and formal.dtype is not None and formal.name in self.function.typed:
            given = TypeCast(formal.dtype.name, given)
        self.values[formal.name] = given

    def sizes(self) -> dict[str, Affine]:
        """Return the values of the function's parameters, passed explicitly or inferred from shapes."""
        found: dict[str, Affine] = {}
        parameters = self.function.kernel.parameters
        for name in parameters:
            if name in self.values:
                form = affine_of(self.values[name])
                if form is None:
                    message = f"size '{name}' of '{self.function.name}' is passed {show(self.values[name])}"
                    hint = "sizes are sums and integer multiples of inames and parameters"
                    raise self.fail("bad-call", message, hint)
                found[name] = form
        for formal in self.function.kernel.arguments:
            part = self.parts.get(formal.name)
            if part is None or not isinstance(formal, ArrayArg):
                continue
            for extent, actual in zip(formal.shape or (), part.extents, strict=True):
                form = affine_of(extent)
                if form is None or len(form.terms) != 1:
                    continue
                variable, coefficient = form.terms[0]
                name = str(variable)
                if coefficient == 1 and name in parameters:
                    found.setdefault(name, actual.add(Affine((), -form.const)))
        if missing := [name for name in parameters if name not in found]:
            message = f"size '{missing[0]}' of '{self.function.name}' follows from no shape"
            raise self.fail("bad-call", message, f"pass {', '.join(entry.name for entry in self.function.inputs)}")
        return found

    def check_shapes(self, sizes: Mapping[str, Affine]) -> None:
        for name, part in self.parts.items():
            formal = self.function.kernel.argument(name)
            assert isinstance(formal, ArrayArg), "parts are passed for arrays"
            wanted = []
            for extent in formal.shape or ():
                form = affine_of(extent)
                if form is None:
                    message = f"'{name}' of '{self.function.name}' has an extent that is not affine: {show(extent)}"
                    raise self.fail("bad-call", message, "declare shapes with sums and integer multiples of sizes")
                wanted.append(form.substitute(sizes))
            if tuple(wanted) != part.extents:
                shape = f"({', '.join(show(to_expression(form)) for form in wanted)})"
                message = f"'{name}' of '{self.function.name}' has shape {shape} here, and is passed {part.shape()}"
                raise self.fail("shape-mismatch", message, f"pass parts of '{part.array}' that have the shape")

    # }}}


def _axes(rank: int) -> str:
    return f"{rank} ax{'is' if rank == 1 else 'es'}"
