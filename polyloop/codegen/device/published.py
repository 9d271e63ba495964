"""Stores of threads where matrix instructions and copy engines read or store: a fence and a barrier keep them in order.

Both access shared memory on a way of their own (PTX ISA, "Memory Consistency Model: Proxies").  Each thread that has
stored to such a place executes the fence, before the barrier behind which the place is used.
"""

from __future__ import annotations

from collections.abc import Collection

from polyloop.codegen.language import Language
from polyloop.expr.nodes import array_name, targets_of
from polyloop.frozen import replace
from polyloop.kernel.tree import Barrier, Loop, Scope, Tree, has_barrier, runs
from polyloop.kernel.tree import Node as TreeNode
from polyloop.schedule.copy_engine import EngineStep, StartBox, StoreBox
from polyloop.schedule.plan import Launch, Schedule, Statement, Tensor

__all__ = ["with_fences"]


def with_fences(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with the barriers marked before which threads execute a fence; for hosts as it is.

    A thread that stores a box behind its own stores, with no barrier in between, executes the fence by itself.
    """
    if not language.has_axes:
        return schedule
    statements = dict(schedule.statements)
    launches = tuple(_fenced(launch, statements) for launch in schedule.launches)
    return replace(schedule, launches=launches, statements=statements)


def _fenced(launch: Launch, statements: dict[str, Statement]) -> Launch:
    """Return *launch* with barriers marked, and mark *statements*."""
    own = [statements[name] for name in runs(launch.tree)]
    arrays = {array for statement in own for array in _used_past_threads(statement)}
    pools = {t.pool for t in launch.temporaries if t.pool is not None and t.name in arrays}
    arrays |= {t.name for t in launch.temporaries if t.pool in pools}
    if not any(_stores(statement, arrays) for statement in own):
        return launch
    tree, is_left = _marked(launch.tree, statements, arrays)
    if is_left and launch.order.persists:  # stores of one turn precede the next one
        tree, _ = _marked(launch.tree, statements, arrays, is_stored=True)
    return replace(launch, tree=tree)


def _used_past_threads(statement: Statement) -> Collection[str]:
    """Return the arrays in shared memory that a statement reads or fills, but not by loads or stores of threads."""
    match statement.action:
        case Tensor(product=product) if product.intrinsic.is_shared:
            return {array_name(product.b)} | ({array_name(product.a)} if not product.from_registers else set())
        case StoreBox():
            return {array_name(statement.rhs)}
        case StartBox():
            return {array_name(statement.lhs)}
        case _:
            return ()


def _stores(statement: Statement, arrays: Collection[str]) -> bool:
    """Return True if threads, and no copy engine, store elements of *arrays*."""
    if isinstance(statement.action, EngineStep):
        return False
    return any(array_name(target) in arrays for target in targets_of(statement.lhs))


def _marked(
    tree: Tree, statements: dict[str, Statement], arrays: Collection[str], *, is_stored: bool = False
) -> tuple[Tree, bool]:
    """Return *tree* with the barriers marked that stores to *arrays* may precede, no barrier of the block in between.

    *is_stored* is True if such stores precede the tree; the second result is True if they precede what is behind it.
    """
    out: list[TreeNode] = []
    for node in tree:
        if isinstance(node, Barrier) and node.scope in (Scope.WARP, Scope.BLOCK, Scope.CLUSTER) and not node.opens:
            out.append(replace(node, publishes=is_stored))
            is_stored = is_stored and node.scope is Scope.WARP
        elif isinstance(node, Loop):
            stores = any(_stores(statements[name], arrays) for name in runs(node.body))
            if is_stored and not stores and has_barrier(node.body):  # once, ahead of the loop and of its barriers
                out.append(Barrier(Scope.THREAD, publishes=True))
                is_stored = False
            body, is_left = _marked(node.body, statements, arrays, is_stored=is_stored or stores)
            out.append(Loop(node.iname, body))
            is_stored = is_stored or is_left
        else:
            out.append(node)
            for name in runs((node,)):
                action = statements[name].action
                if is_stored and isinstance(action, StoreBox):
                    statements[name] = replace(statements[name], action=replace(action, has_fence=True))
                is_stored = is_stored or _stores(statements[name], arrays)
    return tuple(out), is_stored
