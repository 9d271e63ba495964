"""Arguments of ``python -m polyloop`` and its exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from polyloop.cli import demo, doctor, show
from polyloop.errors import PolyloopError
from polyloop.target.hip import HIP_ARCHITECTURES

__all__ = ["main"]

_OK: Final = 0
_MISMATCH: Final = 1
_REFUSED: Final = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="polyloop", description="Checked loop transformations, to CUDA C and C.")
    commands = parser.add_subparsers(dest="command", required=True)

    demo_parser = commands.add_parser(
        "demo",
        help="build, run and check three kernels",
        description="Build, run and check axpy, a tiled matrix product and a stencil on a picture. "
        "Exit status 1 if any result differs from NumPy's by more than rounding.",
    )
    demo_parser.add_argument("--image", type=Path, metavar="FILE", help="picture for the stencil: .png or .npy")
    demo_parser.add_argument("--json", action="store_true", help="print the facts as JSON, without the sources")

    show_parser = commands.add_parser("show", help="print the source generated for a kernel in a file")
    show_parser.add_argument("kernel", metavar="FILE.py:NAME", help="a LoopKernel, or a function that returns one")
    show_parser.add_argument("--target", choices=("cuda", "c", "hip", "opencl"), default="cuda", help="default: cuda")

    hip_parser = commands.add_parser(
        "hip",
        help="compile a kernel in a file for a GPU of AMD, and print what it takes of a compute unit",
        description="Compile a kernel for a GPU of AMD, without one, and print registers, shared memory and occupancy.",
    )
    hip_parser.add_argument("kernel", metavar="FILE.py:NAME", help="a LoopKernel, or a function that returns one")
    hip_parser.add_argument(
        "--arch", action="append", choices=tuple(HIP_ARCHITECTURES), help="may be repeated; default: all of them"
    )
    hip_parser.add_argument("--output", type=Path, metavar="FILE", help="write the code object of the last one")

    explain_parser = commands.add_parser(
        "explain",
        help="print what bounds a kernel in a file on a GPU or a processor",
        description="Print the least time that each resource of a GPU or a processor needs, and what wastes it.",
    )
    explain_parser.add_argument("kernel", metavar="FILE.py:NAME", help="a LoopKernel, or a function that returns one")
    explain_parser.add_argument("sizes", metavar="NAME=SIZE", nargs="*", help="a value for each integer parameter")
    explain_parser.add_argument("--device", default="H200", help="H200, H100, A100, MI300X, .., cpu; default: H200")
    explain_parser.add_argument("--compile", action="store_true", help="compile it, to know the registers")
    explain_parser.add_argument("--json", action="store_true", help="print all facts as JSON")

    view_parser = commands.add_parser(
        "view",
        help="write a page about a kernel in a file: each step's loops, source, certificate and costs",
        description="Write one HTML file that needs nothing else, with the steps of the kernel as a time line.",
    )
    view_parser.add_argument("kernel", metavar="FILE.py:NAME", help="a LoopKernel, or a function that returns one")
    view_parser.add_argument("sizes", metavar="NAME=SIZE", nargs="*", help="for costs; 1024 for those not given")
    view_parser.add_argument("--output", type=Path, metavar="FILE.html", help="default: NAME.html")
    view_parser.add_argument("--device", default="H200", help="H200, H100 or A100; default: H200")

    commands.add_parser("doctor", help="print what was found: Python packages, compiler, NVRTC, PyCUDA, cuda.core, GPU")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments
        Words after the program's name; those of the process if omitted.

    Returns
    -------
    int
        Exit status: 0 if all is well, 1 if a result of the demo is wrong, 2 if the request was refused.
    """
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "demo":
                return _OK if demo.run(options.image, as_json=options.json) else _MISMATCH
            case "show":
                print(show.source(options.kernel, options.target))
            case "hip":
                print(show.compute_units(options.kernel, options.arch or HIP_ARCHITECTURES, options.output))
            case "explain":
                print(
                    show.explanation(
                        options.kernel, options.sizes, options.device, compiled=options.compile, as_json=options.json
                    )
                )
            case "view":
                print(show.page(options.kernel, options.sizes, options.device, options.output))
            case "doctor":
                print(doctor.report())
    except PolyloopError as error:
        print(error, file=sys.stderr)
        return _REFUSED
    return _OK
