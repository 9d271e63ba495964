"""Tracebacks end at the user's line: in plain Python, in pytest, in IPython."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import polyloop as pl

LIBRARY = str(Path(pl.__file__).parent)


@pytest.fixture(autouse=True)
def as_users_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLYLOOP_TRACEBACK", raising=False)


def recurrence() -> pl.LoopKernel:
    return pl.make_kernel("{[i]: 1 <= i < n}", "a[i] = a[i - 1] + 1", [pl.GlobalArg("a", np.float64, shape="n"), ...])


def files(error: BaseException) -> list[str]:
    """Return the files of the frames of a traceback, and of those of the errors that it shows as its origins."""
    frames = traceback.TracebackException.from_exception(error)
    found, now = [], frames
    while now is not None:
        found += [frame.filename for frame in now.stack]
        now = now.__cause__ or (None if now.__suppress_context__ else now.__context__)  # type: ignore[assignment]
    return found


def library_frames(error: BaseException) -> list[str]:
    return [name for name in files(error) if name.startswith((LIBRARY, "<polyloop"))]


def tag() -> None:
    recurrence().tag_inames("i: l.0")


def parse() -> None:
    pl.make_kernel("{[i]: 0 <= i < n", "a[i] = 1")


def declare() -> None:
    pl.GlobalArg(3)  # type: ignore[arg-type]


def replay() -> None:
    pl.trace_from_json("[1")


@pytest.mark.parametrize("wrong", [tag, parse, declare, replay])
def test_one_frame_of_the_library_is_left(wrong: object) -> None:
    with pytest.raises(pl.PolyloopError) as caught:
        wrong()  # type: ignore[operator]
    assert len(library_frames(caught.value)) == 1
    *_, here, _ = traceback.extract_tb(caught.value.__traceback__)
    assert here.filename == __file__


def test_a_call_of_a_compiled_kernel_leaves_two() -> None:
    run = pl.compile(recurrence(), target=pl.CTarget())
    with pytest.raises(pl.ArgumentError, match="wrong-dtype") as caught:
        run(a=np.zeros(3, np.float32))
    assert len(library_frames(caught.value)) == 2


def test_frames_of_a_function_of_the_user_stay() -> None:
    def broken(instruction: object) -> object:
        del instruction
        return recurrence().split_iname("nothing", 4)

    with pytest.raises(pl.PolyloopError, match="nothing") as caught:
        pl.map_instructions(recurrence(), "*", broken)  # type: ignore[arg-type]
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "broken" in names


def test_what_the_user_was_handling_is_still_shown() -> None:
    def fall_back() -> None:
        try:
            _ = 1 // 0
        except ZeroDivisionError:
            tag()

    with pytest.raises(pl.TransformError) as caught:
        fall_back()
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    assert not caught.value.__suppress_context__


def test_all_frames_are_there_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_TRACEBACK", "full")
    with pytest.raises(pl.TransformError) as caught:
        tag()
    assert len(library_frames(caught.value)) > 3


PROGRAM = """
import polyloop as pl
knl = pl.make_kernel("{[i]: 1 <= i < n}", "a[i] = a[i - 1] + 1")
knl.tag_inames("i: l.0")
"""


def test_a_program_ends_in_a_few_lines(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    here = Path(LIBRARY).parent
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, cwd=here)
    lines = done.stderr.rstrip().splitlines()
    assert lines[-1].startswith("  Hint:")
    assert '  File "<polyloop>", line' in lines[3]
    assert lines[3].endswith(", in tag_inames")
    assert len(lines) <= 9, done.stderr
    assert LIBRARY not in done.stderr


def test_ipython_shows_the_cell_and_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell.instance(colors="nocolor")
    shell.run_cell(PROGRAM)
    shown = "".join(capsys.readouterr())
    assert "knl.tag_inames" in shown
    assert "calls.py" not in shown
    assert "illegal-parallel" in shown
