"""``tag_array_axes``, ``add_padding``, ``split_array_axis``: storage layouts of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count as counted
from typing import Annotated, ClassVar

import islpy as isl
import pymbolic.primitives as p

from polyloop.creation.array_layout import layout_violations
from polyloop.errors import Diagnostic, KernelError, TransformError
from polyloop.expr.nodes import Expression, Reduction, array_name
from polyloop.expr.rewrite import accesses, children, rebuild, variables
from polyloop.expr.rules import expand_rules
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable
from polyloop.kernel.instruction import Instruction, Move, Origin
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import DimTag, Nested, Strided, apart_axes, order_tags, parse_dim_tags
from polyloop.poly.affine import Affine, Floor, affine_of, to_expression
from polyloop.poly.sets import form_to_aff
from polyloop.transform.base import Transform
from polyloop.transform.declare import Names, Takes
from polyloop.transform.layout.storage import (
    array_violations,
    axis_number,
    axis_order,
    on_both,
    tagged,
    tags_of,
    text_violations,
    with_arrays,
)
from polyloop.transform.parameters import ArrayName, ArrayNames, Axis, Word, joined
from polyloop.verification.bounds import bounds_conditions, bounds_violations
from polyloop.verification.order import order_violations
from polyloop.verification.values import value_violations

__all__ = ["AddPadding", "SplitArrayAxis", "TagArrayAxes", "find_padding_multiple"]


@dataclass(frozen=True)
class TagArrayAxes(Transform):
    """Set the storage layout of arguments or temporaries, axis by axis.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 4}", "b[i, j] = 2*a[i, j]")
    >>> print(body(knl.tag_array_axes("a", "N0,N1")))
    for (int i = 0; i < 8; ++i) {
        for (int j = 0; j < 4; ++j)
            b[i * 4 + j] = 2.0f * a[i + j * 8];
    }

    Parameters
    ----------
    ary_names
        The arrays.
    dim_tags
        A tag for each axis, as for :class:`GlobalArg`: ``N0`` (contiguous), ``N1``, .., ``N0(pad=16)``,
        ``stride:17``, ``sep``, ``vec``; ``"C"`` or ``"F"`` for all axes.  Axes that have names may stand in any order:
        ``"row:N0, col:N1"``, or a mapping.

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-axis``, ``bad-dim-tags``, ``bad-layout``, ``staged-by-c``;
        ``overlapping-elements``, with two elements that would have one address.

    Notes
    -----
    The layout of an argument is part of the calling convention: callers then pass arrays that are stored so, which each
    call checks.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    ary_names: ArrayNames
    dim_tags: Annotated[str, Takes(str | Sequence[str] | Mapping[str, str], _as_text), Names.NOTHING]

    def resolved(self, kernel: LoopKernel) -> TagArrayAxes:
        given: str | Mapping[str, str] = self.dim_tags
        named = given if isinstance(given, Mapping) else _named_tags(given)
        if not named:
            return self
        return replace(self, dim_tags=",".join(axis_order(kernel, self.ary_names, named, self.name)))

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := (*array_violations(kernel, self.ary_names), *text_violations(kernel, self.ary_names)):
            yield from found
            return
        for name in self.ary_names:
            yield from self._tag_violations(kernel.arrays()[name])

    def _tag_violations(self, array: ArrayArg | TemporaryVariable) -> Iterator[Diagnostic]:
        rank = len(array.shape or ())
        try:
            tags = self._tags(rank)
        except KernelError as error:
            yield from error.found
            return
        if len(tags) != rank:
            message = f"'{array.name}' has {rank} axes and {len(tags)} dim_tags"
            yield Diagnostic("bad-layout", message, hints=("give one for each axis",))
        elif isinstance(array, TemporaryVariable):
            strides = [tag.stride for tag in tags if isinstance(tag, Strided)]
            if apart_axes(tags) or not all(isinstance(stride, int) and stride > 0 for stride in strides):
                yield Diagnostic(
                    "bad-layout",
                    f"temporary '{array.name}' cannot be stored as {self.dim_tags}",
                    ("the compiler has to know its strides, and it is one array",),
                    ("use N0, N1, .. or strides that are positive numbers, such as stride:17",),
                )
            elif strides and array.padding:
                yield Diagnostic(
                    "bad-layout",
                    f"'{array.name}' has strides and a padding",
                    hints=("the strides say where the padding is",),
                )

    def _tags(self, rank: int) -> tuple[DimTag, ...]:
        order = self.dim_tags.strip().upper()
        return order_tags(rank, order) if order in {"C", "F"} else parse_dim_tags(self.dim_tags)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        def with_tags(old: LoopKernel, names: Sequence[str]) -> LoopKernel:
            arrays = {name: old.arrays()[name] for name in names}
            return with_arrays(
                old, {name: tagged(array, self._tags(len(array.shape or ()))) for name, array in arrays.items()}
            )

        return on_both(kernel, self.ary_names, with_tags)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return layout_violations(after)


def _as_text(given: str | Sequence[str] | Mapping[str, str]) -> str | Mapping[str, str]:
    """Return tags in the order of the axes as one text; the order of axes that are named is the kernel's."""
    return given if isinstance(given, Mapping) else joined(given)


_NAMED = re.compile(r"\s*(?!stride\b)([A-Za-z_]\w*)\s*:\s*([^,()]+(?:\([^)]*\))?)\s*", re.ASCII)


def _named_tags(text: str) -> dict[str, str]:
    """Return axis name -> tag of ``"row:N0, col:N1"``, empty if the tags are listed in the order of the axes."""
    found = [_NAMED.fullmatch(part) for part in text.split(",")]
    return {match[1]: match[2].strip() for match in found if match} if all(found) else {}


@dataclass(frozen=True)
class AddPadding(Transform):
    """Let neighbours along an axis be a multiple of some bytes apart.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i, j < 16}", "b[i, j] = 2*a[i, j]").add_dtypes({"a": np.float32})
    >>> print(knl.argument("a").strides, knl.add_padding("a", 0, 68).argument("a").strides)
    (16, 1) (17, 1)

    Parameters
    ----------
    variable
        An argument or a temporary.
    axis
        Its axis whose stride is rounded up, from 0, or its name; not the contiguous one.
    align_bytes
        The stride becomes the next multiple of this [bytes].

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-axis``, ``wrong-rank``, ``bad-value``, ``bad-layout``, ``staged-by-c``.

    Notes
    -----
    Padding changes addresses and no values.  For an argument it is part of the calling convention: callers then pass
    arrays with these strides, which each call checks.  With a stride of an odd number of words, the columns of a shared
    tile are read without bank conflicts.  Source: Loopy's transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    variable: ArrayName
    axis: Axis
    align_bytes: int

    def resolved(self, kernel: LoopKernel) -> AddPadding:
        return replace(self, axis=axis_number(kernel, (self.variable,), self.axis, self.name))

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := (*array_violations(kernel, (self.variable,)), *text_violations(kernel, (self.variable,))):
            yield from found
            return
        array = kernel.arrays()[self.variable]
        problem = _axis_violation(array, self.axis)
        if problem is not None:
            yield problem
            return
        step: object = self.align_bytes
        if array.dtype is None or type(step) is not int or step < 1 or step % array.dtype.itemsize:
            size = "an unknown size" if array.dtype is None else f"{array.dtype.itemsize} bytes"
            yield Diagnostic(
                "bad-value",
                f"the elements of '{self.variable}' have {size}, of which {self.align_bytes!r} bytes is no multiple",
                hints=("give align_bytes as a multiple of the size of an element",),
            )
            return
        tag = (tags_of(array) or ())[self.axis]
        if not isinstance(tag, Nested) or tag.level == 0:
            yield Diagnostic(
                "bad-layout",
                f"axis {self.axis} of '{self.variable}' is stored as {tag}, and no other axis lies inside of it",
                ("padding comes between its neighbours: behind the elements of the faster axes",),
                ("pad an axis that is stored as N1, N2, ..",),
            )

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        def padded(old: LoopKernel, names: Sequence[str]) -> LoopKernel:
            return with_arrays(old, {name: self._padded(old.arrays()[name]) for name in names})

        return on_both(kernel, (self.variable,), padded)

    def _padded(self, array: ArrayArg | TemporaryVariable) -> ArrayArg | TemporaryVariable:
        tags = tags_of(array)
        assert tags is not None, "the layout was not checked"
        assert array.dtype is not None, "the type was not checked"
        tag = tags[self.axis]
        assert isinstance(tag, Nested), "the axis was not checked"
        step = self.align_bytes // array.dtype.itemsize
        below = next(n for n, t in enumerate(tags) if isinstance(t, Nested) and t.level == tag.level - 1)
        inner = (array.shape or ())[below]
        if isinstance(array, TemporaryVariable) and tag.level == 1 and isinstance(inner, int):
            return replace(array, padding=-(-(inner + array.padding) // step) * step - inner)
        changed = tuple(Nested(tag.level - 1, step) if n == below else t for n, t in enumerate(tags))
        return tagged(array, changed)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return layout_violations(after)


def _axis_violation(array: ArrayArg | TemporaryVariable, axis: object) -> Diagnostic | None:
    rank = len(array.shape or ())
    if type(axis) is not int or not 0 <= axis < rank:
        return Diagnostic(
            "wrong-rank", f"'{array.name}' has {rank} axes, and no axis {axis!r}", hints=("axes count from 0",)
        )
    if tags_of(array) is None:
        return Diagnostic(
            "bad-layout",
            f"'{array.name}' has strides that are numbers",
            hints=("declare it with order or dim_tags, so that its axes have an order",),
        )
    return None


def find_padding_multiple(
    kernel: LoopKernel, variable: str, axis: int, align_bytes: int, allowed_waste: float = 0.1
) -> int:
    """Return a number of neighbours along an axis to pad as one group, for which little memory is wasted.

    Parameters
    ----------
    variable, axis
        An argument or a temporary, and its axis.
    align_bytes
        Unit of the padding: the size of each group becomes a multiple of it [bytes].
    allowed_waste
        The greatest share of padding that is accepted.

    Raises
    ------
    TransformError
        ``unknown-array``, ``wrong-rank``, ``bad-layout`` (the stride is not a number).

    Notes
    -----
    To be used with :func:`split_array_axis` and :func:`add_padding`.  Source: Loopy's function of the same name, with
    all sizes in bytes.
    """
    found = list(array_violations(kernel, (variable,)))
    array = kernel.arrays().get(variable)
    if array is not None and not found:
        problem = _axis_violation(array, axis)
        found += [] if problem is None else [problem]
    if found or array is None:
        raise TransformError("find_padding_multiple", kernel.name, found)
    strides = array.strides() if isinstance(array, TemporaryVariable) else array.strides or ()
    stride = strides[axis]
    if not isinstance(stride, int) or array.dtype is None:
        message = f"axis {axis} of '{variable}' has a stride that depends on parameters"
        problem = Diagnostic("bad-layout", message, hints=("fix the parameters first: pl.fix_parameters",))
        raise TransformError("find_padding_multiple", kernel.name, [problem])
    size = stride * array.dtype.itemsize
    return next(n for n in counted(1) if -(n * size) % align_bytes <= allowed_waste * n * size)


@dataclass(frozen=True)
class SplitArrayAxis(Transform):
    """Divide an axis of arrays into two.

    >>> knl = pl.make_kernel("{[i]: 0 <= i < 8}", "b[i] = 2*a[i]").split_iname("i", 4)
    >>> print(*knl.split_array_axis("a", 0, 4).instructions)
    b[4*i_outer + i_inner] = 2*a[i_outer, i_inner]

    Parameters
    ----------
    array_names
        Arguments or temporaries.
    axis_nr
        The axis, from 0, or its name.
    count
        Extent of the new inner axis.
    order
        ``"C"`` puts the outer axis first, ``"F"`` the inner one.  The elements keep their addresses either way; if the
        extent is no multiple of *count*, the array is padded.

    Raises
    ------
    TransformError
        ``unknown-array``, ``unknown-axis``, ``wrong-rank``, ``bad-factor``, ``bad-order``, ``bad-layout``,
        ``already-staged``, ``staged-by-c``.

    Notes
    -----
    The map of subscripts is one to one.  The shape of an argument is part of the calling convention: callers then pass
    arrays of the new shape.  Divisions disappear from subscripts such as ``4*i_outer + i_inner``.  Source: Loopy's
    transform of the same name.
    """

    changes_meaning: ClassVar[bool] = True
    array_names: ArrayNames
    axis_nr: Axis
    count: int
    order: Word = "C"

    def resolved(self, kernel: LoopKernel) -> SplitArrayAxis:
        return replace(self, axis_nr=axis_number(kernel, self.array_names, self.axis_nr, self.name))

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if found := tuple(array_violations(kernel, self.array_names)):
            yield from found
            return
        length: object = self.count
        if type(length) is not int or length < 1:
            yield Diagnostic("bad-factor", f"cannot split by {length!r}", hints=("count is an integer of at least 1",))
        if self.order not in ("C", "F"):
            message = f"order cannot be {self.order!r}"
            yield Diagnostic("bad-order", message, hints=('"C" puts the outer axis first, "F" the inner one',))
        for name in self.array_names:
            array = kernel.arrays()[name]
            problem = _axis_violation(array, self.axis_nr) or self._layout_violation(array)
            if problem is not None:
                yield problem
                return
            yield from self._access_violations(kernel, name)

    def _layout_violation(self, array: ArrayArg | TemporaryVariable) -> Diagnostic | None:
        tag = (tags_of(array) or ())[self.axis_nr]
        padded = isinstance(array, TemporaryVariable) and array.padding
        if not isinstance(tag, Nested | Strided) or padded or (isinstance(tag, Nested) and tag.pad > 1):
            return Diagnostic(
                "bad-layout",
                f"axis {self.axis_nr} of '{array.name}' is stored as {tag}{' with padding' if padded else ''}",
                hints=("split first, then pad or tag the new axes",),
            )
        return None

    def _access_violations(self, kernel: LoopKernel, name: str) -> Iterator[Diagnostic]:
        if name in kernel.temporaries and name in kernel.buffers.values():
            yield Diagnostic(
                "already-staged",
                f"part of '{name}' is in a buffer",
                hints=(f"split the axes of '{name}' first, and buffer it after that",),
            )
        yield from text_violations(kernel, (name,))
        for instruction in kernel.instructions:
            if instruction.is_c:
                continue
            if any(self._is_data(kernel, index) for index in self._indices(kernel, instruction, name)):
                yield Diagnostic(
                    "not-affine",
                    f"data decides about subscript {self.axis_nr} of '{name}'",
                    ("its quotient and its remainder would read the data twice",),
                    ("split an axis that loops subscript",),
                    sites=(instruction.site(),),
                )

    def _indices(self, kernel: LoopKernel, instruction: Instruction, name: str) -> Iterator[Expression]:
        """Yield the subscripts of the axis in *instruction*."""
        for part in (instruction.assignee, instruction.expression, *instruction.predicates):
            for access in accesses(expand_rules(part, kernel.substitutions)):
                if array_name(access) == name and isinstance(access, p.Subscript):
                    yield access.index_tuple[self.axis_nr]

    @staticmethod
    def _is_data(kernel: LoopKernel, index: Expression) -> bool:
        return not variables(index) <= {*kernel.inames, *kernel.parameters}

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        def split(old: LoopKernel, names: Sequence[str]) -> LoopKernel:
            for name in names:
                old = self._split(old, name)
            # the conditions are those of the reference program, which has none itself
            return replace(old, conditions=bounds_conditions(old)) if old.reference is None else old

        return on_both(kernel, self.array_names, split)

    def _pair(self, outer: Expression, inner: Expression) -> tuple[Expression, Expression]:
        return (outer, inner) if self.order == "C" else (inner, outer)

    def _split(self, kernel: LoopKernel, name: str) -> LoopKernel:
        array = kernel.arrays()[name]
        shape, tags = array.shape, tags_of(array)
        assert shape is not None, "the shape was not checked"
        assert tags is not None, "the layout was not checked"
        at = self.axis_nr
        whole = affine_of(shape[at])
        if whole is None:
            extent: Expression = p.FloorDiv(p.Sum((shape[at], self.count - 1)), self.count)
        else:
            extent = to_expression(whole.add(Affine((), self.count - 1)).floordiv(self.count))
        new_shape = (*shape[:at], *self._pair(extent, self.count), *shape[at + 1 :])
        names = array.dim_names
        if names is not None and len(names) == len(shape):
            names = (*names[:at], *self._pair(f"{names[at]}_outer", f"{names[at]}_inner"), *names[at + 1 :])
        new = tagged(replace(array, shape=new_shape, dim_names=names), self._tags(tags))
        kernel = with_arrays(kernel, {name: new})
        instructions = tuple(self._instruction(kernel, old, name) for old in kernel.instructions)
        return replace(kernel, instructions=instructions)

    def _tags(self, tags: Sequence[DimTag]) -> tuple[DimTag, ...]:
        """Return the tags of the new axes: the two take the place of the old one in the nesting."""
        at = self.axis_nr
        old = tags[at]
        if isinstance(old, Strided):
            stride = old.stride
            assert stride is not None, "the layout was not checked"
            outer: DimTag = Strided(stride * self.count if isinstance(stride, int) else p.Product((self.count, stride)))
            inner: DimTag = old
            moved = list(tags)
        else:
            assert isinstance(old, Nested), "the layout was not checked"
            outer, inner = Nested(old.level + 1), old
            moved = [
                replace(tag, level=tag.level + 1) if isinstance(tag, Nested) and tag.level > old.level else tag
                for tag in tags
            ]
        pair = (outer, inner) if self.order == "C" else (inner, outer)
        return (*moved[:at], *pair, *moved[at + 1 :])

    def _instruction(self, kernel: LoopKernel, old: Instruction, name: str) -> Instruction:
        if name not in {*old.reads, *old.writes} and not _carries(old.origin, name):
            return old
        domains = iter([(term.inames, term.domain) for term in old.terms])
        own = (old.inames, old.domain)

        def visit(expr: Expression, around: tuple[tuple[str, ...], isl.Set]) -> Expression:
            inner = next(domains) if isinstance(expr, Reduction) else around
            before = children(expr)
            after = tuple(visit(child, inner) for child in before)
            result = expr if all(a is b for a, b in zip(before, after, strict=True)) else rebuild(expr, after)
            if isinstance(result, p.Subscript) and array_name(result) == name:
                indices = result.index_tuple
                pair = self._pair(*self._parts(indices[self.axis_nr], *around))
                return p.Subscript(result.aggregate, (*indices[: self.axis_nr], *pair, *indices[self.axis_nr + 1 :]))
            return result

        expression = old.expression
        if name in variables(expand_rules(expression, kernel.substitutions)):
            expression = expand_rules(expression, kernel.substitutions)
        expression = visit(expression, own)
        return replace(
            old,
            expression=expression,
            assignee=visit(old.assignee, own),
            predicates=tuple(visit(expand_rules(e, kernel.substitutions), own) for e in old.predicates),
            origin=self._origin(old.origin, name),
        )

    def _parts(self, index: Expression, inames: Sequence[str], domain: isl.Set) -> tuple[Expression, Expression]:
        """Return quotient and remainder of a subscript, without divisions where the domain bounds the remainder."""
        form = affine_of(index)
        if form is None:
            return p.FloorDiv(index, self.count), p.Remainder(index, self.count)
        for step in (self.count // n for n in range(1, self.count) if self.count % n == 0):
            rest = Affine.make([(v, c % step) for v, c in form.terms], form.const % step)
            if not _is_below(rest, step, inames, domain):
                continue
            whole = form.add(rest, -1)
            if step == self.count:
                return to_expression(whole.floordiv(step)), to_expression(rest)
            steps = Affine(tuple((v, c // step) for v, c in whole.terms), whole.const // step)
            number = to_expression(steps)
            inner: Expression = p.Product((step, p.Remainder(number, self.count // step)))
            inner = p.Sum((inner, to_expression(rest))) if rest.terms or rest.const else inner
            return p.FloorDiv(number, self.count // step), inner
        outer = form.floordiv(self.count)
        return to_expression(outer), to_expression(form.add(outer, -self.count))

    def _origin(self, origin: Origin, name: str) -> Origin:
        """Return *origin* with the subscript of the split axis divided in two, if it is a move of array *name*."""
        if not (isinstance(origin, Move) and origin.array == name):
            return origin
        forms: list[Affine] = []
        for number in range(len(origin.forms)):
            form = origin.forms[str(number)]
            if number == self.axis_nr:
                outer = form.floordiv(self.count)
                inner = form.add(outer, -self.count)
                forms += (outer, inner) if self.order == "C" else (inner, outer)
            else:
                forms.append(form)
        return replace(origin, forms={str(number): form for number, form in enumerate(forms)})

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        yield from bounds_violations(after)
        yield from layout_violations(after)
        yield from value_violations(after)
        yield from order_violations(after)


def _carries(origin: Origin, name: str) -> bool:
    return isinstance(origin, Move) and origin.array == name


def _is_below(form: Affine, limit: int, inames: Sequence[str], domain: isl.Set) -> bool:
    """Return True if the values of *form* in *domain* are from 0 to *limit* - 1."""
    known = {domain.get_dim_name(isl.dim_type.param, n) for n in range(domain.dim(isl.dim_type.param))}
    if not form.names() <= {*inames, *known} or any(isinstance(v, Floor) for v, _ in form.terms):
        return False
    aff = form_to_aff(form, isl.LocalSpace.from_space(domain.get_space()), inames)
    low, high = domain.min_val(aff), domain.max_val(aff)
    return bool(low.is_int() and high.is_int() and low.to_python() >= 0 and high.to_python() < limit)
