"""Bars of long work: on a terminal and in a notebook, nowhere else."""

from __future__ import annotations

import importlib
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from polyloop.progress import progress

ROOT = Path(__file__).parents[1]
HEAD = """
import numpy as np
import polyloop as pl

add = pl.make_kernel("{[i]: 0 <= i < n}", "z[i] = x[i] + 1", [pl.GlobalArg("x, z", np.float32), ...], name="add")
"""
TUNES = f"""{HEAD}
x = np.ones(4096, np.float32)
pl.tune(lambda tile: add.split_iname("i", tile), {{"tile": [4, 8]}}, {{"x": x}}, target=pl.CTarget(), seconds=1, jobs=1,
        remember=False)
"""
PROVES = f"""{HEAD}
import polyloop.proof.obligation
polyloop.proof.obligation._SILENT_SECONDS = 0.0
pl.verify(add.split_iname("i", 32, outer_tag="g.0", inner_tag="l.0"))
"""
FUZZES = """
from polyloop.testing.fuzz import main
main(["--pairs", "2", "--seed", "0"])
"""
WITHOUT = "import sys; sys.modules['tqdm'] = sys.modules['tqdm.auto'] = None\n"


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "POLYLOOP_PROGRESS")}
    return {**kept, "PYTHONPATH": path, **more}


def on_terminal(program: str, **more: str) -> str:
    """Return what a program writes to the terminal that its standard error is."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 200))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=theirs, env=environment(**more)
    ) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # it has ended
                break
            if not part:
                break
            found += part
    os.close(ours)
    assert process.returncode == 0, found.decode()
    return found.decode()


@pytest.fixture(autouse=True)
def _with_bars() -> None:
    pytest.importorskip("tqdm")


def test_tune_shows_a_rate_and_the_best_so_far() -> None:
    shown = on_terminal(TUNES)
    for what in ("build", "compile", "race"):
        assert re.search(rf"{what}: 100%.* 2/2 \[.*choice(/s)?", shown), shown
    assert re.search(r"race: 100%.*, [\d.]+ [mun]s with tile=[48]\]", shown), shown


def test_proofs_that_take_long_are_counted_and_named() -> None:
    shown = on_terminal(PROVES)
    assert re.search(r"proofs of verify: \d+proof \[.*proof/s", shown), shown
    assert "each access to 'x' stays inside" in shown
    assert re.search(r"\r {40,}\r$", shown), "the bar goes when the work is done"


def test_proofs_that_do_not_take_long_show_nothing() -> None:
    assert on_terminal(PROVES.replace("= 0.0", "= 60.0")) == ""


def test_the_fuzzer_shows_pairs_a_second() -> None:
    shown = on_terminal(FUZZES)
    assert re.search(r"fuzz: 100%.* 2/2 \[.*pair(/s)?, \d compared, 0 failures\]", shown), shown


@pytest.mark.parametrize("program", [TUNES, FUZZES, PROVES])
def test_nothing_is_written_to_pipes(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stderr == ""
    assert "%|" not in done.stdout
    assert "/s" not in done.stdout


@pytest.mark.parametrize("more", [{"POLYLOOP_PROGRESS": "0"}, {"CI": "true"}])
def test_bars_can_be_turned_off(more: dict[str, str]) -> None:
    assert on_terminal(TUNES, **more) == ""


def test_without_the_package_nothing_is_shown() -> None:
    assert on_terminal(WITHOUT + TUNES) == ""


def test_work_inside_of_work_with_a_bar_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Bars:
        class tqdm:  # noqa: N801 - its name there
            start_t = 0.0

            def __init__(self, **given: Any) -> None:
                made.append(given["desc"])

            def update(self, count: int) -> None:
                del count

            def close(self) -> None:
                made.append("closed")

    monkeypatch.setitem(sys.modules, "tqdm.auto", Bars)
    with progress("outer", 2, "step", is_wanted=True) as outer, progress("inner", 2, "step", is_wanted=True) as inner:
        inner.step()
        outer.step()
    assert made == ["outer", "closed"]


@pytest.mark.site
def test_a_notebook_shows_bars() -> None:
    nbformat: Any = importlib.import_module("nbformat")
    client: Any = importlib.import_module("nbclient").NotebookClient
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(TUNES.rstrip() + ";")])
    client(notebook, timeout=60, kernel_name="python3").execute(env=environment())
    (cell,) = notebook.cells
    text = "".join(
        output.text if output.output_type == "stream" else str(output.data["text/plain"]) for output in cell.outputs
    )
    assert re.search(r"race: +100%.*2/2", text), text
    assert "IProgress" not in text
