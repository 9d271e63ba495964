"""All launches of a program in one function: a list of them is an argument, and blocks wait between two of them.

::

    for (int step = 0; step < list[0]; ++step) {
        const int *const launch = list + 1 + 4 * step;                  // function, and blocks along x, y, z
        for (unsigned int block = blockIdx.x; block < blocks; block += gridDim.x)
            switch (launch[0]) { case 0: first(a, n, ..); break;  case 1: second(..); break; }
        if (step + 1 < list[0]) wait_for_blocks(state, awaited += gridDim.x);
    }

A loop of the host that goes on while elements of memory say so has a line of its own where each iteration begins, with
-1 in place of a function: all blocks read the elements, wait, and go on behind the loop if it has ended.

The list is that of the host: :class:`polyloop.runtime.steps.Steps`, with the inames that functions are passed.  A block
of the one launch executes several blocks of a program's launch where not all of those can run at one time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

from polyloop.codegen.arguments import held_dtype
from polyloop.codegen.device.entries import Threads, Together
from polyloop.codegen.functions import Function
from polyloop.codegen.program import DeviceLaunch, listed_inames, listed_loops
from polyloop.codegen.unit import Unit
from polyloop.errors import CodegenError, Diagnostic
from polyloop.kernel.arrays import ArrayArg
from polyloop.schedule.storage import shared_bytes

__all__ = ["together_text"]

_STATIC_SHARED: Final = 48 * 1024


def together_text(functions: Sequence[Function], launches: Sequence[DeviceLaunch], unit: Unit) -> str:
    """Return the function that runs *launches*, with the definition of its barrier.

    Its parameters are all arguments of the program and its workspace, the list of launches, and the state of the
    barrier.

    Raises
    ------
    CodegenError
        ``unsupported-launches``.
    """
    if found := [*_obstacles(functions, launches, unit)]:
        notes = tuple(dict.fromkeys(found))
        hints = ("leave it out, or pass launches=\"graph\", which starts all launches of a call at one time",)
        raise CodegenError("generate_code", unit.schedule.name, [Diagnostic(
            "unsupported-launches", "the launches of this program cannot be one cooperative launch", notes, hints)])
    together, scope = unit.language.need(Together), functions[0].scope
    arguments = unit.inputs.arguments
    names = unit.names((*(a.name for a in arguments), *(launch.name for launch in launches)))
    steps, launch, block, blocks, nx, ny, place, table, state, every = map(names.fresh, (
        "step", "launch", "block", "blocks", "nx", "ny", "place", "list", "state", "awaited"))  # fmt: skip
    parameters, types = [], [held_dtype(argument) for argument in arguments]
    for argument, dtype in zip(arguments, types, strict=True):
        assert dtype is not None, f"'{argument.name}' has no type"
        parameters.append(f"{scope.ctype(dtype)} {'*' if isinstance(argument, ArrayArg) else ''}{argument.name}")
    parameters.append(together.table.format(type=scope.index_type, name=table))
    parameters.append(together.state.format(name=state))
    inames = {iname: 4 + number for number, iname in enumerate(listed_inames(launches))}
    bounds = together.launch_bounds.format(threads=prod(launches[0].block))
    cases = []
    for number, each in enumerate(launches):
        passed = (f"{launch}[{inames[name]}]" if name in inames else name for name in each.arguments)
        cases.append(f"            case {number}: {each.name}({', '.join((*passed, place))}); break;")
    name = names.fresh(f"{unit.schedule.name}_together")
    barrier, function = together.barrier
    wait = f"{function}({state}, {every} += {together.count});"
    begins = [*_begins(launches, inames, launch, steps, (names.fresh("goes_on"), wait))]
    return "\n".join([
        barrier, "",
        f"{together.function} {bounds} {name}({', '.join(parameters)})",
        "{",
        f"    unsigned int {every} = 0;  // arrivals of all blocks at the waits until now",
        f"    for ({scope.index_type} {steps} = 0; {steps} < {table}[0]; ++{steps}) {{",
        f"        const {scope.index_type} *const {launch} = {table} + 1 + {4 + len(inames)} * {steps};",
        *begins,
        f"        const unsigned int {nx} = {launch}[1], {ny} = {launch}[2], {blocks} = {nx} * {ny} * {launch}[3];",
        f"        for (unsigned int {block} = {together.own}; {block} < {blocks}; {block} += {together.count}) {{",
        "            " + together.make_block.format(
            name=place, x=f"{block} % {nx}", y=f"{block} / {nx} % {ny}", z=f"{block} / {nx} / {ny}"),
        f"            switch ({launch}[0]) {{",
        *cases,
        "            }",
        f"            {unit.language.need(Threads).block_barrier}  // the next block uses the same memory",
        "        }",
        f"        if ({steps} + 1 < {table}[0])",
        f"            {wait}",
        "    }",
        "}",
    ])  # fmt: skip


def _begins(
    launches: Sequence[DeviceLaunch], inames: Mapping[str, int], launch: str, step: str, words: tuple[str, str]
) -> Iterator[str]:
    """Yield the lines for the beginning of an iteration, if loops go on while elements of memory say so.

    The wait, the second of *words*, keeps blocks from changing the elements before all have read them.
    """
    loops, (goes_on, wait) = listed_loops(launches), words
    if not loops:
        return
    yield f"        if ({launch}[0] < 0) {{"
    yield f"            bool {goes_on} = true;"
    yield f"            switch ({launch}[1]) {{"
    for number, loop in enumerate(loops):
        assert loop.test is not None, f"'{loop.iname}' is listed"
        known = [f"const int {name} = {launch}[{inames[name]}]; " for name, _ in loop.test.types if name in inames]
        yield f"            case {number}: {{ {''.join(known)}{goes_on} = {loop.test.text}; }} break;"
    yield "            }"
    yield f"            {wait}"
    yield f"            if (!{goes_on})"
    yield f"                {step} = {launch}[2] - 1;"
    yield "            continue;"
    yield "        }"


def _obstacles(functions: Sequence[Function], launches: Sequence[DeviceLaunch], unit: Unit) -> Iterator[str]:
    """Yield reasons why launches of a program have to be their own."""
    for function in functions:
        name = function.launch.name
        if function.numbering is not None:
            yield f"the blocks of '{name}' are numbered in an order of their own"
        if function.dynamic_shared:
            yield f"'{name}' asks for dynamic shared memory, {function.dynamic_shared} bytes"
        if function.launch.cluster > 1:
            yield f"the blocks of '{name}' are in clusters"
        if function.launch.maps:
            yield f"'{name}' has copies by a copy engine, which does not wait for blocks"
    if unit.inputs.chains:
        yield "it has scans over blocks, which count the blocks of a launch"
    shapes = dict.fromkeys(launch.block for launch in launches)
    if len(shapes) > 1:
        yield f"its launches have blocks of different shapes, {' and '.join(' x '.join(map(str, s)) for s in shapes)}"
    shared = sum(shared_bytes(function.launch.temporaries) for function in functions if not function.dynamic_shared)
    if shared > _STATIC_SHARED:
        yield f"its functions have {shared} bytes of shared memory together, and a launch has {_STATIC_SHARED}"
