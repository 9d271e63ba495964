"""Kernels as operators of PyTorch, registered through ``torch.library``."""
# ruff: noqa: ANN401  # tensors

from __future__ import annotations

import functools
import importlib
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, Final

import numpy as np

from polyloop.errors import CompilerError, Diagnostic
from polyloop.interop.gradients import PREFIX, Backward, Gradients, derived, no_gradient
from polyloop.interop.operands import Layout, Operands, abstract, library_of, use_error
from polyloop.kernel.kernel import LoopKernel
from polyloop.runtime.compile import compile_kernel
from polyloop.runtime.foreign.readers import needs_gradient, torch_dtype
from polyloop.runtime.foreign.view import ArrayKind, library
from polyloop.runtime.invoke import CompiledKernel
from polyloop.target.base import Target, target_of
from polyloop.target.c import CTarget
from polyloop.target.cuda import CudaTarget

__all__ = ["custom_op"]

_STEP: Final = "torch.custom_op"
_NAME: Final = re.compile(r"([A-Za-z_]\w*)::([A-Za-z_]\w*)", re.ASCII)
_SCALARS: Final = {"b": "bool", "i": "int", "u": "int", "f": "float", "c": "Scalar"}
_RUN: Final = """
def __op({keyset}{parameters}):
    global __run
{passed_on}    if __run is None:
        __run = __run_of(__target)
    if {plain}:
        __found = __run({arguments})
    else:
        __found = __run({arguments}{more})
{touched}    return {result}
"""
# PyTorch's own function on the key of autograd costs a call more than the dispatcher and the kernel do together.  It is
# passed on to where a tensor requires gradients, and where the next key is not that of the device: under modes, say.
_PASSED_ON: Final = """
    if __keyset.raw_repr() not in __plain and not __is_plain(__keyset) or __recording() and ({requires}):
        return __otherwise(__keyset, {given}{named})
"""
_KEYS: Final = {"c": "CPU", "cuda": "CUDA"}


def custom_op(
    kernel: LoopKernel, name: str, *, backward: Backward = None, target: Target | None = None
) -> Any:
    """Register *kernel* as an operator of PyTorch, and return it.

    ::

        scale = polyloop.torch.custom_op(knl, "mylib::scale")

        y = run(x=x.detach(), s=2.0).y                       # before: outside of autograd, a graph break
        y = scale(x, 2.0); y.sum().backward()                # after
        torch.compile(model, fullgraph=True)                 # with calls of scale, or of torch.ops.mylib.scale

    The operator takes the arrays that the kernel reads and its numbers, by position in the order of the kernel's
    declaration, or by name; and by name sizes that do not follow from shapes.  It returns the outputs, and changes the
    tensors that the kernel reads and writes.  It runs on the CPU and on a GPU: the kernel is compiled for each at the
    first call there.  On a GPU it runs on Torch's current stream, and can be captured in a CUDA graph.  Gradients that
    autograd passes on in other strides, such as those of a sum, are copied for the backward kernel.

    Parameters
    ----------
    kernel
        With the types of all arguments.
    name
        As ``"namespace::name"``; ``torch.ops.namespace.name`` is the operator then.
    backward
        A kernel that computes gradients, registered as ``namespace::name_backward``.  It reads arguments of *kernel*
        and its outputs by their names, and ``grad_<output>``; it writes ``grad_<input>``.  By default it is that of
        :func:`polyloop.differentiate`; a kernel that cannot be differentiated refuses gradients, as with False all do.
    target
        By default that of the kernel, or both: C for tensors on the CPU, CUDA for those on a GPU.

    Returns
    -------
    torch._ops.OpOverload
        The operator; it is there until the process ends.

    Raises
    ------
    ArgumentError
        ``bad-op-name``, ``op-exists``, ``unknown-dtype``, ``wrong-backward``, ``wrong-type``.  Nothing is registered
        then.  A call raises it where the arguments do not fit the kernel.
    CompilerError
        ``no-library``, ``op-refused``; at the first call, as :func:`polyloop.compile`.
    VerificationError, CodegenError
        As :func:`polyloop.generate_code`.
    """
    torch = library_of(_STEP, "torch")
    found = _NAME.fullmatch(name)
    if found is None:
        raise use_error(_STEP, kernel.name, "bad-op-name", f"{name!r} is no name of an operator",
                      hint='pass a namespace and a name: "mylib::axpy"')
    forward = _Op(torch, kernel, target, found[1], found[2])
    forward.refuse_a_second()
    parts = [forward]
    if backward is None:
        made = derived(forward.operands, forward.targets[0], with_numbers=False)
        forward.given = made
        backward = made.backward.kernel if isinstance(made, Gradients) else False
    if backward is not False:
        other = _Op(torch, backward, target, found[1], f"{found[2]}_backward")
        forward.given = forward.gradients = Gradients(forward.operands, other.operands)
        forward.backward = other
        other.refuse_a_second()
        parts.insert(0, other)
    _registered(torch, kernel.name, parts)
    return forward.overload


def _registered(torch: Any, kernel: str, parts: Sequence[_Op]) -> None:
    """Register operators: all, or none."""
    libraries = [torch.library.Library(part.namespace, "FRAGMENT") for part in parts]
    try:
        for part, library in zip(parts, libraries, strict=True):
            part.register(library)
    except Exception as error:
        for library in libraries:
            library._destroy()  # noqa: SLF001 - as it does when it is collected, which a traceback delays
        raise CompilerError(_STEP, kernel, [Diagnostic(
            "op-refused", f"PyTorch does not take '{parts[-1].name}'", (f"{type(error).__name__}: {error}",),
            ("nothing was registered; rename arguments that PyTorch cannot have",))]) from error
    _KEPT.extend(libraries)


_KEPT: Final[list[Any]] = []
"""Registrations, which go with the object that made them."""


class _Op:
    """One operator."""

    def __init__(self, torch: Any, kernel: LoopKernel, target: Target | None, namespace: str, name: str) -> None:
        said = target_of(kernel, target)
        self.torch, self.kernel, self.namespace, self.opname = torch, kernel, namespace, name
        self.targets: tuple[Target, ...] = (said,) if said is not None else (CTarget(), CudaTarget())
        for each in self.targets:
            if each.name not in _KEYS:
                raise use_error(_STEP, kernel.name, "needs-c-target",
                              f"PyTorch has no device for the target '{each.name}'",
                              hint="leave out target=, or pass pl.CTarget() or pl.CudaTarget()")
        self.operands = Operands(_STEP, kernel, self.targets[0])
        self.gradients: Gradients | None = None
        self.given: Gradients | str | None = None
        self.backward: _Op | None = None
        self._compiled: dict[str, CompiledKernel] = {}
        self._lock = Lock()
        if not self.operands.inputs:
            raise use_error(_STEP, kernel.name, "wrong-type", "the kernel reads no array",
                          "PyTorch finds the device of an operator by its tensors", hint="read an array")
        for argument in (*self.operands.operands, *self.operands.sizes):
            is_name = argument.isidentifier() and argument.isascii() and not keyword.iskeyword(argument)
            if not is_name or argument in ("self", "out") or argument.startswith("__"):
                raise use_error(_STEP, kernel.name, "wrong-type", f"'{argument}' can be no argument of an operator",
                              hint=f'rename it: knl.rename_argument("{argument}", ..)')

    @property
    def name(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}::{self.opname}"

    @property
    def overload(self) -> Any:
        """The operator."""
        return getattr(getattr(self.torch.ops, self.namespace), self.opname).default

    def refuse_a_second(self) -> None:
        """Refuse a name that an operator has.

        Raises
        ------
        ArgumentError
            ``op-exists``.
        """
        if hasattr(getattr(self.torch.ops, self.namespace), self.opname):
            raise use_error(_STEP, self.kernel.name, "op-exists", f"there is an operator '{self.name}'",
                          "an operator stays until the process ends", hint="choose another name, or use the one there")

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return self.operands.operands

    @cached_property
    def _arrays(self) -> frozenset[str]:
        return frozenset(array.name for array in self.operands.inputs)

    @cached_property
    def schema(self) -> str:
        """The declaration of the operator."""
        numbers, parts = {number.name: number.dtype for number in self.operands.numbers}, []
        changed = [array.name for array in self.operands.changed]
        for name in self._names:
            if name in self._arrays:
                parts.append(f"Tensor(a{changed.index(name)}!) {name}" if name in changed else f"Tensor {name}")
            else:
                parts.append(f"{_SCALARS.get(numbers[name].kind, 'float')} {name}")
        if self.operands.sizes:
            parts += ["*", *(f"SymInt? {name}=None" for name in self.operands.sizes)]
        returned = ", ".join(["Tensor"] * len(self.operands.fresh))
        return f"{self.opname}({', '.join(parts)}) -> ({returned})"

    def register(self, library: Any) -> None:
        """Define the operator in *library*, with a function for each device, for shapes alone, and for gradients."""
        library.define(self.schema, tags=(self.torch.Tag.pt2_compliant_tag,))
        for target in self.targets:
            library.impl(self.opname, self._runner(target), _KEYS[target.name])
        self.torch.library.register_fake(self.name, self._fake, lib=library)
        if self.gradients is not None:
            self._register_autograd(library, self._save)
        elif isinstance(self.given, str) and not self.operands.changed:  # PyTorch has none for operators with effects
            self._register_autograd(library, self._refuse)

    def _register_autograd(self, library: Any, setup: Callable[..., None]) -> None:
        """Register what :meth:`_differentiate` computes of what *setup* keeps."""
        try:
            inside: Any = importlib.import_module("torch._library.autograd")
            record = inside.make_autograd_impl(self.overload, inside.Info(self._differentiate, setup))
            of_a_tensor = self.torch._C._dispatch_keys(self.torch.empty(0))  # noqa: SLF001
            self._is_plain("CPU", set(), of_a_tensor)  # all of these are no public names of PyTorch
        except (ImportError, AttributeError, TypeError):
            record = None
        if record is None or self.operands.changed:  # which it refuses
            self.torch.library.register_autograd(self.name, self._differentiate, setup_context=setup, lib=library)
            return
        library.impl(self.opname, record, "Autograd", with_keyset=True)
        for target in self.targets:
            library.impl(self.opname, self._runner(target, record), f"Autograd{_KEYS[target.name]}", with_keyset=True)

    # {{{ the call

    def run_of(self, target: Target) -> CompiledKernel:
        """Return the kernel compiled for *target*."""
        found = self._compiled.get(target.name)
        if found is None:
            with self._lock:
                found = self._compiled.get(target.name) or compile_kernel(self.kernel, target)
                self._compiled[target.name] = found
        return found

    def _runner(self, target: Target, otherwise: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Return the function of the operator for one device; it is that for autograd, too, with *otherwise*.

        It is compiled for the names of the operator's arguments: this costs a call less than a tuple and a dictionary.
        """
        names, sizes = self._names, self.operands.sizes
        changed = [array.name for array in self.operands.changed]
        space: dict[str, Any] = {
            "__touch": self.torch.autograd.graph.increment_version, "__run_of": self.run_of, "__target": target,
            "__run": None, "__otherwise": otherwise, "__recording": self.torch.is_grad_enabled, "__plain": set[int](),
        }  # fmt: skip
        space["__is_plain"] = functools.partial(self._is_plain, _KEYS[target.name], space["__plain"])
        sizes_given = ", ".join(f"{name!r}: {name}" for name in sizes)
        passed_on = _PASSED_ON.format(
            requires=" or ".join(f"{name}.requires_grad" for name in names if name in self._arrays),
            given=", ".join(names),
            named=f", **{{n: v for n, v in {{{sizes_given}}}.items() if v is not None}}" if sizes else "")
        outputs = [place for place, array in enumerate(self.operands.outputs) if array not in self.operands.changed]
        parts = {
            "keyset": "" if otherwise is None else "__keyset, ",
            "passed_on": "" if otherwise is None else passed_on,
            "parameters": ", ".join([*names, *(["*"] if sizes else []), *(f"{name}=None" for name in sizes)]),
            "arguments": ", ".join(f"{name}={name}" for name in names),
            "more": "".join(f", {name}={name}" for name in sizes),
            "plain": " and ".join(f"{name} is None" for name in sizes) or "True",
            "touched": "".join(f"    __touch({name})\n" for name in changed),
            "result": ", ".join(f"__found._values[{place}]" for place in outputs) or "None",
        }  # fmt: skip
        exec(_RUN.format(**parts), space)  # as a dataclass does
        found: Callable[..., Any] = space["__op"]
        return found

    def _is_plain(self, device: str, known: set[int], keyset: Any) -> bool:
        """Return whether the dispatcher would call the function for *device* after that for autograd; remember it."""
        found = (keyset & self.torch._C._after_autograd_keyset).highestPriorityTypeId()  # noqa: SLF001
        if found != getattr(self.torch._C.DispatchKey, device):  # noqa: SLF001
            return False
        known.add(keyset.raw_repr())
        return True

    def _type(self, name: str) -> Any:
        return getattr(self.torch, self.operands.dtype(name).name)

    def _shapes(self, given: Sequence[Any], sizes: Mapping[str, Any], *, launches: bool) -> Mapping[str, Layout]:
        """Return the layouts of outputs; *given* may have no memory, and extents may be symbols."""
        views, kernel = {}, self.kernel.name
        for name, value in zip(self._names, given, strict=True):
            if name in self._arrays:
                dtype: np.dtype[Any] = torch_dtype(kernel, name, value)
                views[name] = abstract(ArrayKind.TORCH_CPU, dtype, tuple(value.shape), tuple(value.stride()))
        passed = {name: size for name, size in sizes.items() if size is not None}
        _, found = self.operands.shapes(views, passed, launches=launches)
        return found

    def _fake(self, *given: Any, **sizes: Any) -> Any:
        """Return outputs without memory, for ``torch.compile``."""
        tensors = {name: value for name, value in zip(self._names, given, strict=True) if name in self._arrays}
        places = {value.device for value in tensors.values()}
        if len(places) > 1:
            raise use_error("call", self.kernel.name, "wrong-device", "the tensors are on several devices",
                          *(f"'{name}' is on {value.device}" for name, value in tensors.items()),
                          hint="move them to one device")
        if self.gradients is None:
            for name, value in tensors.items():
                if needs_gradient(value):
                    raise no_gradient(self.operands, name, self.given)
        found = self._shapes(given, sizes, launches=False)
        (device,) = places
        outputs = tuple(self.torch.empty_strided(*found[array.name], dtype=self._type(array.name), device=device)
                        for array in self.operands.fresh)
        return outputs[0] if len(outputs) == 1 else (outputs or None)

    # }}}

    # {{{ gradients

    def _save(self, ctx: Any, inputs: Sequence[Any], output: Any, keyword_only_inputs: Mapping[str, Any] | None = None
              ) -> None:
        """Keep what the backward kernel reads."""
        gradients, forward = self.gradients, self.operands
        assert gradients is not None, "an operator without gradients saves nothing"
        for name, value in zip(self._names, inputs, strict=True):
            if name in self._arrays and value.requires_grad and name not in gradients.differentiable:
                raise no_gradient(forward, name, gradients)
        outputs = output if isinstance(output, tuple) else (output,)
        known = dict(zip(self._names, inputs, strict=True)) | {
            array.name: value for array, value in zip(forward.fresh, outputs, strict=True)}
        tensors = [name for name in gradients.saved if library(known[name]) == "torch"]
        ctx.save_for_backward(*(known[name] for name in tensors))
        ctx.tensors, ctx.numbers = tensors, {name: known[name] for name in gradients.saved if name not in tensors}
        ctx.shapes = {name: known[name].shape for name in self._arrays}
        ctx.sizes = {name: size for name, size in (keyword_only_inputs or {}).items()
                     if size is not None and name in gradients.backward.sizes}

    def _refuse(self, ctx: Any, inputs: Sequence[Any], output: Any, keyword_only_inputs: Any = None) -> None:
        """Say why there are no gradients."""
        del ctx, output, keyword_only_inputs
        for name, value in zip(self._names, inputs, strict=True):
            if name in self._arrays and value.requires_grad:
                raise no_gradient(self.operands, name, self.given)

    def _differentiate(self, ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        """Return the gradients of the inputs."""
        gradients, backward = self.gradients, self.backward
        assert gradients is not None, "an operator without gradients has no derivative"
        assert backward is not None, "a kernel for gradients is an operator"
        known = dict(zip(ctx.tensors, ctx.saved_tensors, strict=True)) | ctx.numbers
        known |= {f"{PREFIX}{array.name}": cotangent.contiguous()
                  for array, cotangent in zip(self.operands.fresh, cotangents, strict=True)}
        made = backward.overload(*(known[name] for name in backward.operands.operands), **ctx.sizes)
        outputs = made if isinstance(made, tuple | list) else (made,)
        found = {array.name.removeprefix(PREFIX): value
                 for array, value in zip(gradients.backward.outputs, outputs, strict=True)}
        return tuple(found[name].reshape(ctx.shapes[name]) if name in found and name in self._arrays else None
                     for name in self._names)

    # }}}
