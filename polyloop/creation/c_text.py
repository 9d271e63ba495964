"""Checks of the user's C text by its tokens: balanced brackets, declared names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import CText
from polyloop.expr.rewrite import variables
from polyloop.kernel.domains import bound_variables
from polyloop.kernel.instruction import Instruction
from polyloop.kernel.kernel import LoopKernel

__all__ = ["c_text_violations"]

_NO_CODE: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
_WORD: Final = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*", re.ASCII)
_CLOSES: Final = {")": "(", "]": "[", "}": "{"}
_LOOPS: Final = frozenset({"for", "while", "do", "switch"})


@dataclass(frozen=True)
class _Problem:
    message: str
    hint: str


def c_text_violations(kernel: LoopKernel) -> Iterator[Diagnostic]:
    """Yield ``bad-c-instruction`` for C text with unbalanced braces or undeclared names of the kernel."""
    domains = [domain for i in kernel.instructions for domain in (i.domain, *(term.domain for term in i.terms))]
    bounds = {name for domain in domains for name in bound_variables(domain, kernel.parameters)}
    for instruction in kernel.instructions:
        if isinstance(instruction.expression, CText):
            for problem in _problems(kernel, instruction, instruction.expression, bounds):
                hints = (problem.hint,)
                yield Diagnostic("bad-c-instruction", problem.message, hints=hints, sites=(instruction.site(),))
                break


def _problems(
    kernel: LoopKernel, instruction: Instruction, text: CText, bounds: set[str]
) -> Iterator[_Problem]:
    code = _NO_CODE.sub(" ", text.code)
    words = frozenset(_WORD.findall(code))
    if not _is_balanced(code):
        yield _Problem("the brackets of the C text do not match", "close what you open, and nothing else")
    leaving = sorted(word for word in words if word in ("return", "goto") or word.startswith(("__sync", "__barrier")))
    leaving += sorted(words & {"break", "continue"}) if words.isdisjoint(_LOOPS) else []
    if leaving:
        hint = "barriers are derived: write two instructions" if "sync" in leaving[0] else "write if (...) { ... }"
        yield _Problem(f"'{leaving[0]}' does not belong in C text, which is a part of a function", hint)
    names = kernel.names() - kernel.substitutions.keys()
    declared = {*text.names, *text.touched}
    for word in sorted(words & names - declared):
        what = f"iname '{word}'" if word in kernel.inames else f"'{word}'"
        where = "iname_exprs" if word in kernel.inames else "read_variables or assignees"
        yield _Problem(f"the C text uses {what}, which is not declared", f"add '{word}' to {where}, or rename a local")
    yield from _wrong_variables(kernel, instruction, text, code)
    for name in instruction.writes:
        if name in bounds:
            yield _Problem(f"C text assigns '{name}', which bounds a loop", "assign it in an instruction of its own")


def _wrong_variables(kernel: LoopKernel, instruction: Instruction, text: CText, code: str) -> Iterator[_Problem]:
    arrays = kernel.arrays()
    known = {*arrays, *kernel.values(), *kernel.parameters, *kernel.inames}
    for name, value in zip(text.names, text.values, strict=True):
        for unknown in sorted(variables(value) - known):
            yield _Problem(f"'{unknown}' is no variable of the kernel", "correct its name in iname_exprs")
        array = arrays.get(value.name) if isinstance(value, p.Variable) else None
        if array is None and re.search(rf"\b{re.escape(name)}\s*\[", code):
            yield _Problem(f"the C text subscripts '{name}', which is no array", f"declare the array '{name}'")
        if array is not None and array.shape is None:
            yield _Problem(f"the C text reads '{name}', whose shape is not declared", "declare the shape")
        if array is not None and array.shape and value.name != name:
            yield _Problem(f"'{name}' would be the array '{value.name}'", f"add '{value.name}' to read_variables")
    for name in instruction.writes:
        if name in kernel.inames:
            yield _Problem(f"C text cannot assign iname '{name}'", "assign a temporary")


def _is_balanced(code: str) -> bool:
    """Return whether brackets match, so that the text cannot leave the braces around it."""
    opened: list[str] = []
    for character in code:
        if character in "([{":
            opened.append(character)
        elif character in _CLOSES and (not opened or opened.pop() != _CLOSES[character]):
            return False
    return not opened
