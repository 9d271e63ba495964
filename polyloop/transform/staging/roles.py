"""``assign_roles``: threads that start copies, and threads that compute (warp specialization)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final

from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, unknown_name
from polyloop.frozen import replace
from polyloop.kernel.instruction import CopyStep
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tags import Role
from polyloop.proof.obligation import findings, share_proofs
from polyloop.sync.roles import role_obligations
from polyloop.transform.base import Transform
from polyloop.transform.declare import Keyed, Names, Takes
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.parameters import Pairs, names_of, pairs

__all__ = ["AssignRoles"]

_REST: Final = "*"


@dataclass(frozen=True)
class AssignRoles(Transform):
    """Let some threads of a block start its copies, and the others compute (warp specialization).

    ::

        for k:  if thread 0: start copy k + 2;   wait for copy k;   barrier of the block;   use(k)
        ->      ({"load": "t", "compute": "*"})
        threads of "load":     for k:  wait until the slot of k + 2 is free;   start copy k + 2
        threads of "compute":  for k:  free the slot of k + 2;   wait for copy k;   use(k)

    Threads of different roles meet at no barrier: each slot of a tile has a pair of barriers in shared memory
    (mbarriers), of which one counts the bytes that have arrived, and the other the warps that do not use the slot any
    more.  Both are derived from the pipeline, as barriers are.  Then warps that compute need not meet each other
    either, unless they hand on values: one may be an iteration ahead of another.

    >>> knl = pl.make_kernel("{[k, i]: 0 <= k < 8 and 0 <= i < 64}", "b[k, i] = a[k, i]*a[k, 63 - i]",
    ...                      [pl.GlobalArg("a, b", np.float32, shape="8, 64")], target=pl.CudaTarget("sm_90"))
    >>> knl = pl.tag_inames(knl, "i:l.0").add_prefetch("a", "i", temporary_name="t").pipeline("k", 3, via="tma")
    >>> knl = pl.assign_roles(knl, {"load": "t", "compute": "*"})
    >>> text = body(knl, "cuda")
    >>> print(text[text.index("if (threadIdx.x"):])
    if (threadIdx.x >= 64) {
        if (threadIdx.x == 64) {
            // load
            unsigned int t_free_phases = 0;
            ring_wait(&t_free[0], (-2 + 2) % 3, &t_free_phases);
            ring_expect(&t_ring[0], 256);
            box_2d(&t[0][0], &a_map, &t_ring[0], 0, 0);
            ring_wait(&t_free[0], (-1 + 2) % 3, &t_free_phases);
            ring_expect(&t_ring[1], 256);
            box_2d(&t[1][0], &a_map, &t_ring[1], 0, 1);
            for (int k = 0; k < 6; ++k) {
                ring_wait(&t_free[0], (k + 2) % 3, &t_free_phases);
                ring_expect(&t_ring[(k + 2) % 3], 256);
                box_2d(&t[(k + 2) % 3][0], &a_map, &t_ring[(k + 2) % 3], 0, k + 2);
            }
        }
    } else {
        // compute
        ring_free(&t_free[0]);
        ring_free(&t_free[1]);
        ring_free(&t_free[2]);
        unsigned int t_phases = 0;
        for (int k = 0; k < 8; ++k) {
            ring_wait(&t_ring[0], k % 3, &t_phases);
            b[k * 64 + tx] = t[k % 3][tx] * t[k % 3][63 - tx];
            if (k < 5)
                ring_free(&t_free[(k + 3) % 3]);
        }
    }

    Parameters
    ----------
    roles
        For each role the tiles whose copies it starts: temporaries that :func:`pipeline` fills with ``via="tma"``, or
        ids of the instructions that fill them.  One role, of everything else, has ``"*"``.  A role that copies has a
        warp of its own, in addition to the threads of the block, and one thread of it starts the copies.
    registers
        For each role the registers of a thread, multiples of 8 from 24 to 256; by default as many as the compiler gives
        to all.  The warps that copy are then filled up to groups of four, which give registers to the others
        (``setmaxnreg``).

    Raises
    ------
    TransformError
        ``bad-roles``, ``unknown-producer``; ``role-instruction`` for a tile that no copy engine fills; ``role-circle``
        where a copy needs data that the other role computes, but for scalars of arguments, which each role computes by
        itself; ``role-dependence``, with two instances, where a tile is used without a wait for its copy;
        ``role-threads``; ``role-registers`` for a budget that does not fit.  When code is generated, ``role-meeting``
        for a sum over all threads of the block, or of blocks in a cluster.

    Notes
    -----
    Call it after :func:`pipeline`.  Blocks have more threads: 32 for each role that copies, or a multiple of 128.
    Source: Bauer, Cook and Khailany, "CudaDMA: optimizing GPU memory bandwidth via warp specialization", SC 2011,
    https://doi.org/10.1145/2063384.2063400.
    """

    roles: Annotated[Pairs, Takes(Mapping[str, str], pairs), Names.NOTHING, Keyed()]
    _: KW_ONLY
    registers: Annotated[
        tuple[tuple[str, int], ...], Takes(Mapping[str, int] | None, pairs), Names.NOTHING, Keyed()
    ] = ()

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        names = [name for name, _ in self.roles]
        rest = [name for name, text in self.roles if text.strip() == _REST]
        hint = 'pl.assign_roles(knl, {"load": "a_tile, b_tile", "compute": "*"})'
        if len(rest) != 1 or len(names) < 2 or len({*names}) < len(names):
            message = f"{len(rest)} of {len(names)} roles have '*', the instructions of no other role"
            yield Diagnostic("bad-roles", message, ("one role has, and one at least starts copies",), (hint,))
            return
        budgets = [name for name, _ in self.registers]
        if budgets and {*budgets} != {*names}:
            odd = next(name for name in (*names, *budgets) if name not in names or name not in budgets)
            yield Diagnostic("bad-roles", f"registers are not given for each role: '{odd}'", hints=(hint,))
            return
        known, seen = _tiles(kernel), dict[str, str]()
        for role, text in self.roles:
            for name in () if text.strip() == _REST else names_of(text):
                tile = known.get(name)
                if tile is None:
                    found = unknown_name("producer", name, known)
                    yield replace(found, notes=("a role starts the copies of tiles that pl.pipeline fills",))
                    return
                if tile in seen:
                    notes = (f"'{seen[tile]}' and '{role}'",)
                    yield Diagnostic("bad-roles", f"two roles are to copy '{tile}'", notes, (hint,))
                    return
                seen[tile] = role

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        known, registers = _tiles(kernel), dict(self.registers)
        chosen = {role: () if text.strip() == _REST else tuple(dict.fromkeys(known[x] for x in names_of(text)))
                  for role, text in self.roles}  # fmt: skip
        roles = sorted((Role(name, tiles, registers.get(name, 0)) for name, tiles in chosen.items()),
                       key=lambda role: not role.copies)  # fmt: skip
        result = replace(kernel, roles=tuple(roles))
        share_proofs(kernel, result)
        return result

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        return findings(after, role_obligations(place(assign_auto(after))))


def _tiles(kernel: LoopKernel) -> dict[str, str]:
    """Return the temporaries that copies fill, by their names and by the ids of instructions that fill them."""
    found = dict(zip(kernel.evaluations, kernel.evaluations, strict=True))
    for instruction in kernel.instructions:
        if instruction.step is CopyStep.START or instruction.id in kernel.evaluations.values():
            found.update(dict.fromkeys([instruction.id], *instruction.writes))
    return found
