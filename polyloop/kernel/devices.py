"""Published specifications of GPUs: peak rates, bandwidths, and the limits of a multiprocessor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from polyloop.display import Shown, brief
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.kernel.limits import WARP_SIZE

__all__ = [
    "DEVICES",
    "MULTIPROCESSORS",
    "WARP_SIZES",
    "Device",
    "Figure",
    "StreamingMultiprocessor",
    "find_device",
]


@dataclass(frozen=True)
class Figure:
    """A published figure of a device, with its source."""

    value: float
    source: str

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class StreamingMultiprocessor:
    """Limits of one multiprocessor, or of a compute unit; allocation happens in the granules given.

    Registers are those of single threads, so that a vector register of a wave of 64 lanes is 64 of them.
    """

    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    shared_reserved_per_block: int
    register_granule: int = 256
    shared_granule: int = 128
    warp_granule: int = 4
    warp_size: int = WARP_SIZE
    registers_per_thread: int = 255


_CDNA: Final = StreamingMultiprocessor(
    2048, 16, 4 * 512 * 64, 64 * 1024, 0, register_granule=8 * 64, shared_granule=512, warp_size=64,
    registers_per_thread=512,
)  # fmt: skip
"""A compute unit of four SIMD units, which hold 8 waves and 512 vector registers each, accumulators included."""

MULTIPROCESSORS: Final[Mapping[int | str, StreamingMultiprocessor]] = MappingProxyType(
    {
        70: StreamingMultiprocessor(2048, 32, 65536, 96 * 1024, 0, shared_granule=256),
        75: StreamingMultiprocessor(1024, 16, 65536, 64 * 1024, 0, shared_granule=256),
        80: StreamingMultiprocessor(2048, 32, 65536, 164 * 1024, 1024),
        86: StreamingMultiprocessor(1536, 16, 65536, 100 * 1024, 1024),
        89: StreamingMultiprocessor(1536, 24, 65536, 100 * 1024, 1024),
        90: StreamingMultiprocessor(2048, 32, 65536, 228 * 1024, 1024),
        100: StreamingMultiprocessor(2048, 32, 65536, 228 * 1024, 1024),
        "gfx90a": _CDNA,
        "gfx942": _CDNA,
        # A workgroup processor, which is two compute units: four SIMD units of 16 waves and 1536 vector registers.
        "gfx1100": StreamingMultiprocessor(
            2048, 32, 4 * 1536 * 32, 128 * 1024, 0, register_granule=24 * 32, shared_granule=1024,
            registers_per_thread=256,
        ),
    }
)  # fmt: skip
"""By compute capability, or by the architecture of an AMD GPU.

CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the granules are those of NVIDIA's
occupancy calculator (in Nsight Compute).  AMD Instinct MI200, MI300 and RDNA3 Instruction Set Architecture; waves,
work-groups and granules as LLVM has them (``AMDGPUBaseInfo.cpp``, ``getTotalNumVGPRs``, ``getVGPRAllocGranule``,
``getMaxWavesPerEU``, ``getMaxWorkGroupsPerCU``)."""

WARP_SIZES: Final = frozenset(multiprocessor.warp_size for multiprocessor in MULTIPROCESSORS.values())
"""Threads of a warp, of all devices."""


@dataclass(frozen=True)
class Device(Shown):
    """One model of GPU.

    Attributes
    ----------
    architecture
        Compute capability, such as 90, or the architecture of an AMD GPU, such as ``"gfx942"``.
    multiprocessors
        How many it has: compute units of AMD, or for ``"gfx1100"`` workgroup processors of two.
    clock
        The highest clock of the multiprocessors [Hz], at which the peak rates hold.
    dram
        Bandwidth of its memory [bytes/s].
    rates
        Operations per second by kind: NumPy names of types (a fused multiplication and addition is two), and
        ``"tensor tf32"``, ``"tensor float16"``, .. of the tensor cores, for dense operands.
    turns
        Turns of shared memory a clock, on each multiprocessor.
    """

    name: str
    architecture: int | str
    multiprocessors: int
    clock: Figure
    dram: Figure
    rates: Mapping[str, Figure]
    turns: int = 1

    __repr__ = brief

    @property
    def wavefronts(self) -> float:
        """Turns of shared memory and first-level cache, which are one [1/s]: one a clock on each multiprocessor.

        A turn moves 128 bytes at most: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory" of 8.x, 9.x).
        LDS of AMD has such banks too, of which half a wave of 64 lanes has a turn (AMD Instinct MI200 and MI300
        Instruction Set Architecture, "Local Data Share"), and a workgroup processor has two (RDNA3).
        """
        return self.turns * self.multiprocessors * self.clock.value

    @property
    def multiprocessor(self) -> StreamingMultiprocessor:
        """Limits of one multiprocessor."""
        return MULTIPROCESSORS[self.architecture]

    def rate(self, kind: str) -> Figure | None:
        """Return the operations per second in the type *kind*, None where no figure is published.

        ``"special functions"`` are exponentials, square roots and the like in single precision.
        """
        if kind == "special functions":
            source = _THROUGHPUT if isinstance(self.architecture, int) else _TRANSCENDENTALS
            return Figure(16 * self.wavefronts, source)
        return self.rates.get(kind)


_THROUGHPUT: Final = (
    'CUDA C++ Programming Guide, "Arithmetic Instructions": 16 results per clock and multiprocessor from 8.0 to 9.0'
)
_TRANSCENDENTALS: Final = (
    "AMD CDNA3 and RDNA3 Instruction Set Architecture: transcendental functions at a quarter of the rate, 16 results "
    "per clock and compute unit"
)
_HOPPER: Final = "NVIDIA H100 Tensor Core GPU Architecture (white paper), peak rates of the H100 SXM5"
_H200: Final = "NVIDIA H200 Tensor Core GPU datasheet, SXM"
_AMPERE: Final = "NVIDIA A100 Tensor Core GPU Architecture (white paper), table 1"
_A100: Final = "NVIDIA A100 Tensor Core GPU datasheet, 80 GB SXM"
# Looked up again on 2026-11-21, where they are quoted: glennklockwood.com/garden/processors/h100 and /A100 give rates,
# clocks and bandwidths with the documents, forums.developer.nvidia.com/t/218102 the 16-bit rates of the A100 without
# tensor cores.  NVIDIA's datasheets round (67 TFLOP/s of fp32 for H100 and H200), and state tensor rates with sparsity,
# twice the dense ones.  The tensor rates of Hopper are stated at 1.83 GHz, the others at 1.98 GHz.


def _rates(source: str, **teraops: float) -> Mapping[str, Figure]:
    return MappingProxyType(
        {name.replace("tensor_", "tensor "): Figure(value * 1e12, source) for name, value in teraops.items()}
    )


_HOPPER_CLOCK: Final = Figure(1.98e9, f"{_HOPPER}: 66.9 TFLOP/s from 132 multiprocessors with 128 lanes")
_HOPPER_RATES: Final = _rates(
    _HOPPER, float64=33.5, float32=66.9, float16=133.8, bfloat16=133.8, int32=33.5,
    tensor_float64=66.9, tensor_tf32=494.7, tensor_float16=989.4, tensor_bfloat16=989.4,
    tensor_float8_e4m3fn=1978.9, tensor_float8_e5m2=1978.9, tensor_int8=1978.9, tensor_uint8=1978.9,
)  # fmt: skip
_AMPERE_RATES: Final = _rates(
    _AMPERE, float64=9.7, float32=19.5, float16=78.0, bfloat16=39.0, int32=19.5,
    tensor_float64=19.5, tensor_tf32=156.0, tensor_float16=312.0, tensor_bfloat16=312.0,
    tensor_int8=624.0, tensor_uint8=624.0,
)  # fmt: skip

_MI250: Final = "AMD Instinct MI250X data sheet, half of it: one of the two dies (GCD), which is a device"
_MI300: Final = "AMD Instinct MI300X data sheet"
_RX7900: Final = "AMD Radeon RX 7900 XTX, specifications"

DEVICES: Final[Mapping[str, Device]] = MappingProxyType(
    {
        "H200": Device("NVIDIA H200", 90, 132, _HOPPER_CLOCK, Figure(4.8e12, _H200), _HOPPER_RATES),
        "H100": Device("NVIDIA H100 SXM", 90, 132, _HOPPER_CLOCK, Figure(3.35e12, _HOPPER), _HOPPER_RATES),
        "A100": Device("NVIDIA A100", 80, 108, Figure(1.41e9, _AMPERE), Figure(2.039e12, _A100), _AMPERE_RATES),
        "MI250X": Device(
            "AMD Instinct MI250X (one die)", "gfx90a", 110, Figure(1.7e9, _MI250), Figure(1.6384e12, _MI250),
            _rates(_MI250, float64=23.95, float32=23.95, tensor_float64=47.85, tensor_float32=47.85,
                   tensor_float16=191.5, tensor_bfloat16=191.5),
        ),
        "MI300X": Device(
            "AMD Instinct MI300X", "gfx942", 304, Figure(2.1e9, _MI300), Figure(5.3e12, _MI300),
            _rates(_MI300, float64=81.7, float32=163.4, tensor_float64=163.4, tensor_float32=163.4,
                   tensor_float16=1307.4, tensor_bfloat16=1307.4),
        ),
        "RX 7900 XTX": Device(
            "AMD Radeon RX 7900 XTX", "gfx1100", 48, Figure(2.5e9, _RX7900), Figure(0.96e12, _RX7900),
            _rates(_RX7900, float32=61.4, float16=122.8, tensor_float16=122.8, tensor_bfloat16=122.8), 2,
        ),
    }
)  # fmt: skip
"""By the names that ``explain`` takes."""


def find_device(given: str | Device) -> Device:
    """Return the device of a name in :data:`DEVICES`, or of a full name such as ``"NVIDIA H200"``.

    Raises
    ------
    ArgumentError
        ``unknown-device``.
    """
    if isinstance(given, Device):
        return given
    for short, device in DEVICES.items():
        if re.search(rf"{re.escape(short)}(?!\d)", given, re.IGNORECASE):
            return device
    near = get_close_matches(given, DEVICES, n=1, cutoff=0.8)
    hints = [f"did you mean '{device}'?" for device in near]
    hints.append(f"known: {', '.join(DEVICES)}; for another, pass a polyloop.kernel.devices.Device with its figures")
    hints.append('the processor of this machine is "cpu"; for another, pass a polyloop.kernel.processors.Processor')
    raise ArgumentError("explain", None, [Diagnostic("unknown-device", f"no device '{given}'", (), tuple(hints))])
