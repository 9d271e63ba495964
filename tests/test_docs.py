"""The code in README, tutorial and the page on performance runs, and prints what is shown."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path

import pytest

from tests import house

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
PAGES = sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/performance.md"])
def test_the_code_of_a_page_prints_what_is_shown(page: str, pytestconfig: pytest.Config) -> None:
    namespace: dict[str, object] = {"__name__": "page"}
    printed = ""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    for number, fence in enumerate(fences):
        kind, body = fence.groups()
        if kind == "text":
            if pytestconfig.getoption("--update-golden"):
                text = text.replace(fence[0], f"```text\n{printed.rstrip()}\n```")
                path.write_text(text, encoding="utf-8")
                continue
            assert printed.rstrip() == body.rstrip()
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            file = f"{page}/block{number}.py"
            linecache.cache[file] = (len(body), None, body.splitlines(keepends=True), file)
            exec(compile(body, file, "exec"), namespace)
        printed = output.getvalue()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    assert [target for target in targets if not path.parent.joinpath(target).exists()] == []


def test_the_picture_of_the_packages_is_the_codes() -> None:
    page = house.PAGE.read_text(encoding="utf-8")
    drawn = re.search(r"```mermaid\n.*?```\n", page, re.DOTALL)
    assert drawn is not None
    numbers = re.compile(r"[\d,]+ lines")  # which may be those of some time ago
    assert numbers.sub("", drawn.group()) == numbers.sub("", house.picture()), "run python -m tests.house"
