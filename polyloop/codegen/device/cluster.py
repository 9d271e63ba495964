"""Clusters of blocks: barriers, places in the shared memory of another block, and the combination of blocks' values.

A block may use the shared memory of another one from when that has begun until it ends.  So a launch with such uses has
a wait before the first of them for all blocks to have begun, and no use behind the last barrier of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyloop.codegen.device.entries import Clusters
from polyloop.codegen.device.helpers import helper_text
from polyloop.codegen.scope import Scope
from polyloop.kernel.tree import Barrier, Loop, Tree

__all__ = ["begun", "cluster_call", "opens", "placed"]


def opens(tree: Tree) -> bool:
    """Return whether *tree* has a wait for all blocks of the cluster to have begun."""
    barriers = (node for node in tree if isinstance(node, Barrier))
    return any(node.opens for node in barriers) or any(opens(node.body) for node in tree if isinstance(node, Loop))


def begun(scope: Scope) -> str:
    """Return the statement by which a thread says that it has begun."""
    return _call(scope, "cluster_arrive", scope.language.need(Clusters).arrive)


def cluster_call(scope: Scope, what: str) -> str:
    """Return the statement that is a ``"wait"`` until all blocks have begun, or a ``"barrier"`` of the cluster."""
    clusters = scope.language.need(Clusters)
    return _call(scope, f"cluster_{what}", clusters.wait if what == "wait" else clusters.barrier)


def placed(scope: Scope) -> str:
    """Return the name of the function from a place in shared memory to the like of another block."""
    name, lines = "in_block", scope.language.need(Clusters).place
    return scope.shared_helper(name, name, lambda: helper_text(scope, lines, name))


def _call(scope: Scope, name: str, lines: Sequence[str]) -> str:
    return f"{scope.shared_helper(name, name, lambda: helper_text(scope, lines, name))}();"
