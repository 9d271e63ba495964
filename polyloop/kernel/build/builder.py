"""The stages from what users write to a ``LoopKernel``, in their order; none of them analyses the program.

=======================  =========================================================================================
stage                    result
=======================  =========================================================================================
``read_domains``         the domains, with fixed parameters replaced by numbers
``plain_text``           plain assignments: calls in line, shorthands written out
``declared``             arguments and temporaries of ``kernel_data`` and of ``<>``
``with_initial_values``  values that temporaries begin with, as instructions before all others
``find_bounds``          temporaries that bound loops
``drafts_of``            statements with ids, and with the loops around them
``complete_arguments``   arguments that the text mentions besides, and the order of parameters
``own_ranges``           domains taken apart where a loop runs around an empty one
``instructions_of``      instructions: nests, iteration domains, reads
``sequenced``            instructions and barriers in the order of the reference program, ``dep=`` resolved
=======================  =========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import islpy as isl
import numpy as np

from polyloop.errors import KernelError
from polyloop.expr.names import KERNEL_NAME, check_identifier
from polyloop.expr.nodes import Expression, Operation
from polyloop.frozen import replace
from polyloop.kernel.build.declare import (
    check_parameters,
    complete_arguments,
    condition_of,
    declared,
    order_parameters,
    parameters_used,
    with_open_shapes,
)
from polyloop.kernel.build.domains.data_bounds import find_bounds, known_at_launch
from polyloop.kernel.build.domains.ranges import own_ranges
from polyloop.kernel.build.domains.read import GivenDomains, listed, read_domains
from polyloop.kernel.build.drafts import drafts_of
from polyloop.kernel.build.function import FunctionTable
from polyloop.kernel.build.initial_values import with_initial_values
from polyloop.kernel.build.instructions import instructions_of
from polyloop.kernel.build.plain.foreign import foreign_in
from polyloop.kernel.build.plain.passes import plain_text
from polyloop.kernel.build.sequence import sequenced
from polyloop.kernel.cinstruction import CInstruction
from polyloop.kernel.domains import align, with_settled_sets
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.text.options import Division
from polyloop.kernel.text.parser import Parsed
from polyloop.kernel.text.specs import Defaults
from polyloop.poly.sets import parameter_space

__all__ = ["build_kernel"]

_NO_FUNCTIONS = FunctionTable()
_NO_SHAPES: Mapping[str, tuple[Expression, ...]] = MappingProxyType({})


def build_kernel(
    domains: GivenDomains,
    instructions: str | Sequence[str | CInstruction] | Sequence[Parsed],
    kernel_data: Sequence[object] | None,
    *,
    name: str,
    assumptions: str | isl.Set | None,
    fixed_parameters: Mapping[str, int],
    loop_priority: tuple[tuple[str, ...], ...],
    defaults: Defaults,
    index_dtype: np.dtype[np.generic],
    functions: FunctionTable = _NO_FUNCTIONS,
    seq_dependencies: bool = False,
    operations: tuple[Operation, ...] = (),
    division: Division = Division.INNERMOST,
    shapes: Mapping[str, tuple[Expression, ...]] = _NO_SHAPES,
) -> LoopKernel:
    """Return the kernel that the arguments of :func:`polyloop.make_kernel` describe, types still open.

    *instructions* may have been parsed already.  Barriers divide loops as *division* says.
    *shapes* are those of arrays that leave theirs open.
    """
    problem = check_identifier(name, KERNEL_NAME)
    if problem is not None:
        raise KernelError("make_kernel", None, [problem])
    fixed = fixed_parameters
    pieces, found = read_domains(listed(domains), fixed)
    text = plain_text(
        pieces, instructions, kernel_data, name, functions, operations, fixed, defaults, division=division)
    data = declared(kernel_data, text.statements, fixed, defaults, text.inlined.program.temporaries)
    text, data = with_initial_values(text, data)
    condition = condition_of(assumptions, fixed)
    bounds = find_bounds(text.domains, data.temporaries)
    condition = known_at_launch(bounds, condition)
    drafts = drafts_of(text, data.temporaries, bounds, functions.functions, are_chained=seq_dependencies)
    data = replace(data, temporaries=drafts.temporaries)
    check_parameters(fixed, condition, text.domains, data.given, found | text.fixed)
    parameters = parameters_used(text.domains, condition, (*text.inames, *bounds.names))
    arguments = complete_arguments(data, drafts.statements, text.inames, parameters, defaults)
    arguments = with_open_shapes(text.inlined.typed(arguments), shapes)
    parameters = order_parameters(parameters, arguments, drafts.statements)
    space = parameter_space(parameters)
    kernel = LoopKernel(
        name=name,
        parameters=parameters,
        assumptions=space if condition is None else align(condition, space).intersect(space),
        domains=own_ranges(text.domains, drafts.statements),
        instructions=(),
        arguments=arguments,
        temporaries=data.temporaries,
        substitutions=text.rules,
        loop_priority=loop_priority,
        fixed=dict(fixed),
        foreign=foreign_in(text.statements, text.rules.values()),
        index_dtype=index_dtype,
    )
    built = instructions_of(kernel, drafts.statements, bounds)
    ordered, explicit = sequenced(drafts, built, text.aliases, text.nops())
    return with_settled_sets(replace(kernel, instructions=ordered, barriers=explicit))
