"""The code on each page runs, and prints what is shown; CUDA C that is shown compiles; links lead somewhere."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import os
import re
from pathlib import Path

import pytest

import polyloop as pl
from polyloop import loopy
from polyloop.proof.obligation import Claim
from polyloop.runtime.hip.clang import hip_available
from polyloop.runtime.hip.code_object import compile_text
from polyloop.runtime.nvrtc import compile_cuda, nvrtc_available
from polyloop.runtime.opencl.devices import opencl_available
from tests import house

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
    if "_build" not in path.parts
)
WITH_CODE = [page for page in PAGES if "```python\n" in (ROOT / page).read_text(encoding="utf-8")]
WITH_CUDA = [page for page in PAGES if "__global__" in (ROOT / page).read_text(encoding="utf-8")]
OF_HIP = "// HIP C++ for "
NEEDS_GPU = "# needs a GPU"
"""First line of a block of Python that is compiled and not run."""
NEEDS_OPENCL = "# needs OpenCL"
"""The same where there is no device for OpenCL."""
NEEDS_CLANG = "# needs Clang for HIP"
"""The same where there is no Clang for GPUs of AMD."""
NEEDS_NVRTC = "# needs NVRTC"
"""The same where NVRTC is not installed."""
NEEDS_LIBRARY = re.compile(r"# needs (torch|jax|scipy)\n")
"""First line of a block that is run where the library is; in .ci/run it has to be, unless it could not be installed."""


def is_run(body: str) -> bool:
    """Return whether a block of Python is run here, or only compiled."""
    needs = NEEDS_LIBRARY.match(body)
    is_there = needs is None or "POLYLOOP_REQUIRE_INTEROP" in os.environ or importlib.util.find_spec(needs[1])
    has_device = not body.startswith(NEEDS_OPENCL) or opencl_available()[0]
    has_device = has_device and (not body.startswith(NEEDS_CLANG) or hip_available()[0])
    has_device = has_device and (not body.startswith(NEEDS_NVRTC) or nvrtc_available()[0])
    return not body.startswith(NEEDS_GPU) and has_device and bool(is_there)


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_prints_what_is_shown(page: str, pytestconfig: pytest.Config) -> None:
    namespace: dict[str, object] = {"__name__": "page"}
    printed: str | None = ""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    for number, fence in enumerate(fences):
        kind, body = fence.groups()
        if kind == "text":
            if printed is None:  # by a block that was not run
                continue
            if pytestconfig.getoption("--update-golden"):
                text = text.replace(fence[0], f"```text\n{printed.rstrip()}\n```")
                path.write_text(text, encoding="utf-8")
                continue
            assert printed.rstrip() == body.rstrip()
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            file = f"{page}/block{number}.py"
            linecache.cache[file] = (len(body), None, body.splitlines(keepends=True), file)
            code = compile(body, file, "exec", dont_inherit=True)
            runs = is_run(body)
            if runs:
                exec(code, namespace)
        printed = output.getvalue() if runs else None


@pytest.mark.nvrtc
@pytest.mark.parametrize("page", WITH_CUDA)
def test_the_cuda_c_of_a_page_compiles(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for kind, body in FENCE.findall(text):
        begin = re.search(r'^(//|#if|typedef|static|__constant__|extern "C")', body, re.MULTILINE)
        if kind == "text" and begin is not None and "__global__" in body and not body.startswith(OF_HIP):
            compile_cuda(body[begin.start() :], "sm_90a")


@pytest.mark.hip
@pytest.mark.parametrize("page", WITH_CUDA)
def test_the_hip_of_a_page_compiles(page: str) -> None:
    for kind, body in FENCE.findall((ROOT / page).read_text(encoding="utf-8")):
        if kind == "text" and body.startswith(OF_HIP):
            assert compile_text(body, body.removeprefix(OF_HIP).partition(":")[0]).resources


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert [target for target in targets if not path.parent.joinpath(target).exists()] == []


def table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the rows of the first table behind a heading of a page."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows.group().splitlines()[2:]]


def test_every_claim_of_a_certificate_is_explained() -> None:
    claims = [row[0] for row in table("docs/howto/certificate.md", "What was proven")]
    assert sorted(claims) == sorted(claim.value for claim in Claim)


def test_names_that_port_from_loopy_are_there() -> None:
    rows = table("docs/howto/loopy.md", "What there is")
    words = {name for row in rows if row[0] != "text" for name in re.findall(r"`(\w+)[`(]", row[1])}
    methods = {"eval_and_sum", "filter_by", "group_by", "to_bytes"}
    spelt = {"executor", "entrypoint", "mtype"}
    assert len(words) > 60
    assert {name for name in words - methods - spelt if not hasattr(loopy, name)} == set()
    counts = pl.get_op_map(pl.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", [pl.GlobalArg("a", "float32"), ...]))
    assert {name for name in methods if not hasattr(counts, name)} == set()


def test_the_picture_of_the_packages_is_the_codes() -> None:
    page = house.PAGE.read_text(encoding="utf-8")
    drawn = re.search(r"```mermaid\n.*?```\n", page, re.DOTALL)
    assert drawn is not None
    numbers = re.compile(r"[\d,]+ lines")  # which may be those of some time ago
    assert numbers.sub("", drawn.group()) == numbers.sub("", house.picture()), "run python -m tests.house"
