"""Statements of a function, in the form that replaces its calls."""

from __future__ import annotations

from polyloop.errors import Place, Span
from polyloop.expr.nodes import array_name, targets_of
from polyloop.frozen import replace
from polyloop.kernel.build.declare import read_data
from polyloop.kernel.build.domains.read import listed, read_domains
from polyloop.kernel.build.draft import fail, site_of
from polyloop.kernel.build.drafts import ids_of
from polyloop.kernel.build.function import FunctionTable, Program
from polyloop.kernel.build.plain.passes import plain_text
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import Written
from polyloop.kernel.reductions import operations_of
from polyloop.kernel.text.parser import ParsedRule
from polyloop.kernel.text.specs import Defaults

__all__ = ["program_of"]


def program_of(kernel: LoopKernel, written: Written, functions: FunctionTable) -> Program:
    """Return the statements of *kernel*, which was made as *written* says, to be put in the place of calls.

    Raises
    ------
    KernelError
        ``bad-function``: a variable with an initializer is written.
    """
    pieces, _ = read_domains(listed(written.domains), {})
    operations = operations_of(dict(written.options).get("reductions", ()))
    instructions, data = written.instructions, written.kernel_data
    text = plain_text(pieces, instructions, data, kernel.name, functions, operations, {}, Defaults())
    statements = [replace(entry, id=new) for entry, new in zip(text.statements, ids_of(text), strict=True)]
    rules = [ParsedRule(rule, Place(str(rule), Span(str(rule), 0))) for rule in text.rules.values()]
    _, declared, _ = read_data(data, text.statements, Defaults())
    declared.update(text.inlined.program.temporaries)
    for entry in text.statements:
        for target in targets_of(entry.assignee):
            known = declared.get(array_name(target))
            if known is None or known.initializer is None:
                continue
            message = f"'{known.name}' has an initializer and is written: one call would see what another left"
            hint = "assign the values in the function"
            raise fail("bad-function", message, hints=(hint,), site=site_of(entry))
    shaped = {name: replace(entry, shape=kernel.temporaries[name].shape) for name, entry in declared.items()}
    return Program(text.domains, (*rules, *statements), shaped)
