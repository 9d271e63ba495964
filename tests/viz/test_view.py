"""The page of a kernel: its steps, the marks of its lines, and what a pointer does in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

import polyloop as pl
from polyloop.cli.main import main
from polyloop.viz.lines import source_lines
from polyloop.viz.view import _writers
from tests.viz.test_pictures import example

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def page(tmp_path: Path, knl: pl.LoopKernel, **options: object) -> str:
    path = pl.view(knl, tmp_path / "kernel.html", **options)  # type: ignore[arg-type]
    return path.read_text(encoding="utf-8")


class Balanced(HTMLParser):
    """Checks that elements end in the order in which they began."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in {"meta", "td", "th"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_each_step_has_its_loops_source_certificate_and_costs(tmp_path: Path) -> None:
    knl = example("matmul_tiled").transformed()
    text = page(tmp_path, knl, sizes={"m": 4096, "n": 4096, "p": 4096})
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    steps = text.split('<section class="step"')[1:]
    assert len(steps) == len(knl.trace) + 1
    for step, call in zip(steps, ["program", *(entry.call() for entry in knl.trace)], strict=True):
        assert unescape(step).partition("<p>")[2].startswith(f"{call}</p>")
        assert "obligations proven" in step
        assert "bound by" in step
        assert 'class="panel source"' in step
    plain = unescape(re.sub(r"<[^>]+>", "", steps[-1]))
    for line in pl.generate_code(knl, target=pl.CudaTarget()).device_code.splitlines():
        assert line in plain
    assert not re.search(r"https?://|src=|@import|<link", text)
    assert len(text) < 200_000


def test_lines_have_their_instruction_loops_and_barriers() -> None:
    program = pl.generate_code(example("matmul_tiled").transformed(), target=pl.CudaTarget())
    lines = source_lines(program.device_code, program.instructions)
    found = {line.text.strip(): line for line in lines}
    product = found["acc += a_fetch[ty][k_inner] * b_fetch[k_inner][tx];"]
    assert product.instructions == ("insn",)
    assert product.loops == ("k_outer", "k_inner")
    assert product.target == "acc"
    assert {"a_fetch", "b_fetch"} <= product.names()
    store = found["c[i * n + j] = acc;"]
    assert (store.loops, store.target) == ((), "c")
    barriers = [line.barrier for line in lines if "__syncthreads" in line.text]
    assert barriers == ["k_outer:0", "k_outer:1"] * 3


def test_a_statement_of_several_lines_is_of_one_instruction() -> None:
    text = "    for (int i = 0; i < n; ++i)\n        y[i] = a[i]\n            + b[i];\n    x = 1;\n"
    lines = source_lines(text, ("", "s", "s", "t"))
    assert [line.instructions for line in lines] == [(), ("s",), ("s",), ("t",)]
    assert [line.loops for line in lines] == [("i",), ("i",), ("i",), ()]
    assert [line.target for line in lines] == ["", "y", "y", "x"]


@pytest.mark.parametrize("name", ["flash_attention", "prefix_sum", "csr_product", "matmul_float64"])
def test_each_instruction_has_lines(name: str) -> None:
    knl = example(name).transformed()
    target = pl.CudaTarget(getattr(example(name), "ARCH", "sm_90"))
    ids = {instruction.id for instruction in knl.instructions}
    program = pl.generate_code(knl, target=target)
    lines = source_lines(program.device_code, program.instructions, _writers(knl))
    assert {x for line in lines for x in line.instructions} == ids


def test_a_kernel_that_cannot_be_placed_yet_has_the_reason(tmp_path: Path) -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = b[i]", [pl.GlobalArg("a, b", shape="n"), ...])
    text = page(tmp_path, knl.split_iname("i", 8))
    assert text.count("no source yet: ") == 2
    assert "unknown-dtype" in text


@pytest.mark.parametrize(
    "restated", [lambda knl: knl.fix_parameters(p=64), lambda knl: knl.assume("p mod 16 = 0").fix_parameters(p=64)]
)
def test_a_time_line_begins_before_steps_that_restate_the_program(
    restated: Callable[[pl.LoopKernel], pl.LoopKernel], tmp_path: Path
) -> None:
    base = example("matmul_tiled").program()
    knl = restated(base.split_iname("i", 16)).split_iname("j", 16)
    text = page(tmp_path, knl)
    assert text.count('<section class="step"') == 1 + len(knl.trace)
    first = text.partition('<section class="step"')[2].partition("<section")[0]
    assert "for k in [0, p)" in unescape(re.sub(r"<[^>]+>", "", first))
    titles = re.compile(r'<section class="step"[^>]*><p>.*?</p>')
    assert titles.findall(page(tmp_path, knl, program=base)) == titles.findall(text)


def test_steps_that_cannot_be_done_again_leave_the_last_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = example("matmul_tiled").program()
    knl = base.split_iname("i", 16)

    def refuse(*_: object) -> pl.LoopKernel:
        return pl.replay(pl.trace_from_json("[1"))  # type: ignore[call-arg]  # raises

    monkeypatch.setattr("polyloop.viz.view.replay", refuse)
    text = page(tmp_path, knl)
    assert text.count('<section class="step"') == 1
    assert "cannot be done again" in text
    monkeypatch.undo()
    with pytest.raises(pl.ArgumentError) as caught:
        pl.view(knl, tmp_path / "x.html", program=example("transpose").program())
    assert caught.value.codes == ("other-program",)


def test_wrong_paths_and_sizes(tmp_path: Path) -> None:
    knl = example("transpose").program()
    for wrong in (tmp_path / "x.svg", tmp_path / "no" / "x.html"):
        with pytest.raises(pl.ArgumentError, match="bad-picture-file"):
            pl.view(knl, wrong)
    with pytest.raises(pl.ArgumentError, match="unknown-size"):
        pl.view(knl, tmp_path / "x.html", sizes={"q": 1})


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "kernels.py"
    source.write_text(
        "import polyloop as pl\n"
        'base = pl.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2*x[i]", [pl.GlobalArg("x, y", "float32"), ...])\n'
        'knl = base.split_iname("i", 32, outer_tag="g.0", inner_tag="l.0")\n'
    )
    output = tmp_path / "out.html"
    assert main(["view", f"{source}:knl", "n=4096", "--output", str(output), "--device", "H100"]) == 0
    assert capsys.readouterr().out == f"{output}\n"
    assert "n = 4096" in output.read_text(encoding="utf-8")
    assert "H100" in output.read_text(encoding="utf-8")
    assert main(["view", f"{source}:knl", "n=x", "--output", str(output)]) == 2


PROBE = """
<script>
const said = {};
function line(text) {
  return [...steps[shown].querySelectorAll('.source .lines div')].find(e => e.textContent.includes(text));
}
function texts(selector) {
  return [...steps[shown].querySelectorAll(selector)].map(e => e.textContent.trim());
}
function point(e) { e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); }
said.first = [shown, steps.filter(e => !e.hidden).length];
point(line('acc += a_fetch'));
said.statement = texts('.loops .mark');
said.loops = texts('.loops .loop');
said.accesses = texts('.costs tr.mark td:nth-child(3)');
said.footer = told.textContent;
point(line('__syncthreads'));
said.barrier = texts('.loops .mark').length;
point([...steps[shown].querySelectorAll('.loops [data-insn]')].find(e => e.textContent.includes('a_fetch[a_dim')));
said.bytes = texts('.costs tr.mark td:nth-child(5)');
said.back = [...new Set(texts('.source .mark'))];
document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}));
const current = buttons[shown].getAttribute('aria-current');
said.left = [shown, steps.findIndex(e => !e.hidden), current, texts('.mark').length];
buttons[0].click();
said.clicked = shown;
document.title = JSON.stringify(said);
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: Chromium")
def test_a_pointer_marks_statement_loops_and_accesses(tmp_path: Path) -> None:
    assert BROWSER is not None
    knl = example("matmul_tiled").transformed()
    text = page(tmp_path, knl, sizes={"m": 4096, "n": 4096, "p": 4096})
    probed = tmp_path / "probed.html"
    probed.write_text(text.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", probed.as_uri()], capture_output=True, text=True, check=False, timeout=120
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title is not None, done.stderr
    said = json.loads(unescape(title[1]))
    last = len(knl.trace)
    assert said["first"] == [last, 1]
    assert said["statement"] == ["acc += a_fetch[i_inner, k_inner]*b_fetch[k_inner, j_inner]  {insn}"]
    assert [entry.partition(" in ")[0] for entry in said["loops"]] == ["for k_outer", "for k_inner"]
    assert said["accesses"] == ["a_fetch[i_inner, k_inner]", "b_fetch[k_inner, j_inner]"]
    assert re.search(
        r"statement insn \| in loops k_outer, k_inner \| insn: load a_fetch.* turns of shared memory", said["footer"]
    )
    assert said["barrier"] == 1
    assert said["bytes"] == ["134M turns", "17.2 GB"]  # it stores to shared memory what it loads
    assert said["back"] == ["a_fetch[ty][tx] = a[i * p + 16 * k_outer + tx];"]
    assert said["left"] == [last - 1, last - 1, "step", 0]
    assert said["clicked"] == 0
