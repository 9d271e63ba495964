"""``python -m polyloop.tuning.worker``: compiles sources into the disk cache, so that others find them there.

Standard input is JSON: ``{"arch": "sm_90", "sources": [..], "build": ..}``; ``arch`` is null for C. A line is printed
for each. A source that the compiler refuses is compiled again, and refused with its message, when it is used.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from polyloop.codegen.program import BuildOptions, DeviceCode
from polyloop.errors import CompilerError
from polyloop.runtime.ccompile import build_library
from polyloop.runtime.nvrtc import compile_cuda

__all__ = ["compile_all"]

_PLAIN: Final = BuildOptions()


def compile_all(
    sources: Sequence[str], arch: str | None, jobs: int | None = None, finished: Callable[[], object] = lambda: None,
    build: BuildOptions = _PLAIN,
) -> None:  # fmt: skip
    """Compile *sources* into the disk cache, in as many processes as there are processors.

    They are processes of their own rather than forks or threads: a fork of a process that uses the GPU is broken, NVRTC
    compiles one program of a process at a time, and a script need not be importable.

    Parameters
    ----------
    arch
        ``"sm_90"``, ..; None for C.
    build
        What the target says of compiling CUDA C.
    finished
        Called after each source, in some thread.
    """
    count = min(len(sources), jobs or os.cpu_count() or 1)
    if count <= 1:
        for source in sources:
            _compile(source, arch, build)
            finished()
        return
    linked = [[code.name, base64.b64encode(code.data).decode()] for code in build.linked]
    said = {"options": build.options, "std": build.std, "lineinfo": build.lineinfo, "linked": linked}

    def run(part: Sequence[str]) -> None:
        given = json.dumps({"arch": arch, "sources": list(part), "build": said})
        path = os.pathsep.join(entry for entry in sys.path if entry)
        with subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path},
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(given)
            process.stdin.close()
            for _ in process.stdout:
                finished()

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, [sources[number::count] for number in range(count)]))


def _compile(source: str, arch: str | None, build: BuildOptions) -> None:
    try:
        if arch is None:
            build_library(source)
        else:
            compile_cuda(source, arch, build=build)
    except CompilerError:
        return  # reported where the source is used


def main() -> None:
    """Compile the sources in the JSON on standard input."""
    given = json.load(sys.stdin)
    said = given["build"]
    linked = tuple(DeviceCode(name, base64.b64decode(data)) for name, data in said["linked"])
    build = BuildOptions(tuple(said["options"]), said["std"], said["lineinfo"], linked)
    for source in given["sources"]:
        _compile(source, given["arch"], build)
        print(flush=True)


if __name__ == "__main__":
    main()
