"""Matrix instructions as data: operation, shape, types, and the map of operand elements to lanes and registers.

A layout is a map from elements to lanes and registers.  Each bit of an element's subscripts is a bit of the lane or
of the number of the register, which is what a layout is reduced to (:func:`parts_of`): so loops can be split into
lanes and registers, and addresses be written as sums of digits of the lane.  The highest digit of a subscript may have
any extent.  An operand without a layout is read from shared memory, where it lies as a tile of rows of 128 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Final

import islpy as isl
import numpy as np

from polyloop.display import Shown, brief
from polyloop.errors import Diagnostic, KernelError
from polyloop.expr.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, DType, is_integer
from polyloop.expr.names import check_identifier
from polyloop.kernel.devices import WARP_SIZES

__all__ = ["BUILT_IN", "INTRINSICS", "Matrix", "MatrixIntrinsic", "Part", "declare_intrinsic", "parts_of"]

_WARPGROUP: Final = 128
"""Threads of the four warps that carry out ``wgmma`` together."""


@dataclass(frozen=True)
class Part:
    """``subscript / stride % extent``: a part of subscript ``axis`` that is a digit of the lane, or of the register.

    ``place`` is the stride of the digit there.
    """

    axis: str
    stride: int
    extent: int
    in_lane: bool
    place: int

    __repr__ = brief


@dataclass(frozen=True)
class MatrixIntrinsic(Shown):
    """An instruction by which a warp, or a group of four warps, adds a product of two small matrices to a third one.

    ::

        d[i, j] = d[i, j] + sum(k, a[i, k]*b[k, j])      for i < m, j < n, k < p of ``shape``

    Attributes
    ----------
    name
        Name for :func:`polyloop.tensorize`, and of the generated function around the instruction.
    shape
        Extents ``(m, n, p)``, powers of two; n may be any multiple of 8 if operands are in shared memory.
    a, b, d
        Layouts: ``"{ [i, k] -> [lane, register] : .. }"``, of the elements in the order of the registers; two elements
        of 16 bits, or four of 8, share a register.  An empty one of ``a`` and ``b``: both are in shared memory
        (``wgmma``).  Those of AMD may have fewer lanes in ``a`` and ``b`` than in ``d``: the lanes beyond hold the same
        elements again.
    operands
        Type of the elements of ``a`` and ``b``: float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, int8
        or uint8.  Those of ``d`` are float64 for float64, int32 for integers, and float32 otherwise.
    instruction
        The PTX instruction.  Its operands are the registers of d, a, b and d, of which those of a and b have 32 bits,
        or 64 for float64.
    conversion
        PTX instruction that converts an element from float to the operand type; empty for none.
    newer
        A compute capability, and the conversion that devices have from it on; empty for none.
    capability
        The least compute capability, 80 for sm_80; or the architectures of AMD that have it, such as ``("gfx90a",)``,
        for which ``instruction`` is the machine instruction.
    """

    name: str
    shape: tuple[int, int, int]
    a: str
    b: str
    d: str
    operands: DType
    instruction: str
    conversion: str = ""
    capability: int | tuple[str, ...] = 80
    newer: tuple[int, str] | tuple[()] = ()

    __repr__ = brief

    def meaning(self) -> str:
        """Return the domain and the instruction of the kernel that the instruction is."""
        m, n, p = self.shape
        domain = f"{{[i, j, k]: 0 <= i < {m} and 0 <= j < {n} and 0 <= k < {p}}}"
        factor = "cast(int32, a[i, k])" if is_integer(self.operands) else "a[i, k]"
        return f"{domain}\nd[i, j] = d[i, j] + sum(k, {factor}*b[k, j])"

    @property
    def devices(self) -> tuple[str, ...]:
        """Architectures of AMD that have the instruction; empty for one of CUDA devices."""
        return () if isinstance(self.capability, int) else self.capability

    @property
    def extents(self) -> Mapping[str, int]:
        """Extents of the subscripts i, j and k."""
        return dict(zip("ijk", self.shape, strict=True))

    @property
    def per_register(self) -> int:
        """Elements of ``a`` and ``b`` in a register."""
        return max(1, 4 // self.operands.itemsize)

    @property
    def results(self) -> DType:
        """Type of the elements of ``d``."""
        if is_integer(self.operands):
            return np.dtype(np.int32)
        return np.dtype(np.float64 if self.is_double else np.float32)

    @property
    def result_words(self) -> str:
        """The number of results of a lane, and their type if it is no floating-point one, in names of functions."""
        count = prod(self.shape[:2]) // _WARPGROUP if self.is_shared else self.registers("d")  # without its layout
        return f"{count}{'_s32' if is_integer(self.results) else ''}"

    @property
    def is_double(self) -> bool:
        """True if all matrices are of float64."""
        return self.operands.name == "float64"

    def layout(self, operand: str) -> tuple[Part, ...]:
        """Return the layout of ``"a"``, ``"b"`` or ``"d"``, by subscripts and from their low to their high parts."""
        axes = {"a": "ik", "b": "kj", "d": "ij"}[operand]
        if not getattr(self, operand):
            return ()
        return parts_of(getattr(self, operand), tuple((axis, self.extents[axis]) for axis in axes))

    def in_registers(self) -> tuple[Part, ...]:
        """Return the layout of ``a`` where it is in registers; none if the instruction takes it from memory alone.

        PTX ISA, "Register Fragments for wgmma.mma_async".
        """
        if not self.is_shared:
            return self.layout("a") if self.lanes_of("a") == self.lanes else ()
        if self.operands.itemsize != 2:
            return ()
        return parts_of(_A_64X16, (("i", 64), ("k", 16)))

    @property
    def is_shared(self) -> bool:
        """True if the instruction reads its operands from shared memory."""
        return not self.a

    @property
    def cuts(self) -> bool:
        """True if the instruction leaves out bits of its operands: it takes 11 bits of float32, toward zero."""
        return self.is_shared and self.operands.name == "float32"

    @property
    def lanes(self) -> int:
        """Threads that carry it out together: those of a warp, or of a group of four warps."""
        return self.lanes_of("d")

    def lanes_of(self, operand: str) -> int:
        """Return the number of lanes that have different elements of an operand."""
        return prod(part.extent for part in self.layout(operand) if part.in_lane)

    def registers(self, operand: str) -> int:
        """Return the elements of an operand that each lane has."""
        return prod(part.extent for part in self.layout(operand) if not part.in_lane)


@dataclass(frozen=True)
class Matrix:
    """Assignment of a reduction to a matrix intrinsic.

    ``inames`` has, for each subscript i, j and k, pairs of an iname and its coefficient: the subscript is their sum.
    """

    intrinsic: MatrixIntrinsic
    inames: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    ahead: bool = False
    """True if operands are loaded while the products of the step before are added up."""
    lag: int = 0
    """Iterations of the loop around that products run on before they are waited for."""
    from_registers: bool = False
    """True if each lane has its elements of ``a`` in registers, where it has computed them."""

    __repr__ = brief

    def of(self, axis: str) -> tuple[tuple[str, int], ...]:
        """Return the inames of a subscript, with their coefficients."""
        return dict(self.inames)[axis]

    def renamed(self, names: Mapping[str, str]) -> Matrix:
        """Return the same with inames renamed."""
        new = tuple((axis, tuple((names.get(x, x), c) for x, c in pairs)) for axis, pairs in self.inames)
        return replace(self, inames=new)

    def __str__(self) -> str:
        shown = "; ".join(f"{axis} = {' + '.join(x if c == 1 else f'{c}*{x}' for x, c in pairs)}"
                          for axis, pairs in self.inames)  # fmt: skip
        return f"{self.intrinsic.name}({shown})" + (", loaded ahead" if self.ahead else "") + (
            f", waited for {self.lag} later" if self.lag else ""
        ) + (", a from registers" if self.from_registers else "")


@cache
def parts_of(layout: str, extents: tuple[tuple[str, int], ...]) -> tuple[Part, ...]:
    """Return a layout as digits of the lane and of the register.

    Raises
    ------
    KernelError
        ``bad-intrinsic``, if a bit of a subscript is no bit of the lane or of the register, or two are the same.
    """
    try:
        given = isl.Map(layout)
    except isl.Error as error:
        raise _bad(f"'{layout}' is no layout", f"{error}".strip().splitlines()[-1]) from None
    if given.dim(isl.dim_type.in_) != 2 or given.dim(isl.dim_type.out) != 2:
        raise _bad(f"'{layout}' is no layout", "it has to map two subscripts to a lane and a register")
    parts: list[Part] = []
    for position, (axis, extent) in enumerate(extents):
        bit = 1
        while bit < extent:
            place = _image(given, position, bit)
            if place is None:
                raise _bad(f"the layout '{layout}' is no permutation of bits", f"{axis} = {bit} is at no power of two")
            left = extent // bit
            parts.append(Part(axis, bit, left if left % 2 else 2, *place))
            bit *= parts[-1].extent
    found = _merged(parts)
    if not given.is_equal(_map_of(found, extents)):
        raise _bad(f"the layout '{layout}' is no permutation of bits", "its elements are not sums of those of the bits")
    return found


def _image(given: isl.Map, position: int, value: int) -> tuple[bool, int] | None:
    """Return ``(is_lane, bit)`` of the element with one subscript of *value*, the other 0; None if it is no bit."""
    values = [value if k == position else 0 for k in range(2)]
    image = given
    for k, number in enumerate(values):
        image = image.fix_val(isl.dim_type.in_, k, number)
    if image.is_empty() or not image.is_single_valued():
        return None
    point = image.range().sample_point()
    lane, register = (point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(2))
    at = lane or register
    return None if (lane and register) or at <= 0 or at & (at - 1) else (lane > 0, at)


def _merged(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return *parts* with neighbouring bits that stay neighbours as one."""
    out: list[Part] = []
    for part in parts:
        last = out[-1] if out else None
        if (
            last is not None
            and (last.axis, last.in_lane) == (part.axis, part.in_lane)
            and part.stride == last.stride * last.extent
            and part.place == last.place * last.extent
        ):
            out[-1] = Part(last.axis, last.stride, last.extent * part.extent, last.in_lane, last.place)
        else:
            out.append(part)
    return tuple(out)


def _map_of(parts: Iterable[Part], extents: Iterable[tuple[str, int]]) -> isl.Map:
    """Return the layout that *parts* are."""
    sums: dict[bool, list[str]] = {True: [], False: []}
    for part in parts:
        sums[part.in_lane].append(f"{part.place}*(floor({part.axis}/{part.stride}) mod {part.extent})")
    lane, register = (" + ".join(sums[where]) or "0" for where in (True, False))
    axes = ", ".join(axis for axis, _ in extents)
    box = " and ".join(f"0 <= {axis} < {extent}" for axis, extent in extents)
    return isl.Map(f"{{ [{axes}] -> [{lane}, {register}] : {box} }}")


def _bad(message: str, *notes: str) -> KernelError:
    hint = "write it as the manual of the instruction has it: { [i, k] -> [lane, register] : .. }"
    return KernelError("declare_intrinsic", None, [Diagnostic("bad-intrinsic", message, notes, (hint,))])


_OPERANDS: Final = (
    FLOAT8_E4M3FN, FLOAT8_E5M2, np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64),
    np.dtype(np.int8), np.dtype(np.uint8),
)  # fmt: skip


def declare_intrinsic(intrinsic: MatrixIntrinsic) -> None:
    """Put a matrix instruction into the table that :func:`polyloop.tensorize` looks names up in.

    Raises
    ------
    KernelError
        ``bad-intrinsic``: a name that is taken by another one, a shape of other numbers than powers of two, types that
        no register holds, or a layout in which a bit of a subscript is no bit of the lane or of the register.
    """
    problem = check_identifier(intrinsic.name)
    if problem is not None:
        raise KernelError("declare_intrinsic", None, [problem])
    if INTRINSICS.get(intrinsic.name, intrinsic) != intrinsic:
        raise _bad(f"there is another intrinsic '{intrinsic.name}'", "names are for good: traces hold them")
    if not (intrinsic.a and intrinsic.b):
        if intrinsic.name in INTRINSICS:
            return
        raise _bad(f"'{intrinsic.name}' has operands without a layout",
                   "those that are read from shared memory are in the table already")  # fmt: skip
    if any(n < 1 or n & (n - 1) for n in intrinsic.shape):
        raise _bad(f"the shape {intrinsic.shape} of '{intrinsic.name}' is not three powers of two")
    if intrinsic.operands not in _OPERANDS:
        known = ", ".join(dtype.name for dtype in _OPERANDS)
        raise _bad(f"'{intrinsic.name}' has operands of type {intrinsic.operands}",
                   f"registers hold elements of 8, 16, 32 or 64 bits: {known}")  # fmt: skip
    for operand in "abd":
        lanes = intrinsic.lanes_of(operand)
        places = {(part.in_lane, part.place * 2**n) for part in intrinsic.layout(operand)
                  for n in range(part.extent.bit_length() - 1)}  # fmt: skip
        bits = sum(part.extent.bit_length() - 1 for part in intrinsic.layout(operand))
        is_shared = bool(intrinsic.devices) and operand != "d" and intrinsic.lanes % lanes == 0
        if intrinsic.lanes not in WARP_SIZES or (lanes != intrinsic.lanes and not is_shared) or len(places) != bits:
            raise _bad(f"in the layout of '{operand}' of '{intrinsic.name}' lanes or registers have no element of "
                       "their own", "each lane has the same number of elements, and no two share a place")  # fmt: skip
        if intrinsic.registers(operand) % (1 if operand == "d" else intrinsic.per_register):
            raise _bad(f"the elements of '{operand}' of '{intrinsic.name}' do not fill registers")
    INTRINSICS[intrinsic.name] = intrinsic


_A_64X16: Final = (
    "{ [i, k] -> [32*floor(i/16) + 4*(i mod 8) + floor((k mod 8)/2), "
    "4*floor(k/8) + 2*(floor(i/8) mod 2) + k mod 2] : 0 <= i < 64 and 0 <= k < 16 }"
)
_D_16X8: Final = "{ [i, j] -> [4*(i mod 8) + floor(j/2), 2*floor(i/8) + j mod 2] : 0 <= i < 16 and 0 <= j < 8 }"
_A_16X16: Final = (
    "{ [i, k] -> [4*(i mod 8) + floor((k mod 8)/2), 4*floor(k/8) + 2*floor(i/8) + k mod 2] "
    ": 0 <= i < 16 and 0 <= k < 16 }"
)
_B_16X8: Final = "{ [k, j] -> [4*j + floor((k mod 8)/2), 2*floor(k/8) + k mod 2] : 0 <= k < 16 and 0 <= j < 8 }"
_A_16X8: Final = "{ [i, k] -> [4*(i mod 8) + k mod 4, 2*floor(k/4) + floor(i/8)] : 0 <= i < 16 and 0 <= k < 8 }"
_A_16X8_PAIRS: Final = "{ [i, k] -> [4*floor(i/2) + k mod 4, 2*floor(k/4) + i mod 2] : 0 <= i < 16 and 0 <= k < 8 }"
_D_16X8_PAIRS: Final = "{ [i, j] -> [4*floor(i/2) + floor(j/2), 2*(i mod 2) + j mod 2] : 0 <= i < 16 and 0 <= j < 8 }"
"""Rows are numbered so that neighbours are in one lane: any order does, if it is that of the results too."""
_B_8X8: Final = "{ [k, j] -> [4*j + k mod 4, floor(k/4)] : 0 <= k < 8 and 0 <= j < 8 }"


_A_16X32: Final = (
    "{ [i, k] -> [4*(i mod 8) + floor((k mod 16)/4), 8*floor(k/16) + 4*floor(i/8) + k mod 4] "
    ": 0 <= i < 16 and 0 <= k < 32 }"
)
_B_32X8: Final = "{ [k, j] -> [4*j + floor((k mod 16)/4), 4*floor(k/16) + k mod 4] : 0 <= k < 32 and 0 <= j < 8 }"
_BYTES: Final = (
    ("e4m3", FLOAT8_E4M3FN), ("e5m2", FLOAT8_E5M2), ("s8", np.dtype(np.int8)), ("u8", np.dtype(np.uint8)),
)  # fmt: skip


def _of_bytes() -> Iterator[MatrixIntrinsic]:
    """Yield the instructions of warps for elements of 8 bits: PTX ISA, "Matrix Fragments for mma.m16n8k32"."""
    for name, dtype in _BYTES:
        to, capability = ("s32", 80) if is_integer(dtype) else ("f32", 89)
        yield MatrixIntrinsic(
            f"mma_m16n8k32_{name}", (16, 8, 32), _A_16X32, _B_32X8, _D_16X8, dtype,
            f"mma.sync.aligned.m16n8k32.row.col.{to}.{name}.{name}.{to}", capability=capability,
        )  # fmt: skip


def _of_doubles(m: int, p: int, capability: int) -> MatrixIntrinsic:
    """Return the instruction for matrices of float64, of m by 8 results."""
    high = f" and 0 <= i < {m}"
    return MatrixIntrinsic(
        f"mma_m{m}n8k{p}_f64", (m, 8, p),
        f"{{ [i, k] -> [4*(i mod 8) + k mod 4, {m // 8}*floor(k/4) + floor(i/8)] : 0 <= k < {p}{high} }}",
        f"{{ [k, j] -> [4*j + k mod 4, floor(k/4)] : 0 <= k < {p} and 0 <= j < 8 }}",
        f"{{ [i, j] -> [4*(i mod 8) + floor(j/2), 2*floor(i/8) + j mod 2] : 0 <= j < 8{high} }}",
        np.dtype(np.float64), f"mma.sync.aligned.m{m}n8k{p}.row.col.f64.f64.f64.f64", capability=capability,
    )  # fmt: skip


_LEAST_WIDE: Final = 24
"""Products of integers have 8, 24 or a multiple of 16 columns."""


def _of_warpgroups() -> Iterator[MatrixIntrinsic]:
    """Yield the instructions of groups of four warps, for 64 by n results: PTX ISA, "wgmma.mma_async"."""
    wide = (("f16", np.dtype(np.float16)), ("bf16", BFLOAT16), ("tf32", np.dtype(np.float32)))
    for name, dtype in (*wide, *_BYTES):
        depth, to = 32 // dtype.itemsize, "s32" if is_integer(dtype) else "f32"
        for n in range(8, 257, 8):
            if is_integer(dtype) and n % 16 and n > _LEAST_WIDE:
                continue
            layout = (
                "{ [i, j] -> [32*floor(i/16) + 4*(i mod 8) + floor((j mod 8)/2), "
                f"4*floor(j/8) + 2*(floor(i/8) mod 2) + j mod 2] : 0 <= i < 64 and 0 <= j < {n} }}"
            )
            yield MatrixIntrinsic(
                f"wgmma_m64n{n}k{depth}_{name}", (64, n, depth), "", "", layout, dtype,
                f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{to}.{name}.{name}", capability=90,
            )  # fmt: skip


_CDNA: Final = ("gfx90a", "gfx942")
_RDNA: Final = ("gfx1100",)


def _of_waves() -> Iterator[MatrixIntrinsic]:
    """Yield the instructions of AMD devices: waves of 64 lanes (``mfma``), and of 32 (``wmma``).

    AMD Instinct MI200 and MI300 Instruction Set Architecture, "Matrix fused-multiply-add"; RDNA3 Instruction Set
    Architecture, "Wave Matrix Multiply Accumulate".  In ``wmma`` both halves of a wave hold the same operands.
    """
    halves = (("f16", np.dtype(np.float16), "f16"), ("bf16", BFLOAT16, "bf16_1k"))
    single, double = np.dtype(np.float32), np.dtype(np.float64)

    def mfma(size: int, p: int, name: str, dtype: DType, suffix: str, each: int) -> MatrixIntrinsic:
        """Return the instruction for size x size results; a lane has *each* operands that are neighbours along k."""
        within, sums = f"0 <= k < {p}", f"0 <= i < {size} and 0 <= j < {size}"
        k = ("floor(k/4)", "k mod 4") if each > 1 else ("k", "0")
        rows = ("floor(i/4)", "i mod 4") if size == 16 else ("(floor(i/4) mod 2)", "4*floor(i/8) + i mod 4")
        rows = ("(i mod 4)", "floor(i/4)") if dtype == double else rows
        kind = "f64" if dtype == double else "f32"
        return MatrixIntrinsic(
            f"mfma_m{size}n{size}k{p}_{name}", (size, size, p),
            f"{{ [i, k] -> [{size}*{k[0]} + i, {k[1]}] : 0 <= i < {size} and {within} }}",
            f"{{ [k, j] -> [{size}*{k[0]} + j, {k[1]}] : {within} and 0 <= j < {size} }}",
            f"{{ [i, j] -> [{size}*{rows[0]} + j, {rows[1]}] : {sums} }}",
            dtype, f"v_mfma_{kind}_{size}x{size}x{p}{suffix}", capability=_CDNA,
        )  # fmt: skip

    for name, dtype, suffix in halves:
        yield mfma(16, 16, name, dtype, suffix, 4)
        yield mfma(32, 8, name, dtype, suffix, 4)
    yield mfma(16, 4, "f32", single, "f32", 1)
    yield mfma(32, 2, "f32", single, "f32", 1)
    yield mfma(16, 4, "f64", double, "f64", 1)
    box = "0 <= {0} < 16 and 0 <= {1} < 16"
    for name, dtype, _ in halves:
        yield MatrixIntrinsic(
            f"wmma_m16n16k16_{name}", (16, 16, 16),
            f"{{ [i, k] -> [i, k] : {box.format('i', 'k')} }}", f"{{ [k, j] -> [j, k] : {box.format('k', 'j')} }}",
            f"{{ [i, j] -> [16*(i mod 2) + j, floor(i/2)] : {box.format('i', 'j')} }}",
            dtype, f"v_wmma_f32_16x16x16_{name}", capability=_RDNA,
        )  # fmt: skip


INTRINSICS: Final[dict[str, MatrixIntrinsic]] = {
    entry.name: entry
    for entry in (
        MatrixIntrinsic(
            "mma_m16n8k16_f16", (16, 8, 16), _A_16X16, _B_16X8, _D_16X8, np.dtype(np.float16),
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        ),
        MatrixIntrinsic(
            "mma_m16n8k16_bf16", (16, 8, 16), _A_16X16, _B_16X8, _D_16X8, BFLOAT16,
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        ),
        MatrixIntrinsic(
            "mma_m16n8k8_tf32", (16, 8, 8), _A_16X8, _B_8X8, _D_16X8, np.dtype(np.float32),
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", conversion="cvt.rna.tf32.f32",
            newer=(90, "cvt.rn.tf32.f32"),
        ),
        MatrixIntrinsic(
            "mma_m16n8k8_tf32_pairs", (16, 8, 8), _A_16X8_PAIRS, _B_8X8, _D_16X8_PAIRS, np.dtype(np.float32),
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", conversion="cvt.rna.tf32.f32",
            newer=(90, "cvt.rn.tf32.f32"),
        ),
        *_of_bytes(), _of_doubles(8, 4, 80), _of_doubles(16, 4, 90), _of_doubles(16, 8, 90), _of_doubles(16, 16, 90),
        *_of_warpgroups(), *_of_waves(),
    )
}  # fmt: skip
"""By name; :func:`declare_intrinsic` adds to it.

PTX ISA, "Matrix Fragments for mma.m16n8k32", "mma.m16n8k16", "mma.m16n8k8", "mma.m16n8k4" and "mma.m8n8k4".
"""

BUILT_IN: Final = frozenset(INTRINSICS)
"""Names of those that are no user's."""
