"""Notebooks of ``docs/notebooks``: each is executed; a newcomer's path through the first is judged by what it shows."""

from __future__ import annotations

import importlib
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
ESCAPES = re.compile(r"\x1b\[[\d;]*m")


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


@cache
def executed(name: str) -> list[Any]:
    """Return the cells with code of a notebook, executed by a kernel of its own as a newcomer would have it."""
    nbformat: Any = importlib.import_module("nbformat")
    client: Any = importlib.import_module("nbclient").NotebookClient
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", 4)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    outside = {key: value for key, value in os.environ.items() if key != "POLYLOOP_TRACEBACK"}
    env = {**outside, "PYTHONPATH": path, "POLYLOOP_PROGRESS": "0"}
    client(notebook, timeout=120, kernel_name="python3").execute(cwd=str(FOLDER), env=env)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def cell_with(name: str, text: str, number: int = 0) -> Any:
    """Return the cell whose source has *text*."""
    return [cell for cell in executed(name) if text in cell.source][number]


def shown(cell: Any, kind: str) -> str:
    """Return the one result of a cell as *kind*."""
    (result,) = (output for output in cell.outputs if output.output_type == "execute_result")
    return str(result.data[kind])


def error(cell: Any) -> tuple[list[str], list[str]]:
    """Return the lines of the traceback of a cell that fails, and those of its message among them."""
    (found,) = (output for output in cell.outputs if output.output_type == "error")
    lines = ESCAPES.sub("", "\n".join(found.traceback)).splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"{found.ename}: "))
    return lines, lines[begin:]


def test_there_are_notebooks() -> None:
    assert {"first_steps", "roofline_cpu", "certificates", "tuning"} <= set(NAMES)
    listed = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"({name}.ipynb)" not in listed] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_a_machine_is_stored(name: str) -> None:
    notebook = read(name)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    for cell in notebook["cells"]:
        assert set(cell["metadata"]) <= {"tags"}
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_notebook_lead_somewhere(name: str) -> None:
    texts = ["".join(cell["source"]) for cell in read(name)["cells"] if cell["cell_type"] == "markdown"]
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", "\n".join(texts))
    assert [target for target in targets if not (FOLDER / target).exists()] == []


@pytest.mark.site
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_fails_where_it_says_so_and_nowhere_else(name: str) -> None:
    for cell in executed(name):
        fails = any(output.output_type == "error" for output in cell.outputs)
        assert fails == ("raises-exception" in cell.metadata.get("tags", ())), cell.source
        assert [output.text for output in cell.outputs if output.get("name") == "stderr"] == []


@pytest.mark.site
@pytest.mark.parametrize("name", NAMES)
def test_messages_are_short_and_have_no_frames_of_the_library(name: str) -> None:
    for cell in executed(name):
        if "raises-exception" not in cell.metadata.get("tags", ()):
            continue
        lines, message = error(cell)
        assert len(lines) <= 16, "\n".join(lines)
        assert len(message) <= 6, "\n".join(message)
        assert any(line.startswith("  Hint: ") for line in message)
        assert re.search(r"\[[a-z]+(-[a-z]+)+\]$", message[0])
        assert not [line for line in lines if "polyloop/" in line or line.startswith("File ")], "\n".join(lines)
        assert sum(line.startswith("Cell ") for line in lines) == 1


@pytest.mark.site
@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_whole_documents_and_need_nothing_else(name: str) -> None:
    for cell in executed(name):
        for output in cell.outputs:
            for kind, text in output.get("data", {}).items():
                assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", str(text)), cell.source
                assert "<script" not in str(text)
                if kind == "image/svg+xml":
                    ElementTree.fromstring(text)  # raises
                    assert len(text) < 200_000


# The path of a newcomer: install, open the first notebook, transform, see the tree, make a mistake, read the message,
# mend it, see the roofline.


def test_the_first_cell_says_how_to_install() -> None:
    first = "".join(read("first_steps")["cells"][0]["source"])
    extra = re.search(r"pip install \"polyloop\[(\w+)\]\"", first)
    assert extra is not None
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(rf'^{extra[1]} = \[.*"jupyterlab"', declared, re.MULTILINE)


@pytest.mark.site
def test_a_newcomer_sees_the_kernel_and_what_it_computes() -> None:
    made = cell_with("first_steps", "smooth = pl.make_kernel")
    assert "z[i] = alpha*(x[i - 1] + x[i] + x[i + 1])" in shown(made, "text/html")
    assert shown(made, "text/plain").count("\n") == 0
    assert shown(cell_with("first_steps", "run = pl.compile"), "text/plain").startswith("array([0., 1., 2., 3., 4.")


@pytest.mark.site
def test_a_newcomer_sees_the_tree_and_the_text() -> None:
    tree = shown(cell_with("first_steps", "tiled.loops"), "image/svg+xml")
    words = " ".join(ElementTree.fromstring(tree).itertext())
    assert "launch smooth" in words
    assert "l.0: i_inner" in words
    assert "barrier" not in words
    source = shown(cell_with("first_steps", "pl.generate_code"), "text/html")
    assert "blockIdx" in source
    assert "<details" in source


@pytest.mark.site
def test_a_newcomer_reads_what_was_wrong() -> None:
    lines, message = error(cell_with("first_steps", "i_iner"))
    assert message == [
        "TransformError: add_prefetch on kernel 'smooth': no iname 'i_iner' [unknown-iname]",
        "  Hint: did you mean 'i_inner'?",
    ]
    assert any(re.match(r"-+> 1 fast = tiled.add_prefetch", line) for line in lines)


@pytest.mark.site
def test_a_newcomer_mends_it_and_sees_the_barrier() -> None:
    mended = shown(cell_with("first_steps", '["i_inner"]'), "image/svg+xml")
    words = " ".join(ElementTree.fromstring(mended).itertext())
    assert "barrier of the block" in words
    assert "because of x_fetch: RAW fetch_x -> insn" in words


@pytest.mark.site
def test_a_newcomer_sees_the_roofline() -> None:
    picture = shown(cell_with("first_steps", "draw_roofline"), "image/svg+xml")
    words = " ".join(ElementTree.fromstring(picture).itertext())
    assert "roofline of NVIDIA H100 SXM" in words
    assert "memory 3.35 TB/s" in words
    assert "bound by DRAM" in shown(cell_with("first_steps", "pl.explain"), "text/html")


@pytest.mark.site
def test_tiles_are_nearer_to_the_roof_of_the_processor() -> None:
    (table,) = cell_with("roofline_cpu", "rates.items()").outputs
    parts = {row.split()[0]: int(row.split()[1].rstrip("%")) for row in table.text.splitlines()}
    assert list(parts) == ["naive", "tiles", "cores"]
    assert parts["tiles"] > 2 * parts["naive"]


@pytest.mark.site
def test_a_dispatcher_goes_by_what_it_measured() -> None:
    before, after = (cell.outputs[0].text for cell in executed("tuning") if "print(call.choose" in cell.source)
    assert before.startswith("plain: the only one that is valid")
    assert "measured on this processor" in after.splitlines()[0]
