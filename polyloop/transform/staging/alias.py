"""``alias_temporaries``: shared storage for temporaries with disjoint live ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.names import check_identifier
from polyloop.kernel.arrays import AddressSpace, TemporaryVariable
from polyloop.kernel.kernel import LoopKernel
from polyloop.proof.obligation import findings
from polyloop.sync.storage_aliasing import pool_obligations
from polyloop.transform.base import Transform
from polyloop.transform.parameters import NewName, TemporaryNames

__all__ = ["AliasTemporaries"]


@dataclass(frozen=True)
class AliasTemporaries(Transform):
    """Let temporaries in shared memory that do not hold values at the same time begin at one address.

    >>> knl = pl.make_kernel(
    ...     "{[i]: 0 <= i < 64}",
    ...     ["<> s[i] = a[i]", "b[i] = s[63 - i]", "<> t[i] = 2*b[i]", "c[i] = t[63 - i]"],
    ... ).tag_inames("i:l.0")
    >>> print(body(knl.alias_temporaries("s, t"), "cuda"))
    const int tx = threadIdx.x;
    __shared__ union {
        float s[64];
        float t[64];
    } s_storage;
    s_storage.s[tx] = a[tx];
    __syncthreads();  // s: reads follow writes; s_storage: others used the storage before
    b[tx] = s_storage.s[63 - tx];
    __syncthreads();  // s_storage: others used the storage before
    s_storage.t[tx] = 2.0f * b[tx];
    __syncthreads();  // t: reads follow writes
    c[tx] = s_storage.t[63 - tx];

    Parameters
    ----------
    names
        The temporaries; they may differ in type and shape.
    base_name_prefix
        Name of the storage; by default the first temporary's with ``_storage``.
    synchronize_for_exclusive_use
        There for Loopy's sake and always true: barriers are placed wherever threads need them.

    Raises
    ------
    TransformError
        ``unknown-temporary``, ``bad-storage``; ``storage-in-use``, with two instances, where one temporary would be
        written while another still holds a value that is read later.

    Notes
    -----
    Source: Loopy's transform of the same name.
    """

    names: TemporaryNames
    base_name_prefix: NewName | None = None
    synchronize_for_exclusive_use: bool = True

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        for name in self.names:
            if name not in kernel.temporaries:
                yield unknown_name("temporary", name, kernel.temporaries)
                return
        if len(set(self.names)) < 2:
            yield Diagnostic("bad-storage", "one temporary has nothing to share", hints=("name at least two",))
        if self.base_name_prefix is not None:
            problem = check_identifier(self.base_name_prefix)
            if problem is not None:
                yield problem
        if not self.synchronize_for_exclusive_use:
            yield Diagnostic(
                "bad-storage",
                "threads have to wait before storage gets its next use",
                hints=("leave synchronize_for_exclusive_use as it is: barriers are placed only where they are needed",),
            )
        for name in self.names:
            yield from _not_shareable(kernel.temporaries[name])

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        taken = [t.base_storage for t in kernel.temporaries.values() if t.base_storage is not None]
        pool = kernel.fresh(self.base_name_prefix or f"{self.names[0]}_storage", taken)
        temporaries = {
            name: replace(t, base_storage=pool) if name in self.names else t for name, t in kernel.temporaries.items()
        }
        return replace(kernel, temporaries=temporaries)

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return findings(after, pool_obligations(place(after)))


def _not_shareable(temporary: TemporaryVariable) -> Iterator[Diagnostic]:
    """Yield ``bad-storage`` if a temporary cannot share storage."""
    name = temporary.name
    if temporary.base_storage is not None:
        yield Diagnostic(
            "bad-storage",
            f"'{name}' shares the storage '{temporary.base_storage}' already",
            hints=("name all that share a storage in one call",),
        )
    elif temporary.initializer is not None:
        message = f"'{name}' has an initializer and cannot share storage"
        yield Diagnostic("bad-storage", message, hints=(f"leave '{name}' out",))
    elif temporary.address_space not in (AddressSpace.LOCAL, AddressSpace.AUTO):
        yield Diagnostic(
            "bad-storage",
            f"'{name}' is {temporary.address_space}; only shared memory is shared",
            ("private values share registers without being told",),
            (f"leave '{name}' out",),
        )
