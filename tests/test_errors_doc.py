"""Every diagnostic code has a heading in docs/errors.md, and every heading is a code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def nodes() -> list[list[ast.AST]]:
    """Return the nodes of each module that may have to do with codes."""
    kinds = (ast.FunctionDef, ast.AnnAssign, ast.Assign, ast.keyword, ast.Call)
    paths = sorted(ROOT.joinpath("polyloop").rglob("*.py"))
    trees = (ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in paths)
    return [[node for node in ast.walk(tree) if isinstance(node, kinds)] for tree in trees]


def functions_with_a_code(module: list[ast.AST]) -> dict[str, int | None]:
    """Return the functions that a module defines, and at which position each takes a code."""
    found: dict[str, int | None] = {}
    for node in module:
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args if argument.arg not in {"self", "cls"}]
            found[node.name] = names.index("code") if "code" in names else None
    return found


def literals(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=orelse):
            yield from literals(body)
            yield from literals(orelse)


def codes_of(call: ast.Call, positions: dict[str, int | None]) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    position = positions.get(name)
    if position is None:
        return
    kinds = [keyword.value for keyword in call.keywords if keyword.arg == "kind"]
    for value in (*kinds, *call.args[position : position + 1]):
        for text in literals(value):
            yield f"unknown-{text.replace(' ', '-')}" if name == "unknown_name" else text


def named_codes(module: list[ast.AST]) -> Iterator[str]:
    """Yield what is given to parameters, fields and variables that are called ``code``."""
    for node in module:
        match node:
            case ast.FunctionDef(args=ast.arguments(posonlyargs=first, args=rest, defaults=[_, *_] as defaults)):
                for argument, default in zip([*first, *rest][-len(defaults) :], defaults, strict=True):
                    if argument.arg == "code":
                        yield from literals(default)
            case ast.AnnAssign(target=ast.Name(id="code"), value=ast.expr() as value):
                yield from literals(value)
            case ast.Assign(targets=[ast.Name(id="code")], value=value) | ast.keyword(arg="code", value=value):
                yield from literals(value)


@cache
def codes_in_source() -> frozenset[str]:
    modules = nodes()
    everywhere: dict[str, int | None] = {"Diagnostic": 0, "unknown_name": 0, "LaunchCheck": 2}
    for module in modules:
        everywhere |= {name: at for name, at in functions_with_a_code(module).items() if at is not None}
    found: set[str] = set()
    for module in modules:
        found.update(named_codes(module))
        positions = everywhere | functions_with_a_code(module)
        calls = (node for node in module if isinstance(node, ast.Call))
        found.update(code for call in calls for code in codes_of(call, positions))
    return frozenset(found)


def sections() -> dict[str, str]:
    """Return the text below each heading of docs/errors.md that is a code."""
    parts = re.split(r"^### (.*)$", ROOT.joinpath("docs/errors.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title.strip("` "): text for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_codes_are_slugs() -> None:
    assert [code for code in codes_in_source() if not SLUG.fullmatch(code)] == []


def test_every_code_has_a_heading() -> None:
    missing = sorted(codes_in_source() - set(sections()))
    assert missing == []


def test_every_heading_is_a_code() -> None:
    stale = sorted(set(sections()) - codes_in_source())
    assert stale == []


def test_every_heading_says_what_to_do() -> None:
    assert [code for code, text in sections().items() if "**What to do.**" not in text] == []
