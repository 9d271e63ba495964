"""``@pl.kernel``: a Python function as a kernel.

The source of the function is read, never run.  What a loop, an assignment or a reduction means in Python is what it
means in the kernel; other code is refused, with its position in the user's file.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, NoReturn, overload

import islpy as isl
import numpy as np

from polyloop.creation.create import create_kernel
from polyloop.edge.calls import public
from polyloop.edge.checks import EXPLAINED
from polyloop.errors import Diagnostic, KernelError, Site
from polyloop.expr.dtypes import find_dtype
from polyloop.expr.foreign import ForeignFunction
from polyloop.expr.rewrite import variables
from polyloop.frontend.branching import without_skips
from polyloop.frontend.counting import counters_of
from polyloop.frontend.intrinsics import Array, ArrayType
from polyloop.frontend.scope import Names, Scope, Use
from polyloop.frontend.source import DECORATOR, FunctionSource, Node, read_source
from polyloop.frontend.statements import Body
from polyloop.frontend.text import statements_text
from polyloop.kernel.arrays import ArrayArg, TemporaryVariable
from polyloop.kernel.build.text_order import LoopPriority
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import Written
from polyloop.kernel.text.specs import GlobalArg, ValueArg, expand_data

__all__ = ["kernel"]

_TYPES = 'write pl.int32, np.float32 or pl.Array[np.float32, "n", "m"]'


@overload
def kernel(function: Callable[..., object], /) -> LoopKernel: ...


@overload
def kernel(
    *,
    name: str | None = ...,
    kernel_data: Sequence[object] = ...,
    assumptions: str | isl.Set | None = ...,
    fixed_parameters: Mapping[str, int] | None = ...,
    loop_priority: LoopPriority = ...,
    silenced_warnings: str | Sequence[str] = ...,
) -> Callable[[Callable[..., object]], LoopKernel]: ...


def kernel(
    function: Annotated[Callable[..., object] | None, EXPLAINED] = None,
    /,
    *,
    name: str | None = None,
    kernel_data: Sequence[object] = (),
    assumptions: str | isl.Set | None = None,
    fixed_parameters: Mapping[str, int] | None = None,
    loop_priority: LoopPriority = (),
    silenced_warnings: str | Sequence[str] = (),
) -> LoopKernel | Callable[[Callable[..., object]], LoopKernel]:
    """Create a kernel from a Python function; used as a decorator.

    ::

        @pl.kernel(assumptions="n >= 1")
        def matmul(n: pl.int32, a: pl.Array[np.float32, "n", "n"], b: pl.Array[np.float32, "n", "n"],
                   c: pl.Array[np.float32, "n", "n"]):
            for i, j in pl.domain("0 <= i, j < n"):
                c[i, j] = sum(a[i, k]*b[k, j] for k in range(n))
        ->
        make_kernel(["{[i, j]: 0 <= i, j < n}", "{[k]: 0 <= k < n}"],
                    ["for i, j", "c[i, j] = sum(k, a[i, k]*b[k, j])", "end"], [...], name="matmul", ...)

    Each ``for`` is one loop, and has an iname of its own: the second loop over ``i`` is ``i_1``, and one that runs
    downward is ``i_down``, which counts from 0.  So has each variable of a generator, and the counter of each
    ``while``.  A variable that is assigned is a temporary; numbers from outside of the function are literals.
    Statements run in the order of Python.

    Parameters
    ----------
    function
        Its parameters are the arguments: ``pl.Array[dtype, extents...]``, a scalar type, or no type, which infers it.
    name
        C identifier of the generated function; by default the function's name.
    kernel_data
        Declarations beyond the types of parameters, as for :func:`polyloop.make_kernel`: entries for arguments, which
        replace their types, and for temporaries.
    assumptions, fixed_parameters, loop_priority, silenced_warnings
        As for :func:`polyloop.make_kernel`.

    Returns
    -------
    LoopKernel
        The function itself is not kept.

    Raises
    ------
    KernelError
        With file, line and caret: ``unsupported-statement``, ``unsupported-expression``, ``unsupported-loop``,
        ``undeclared-name``, ``bad-capture``, ``unknown-function``, ``bad-annotation`` and what
        :func:`polyloop.make_kernel` raises; ``not-a-function``, ``source-not-found``.
    """
    around = _locals_of_caller()

    def create(function: Callable[..., object]) -> LoopKernel:
        source = read_source(function)
        source = replace(source, tree=without_skips(source.tree))
        title = name or source.tree.name
        try:
            body, data = _read(function, source, around, kernel_data)
            domains = body.converter.loops.domains
            created = create_kernel(
                domains,
                body.found,
                data,
                name=title,
                assumptions=assumptions,
                fixed_parameters=fixed_parameters,
                loop_priority=loop_priority,
                silenced_warnings=silenced_warnings,
                reductions=tuple(body.converter.operations.values()),
            )
        except KernelError as error:
            found = [_placed(diagnostic, source) for diagnostic in error.found]
            raise KernelError(DECORATOR, title, found) from None
        options = (
            ("name", title),
            ("assumptions", assumptions),
            ("fixed_parameters", fixed_parameters),
            ("loop_priority", loop_priority if isinstance(loop_priority, str) else tuple(loop_priority)),
            ("silenced_warnings", silenced_warnings),
            ("functions", _one_of_each_name(created.foreign, title)),
            ("reductions", tuple(body.converter.operations.values())),
        )
        given = tuple((key, value) for key, value in options if value is not None and value != ())
        text = statements_text(body.found, body.spelled, body.scope.arrays)
        return replace(created, made=Written(tuple(domains), text, tuple(data), given))

    return create if function is None else create(function)


def _one_of_each_name(functions: tuple[ForeignFunction, ...], title: str) -> tuple[ForeignFunction, ...]:
    """Return *functions*, no two of which may have one name: the text of the kernel could not tell them apart."""
    for name, number in Counter(function.name for function in functions).items():
        if number > 1:
            hint = "give each a name of its own"
            problem = Diagnostic("name-taken", f"there are two foreign functions '{name}'", hints=(hint,))
            raise KernelError(DECORATOR, title, [problem])
    return functions


def _placed(diagnostic: Diagnostic, source: FunctionSource) -> Diagnostic:
    """Return *diagnostic* with the line of the function, if it has no place."""
    if diagnostic.span is not None or diagnostic.sites:
        return diagnostic
    number = source.tree.lineno
    site = Site(source.line(number).strip(), number, None, source.file)
    return Diagnostic(diagnostic.code, diagnostic.message, diagnostic.notes, diagnostic.hints, None, (site,))


def _locals_of_caller() -> dict[str, object]:
    """Return the local variables of the decorator's caller, past frames of the library's edge."""
    frame = inspect.currentframe()
    passed = (__name__, public.__module__)
    while frame is not None and frame.f_globals.get("__name__") in passed:
        frame = frame.f_back
    return {} if frame is None else dict(frame.f_locals)


def _read(
    function: Callable[..., object], source: FunctionSource, around: Mapping[str, object], kernel_data: Sequence[object]
) -> tuple[Body, list[object]]:
    """Return the body of the function, and its arguments and temporaries."""
    listed = {item.name: entry for entry in kernel_data if entry is not ... for item in expand_data(entry)}
    entries = _signature(function, source, around, listed)
    arguments, conditions = _uses(entries.values(), source)
    names = Names.of(source.tree, function, arguments)
    names = replace(names, counters=counters_of(source.tree).difference(arguments))
    scope = Scope(source, arguments, conditions, names)
    for entry in (*entries.values(), *(x for x in kernel_data if x is not ...)):
        scope.measure(expand_data(entry))
    for parameter in _parameters(source):
        scope.check_name(parameter, parameter.arg)
    body = Body(scope)
    for entry in kernel_data:
        for item in () if entry is ... else expand_data(entry):
            if isinstance(item, TemporaryVariable) and item.shape != ():
                scope.arrays.add(item.name)
    body.read()
    data: list[object] = list(dict.fromkeys(entries.values()))
    data += [entry for entry in kernel_data if entry is not ... and entry not in data]
    return body, [*data, *body.temporaries, ...]


def _parameters(source: FunctionSource) -> list[ast.arg]:
    entries = source.tree.args
    return [*entries.posonlyargs, *entries.args, *entries.kwonlyargs]


def _signature(
    function: Callable[..., object],
    source: FunctionSource,
    around: Mapping[str, object],
    listed: Mapping[str, object],
) -> dict[str, GlobalArg | ValueArg]:
    """Return each parameter as an entry of kernel_data."""
    entries = source.tree.args
    for extra in (entries.vararg, entries.kwarg):
        if extra is not None:
            _fail(source, extra, "unsupported-statement", "a kernel has a fixed number of arguments", "name each one")
    for default in (*entries.defaults, *(x for x in entries.kw_defaults if x is not None)):
        hint = "leave it out; @pl.kernel(fixed_parameters={...}) makes a parameter a number"
        _fail(source, default, "unsupported-statement", "arguments of a kernel have no default values", hint)
    if source.tree.returns is not None and ast.unparse(source.tree.returns) != "None":
        _fail(source, source.tree.returns, "unsupported-statement", "a kernel returns nothing", "assign to an argument")
    found: dict[str, GlobalArg | ValueArg] = {}
    subscripted = {
        node.value.id
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    }
    for parameter in _parameters(source):
        name = parameter.arg
        entry = listed.get(name)
        if isinstance(entry, GlobalArg | ValueArg):
            found[name] = entry
            continue
        if parameter.annotation is None:
            found[name] = GlobalArg(name) if name in subscripted else ValueArg(name)
            continue
        found[name] = _argument(source, parameter, _annotation(function, source, parameter, around))
    return found


def _argument(source: FunctionSource, parameter: ast.arg, given: object) -> GlobalArg | ValueArg:
    """Return the argument that *parameter* is by its type."""
    name = parameter.arg
    if isinstance(given, ArrayType):
        if given.dtype is not None and find_dtype(given.dtype) is None:
            what = f"'{name}' has no element type: {given.dtype!r}"
            _fail(source, parameter.annotation, "unknown-dtype", what, _TYPES)
        return GlobalArg(name, given.dtype, given.shape)  # type: ignore[arg-type] # Array makes shapes only
    if isinstance(given, GlobalArg | ValueArg):
        _fail(source, parameter.annotation, "bad-annotation", "types have no names", "put it into kernel_data")
    if find_dtype(given) is None:
        what = f"'{ast.unparse(parameter.annotation)}' is no type of an argument" if parameter.annotation else ""
        _fail(source, parameter.annotation, "bad-annotation", what, _TYPES)
    return ValueArg(name, given)


def _annotation(
    function: Callable[..., object], source: FunctionSource, parameter: ast.arg, around: Mapping[str, object]
) -> object:
    """Return the evaluated annotation of *parameter*."""
    try:
        given: object = inspect.get_annotations(function)[parameter.arg]
        if isinstance(given, str):
            names = {**vars(builtins), **getattr(function, "__globals__", {}), **around}
            sizes = frozenset(x.arg for x in _parameters(source))
            return _evaluated(ast.parse(given, mode="eval").body, names, sizes)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        _fail(source, parameter.annotation, "bad-annotation", f"this type cannot be found: {error}", _TYPES)
    return given


def _evaluated(node: ast.expr, names: dict[str, object], sizes: frozenset[str]) -> object:
    """Return the value of a postponed annotation; extents may name *sizes* and undefined names."""
    if isinstance(node, ast.Subscript) and _value(node.value, names) is Array:
        dtype, *extents = node.slice.elts if isinstance(node.slice, ast.Tuple) else (node.slice,)
        entries = [_value(dtype, names)]
        for extent in extents:
            used = {part.id for part in ast.walk(extent) if isinstance(part, ast.Name)}
            is_text = not used.isdisjoint(sizes) or not used <= names.keys()
            entries.append(ast.unparse(extent) if is_text else _value(extent, names))
        return Array.__class_getitem__(tuple(entries))
    return _value(node, names)


def _value(node: ast.expr, names: dict[str, object]) -> object:
    value: object = eval(compile(ast.Expression(node), "<type>", "eval"), dict(names))
    return value


def _fail(source: FunctionSource, node: Node, code: str, message: str, hint: str) -> NoReturn:
    raise KernelError(DECORATOR, None, [Diagnostic(code, message, hints=(hint,), span=source.span(node))])


def _uses(entries: Iterable[object], source: FunctionSource) -> tuple[dict[str, Use], frozenset[str]]:
    """Return the kind of each argument and each size, and the arguments of type bool."""
    uses: dict[str, Use] = {}
    sizes: dict[str, Use] = {}
    conditions = set()
    for item in (item for entry in entries for item in expand_data(entry)):
        if isinstance(item, ArrayArg):
            uses[item.name] = Use.ARRAY
            for extent in (*(item.shape or ()), *(item.strides or ())):
                sizes.update(dict.fromkeys(sorted(variables(extent)), Use.INTEGER))
        else:
            is_integer = item.dtype is None or item.dtype.kind in "iu"
            uses[item.name] = Use.INTEGER if is_integer else Use.SCALAR
        if item.dtype == np.dtype(bool):
            conditions.add(item.name)
    names = [parameter.arg for parameter in _parameters(source)]
    ordered = {name: uses[name] for name in names}
    return {**sizes, **uses, **ordered}, frozenset(conditions)
