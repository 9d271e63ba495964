"""Code objects of AMD GPUs: compilation of HIP C++, and the resource usage of each kernel.

The figures are those that the compiler writes into a code object (LLVM, "User Guide for AMDGPU Backend", "Code Object
V5 Metadata").
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from polyloop.codegen.program import GeneratedProgram
from polyloop.cost.occupancy import Occupancy, occupancy
from polyloop.display import Shown, brief
from polyloop.errors import CodegenError, CompilerError, Diagnostic
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.cache import CacheKey, open_cache
from polyloop.runtime.ccompile import has_own_headers, numbered_source
from polyloop.runtime.hip.clang import Clang, clang_for, device_libraries
from polyloop.target.base import Target, target_of
from polyloop.target.hip import HIP_ARCHITECTURES, HipTarget
from polyloop.target.source import generate_code

__all__ = ["CodeObject", "HipResources", "compile_hip", "compile_text"]

_COLUMNS: Final = (
    "kernel", "VGPR", "AGPR", "SGPR", "LDS", "scratch", "spilled", "wave", "waves", "of", "limited by",
)  # fmt: skip
_FLAGS: Final = ("-x", "hip", "-nogpulib", "-nogpuinc", "--cuda-device-only", "-std=c++17", "-O3", "-Wno-pass-failed")
_SECONDS: Final = 600.0
_KERNEL: Final = re.compile(r"^  - \.agpr_count:.*?(?=^  - \.agpr_count:|^amdhsa\.target)", re.MULTILINE | re.DOTALL)
_OTHER_KERNEL: Final = re.compile(r"^  - \.args:.*?(?=^  - \.args:|^amdhsa\.target)", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r"^ +\.(\w+): +(\S+)$", re.MULTILINE)
_LIBRARY_CALL: Final = re.compile(r"\b(__oc(?:ml|kl)_\w+)")
_DEFINED: Final = re.compile(r"^(\w+):", re.MULTILINE)
_INSTRUCTION: Final = re.compile(r"^\t([a-z]\w+)(?:\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HipResources:
    """Resource usage of one kernel on a compute unit.

    Attributes
    ----------
    registers
        Vector registers of a lane, with those for accumulators (AGPRs).
    accumulators
        Those of them that are accumulators of matrix instructions.
    scalars
        Scalar registers of a wave.
    shared_bytes
        Shared memory (LDS) of a block.
    local_bytes
        Scratch memory of a lane: spilled registers and arrays that are indexed dynamically.
    spilled
        Vector registers that are spilled.
    wave
        Lanes of a wave.
    occupancy
        Resident blocks and waves of a compute unit (gfx1100: of two, a workgroup processor).
    """

    registers: int
    accumulators: int
    scalars: int
    shared_bytes: int
    local_bytes: int
    spilled: int
    wave: int
    occupancy: Occupancy | None = None

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class CodeObject(Shown):
    """A program for one architecture.

    Attributes
    ----------
    arch
        Such as ``"gfx942"``.
    binary
        An ELF file: a code object that ``hipModuleLoadData`` takes, or an object to be linked, where ``unresolved`` or
        the lack of a linker say so.
    is_linked
        Whether it is a code object.
    assembly
        The assembly text.
    resources
        By the name of the kernel.
    unresolved
        Functions of the ROCm device libraries that it calls, where these are not installed.  Then registers are those
        of kernels that call functions, which are more.
    """

    arch: str
    binary: bytes
    is_linked: bool
    assembly: str
    resources: dict[str, HipResources]
    unresolved: tuple[str, ...] = ()

    __repr__ = brief

    def count(self, prefix: str) -> int:
        """Return the number of instructions in the text that begin with *prefix*, such as ``"v_mfma"``."""
        found = Counter(_INSTRUCTION.findall(self.assembly))
        return sum(count for name, count in found.items() if name.startswith(prefix))

    def __str__(self) -> str:
        """Return a table of the resource usage of each kernel."""
        rows: list[tuple[str, ...]] = [_COLUMNS]
        for name, own in self.resources.items():
            held = own.occupancy
            shown = ("", "", "") if held is None else (str(held.warps), f"{held.fraction:.0%}", held.limited_by)
            numbers = (own.registers - own.accumulators, own.accumulators, own.scalars, own.shared_bytes,
                       own.local_bytes, own.spilled, own.wave)  # fmt: skip
            rows.append((name, *map(str, numbers), *shown))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        if self.unresolved:
            lines.append(f"not linked: {', '.join(self.unresolved)} of the ROCm device libraries, not installed here")
        return "\n".join([f"{self.arch}", *lines])


def compile_hip(kernel: LoopKernel | GeneratedProgram, target: Target | None = None) -> CodeObject:
    """Compile a kernel for an AMD GPU; neither a GPU nor ROCm is needed.

    Parameters
    ----------
    kernel
        A kernel, or a program that was generated for HIP.
    target
        A :func:`HipTarget`; by default the kernel's, or that of ``gfx942``.  A program is compiled for it too.

    Raises
    ------
    CodegenError
        ``unknown-target``, and the errors of :func:`generate_code`.
    CompilerError
        ``no-hip-compiler``, ``hip-failed`` (with the log and the numbered source), ``unsafe-cache-dir``.

    Notes
    -----
    The compiler is ROCm's, that of the wheel ``ziglang`` (``pip install "polyloop[hip]"``), or ``clang`` from version
    17 on.  Functions such as ``tanh`` are linked from the ROCm device libraries, which are looked for in
    ``HIP_DEVICE_LIB_PATH``, ROCm, and where Debian's ``rocm-device-libs`` puts them; without them the result is not
    linked, and says so.
    """
    own = target_of(kernel, target) if isinstance(kernel, LoopKernel) else target
    chosen = own or HipTarget()
    name = kernel.name if isinstance(kernel, LoopKernel) else kernel.kernel
    if chosen.name != "hip" or (isinstance(kernel, GeneratedProgram) and kernel.target != "hip"):
        other = kernel.target if isinstance(kernel, GeneratedProgram) else chosen.name
        raise CodegenError("compile_hip", name, [Diagnostic(
            "unknown-target", f"a program for '{other}' is no HIP C++", (),
            ("generate it with pl.HipTarget(), or pass target=pl.HipTarget()",))])
    program = kernel if isinstance(kernel, GeneratedProgram) else generate_code(kernel, chosen)
    blocks = {launch.name: launch.block[0] * launch.block[1] * launch.block[2] for launch in program.launches}
    return compile_text(program.device_code, chosen.arch, blocks=blocks)


def compile_text(source: str, arch: str, *, blocks: dict[str, int] | None = None) -> CodeObject:
    """Compile HIP C++ for one architecture, through the disk cache if it takes no text from files of the user's.

    Parameters
    ----------
    blocks
        Threads of a block, by the name of the kernel, for its occupancy.

    Raises
    ------
    CompilerError
        ``no-hip-compiler``, ``hip-failed``, ``unsafe-cache-dir``.
    """
    clang, libraries = clang_for(), device_libraries()
    wave = HIP_ARCHITECTURES[arch].wave
    folder = Path(__file__).parent
    whole = "\n".join([(folder / "prelude.h").read_text(), (folder / "vectors.h").read_text(),
                       '#line 1 "kernel.hip"', source])  # fmt: skip
    flags = [*_FLAGS, f"--offload-arch={arch}", f"-DPOLYLOOP_WAVE={wave}"]
    flags += libraries.flags(arch, wave) if libraries is not None else []
    key = CacheKey("hip", whole, f"{clang.version} {' '.join(clang.command)}", (*flags, *clang.linker))
    cache = None if has_own_headers(source) else open_cache()
    files = cache.read(key) if cache is not None else None
    if files is None or files.keys() < {"kernel.s", "kernel.o"}:
        files = _compiled(clang, whole, source, arch, flags)
        if cache is not None:
            cache.put(key, files)
    text = files["kernel.s"].decode()
    linked = files.get("kernel.hsaco")
    return CodeObject(arch, linked or files["kernel.o"], linked is not None, text,
                      dict(_resources(text, arch, blocks or {})), _unresolved(text))  # fmt: skip


def _compiled(clang: Clang, whole: str, source: str, arch: str, flags: Sequence[str]) -> dict[str, bytes]:
    """Return the assembly text, the object, and if it can be linked, the code object."""
    with tempfile.TemporaryDirectory() as folder:
        names = {name: str(Path(folder) / name) for name in ("kernel.s", "kernel.o", "kernel.hsaco")}
        _run([*clang.command, *flags, "-S", "-o", names["kernel.s"], "-"], whole, source)
        text = Path(names["kernel.s"]).read_text()
        assemble = [f"--target={'amdgcn-amd-amdhsa'}", f"-mcpu={arch}", "-c", names["kernel.s"]]
        _run([*clang.command, *assemble, "-o", names["kernel.o"]], "", source)
        found = ["kernel.s", "kernel.o"]
        if clang.linker and not _unresolved(text):
            _run([*clang.linker, "-shared", names["kernel.o"], "-o", names["kernel.hsaco"]], "", source)
            found.append("kernel.hsaco")
        return {name: Path(names[name]).read_bytes() for name in found}


def _run(command: Sequence[str], text: str, source: str) -> None:
    try:
        done = subprocess.run(  # the compiler that was found
            command, input=text, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        log, failed = done.stderr, done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        log, failed = str(error), True
    if failed:
        raise CompilerError("compile_hip", None, [Diagnostic(
            "hip-failed", "Clang refused the generated source",
            (f"command: {' '.join(command)}", f"log:\n{log}", f"source:\n{numbered_source(source, log)}"),
            ("this is a fault of the code generator unless the kernel holds C text of yours",))])


def _resources(text: str, arch: str, blocks: dict[str, int]) -> Iterator[tuple[str, HipResources]]:
    """Yield the resource usage of each kernel, from the metadata in the assembly text."""
    metadata = text.rpartition("amdhsa.kernels:")[2]
    for entry in _KERNEL.findall(metadata) or _OTHER_KERNEL.findall(metadata):
        fields = {name: value for name, value in _FIELD.findall(entry) if value}
        name = fields["name"]
        number = {key: int(value) for key, value in fields.items() if value.isdigit()}
        registers, shared = number["vgpr_count"], number["group_segment_fixed_size"]
        threads = blocks.get(name, number["max_flat_workgroup_size"])
        yield name, HipResources(
            registers, number.get("agpr_count", 0), number["sgpr_count"], shared, number["private_segment_fixed_size"],
            number.get("vgpr_spill_count", 0), number["wavefront_size"], occupancy(arch, threads, registers, shared),
        )  # fmt: skip


def _unresolved(text: str) -> tuple[str, ...]:
    """Return the library functions that are called and not defined."""
    defined = set(_DEFINED.findall(text))
    return tuple(sorted(name for name in set(_LIBRARY_CALL.findall(text)) if name not in defined))
