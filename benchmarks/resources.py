"""``python -m benchmarks resources``: what the kernels of ``benchmarks gpu`` take of a multiprocessor.

Registers, shared and local memory of a thread or block, how many warps a multiprocessor has room for, and of what
instructions the machine code consists: wide accesses, single ones, arithmetic, barriers.  Needs NVRTC, and no GPU; the
instructions are counted where ``nvdisasm`` is found.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polyloop as pl
from benchmarks.gpu.cases import CASES
from polyloop.runtime.nvrtc import nvrtc_available

__all__ = ["instruction_mix", "main"]

_GROUPS: Final[Mapping[str, str]] = {
    "LDG.128": r"LDG\S*\.128",
    "LDG": r"LDG(?!\S*\.128)",
    "STG.128": r"STG\S*\.128",
    "STG": r"STG(?!\S*\.128)",
    "LDGSTS": r"LDGSTS",
    "LDS.128": r"LDS(?!M)\S*\.128",
    "LDS": r"LDS(?!M)(?!\S*\.128)",
    "STS.128": r"STS\S*\.128",
    "STS": r"STS(?!\S*\.128)",
    "LDSM": r"LDSM",
    "local": r"(LDL|STL)",
    "FFMA": r"FFMA",
    "FADD, FMUL": r"(FADD|FMUL)",
    "DFMA": r"DFMA",
    "MMA": r"HMMA",
    "MUFU": r"MUFU",
    "SHFL": r"SHFL",
    "BAR": r"BAR",
    "integer": r"(IMAD|IADD|LEA|ISETP|LOP3|SHF|UIADD|UIMAD|ULEA|USHF|ULOP3|UISETP)",
}
_INSTRUCTION: Final = re.compile(r"^\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")


def instruction_mix(listing: str) -> Counter[str]:
    """Return how many instructions of each group a listing of ``nvdisasm`` has; each counts once, whatever loops do."""
    found: Counter[str] = Counter()
    for line in listing.splitlines():
        _, _, text = line.partition("*/") if line.lstrip().startswith("/*") else ("", "", "")
        match = _INSTRUCTION.match(text)
        if match is None:
            continue
        name = match[1]
        group = next((group for group, pattern in _GROUPS.items() if re.match(pattern, name)), "other")
        if name != "NOP":
            found[group] += 1
    return found


def _listing(cubin: bytes, tool: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        return subprocess.run([tool, "-c", str(path)], capture_output=True, text=True, check=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile and print."""
    parser = argparse.ArgumentParser(prog="benchmarks resources", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="KERNEL", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--nvdisasm", default=shutil.which("nvdisasm"), help="NVIDIA's disassembler")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in CASES]
    if unknown:
        parser.error(f"no kernel {unknown[0]!r}")
    is_there, reason = nvrtc_available()
    if not is_there:
        print(reason, file=sys.stderr)
        return 2
    print("| kernel | launch | threads | registers | shared | local | warps | limited by |\n|" + "---|" * 8)
    mixes = {}
    for name in options.names or CASES:
        case = CASES[name]
        run = pl.compile(case.build(), target=case.target)
        for launch in run.program.launches:
            found, threads = run.resources[launch.name], launch.block[0] * launch.block[1] * launch.block[2]
            shared = found.shared_bytes + launch.dynamic_shared_bytes
            room = found.occupancy
            limit = "- | -" if room is None else f"{room.warps} | {room.limited_by}"
            taken = f"{threads} | {found.registers} | {shared} | {found.local_bytes}"
            print(f"| {name} | {launch.name} | {taken} | {limit} |")
        if options.nvdisasm is not None:
            mixes[name] = instruction_mix(_listing(run.cubin, options.nvdisasm))
    for name, mix in mixes.items():
        print(f"\n{name}: " + ", ".join(f"{count} {group}" for group, count in mix.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
