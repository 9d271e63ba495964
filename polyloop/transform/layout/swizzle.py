"""``swizzle``: an XOR permutation of each row of a shared array, so that columns are spread over the banks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from polyloop.cost.bank_conflicts import WIDEST, BankConflicts, bank_conflicts, shared_accesses
from polyloop.dataflow.address_spaces import place
from polyloop.errors import Diagnostic, VerificationError, unknown_name
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.kernel.swizzle import Swizzle as Layout
from polyloop.kernel.swizzle import swizzle_problem
from polyloop.kernel.trace import Trace
from polyloop.program.expand_lanes import with_lanes
from polyloop.proof.postponed import in_chain, waits
from polyloop.transform.base import Transform
from polyloop.transform.loops.auto_local import assign_auto
from polyloop.transform.parameters import TemporaryName

__all__ = ["Swizzle", "get_bank_conflicts"]

_FASTEST_BYTES = 128
"""A row of all banks [bytes]."""


def get_bank_conflicts(kernel: LoopKernel, array: str | None = None) -> tuple[BankConflicts, ...]:
    """Return the cost of each access of shared arrays, exactly: the wavefronts of a warp.

    Parameters
    ----------
    array
        A shared array; by default all are looked at.

    Raises
    ------
    VerificationError
        Where the kernel's threads cannot be told, as when its schedule is made.

    Notes
    -----
    Threads are counted one by one, in full tiles.  An access of which data decides about a subscript says so in
    ``unknown``.
    """
    return _conflicts(kernel, array)


@memoised
def _conflicts(kernel: LoopKernel, array: str | None) -> tuple[BankConflicts, ...]:
    return bank_conflicts(with_lanes(assign_auto(kernel)), array)


@dataclass(frozen=True)
class Swizzle(Transform):
    """Permute the elements within each row of a shared array (XOR swizzle), to avoid bank conflicts of columns.

    >>> knl = pl.make_kernel("{[x, y]: 0 <= x, y < 32}", ["<> t[x, y] = a[x, y]", "b[x, y] = t[y, x]"])
    >>> knl = knl.add_dtypes({"a": np.float32}).tag_inames("x:l.1, y:l.0").set_temporary_address_space("t", "local")
    >>> print(body(knl.swizzle("t"), "cuda"))
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float t[32][32];
    t[ty][tx ^ ty] = a[ty * 32 + tx];
    __syncthreads();  // t: reads follow writes
    b[ty * 32 + tx] = t[tx][ty ^ tx];

    Parameters
    ----------
    ary_name
        A temporary in shared memory, of which the rows (the axis that is stored contiguously) have ``2**k`` elements.
    bits, base, shift
        Bits ``base + shift`` and up of an element's number, ``bits`` of them, are XORed into bits ``base`` and up. By
        default ``base`` keeps the elements of the widest access together, ``shift`` selects the lowest bits of the row
        number, and ``bits`` suffices to distribute a column over all banks.

    Raises
    ------
    TransformError
        ``unknown-temporary``, ``bad-swizzle``: rows that are no power of two, padded or with strides; an array that is
        not shared; vectors that would be torn apart.

    Notes
    -----
    A layout of the array: the program and its analysis keep the subscripts.  The line in the trace counts the turns
    that shared memory takes for the accesses of a warp before and after (:func:`get_bank_conflicts`).  Source: the
    parameters are those of CUTLASS's ``Swizzle<B, M, S>``.
    """

    ary_name: TemporaryName
    bits: int | None = None
    base: int | None = None
    shift: int | None = None

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        if self.ary_name not in kernel.temporaries:
            yield unknown_name("temporary", self.ary_name, kernel.temporaries)
            return
        temporary = kernel.temporaries[self.ary_name]
        for name, value in (("bits", self.bits), ("base", self.base), ("shift", self.shift)):
            least = 0 if name == "base" else 1
            if value is not None and (type(value) is not int or not least <= value <= _MOST):
                yield _bad(f"{name} cannot be {value!r}", hint=f"give a number from {least} to {_MOST}")
                return
        if not in_chain() and (found := tuple(_apart(kernel, [self.ary_name]))):
            yield from found
            return
        nesting = temporary.nesting()
        row = temporary.row()
        if self.bits is None and isinstance(row, int) and row & (row - 1):
            yield _bad(f"'{self.ary_name}' cannot be swizzled", _not_a_power(row), hint=_PAD)
            return
        if problem := swizzle_problem(self.layout(kernel), row, nesting):
            hint = _FIT if isinstance(row, int) and not row & (row - 1) else _PAD
            yield _bad(f"'{self.ary_name}' cannot be swizzled", problem, hint=hint)

    def layout(self, kernel: LoopKernel) -> Layout:
        """Return the swizzle, with defaults in place of parameters that were not given."""
        temporary = kernel.temporaries[self.ary_name]
        row = temporary.row()
        length = row.bit_length() - 1 if isinstance(row, int) else 0
        size = 4 if temporary.dtype is None else temporary.dtype.itemsize
        base = self.base
        if base is None:
            widest = max((entry.nbytes for entry in self._accesses(kernel)), default=size)
            base = max(0, (widest // size).bit_length() - 1)
        bits = self.bits
        if bits is None:
            bits = max(1, min(length, (_FASTEST_BYTES // size).bit_length() - 1) - base)
        return Layout(bits, base, length - base if self.shift is None else self.shift)

    def _accesses(self, kernel: LoopKernel) -> tuple[BankConflicts, ...]:
        return shared_accesses(with_lanes(assign_auto(kernel)), self.ary_name)

    def _counted(self, kernel: LoopKernel) -> tuple[BankConflicts, ...]:
        return get_bank_conflicts(kernel, self.ary_name)

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        new = replace(kernel.temporaries[self.ary_name], swizzle=self.layout(kernel))
        return replace(kernel, temporaries={**kernel.temporaries, self.ary_name: new})

    def consequences(self, before: LoopKernel, after: LoopKernel) -> Iterable[Diagnostic]:
        waits(_swizzled_apart)
        swizzle, dtype = after.temporaries[self.ary_name].swizzle, after.temporaries[self.ary_name].dtype
        if swizzle is not None and dtype is not None and swizzle.keeps(max(1, WIDEST // dtype.itemsize)):
            return
        old = {_key(entry): entry for entry in self._accesses(before)}
        for entry in self._accesses(after):
            known = old.get(_key(entry))
            if known is not None and entry.nbytes < known.nbytes:
                temporary = after.temporaries[self.ary_name]
                size = 4 if temporary.dtype is None else temporary.dtype.itemsize
                keeps = 1 if temporary.swizzle is None else 2**temporary.swizzle.base
                yield Diagnostic(
                    "bad-swizzle",
                    f"the swizzle would tear apart the vectors of {known.nbytes} bytes in '{entry.access}'",
                    (f"{temporary.swizzle} keeps groups of {keeps} together",),
                    (f"give base={(known.nbytes // size).bit_length() - 1} or more",),
                    sites=(after.instruction(entry.instruction).site(),),
                )
                return

    def note(self, before: LoopKernel, after: LoopKernel) -> Callable[[], str]:
        # without their traces: the kernel of this step would hold itself, and facts about both of them
        bare = [replace(kernel, trace=Trace()) for kernel in (before, after)]
        return partial(self._turns, *bare)

    def _turns(self, before: LoopKernel, after: LoopKernel) -> str:
        parts = [str(after.temporaries[self.ary_name].swizzle)]
        try:
            old = {_key(entry): entry for entry in self._counted(before)}
            new = self._counted(after)
        except VerificationError:  # out of time
            return parts[0]
        for entry in new:
            was = old.get(_key(entry))
            if was is not None and not (was.unknown or entry.unknown) and (was.conflicts or entry.conflicts):
                verb = "writes" if entry.is_write else "reads"
                parts.append(
                    f"{entry.instruction} {verb} {entry.access} in {was.turns:.3g} times the turns it needs before, "
                    f"{entry.turns:.3g} after"
                )
        return "; ".join(parts)


_MOST = 16


def _swizzled_apart(kernel: LoopKernel) -> Iterable[Diagnostic]:
    return _apart(kernel, [name for name, temporary in kernel.temporaries.items() if temporary.swizzle is not None])


def _apart(kernel: LoopKernel, names: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield ``bad-swizzle`` for each of the temporaries *names* that threads do not share."""
    spaces = place(assign_auto(kernel)).spaces
    for name in names:
        if spaces[name] is not AddressSpace.LOCAL:
            yield _bad(
                f"'{name}' is {spaces[name]}: only shared memory has banks",
                hint="swizzle an array that threads of a block share",
            )


def _key(entry: BankConflicts) -> tuple[str, str, bool]:
    return entry.instruction, entry.access, entry.is_write


def _not_a_power(row: int) -> str:
    return f"its rows have {row} elements, which is no power of two"


_FIT = "of rows of 2**k elements, base + bits can be at most k, and base + shift must be at least k"
_PAD = "pad the rows instead (pl.add_padding), or choose tiles whose rows have 2**k elements"


def _bad(message: str, *notes: str, hint: str) -> Diagnostic:
    return Diagnostic("bad-swizzle", message, notes, (hint,))
