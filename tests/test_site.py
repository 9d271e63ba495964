"""The site of ``docs/``: built once by Sphinx, its warnings errors; every public name is on a page."""

from __future__ import annotations

import html
import re
import resource
import subprocess
import sys
import zlib
from pathlib import Path
from urllib.parse import unquote

import pytest

import polyloop as pl
from polyloop.transform.index import HOMES
from tests import house

ROOT = Path(__file__).parents[1]
MOST_SECONDS = 300
pytestmark = [pytest.mark.site, pytest.mark.slow]


def seconds_of_children() -> float:
    """Return the time that processors spent on processes that have ended [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site, which takes less than five minutes with the notebooks in it."""
    begin = seconds_of_children()
    folder = tmp_path_factory.mktemp("site")
    arguments = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "doctrees"), "docs", str(folder / "html")]
    command = [sys.executable, "-m", "sphinx", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert seconds_of_children() - begin < MOST_SECONDS
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    """Return the text of each page, by its path."""
    return {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def documented(site: Path) -> dict[str, str]:
    """Return the objects of the inventory that other sites link to, and the page of each."""
    packed = site.joinpath("objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = [line.split(" ") for line in zlib.decompress(packed).decode().splitlines()]
    return {entry[0]: entry[3].partition("#")[0] for entry in entries if entry[1].startswith("py:")}


def test_every_public_name_is_on_a_page_of_the_reference(site: Path) -> None:
    known = documented(site)
    missing = [name for name in pl.__all__ if f"polyloop.{name}" not in known]
    assert missing == [], "add them to a page of docs/reference"
    assert {known[f"polyloop.{name}"].partition("/")[0] for name in pl.__all__} == {"reference"}


def test_transforms_are_on_the_page_of_their_family(site: Path) -> None:
    known = documented(site)
    for name, home in HOMES.items():
        family = home.partition(".")[0] if "." in home else "instructions"
        assert known[f"polyloop.{name}"] == f"reference/transforms/{family}.html"


def signature_on(page: str, name: str) -> str:
    """Return what stands in the brackets behind a name, and what is returned."""
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    return " ".join(text.partition(f"{name}(")[2].partition("¶")[0].split())


def test_signatures_are_those_that_callers_see(pages: dict[str, str]) -> None:
    shown = signature_on(pages["reference/transforms/loops.html"], "polyloop.split_iname")
    parameters = ["kernel: LoopKernel", "split_iname: str", "inner_length: int", "*", "outer_iname: str | None = None"]
    assert shown.startswith(", ".join(parameters))
    assert "slabs: tuple[int, int] = (0, 0)" in shown
    assert shown.endswith("→ LoopKernel")
    steps = pages["reference/transforms/steps.html"]
    assert signature_on(steps, "classmethod of").startswith("source: LoopKernel | Trace")
    assert signature_on(steps, "\napply").startswith("kernel: LoopKernel")


def test_no_page_shows_what_is_inside(pages: dict[str, str]) -> None:
    inside = re.compile(r"EXPLAINED|Annotated\[|_MISSING|object at 0x|<factory>|<class '|~[a-z]+\.")
    reference = {page: html.unescape(text) for page, text in pages.items() if page.startswith("reference")}
    assert {page: inside.findall(text) for page, text in reference.items() if inside.search(text)} == {}


def test_the_start_page_has_a_picture_and_a_search_box(site: Path, pages: dict[str, str]) -> None:
    picture = re.search(r'src="([^"]+idea\.svg)"', pages["index.html"])
    assert picture is not None
    assert site.joinpath(picture[1]).stat().st_size < 20_000
    assert 'action="search.html"' in pages["index.html"]
    assert site.joinpath("searchindex.js").stat().st_size > 100_000


def test_the_packages_are_a_picture(pages: dict[str, str]) -> None:
    (picture,) = re.findall(r'<svg class="flowchart".*?</svg>', pages["architecture.html"])
    boxes = re.findall(r'class="line0">(\w+)<', picture)
    assert sorted(boxes) == sorted(house.packages())
    assert picture.count("marker-end") == house.picture().count(" --> ")


def test_the_gallery_has_every_example_with_pictures_and_figures(site: Path, pages: dict[str, str]) -> None:
    examples = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    sections = re.findall(r'<section id="([\w-]+)">\n<h2>(\w+)<.*?</section>', pages["gallery.html"], re.DOTALL)
    assert [name for _, name in sections] == examples
    cards = re.findall(r'<a class="gallery-card" href="#([\w-]+)"', pages["gallery.html"])
    assert cards == [anchor for anchor, _ in sections]
    shown = {name: re.findall(rf'src="_gallery/{name}-(\w+)\.svg"', pages["gallery.html"]) for name in examples}
    assert [name for name, kinds in shown.items() if not {"loops", "footprint"} <= set(kinds)] == []
    assert sum("pipeline" in kinds for kinds in shown.values()) >= 5
    files = {f"{name}-{kind}.svg" for name, kinds in shown.items() for kind in kinds}
    assert files == {path.name for path in (site / "_gallery").iterdir()}
    assert max(path.stat().st_size for path in (site / "_gallery").iterdir()) < 200_000
    counted = re.findall(r"<td>proofs</td><td>(\d+)</td>", pages["gallery.html"])
    assert len(counted) == len(examples)
    assert min(map(int, counted)) > 3


def test_terms_are_defined_that_pages_use(pages: dict[str, str]) -> None:
    defined = set(re.findall(r'id="term-([^"]+)"', pages["glossary.html"]))
    wanted = {"iname", "instance", "launch", "sweep", "phantom", "domain", "certificate", "reference-program"}
    assert wanted - defined == set()


def test_links_lead_to_pages_and_places_in_them(site: Path, pages: dict[str, str]) -> None:
    places = {page: {*map(html.unescape, re.findall(r'\b(?:id|name)="([^"]+)"', text))} for page, text in pages.items()}
    wrong = []
    for page, text in pages.items():
        for link in map(html.unescape, re.findall(r'\b(?:href|src)="([^"]*)"', text)):
            if re.match(r"(https?|mailto|data|javascript):", link):
                continue
            path, _, place = unquote(link).partition("#")
            target = (site / page).parent.joinpath(path.partition("?")[0]).resolve() if path else site / page
            inside = target.is_relative_to(site.resolve())
            known = places.get(str(target.relative_to(site.resolve()))) if inside else None
            if not target.exists() or (place and known is not None and place not in known):
                wrong.append((page, link))
    assert wrong == []


def test_no_page_loads_anything_from_elsewhere(pages: dict[str, str]) -> None:
    loads = re.compile(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//|<link[^>]+rel="stylesheet"[^>]+href="https?://')
    assert [page for page, text in pages.items() if loads.search(text)] == []
    assert [page for page, text in pages.items() if str(ROOT) in text] == []
