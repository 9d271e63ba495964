"""Rewrite of statements on matrix instructions: one statement for whole warps and the unrolled loops around it.

Lanes, registers and these loops are no dimensions of the new statement, so there are no conditions on them.  If
operands are loaded ahead, there are two more statements: one zeroes registers before the loops of the sum, and one
accumulates the last products behind them.

::

    for k: {load k; multiply k}   ->   zero; for k: {load k; multiply k - 1}; multiply last
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Final

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.device.entries import Matrices
from polyloop.codegen.language import Language
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import array_name
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.intrinsic import MatrixIntrinsic
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import InameTag, Unroll, Vectorize
from polyloop.kernel.tree import Barrier, Group, Loop, Run, Scope, Tree, has_barrier, runs
from polyloop.kernel.tree import Node as TreeNode
from polyloop.mapping.mixed_radix import Digit
from polyloop.memo import memoised
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_axis
from polyloop.poly.sets import constant_bounds, insert_dims, map_from_forms
from polyloop.schedule.plan import (
    AwaitProducts,
    Product,
    Schedule,
    Share,
    StartCopy,
    Statement,
    Tensor,
)
from polyloop.schedule.storage import Storage

__all__ = ["Operand", "reach_of", "refuse_older", "with_matrices"]

_SET: Final = isl.dim_type.set


class Operand:
    """One operand: its element, its register layout, and the loops on which it depends."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name = name
        self.element: p.Subscript = getattr(tensor.product, name)
        is_held = name == "a" and tensor.product.from_registers
        self.parts = tensor.product.intrinsic.in_registers() if is_held else tensor.product.intrinsic.layout(name)
        self.axes = {axis: tensor.product.axes[axis] for axis in ("ik" if name == "a" else "kj")}
        self.extents = tensor.product.intrinsic.extents
        self.statement = tensor.original
        self.array = array_name(self.element)
        used = variables(self.element)
        self.loops = [(x, n) for x, n in tensor.loops if x in used]


@memoised
def reach_of(tensor: Tensor, name: str) -> Statement:
    """Return the statement of a product with the subscripts of the operand called *name* in place of its own loops."""
    original = tensor.original
    operand, other = (Operand(one, tensor) for one in (name, "b" if name == "a" else "a"))
    axes = sorted({part.axis for part in operand.parts})
    gone = {dim for pairs in tensor.product.axes.values() for dim, _ in pairs}
    gone |= {x for x, _ in other.loops} - {x for x, _ in operand.loops}
    kept = tuple(dim for dim in original.dims if dim not in gone)
    sums = [Affine.make([(dim, c) for dim, c in tensor.product.axes[axis]]) for axis in axes]
    images = [*map(Affine.variable, kept), *sums]
    names = (*kept, *(f"#{axis}" for axis in axes))
    domain = map_from_forms(original.domain, original.dims, images).range()
    for number, dim in enumerate(names):
        domain = domain.set_dim_name(_SET, number, dim)
    return replace(original, dims=names, domain=domain.coalesce())


def with_matrices(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with matrix instructions as single statements, and registers for operands; on hosts as it is.

    Raises
    ------
    CodegenError
        ``bad-tensorize``, if a loop over registers is not directly around the statement;
        ``unsupported-intrinsic``.
    """
    if not language.has_axes or all(statement.product is None for statement in schedule.statements.values()):
        return schedule
    launches = []
    for launch in schedule.launches:
        tree, schedule, registers = _with_matrices(launch.tree, schedule, language)
        launches.append(replace(launch, tree=tree, temporaries=(*launch.temporaries, *registers)))
    return replace(schedule, launches=tuple(launches))


def refuse_older(kernel: LoopKernel, language: Language) -> None:
    """Raise ``unsupported-intrinsic`` if a device lacks a matrix instruction, before its memory is counted."""
    entry = language.find(Matrices) if language.has_axes else None
    if entry is None:
        return
    for instruction in kernel.instructions:
        intrinsic = None if instruction.matrix is None else instruction.matrix.intrinsic
        if intrinsic is not None and (lacks := entry.lacks(intrinsic)):
            raise CodegenError("generate_code", kernel.name, [_too_old(instruction.id, intrinsic, *lacks)])


def _with_matrices(tree: Tree, schedule: Schedule, language: Language) -> tuple[Tree, Schedule, list[Storage]]:
    """Return *tree* and *schedule* with matrix instructions, and the registers of operands that are loaded ahead."""
    statements, names = dict(schedule.statements), dict(schedule.indices.digit_names)
    storages: list[Storage] = []
    waits: dict[str, list[Statement]] = {}
    for name in runs(tree):
        if isinstance(action := statements[name].action, AwaitProducts):
            waits.setdefault(action.issue, []).append(statements[name])
    for name in tuple(runs(tree)):
        statement = statements[name]
        product = statement.product
        if product is None:
            continue
        language.need(Matrices)  # whether the device has this one, refuse_older has asked
        nest = _nest(tree, name)
        registers = [dim for axis in "ijk" for dim, _ in product.axes[axis] if not is_axis(dim)]
        inside = _inside(tree, name, {**schedule.loops.tags, **dict.fromkeys(registers, Unroll())})
        loops = {loop: _extent(statement, loop) for loop in inside}
        left = next((x for x in (*registers, *loops) if loops.get(x) is None), None)
        if left is not None:
            raise CodegenError("generate_code", schedule.name, [_not_inside(statement, left, nest)])
        statements.update(_whole(statement, product, {x: n for x, n in loops.items() if n is not None}, statements))
        tree = _collapsed(tree, name, inside)
        if product.ahead:
            tree = _ahead(tree, name, statements, schedule, storages)
        if name in waits:
            tree = _run_on(tree, name, waits[name], statements, schedule)
        names = {digit.axis: _lane_name(digit, product.intrinsic) for digit in product.lane_digits()} | names
    indices = replace(schedule.indices, digit_names=names)
    return tree, replace(schedule, statements=statements, indices=indices), storages


def _run_on(
    tree: Tree, name: str, waits: Iterable[Statement], statements: dict[str, Statement], schedule: Schedule
) -> Tree:
    """Return *tree* with the end of a group behind products that run on, and with the *waits* for them.

    Ends of groups, and waits that count them, are under no conditions.  The last wait, for all products, is a part of
    their statement.
    """
    tree = _ended(tree, name)
    for wait in waits:
        assert isinstance(wait.action, AwaitProducts), f"'{wait.name}' waits for no products"
        if wait.action.pending is not None:
            group = Group(wait.action.pending, frozenset((wait.name,)), products=True)
            tree = _put(tree, wait.name, Barrier(Scope.THREAD, group=group))
            continue
        tree = _put(tree, wait.name, Run(wait.name))
        statement, around = statements[name], _nest(tree, wait.name)
        inner = [dim for dim in statement.dims if not is_axis(dim) and dim not in around]
        if (several := next((dim for dim in inner if dim in variables(statement.lhs)), None)) is not None:
            title = f"the products of '{statement.instruction}' cannot run on into the next iteration"
            raise CodegenError("generate_code", schedule.name, [_several_sums(statement, several, title)])
        domain, dims = _without(statement, inner)
        for share, own in ((Share.WAIT, wait.name), (Share.FIRST, f"{wait.name} first")):
            action = replace(_tensor(statement), share=share)
            statements[own] = replace(statement, name=own, dims=dims, domain=domain, action=action)
        tree = _preceded(tree, name, wait.name)
    return tree


def _preceded(tree: Tree, name: str, wait: str) -> Tree:
    """Return *tree* with the first part of products ahead of the loop around them that precedes their last wait."""
    out: list[TreeNode] = []
    for node in tree:
        if not isinstance(node, Loop) or name not in runs(node.body):
            out.append(node)
        elif Run(wait) in tree:
            out += [Run(f"{wait} first"), node]
        else:
            out.append(Loop(node.iname, _preceded(node.body, name, wait)))
    return tuple(out)


def _ended(tree: Tree, name: str) -> Tree:
    """Return *tree* with the end of a group of products behind a statement."""
    out: list[TreeNode] = []
    for node in tree:
        out.append(Loop(node.iname, _ended(node.body, name)) if isinstance(node, Loop) else node)
        if node == Run(name):
            out.append(Barrier(Scope.THREAD, group=Group(products=True, issued=frozenset((name,)))))
    return tuple(out)


def _put(tree: Tree, name: str, new: TreeNode) -> Tree:
    """Return *tree* with *new* in place of a statement and of the loops around nothing else."""
    out: list[TreeNode] = []
    for node in tree:
        if isinstance(node, Loop) and set(runs((node,))) > {name}:
            out.append(Loop(node.iname, _put(node.body, name, new)))
        elif name in runs((node,)):
            assert not has_barrier((node,)), f"'{name}' has no conflicts of its own"
            out.append(new)
        else:
            out.append(node)
    return tuple(out)


def _lane_name(digit: Digit, intrinsic: MatrixIntrinsic) -> str:
    over = f"_div_{digit.stride}" if digit.stride > 1 else ""
    return f"lane{over}" + (f"_mod_{digit.extent}" if digit.stride * digit.extent < intrinsic.lanes else "")


def _nest(tree: Tree, name: str) -> list[str]:
    """Return the loops around a statement, from the outermost one."""
    for node in tree:
        if isinstance(node, Loop) and name in runs((node,)):
            return [node.iname, *_nest(node.body, name)]
    return []


def _inside(tree: Tree, name: str, tags: Mapping[str, InameTag]) -> list[str]:
    """Return the unrolled loops directly around a statement that hold nothing else."""
    found: list[str] = []
    nodes = tree
    while True:
        loop = next((node for node in nodes if isinstance(node, Loop) and name in runs((node,))), None)
        if loop is None:
            return found
        alone = len(loop.body) == 1 and list(runs(loop.body)) == [name]
        if not alone or not isinstance(tags.get(loop.iname), Unroll | Vectorize):
            found = []
        else:
            found.append(loop.iname)
        nodes = loop.body


def _extent(statement: Statement, loop: str) -> int | None:
    low, high = constant_bounds(statement.domain, statement.dims.index(loop))
    return high + 1 if low is not None and low >= 0 and high is not None else None


def _too_old(name: str, intrinsic: MatrixIntrinsic, note: str, hint: str) -> Diagnostic:
    return Diagnostic(
        "unsupported-intrinsic",
        f"'{name}' asks for {intrinsic.name}, which the device does not have",
        (note,),
        (hint,),
    )


def _not_inside(statement: Statement, loop: str, nest: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "bad-tensorize",
        f"the matrix instruction of '{statement.instruction}' is not directly inside of its loops",
        (f"the loops are {', '.join(nest)}, and '{loop}' is not among the unrolled ones around nothing else",),
        ("let the loops of sums lie outside: pl.prioritize_loops(knl, ..), and unroll those inside",),
    )


def _collapsed(tree: Tree, name: str, inside: Sequence[str]) -> Tree:
    """Return *tree* without the loops *inside* around a statement."""
    out: list[TreeNode] = []
    for node in tree:
        if isinstance(node, Loop) and name in runs((node,)):
            out += _collapsed(node.body, name, inside) if node.iname in inside else (
                Loop(node.iname, _collapsed(node.body, name, inside)),
            )  # fmt: skip
        else:
            out.append(node)
    return tuple(out)


def _whole(
    statement: Statement, product: Product, loops: Mapping[str, int], statements: Mapping[str, Statement]
) -> Iterator[tuple[str, Statement]]:
    """Yield the statement for whole warps and tiles, and the init of its sums, by name."""
    registers = {dim for pairs in product.axes.values() for dim, _ in pairs}
    boxes = {**loops, **{dim: digit.extent for dim, digit in statement.digits.items() if dim in registers}}
    tiles = tuple((x, n) for x, n in loops.items() if x not in registers)
    domain, dims = _without(statement, boxes)
    yield statement.name, replace(statement, dims=dims, domain=domain, action=Tensor(statement, product, tiles, boxes))
    for name, other in statements.items():
        if other.is_assignment and array_name(other.lhs) == array_name(statement.lhs):
            domain, dims = _without(other, boxes)
            kept = [x for x in other.dims if x in boxes]
            domain = insert_dims(domain, len(dims), kept)
            for number, dim in enumerate(kept, len(dims)):
                domain = domain.lower_bound_val(_SET, number, 0).upper_bound_val(_SET, number, boxes[dim] - 1)
            yield name, replace(other, dims=(*dims, *kept), domain=domain)


def _ahead(
    tree: Tree, name: str, statements: dict[str, Statement], schedule: Schedule, storages: list[Storage]
) -> Tree:
    """Return *tree* with the first and last part of a statement whose operands are loaded ahead.

    These enclose the outermost loop that does not have the init of the sums inside.  The registers of the operands are
    added to *storages*.
    """
    statement = statements[name]
    tensor = _tensor(statement)
    operands = [Operand(x, tensor) for x in "ab"]
    steps = [(x, n) for x, n in tensor.loops if all((x, n) in operand.loops for operand in operands)]
    array = array_name(statement.lhs)
    (start,) = (x for x, s in statements.items() if s.is_assignment and array_name(s.lhs) == array and x in runs(tree))
    common = [x for x, y in zip(_nest(tree, name), _nest(tree, start), strict=False) if x == y]
    around = [] if steps else [x for x in _step_around(tree, statement, operands, schedule) if x[0] not in common]
    steps = steps or around
    if len(steps) != 1 or steps[0][1] % 2:
        raise CodegenError("generate_code", schedule.name, [_no_steps(statement, steps)])
    if around:
        statement = _in_each(statement, *around[0])
    tensor = replace(_tensor(statement), step=steps[0][0])
    taken = {argument.name for argument in schedule.contract.arguments} | set(schedule.file_scope.tables) | {array}
    taken |= {t.name for launch in schedule.launches for t in launch.temporaries}
    taken |= {dim for other in statements.values() for dim in other.dims}
    taken |= {storage.name for storage in storages}
    fragments = {}
    for operand in operands:
        fragments[operand.name] = wish = _fresh(f"{operand.name}_frag", taken)
        taken.add(wish)
        loops = [n for x, n in operand.loops if (x, n) not in steps]
        count = tensor.product.intrinsic.registers(operand.name) // tensor.product.intrinsic.per_register
        shape = (2, *loops, count)
        dtype = np.dtype(np.float64 if tensor.product.intrinsic.is_double else np.uint32)
        storages.append(Storage(wish, dtype, shape, AddressSpace.PRIVATE))
    inner = [dim for dim in statement.dims if not is_axis(dim) and dim not in common]
    once = [dim for dim in inner if dim in variables(statement.lhs)]
    if (several := next((dim for dim in once if not _runs_once(statement, dim)), None)) is not None:
        title = f"the operands of '{statement.instruction}' cannot be loaded ahead"
        raise CodegenError("generate_code", schedule.name, [_several_sums(statement, several, title)])
    domain, dims = _without(statement, [dim for dim in inner if dim not in once])
    for share in (Share.FIRST, Share.LAST):
        own, part = replace(tensor, share=share, fragments=fragments), f"{name} {share.value}"
        statements[part] = replace(statement, name=part, dims=dims, domain=domain, action=own)
    statements[name] = replace(statement, action=replace(tensor, share=Share.STEP, fragments=fragments))
    return _around(_loads_apart(tree, name, statements), name, common, once)


def _loads_apart(tree: Tree, name: str, statements: dict[str, Statement]) -> Tree:
    """Return *tree* with the loads of a step moved ahead of copies that start in it, whose issue hides their latency.

    The move is legal: no statement reads the elements of such a copy before its arrival.
    """
    out: list[TreeNode] = []
    for number, node in enumerate(tree):
        if isinstance(node, Loop) and name in runs((node,)):
            out.append(Loop(node.iname, _loads_apart(node.body, name, statements)))
        elif node == Run(name) and number and all(_starts(other, statements) for other in tree[:number]):
            tensor = _tensor(statements[name])
            parts = {f"{name} loads": Share.LOADS, name: Share.PRODUCTS}
            for part, share in parts.items():
                statements[part] = replace(statements[name], name=part, action=replace(tensor, share=share))
            out = [Run(f"{name} loads"), *out, node]
        else:
            out.append(node)
    return tuple(out)


def _starts(node: TreeNode, statements: Mapping[str, Statement]) -> bool:
    """Return True if a node only starts asynchronous copies."""
    match node:
        case Run(name):
            return isinstance(statements[name].action, StartCopy)
        case Loop(_, body):
            return all(_starts(other, statements) for other in body)
        case _:
            return False


def _step_around(
    tree: Tree, statement: Statement, operands: Iterable[Operand], schedule: Schedule
) -> list[tuple[str, int]]:
    """Return the innermost loop around a statement and its extent, if it is unrolled and both operands depend on it."""
    loop = next(reversed(_nest(tree, statement.name)), "")
    is_step = all(loop in variables(operand.element) for operand in operands)
    extent = _extent(statement, loop) if is_step and isinstance(schedule.loops.tags.get(loop), Unroll) else None
    return [] if extent is None else [(loop, extent)]


def _in_each(statement: Statement, loop: str, extent: int) -> Statement:
    """Return a statement extended to every iteration of a loop: elements without a term are loaded as zeros."""
    tensor = _tensor(statement)
    position = statement.dims.index(loop)
    domain = insert_dims(statement.domain.project_out(_SET, position, 1), position, [loop])
    domain = domain.lower_bound_val(_SET, position, 0).upper_bound_val(_SET, position, extent - 1)
    return replace(statement, domain=domain, action=replace(tensor, boxes={**tensor.boxes, loop: extent}))


def _tensor(statement: Statement) -> Tensor:
    assert isinstance(statement.action, Tensor), f"'{statement.name}' is no matrix instruction"
    return statement.action


def _fresh(wish: str, taken: Collection[str]) -> str:
    return next(name for name in chain([wish], (f"{wish}_{n}" for n in count())) if name not in taken)


def _runs_once(statement: Statement, loop: str) -> bool:
    low, high = constant_bounds(statement.domain, statement.dims.index(loop))
    return low is not None and low == high


def _several_sums(statement: Statement, loop: str, title: str) -> Diagnostic:
    return Diagnostic(
        "bad-tensorize",
        title,
        (f"the loop over '{loop}' starts other sums while products of the ones before are not added yet",),
        (f"unroll '{loop}' directly around the instruction, or let it lie outside: pl.prioritize_loops(knl, ..)",),
    )


def _around(tree: Tree, name: str, common: Sequence[str], once: Sequence[str]) -> Tree:
    """Return *tree* with the first and last part of a statement around its loops inside of the *common* ones.

    Both parts are enclosed by loops that run *once* and subscript the sums.
    """
    out: list[TreeNode] = []
    for node in tree:
        if name not in runs((node,)):
            out.append(node)
        elif common and isinstance(node, Loop):
            out.append(Loop(node.iname, _around(node.body, name, common[1:], once)))
        else:
            ends: list[TreeNode] = [Run(f"{name} first"), Run(f"{name} last")]
            for loop in reversed(once):
                ends = [Loop(loop, (end,)) for end in ends]
            out += [ends[0], node, ends[1]]
    return tuple(out)


def _no_steps(statement: Statement, steps: Sequence[tuple[str, int]]) -> Diagnostic:
    shown = ", ".join(f"'{x}' of {n}" for x, n in steps) or "none"
    return Diagnostic(
        "bad-tensorize",
        f"the operands of '{statement.instruction}' cannot be loaded ahead",
        (f"unrolled loops directly around, that both operands depend on: {shown}",),
        ("split the terms of a tile so that there is one such loop, with an even number of steps, and tag it 'unr'",),
    )


def _without(statement: Statement, gone: Iterable[str]) -> tuple[isl.Set, tuple[str, ...]]:
    """Return the domain of a statement with the dimensions *gone* projected out, and the other dimensions."""
    domain, dims = statement.domain, list(statement.dims)
    for name in gone:
        if name in dims:
            domain = domain.project_out(_SET, dims.index(name), 1)
            dims.remove(name)
    return domain, tuple(dims)
