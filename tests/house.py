"""The picture of the house in ``docs/architecture.md``, made from the code: ``python -m tests.house`` writes it anew.

Each package is a box with its number of lines; an arrow leads to a package that it imports, unless others lead there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
_IMPORT = re.compile(r"^[ ]*from polyloop\.(\w+)[\w.]* import\b", re.MULTILINE)
_BLOCK = re.compile(r"```mermaid\n.*?```\n", re.DOTALL)


def packages() -> dict[str, list[Path]]:
    """Return the modules of each package below ``polyloop``; a module of its own counts as a package."""
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "polyloop").rglob("*.py")):
        name = path.relative_to(ROOT / "polyloop").parts[0].removesuffix(".py")
        if name not in ("__init__", "__main__"):
            found.setdefault(name, []).append(path)
    return found


def _imported(path: Path) -> list[str]:
    return _IMPORT.findall(path.read_text(encoding="utf-8"))


def _reduced(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the arrows that no way of other arrows replaces."""

    @cache
    def reached(name: str) -> set[str]:
        below = set(arrows[name])
        return below.union(*(reached(other) for other in below))

    return {name: below - set[str]().union(*(reached(other) for other in below)) for name, below in arrows.items()}


def picture() -> str:
    """Return the picture, as a block of Mermaid text."""
    modules = packages()
    arrows = {}
    for name, paths in modules.items():
        arrows[name] = {x for path in paths for x in _imported(path)} & modules.keys() - {name}
    lines = ["```mermaid", "flowchart TD"]
    for name, paths in modules.items():
        count = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
        lines.append(f'    {name}["{name}<br/>{round(count, -2):,} lines"]')
    for name, below in sorted(_reduced(arrows).items()):
        lines += [f"    {name} --> {other}" for other in sorted(below)]
    return "\n".join([*lines, "```", ""])


def main() -> int:
    """Write the picture into the page; the exit status is 1 if the page has none."""
    text = PAGE.read_text(encoding="utf-8")
    changed, count = _BLOCK.subn(lambda _: picture(), text, count=1)
    PAGE.write_text(changed, encoding="utf-8")
    return int(count != 1)


if __name__ == "__main__":
    sys.exit(main())
