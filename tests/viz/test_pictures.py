"""Pictures of all examples: well-formed, small, quick, with no label over another; and the texts of a few."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyloop as pl
from polyloop.viz.svg import Canvas, Label

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
MOST_BYTES = 200_000
MOST_SECONDS = 0.3


def example(name: str) -> Any:
    return import_module(f"examples.{name}")


def check(draw: Callable[[], pl.Picture]) -> pl.Picture:
    """Draw a picture, the second time with everything known that has to be proven, and check its form."""
    draw()
    start = time.process_time()
    picture = draw()
    svg = picture.svg()
    assert time.process_time() - start < MOST_SECONDS
    assert len(svg.encode()) < MOST_BYTES
    root = ET.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|<script|<image|@import|url\(", svg)
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    for label in picture.labels:
        assert label.x >= -0.5, label
        assert label.x + label.width <= width, label
        assert label.y >= -0.5, label
        assert label.y + label.height <= height, label
    assert overlaps(picture.labels) == []
    assert str(picture).strip()
    assert len(repr(picture)) < 200
    for theme in ("light", "dark"):
        ET.fromstring(picture.svg(theme))
    return picture


def overlaps(labels: tuple[Label, ...]) -> list[tuple[str, str]]:
    ordered = sorted(labels, key=lambda label: label.y)
    found = []
    for number, one in enumerate(ordered):
        for other in ordered[number + 1 :]:
            if other.y >= one.y + one.height:
                break
            if one.overlaps(other):
                found.append((one.text, other.text))
    return found


def test_low_panels_fill_the_room_beside_a_high_one() -> None:
    canvas, panels = Canvas(), list[Canvas]()
    for height in (300.0, 50.0, 50.0, 50.0):
        panels.append(Canvas())
        panels[-1].rect(0, 0, 500, height)
    canvas.flow(panels, 10.0, gap=20.0, widest=1100.0)
    assert (canvas.width, canvas.height) == (1020.0, 310.0)


def test_labels_that_overlap_are_found() -> None:
    one, other = Label("a", 0, 0, 10, 10), Label("b", 9, 9, 10, 10)
    assert overlaps((one, other)) == [("a", "b")]
    assert overlaps((one, Label("c", 10, 0, 5, 10))) == []


@pytest.mark.few(12)
@pytest.mark.parametrize("name", NAMES)
def test_loops_of_examples(name: str) -> None:
    knl = example(name).transformed()
    target = pl.CudaTarget(getattr(example(name), "ARCH", "sm_90"))
    picture = check(lambda: pl.draw_loops(knl, target))
    assert max(map(len, str(picture).splitlines())) <= 100
    launches = pl.generate_code(knl, target=target).launches
    assert all(f"launch {launch.name}" in str(picture) for launch in launches if not launch.name.endswith("_clear"))
    assert str(picture).count("== barrier of the block") == sum(
        text.count("barrier of the block") for text in (label.text for label in picture.labels)
    )


@pytest.mark.few(12)
@pytest.mark.parametrize("name", NAMES)
def test_dependences_of_examples(name: str) -> None:
    knl = example(name).transformed()
    picture = check(lambda: pl.draw_dependences(knl))
    assert all(f"{entry.kind.name} {entry.array}" in str(picture) for entry in pl.dependences(knl))


@pytest.mark.few(12)
@pytest.mark.parametrize("name", NAMES)
def test_differences_of_examples(name: str) -> None:
    module = example(name)
    program, knl = module.program(), module.transformed()
    target = pl.CudaTarget(getattr(module, "ARCH", "sm_90"))
    picture = check(lambda: pl.diff(program, knl, target))
    assert all(step.call() in str(picture) for step in knl.trace)


@pytest.mark.few(12)
@pytest.mark.parametrize("name", NAMES)
def test_domains_of_examples(name: str) -> None:
    knl = example(name).transformed()
    try:
        pl.draw_domain(knl)
    except pl.ArgumentError as error:
        assert set(error.codes) <= {"too-many-instances", "no-instances", "nothing-to-draw"}  # noqa: PT017
        return
    check(lambda: pl.draw_domain(knl))


@pytest.mark.few(12)
@pytest.mark.parametrize("name", NAMES)
def test_accesses_of_examples(name: str) -> None:
    knl = example(name).transformed()
    try:
        pl.draw_accesses(knl)
    except pl.ArgumentError as error:
        assert error.codes == ("nothing-to-draw",)  # noqa: PT017
        return
    check(lambda: pl.draw_accesses(knl))


def matmul() -> pl.LoopKernel:
    knl: pl.LoopKernel = example("matmul_tiled").transformed()
    return knl


def stencil() -> pl.LoopKernel:
    return pl.make_kernel(
        "{[t, i]: 0 <= t < T and 1 <= i < n - 1}", "u[t + 1, i] = u[t, i - 1] + u[t, i + 1]",
        [pl.GlobalArg("u", np.float32, shape="T + 1, n"), ...], name="stencil",
    )  # fmt: skip


LOOPS = """\
launch matmul_tiled
    grid ((n + 15) // 16) x ((m + 15) // 16), blocks of 16 x 16 threads, 2048 bytes of shared memory
    g.0: j_outer  [blocks]
    g.1: i_outer  [blocks]
    l.0: j_inner, a_dim_1, b_dim_1  [threads]
    l.1: i_inner, a_dim_0, b_dim_0  [threads]
    acc = 0.0                                                                      {insn}
    for k_outer in [0, (p + 15) // 16)
        a_fetch[a_dim_0, a_dim_1] = a[a_dim_0 + 16*i_outer, a_dim_1 + 16*k_outer]  {fetch_a}
        b_fetch[b_dim_0, b_dim_1] = b[b_dim_0 + 16*k_outer, b_dim_1 + 16*j_outer]  {fetch_b}
        == barrier of the block
               because of a_fetch: RAW fetch_a -> insn in this and a later iteration of k_outer
               because of b_fetch: RAW fetch_b -> insn in this and a later iteration of k_outer
        for k_inner in [0, min(16, p - 16*k_outer))
            acc += a_fetch[i_inner, k_inner]*b_fetch[k_inner, j_inner]             {insn}
        == barrier of the block
               because of a_fetch: WAR insn -> fetch_a in a later iteration of k_outer
               because of b_fetch: WAR insn -> fetch_b in a later iteration of k_outer
    c[16*i_outer + i_inner, 16*j_outer + j_inner] = acc                            {insn}"""


def test_the_text_of_loops() -> None:
    assert str(matmul().loops) == LOOPS


def test_a_long_statement_goes_on_in_the_next_line_of_the_text() -> None:
    terms = [f"x[i + {n}]" for n in range(60)]
    data = [pl.GlobalArg("x", np.float32, shape="n + 60"), ...]
    knl = pl.make_kernel("{[i]: 0 <= i < n}", f"y[i] = {' + '.join(terms)} {{id=a_long_sum}}", data, name="sums")
    lines = str(knl.loops).splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.endswith("  {a_long_sum}") for line in lines) == 1
    assert all(f"x[i + {n}]" in " ".join(str(knl.loops).split()) for n in range(1, 60))
    assert max(map(len, str(pl.diff(knl, knl.split_iname("i", 8))).partition("---")[0].splitlines())) <= 100


def test_a_race_is_drawn_as_loops_with_the_reason() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = b[i]", [pl.GlobalArg("a, b", shape="n"), ...])
    picture = check(lambda: pl.draw_loops(knl))
    assert "no launches and barriers yet: " in str(picture)
    assert "for i" in str(picture)


def test_an_end_of_a_launch_has_its_reason() -> None:
    text = str(example("dot_two_launches").transformed().loops)
    assert "== end of launch dot_0\n           because of sums: RAW compute_sums -> insn" in text


DOMAIN = """\
instances of insn: T = 3, n = 6
t=0   A0  A1  A2  A3
t=1   B4  B5  B6  B7
t=2   C8  C9  C10 C11
      i = 1 .. 4
color: iteration of the outermost loop; number: step of the thread; arrows: RAW on u, 6 pairs"""


def test_the_text_of_a_domain_and_the_number_of_arrows() -> None:
    knl = stencil()
    first = pl.dependences(knl)[0]
    picture = check(lambda: pl.draw_domain(knl, dependence=first, sizes={"T": 3, "n": 6}))
    assert str(picture) == DOMAIN
    assert picture.svg().count('z" class="f-red"') == 6


def test_blocks_of_a_domain() -> None:
    text = str(matmul().draw_domain("j, i", sizes={"m": 17, "n": 18, "p": 1}))
    assert "i=0   " + "A0 " * 16 + "B0 B0" in text
    assert "i=16  " + "D0 " * 16 + "E0 E0" in text
    assert "color: block" in text


def test_the_instances_of_a_refusal_are_marked() -> None:
    knl = stencil()
    with pytest.raises(pl.TransformError) as caught:
        knl.tag_inames("t: l.0")
    picture = check(lambda: pl.draw_domain(knl, refusal=caught.value))
    assert "1: insn(t=0, i=2)" in str(picture)
    assert "2: insn(t=1, i=1)" in str(picture)
    assert picture.svg().count("<circle") == 2


def test_a_skewed_stencil_runs_in_tiles_of_the_original_inames() -> None:
    skewed = stencil().map_domain("{[t, i] -> [t, i + 2*t]}").split_iname("i", 4)
    text = str(skewed.prioritize_loops("i_outer, t, i_inner").draw_domain("i, t", sizes={"T": 2, "n": 6}))
    assert "t=0   A0 A1 A2 B4" in text
    assert "t=1   A3 B5 B6 B7" in text


def test_the_text_of_a_difference() -> None:
    knl = stencil()
    text = str(pl.diff(knl, knl.split_iname("i", 8)))
    assert "+ split_iname(split_iname='i', inner_length=8)" in text
    assert "-         for i in [1, n - 1)" in text
    assert "+++ after" in text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"inames": "x"}, "unknown-iname"),
        ({"inames": "t, i, t"}, "nothing-to-draw"),
        ({"instruction": "other"}, "unknown-instruction"),
        ({"sizes": {"m": 3}}, "unknown-size"),
        ({"sizes": {"T": 0}}, "no-instances"),
        ({"sizes": {"T": 1000, "n": 1000}}, "too-many-instances"),
        ({"inames": "i", "at": {"t": 99}}, "no-instances"),
        ({"at": {"k": 0}}, "unknown-iname"),
        ({"refusal": pl.ArgumentError("x", None, [pl.Diagnostic("a", "b")])}, "nothing-to-draw"),
        ({"inames": 3}, "wrong-argument-type"),
    ],
)
def test_wrong_calls_of_draw_domain(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.draw_domain(stencil(), **arguments)
    assert caught.value.codes == (code,)


def transpose() -> pl.LoopKernel:
    knl = pl.make_kernel("{[i, j]: 0 <= i, j < n}", "b[i, j] = a[j, i]",
                         [pl.GlobalArg("a, b", np.float32, shape="n, n"), ...])  # fmt: skip
    knl = knl.split_iname("i", 32, outer_tag="g.1", inner_tag="l.1")
    return knl.split_iname("j", 32, outer_tag="g.0", inner_tag="l.0")


def test_sectors_are_those_that_explain_counts() -> None:
    knl = transpose()
    text = str(check(lambda: pl.draw_accesses(knl, "a")))
    assert "32 lanes, 32 sectors, 4 would do" in text
    (found,) = (access for access in pl.explain(knl, {"n": 1024}).accesses if access.array == "a")
    assert (found.sectors, found.least_sectors) == (32, 4)
    assert "32 lanes, 4 sectors, 4 would do" in str(pl.draw_accesses(knl, "b"))


@pytest.mark.parametrize(("padding", "turns"), [(0, 32), (132, 1)])
def test_turns_are_those_of_the_bank_conflicts(padding: int, turns: int) -> None:
    knl = transpose().add_prefetch("a", ["j_inner", "i_inner"])
    knl = knl.add_padding("a_fetch", 0, padding) if padding else knl
    text = str(check(lambda: pl.draw_accesses(knl, "a_fetch")))
    read = text.partition("shared: insn reads a_fetch")[2].splitlines()
    assert len(read) - 1 == turns
    (found,) = (entry for entry in pl.get_bank_conflicts(knl) if not entry.is_write)
    assert found.worst == turns
    assert ("no conflicts" in read[0]) is (turns == 1)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"array": "c"}, "unknown-array"),
        ({"sizes": {"k": 1}}, "unknown-size"),
        ({"sizes": {"n": 0}}, "nothing-to-draw"),
    ],
)
def test_wrong_calls_of_draw_accesses(arguments: dict[str, Any], code: str) -> None:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.draw_accesses(transpose(), **arguments)
    assert caught.value.codes == (code,)


def test_what_cannot_be_drawn_is_refused() -> None:
    flat = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = 1", [pl.GlobalArg("a", np.float32, shape="n"), ...])
    with pytest.raises(pl.ArgumentError, match="it has no threads, and no warps"):
        flat.draw_accesses()
    untyped = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = b[i]").split_iname("i", 32, inner_tag="l.0")
    with pytest.raises(pl.VerificationError, match="unknown-dtype"):
        untyped.draw_accesses()
    with pytest.raises(pl.ArgumentError, match="data bounds a loop around"):
        example("csr_product").program().draw_domain()


def test_a_kernel_without_loops_is_drawn() -> None:
    knl = pl.make_kernel("{:}", "a = 3", [pl.GlobalArg("a", np.float32, shape=()), ...])
    assert "a = 3" in str(check(lambda: pl.draw_loops(knl)))
    check(lambda: pl.draw_dependences(knl))
    with pytest.raises(pl.ArgumentError, match="it has no inames"):
        knl.draw_domain()


@pytest.mark.parametrize("name", ["matmul_vectors", "transpose_vectors", "matmul_tiled"])
def test_accesses_of_shared_memory_are_as_wide_as_those_of_the_bank_conflicts(name: str) -> None:
    knl = example(name).transformed()
    text = str(knl.draw_accesses())
    for entry in pl.get_bank_conflicts(knl):
        verb = "writes" if entry.is_write else "reads"
        assert f"shared: {entry.instruction} {verb} {entry.access}: {entry.nbytes} bytes a lane, " in text


def test_messages_say_what_to_do() -> None:
    with pytest.raises(pl.ArgumentError) as caught:
        pl.draw_domain(stencil(), sizes={"T": 0})
    assert str(caught.value) == (
        "draw_domain on kernel 'stencil': 'insn' has no instances at T = 0, n = 15 [no-instances]\n"
        '  Hint: pass other sizes: sizes={"T": .., "n": ..}'
    )


def test_a_dependence_of_two_instructions_has_no_picture() -> None:
    knl = example("layer_norm").program()
    with pytest.raises(pl.ArgumentError, match="two domains"):
        pl.draw_domain(knl, dependence=pl.dependences(knl).of(source="insn", sink="insn_1")[0])


def test_a_picture_is_saved_as_svg_or_text(tmp_path: Path) -> None:
    picture = stencil().loops
    path = picture.save(tmp_path / "x.svg", theme="dark")
    assert ET.parse(path).getroot().attrib["role"] == "img"
    assert "prefers-color-scheme" not in path.read_text(encoding="utf-8")
    assert picture.save(str(tmp_path / "x.txt")).read_text(encoding="utf-8") == f"{picture}\n"
    for wrong in (tmp_path / "x.png", tmp_path / "no" / "x.svg"):
        with pytest.raises(pl.ArgumentError, match="bad-picture-file"):
            picture.save(wrong)


def test_markup_in_names_and_texts_is_text() -> None:
    knl = pl.make_kernel("{[i]: 0 <= i < n}", "a[i] = a[i] if a[i] < 3 and a[i] > 1 else 0",
                         [pl.GlobalArg("a", np.float32, shape="n"), ...])  # fmt: skip
    check(lambda: pl.draw_loops(knl))


def drawn() -> dict[str, pl.Picture]:
    spec = spec_from_file_location("draw", ROOT / "docs" / "pictures" / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.pictures())


def test_the_pictures_of_the_page_are_those_of_the_code(pytestconfig: pytest.Config) -> None:
    for name, picture in drawn().items():
        path = ROOT / "docs" / "pictures" / f"{name}.svg"
        if pytestconfig.getoption("--update-golden"):
            picture.save(path)
        assert path.read_text(encoding="utf-8") == picture.svg(), "run python docs/pictures/draw.py"
        assert check(lambda picture=picture: picture) is picture  # type: ignore[misc]


def test_loops_of_the_host_are_drawn_around_their_launches() -> None:
    knl = pl.make_kernel(
        "{[t, i, j]: 0 <= t < steps and 1 <= i, j < n - 1}",
        """
        for t
            for i
                v[i] = u[i - 1] + u[i + 1]  {id=away}
            end
            for j
                u[j] = v[j]  {id=back}
            end
        end
        """,
        [pl.GlobalArg("u, v", np.float32, shape="n"), ...],
    )
    knl = pl.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
    knl = pl.split_iname(knl, "j", 64, outer_tag="g.0", inner_tag="l.0")
    lines = [line.rstrip() for line in str(pl.draw_loops(pl.persist_blocks(knl, 132))).splitlines()]
    assert lines[0] == "for t in [0, steps), on the host"
    assert lines[1] == "    launch loop_kernel_0"
    assert lines[2].strip() == "grid min(132, max(0, (n + 62) // 64))"
    assert lines[3].strip() == "blocks of 64 threads, at most 132 that execute the others, too"
    assert "    == end of launch loop_kernel_0" in lines
    assert "    == end of each iteration of t" in lines
    assert lines[-1].endswith("because of u: RAW back -> away in a later iteration of t")
