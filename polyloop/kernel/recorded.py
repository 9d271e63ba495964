"""A kernel remembers the call that created it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec

from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.made import Written, differs
from polyloop.kernel.objects import spelled

__all__ = ["recorded"]

_P = ParamSpec("_P")


def recorded(create: Callable[_P, LoopKernel]) -> Callable[_P, LoopKernel]:
    """Make the kernels of *create*, which is ``make_kernel``, carry the arguments that they were created with."""
    form = signature(create)

    @wraps(create)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> LoopKernel:
        kernel = create(*args, **kwargs)
        given = form.bind(*args, **kwargs).arguments
        domains, instructions = given["domains"], spelled(given["instructions"])
        data = given.get("kernel_data")
        options = (
            (name, value)
            for name, value in given.items()
            if form.parameters[name].kind is Parameter.KEYWORD_ONLY and differs(value, form.parameters[name].default)
        )
        made = Written(
            tuple(domains) if isinstance(domains, list | tuple) else (domains,),
            instructions if isinstance(instructions, str) else tuple(instructions),
            None if data is None else tuple(data),
            tuple(options),
        )
        return replace(kernel, made=made)

    return call
