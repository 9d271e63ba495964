"""Recording of the call of ``make_kernel`` that created a kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec

from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import Written, differs
from polyloop.kernel.objects import spelled

__all__ = ["recorded"]

_P = ParamSpec("_P")


def recorded(create: Callable[_P, LoopKernel]) -> Callable[_P, LoopKernel]:
    """Make the kernels of *create*, which is ``make_kernel``, carry the arguments that they were created with."""
    defaults = {name: entry.default for name, entry in signature(create).parameters.items()}
    keywords = {name for name, entry in signature(create).parameters.items() if entry.kind is Parameter.KEYWORD_ONLY}

    @wraps(create)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> LoopKernel:
        kernel = create(*args, **kwargs)
        given: dict[str, Any] = {**dict(zip(defaults, args, strict=False)), **kwargs}
        domains, instructions = given["domains"], spelled(given["instructions"])
        listed = tuple(instructions) if isinstance(instructions, list | tuple) else (instructions,)
        data = given.get("kernel_data")
        options = ((name, given[name]) for name in defaults if name in keywords and name in given)
        options = ((name, value) for name, value in options if differs(value, defaults[name]))
        made = Written(
            tuple(domains) if isinstance(domains, list | tuple) else (domains,),
            instructions if isinstance(instructions, str) else listed,
            None if data is None else tuple(data),
            tuple(options),
        )
        return replace(kernel, made=made)

    return call
