"""Cache of checked calls: a repeated call skips the argument checks and reuses the packed launch.

The checks of a call from Python cost more than the run of most small kernels.  They depend, for each array, on its
library, type, shape, strides and address, and for each number that sizes or conditions depend on, on its type and bits.
The properties except addresses and bits are the *signature* of a call.  For each signature, functions are compiled that
compare just these, in the cheapest way for each library, and look up the launch by addresses, these numbers and the
stream.  A call that equals the one before skips even the look-up.  Nothing depends on a number that is only passed on:
a launch takes it as it comes, converted.  No array is kept alive; an address that another array of the same layout has
taken over is a valid key.
"""
# ruff: noqa: ANN401  # arrays of libraries without types

from __future__ import annotations

import importlib
import keyword
import struct
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import FunctionType
from typing import Any, Final

import numpy as np

from polyloop.expr.dtypes import integer_limits
from polyloop.runtime.arguments import Result
from polyloop.runtime.foreign.tensors import tensor_check
from polyloop.runtime.packed import Free, PackedCall, is_poisoning

__all__ = ["ABSENT", "MOST_REPEATS", "MOST_SIGNATURES", "Repeats", "Signature"]

MOST_REPEATS: Final = 1024
"""Calls that one signature of a kernel remembers."""
MOST_SIGNATURES: Final = 32
"""Signatures that one kernel remembers."""
ABSENT: Final = object()
"""The value of an argument that is not passed."""


# {{{ properties that the checks depend on


@dataclass(frozen=True)
class _Probe:
    """Properties of one kind of argument that the checks depend on, as Python expressions of ``{v}``.

    Attributes
    ----------
    layout
        Expressions that have the value that they had when the call was checked.
    key
        The rest: an address, or the bits of a number.
    needed
        What else has to be true; a value of which it is not has no key.
    owner
        The attribute whose value has to live for the key to mean anything; "" where the key says it all.
    record
        What is kept to see that the next call has the same; by default the key.
    same
        Expressions of ``{r}``, which was kept, that hold for a value that is the same; by default the keys are equal.
    still
        What of the layout has to be compared although these hold.
    """

    key: str
    layout: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    owner: str = ""
    record: str = ""
    same: tuple[str, ...] = ()
    still: tuple[str, ...] = ()


_UNRECORDED: Final = "not ({v}.requires_grad and __records())"  # set on a tensor, and switched, at any time
_DTYPE_AND_SHAPE: Final = ("{v}.dtype", "{v}.shape")
_NUMBERS: Final[Mapping[type, _Probe]] = {
    int: _Probe("{v}"),
    bool: _Probe("{v}"),
    float: _Probe("__pack('d', {v})"),  # -0.0 equals 0.0, and has other bits
    complex: _Probe("__pack('dd', {v}.real, {v}.imag)"),
}


def _library(kind: type) -> tuple[str, str]:
    return kind.__module__.partition(".")[0], kind.__qualname__


def _probe(value: Any, *, is_array: bool) -> _Probe | None:
    """Return the expressions that identify *value* in a repeated call, None if its type is not supported.

    A NumPy array without axes can be passed as a number: then its value counts, and not where it lies.
    """
    kind = type(value)
    if issubclass(kind, np.generic) and not issubclass(kind, np.void):
        return _Probe("{v}.tobytes()")
    match _library(kind):
        case "numpy", "ndarray":
            if not is_array:
                return _Probe("{v}.tobytes()", _DTYPE_AND_SHAPE)
            # the address, and whether it is read-only
            return _Probe("{v}.__array_interface__['data']", (*_DTYPE_AND_SHAPE, "{v}.strides"))
        case "torch", ("Tensor" | "Parameter"):
            return _torch_probe(value)
        case "cupy", "ndarray":
            return _cupy_probe(value)
        case ("pycuda", "GPUArray") | ("polyloop", "DeviceArray"):
            return _pycuda_probe(value)
    return _NUMBERS.get(kind)


def _torch_probe(tensor: Any) -> _Probe:
    strides = "{v}.is_contiguous()" if _in_rows(tensor.shape) and tensor.is_contiguous() else "{v}.stride()"
    # not the views whose memory holds other values than they have; only complex numbers have conjugates
    true = ("not {v}.is_neg()", "not {v}.is_conj()") if tensor.dtype.is_complex else ("not {v}.is_neg()",)
    true = (*true, _UNRECORDED)
    return _Probe("{v}.data_ptr()", (*_DTYPE_AND_SHAPE, "{v}.device", strides), true)


def _cupy_probe(array: Any) -> _Probe:
    """Return the probe of a CuPy array, which avoids ``shape`` and ``strides``: CuPy makes a new tuple at each access.

    Of one array nothing can be changed but its shape, and its strides with it; an array without gaps has none.
    """
    if not (_in_rows(array.shape) and getattr(array, "_c_contiguous", False)):
        return _Probe("{v}.data.ptr", (*_DTYPE_AND_SHAPE, "{v}.strides"))
    by_axes: dict[int, tuple[str, ...]] = {1: ("{v}.ndim", "__len({v})"), 2: ("{v}.ndim", "__len({v})", "{v}.size")}
    shape = by_axes.get(len(array.shape), ("{v}.shape",))
    return _Probe("{v}.data.ptr", ("{v}.dtype", "{v}._c_contiguous", *shape), record="__ref({v})",
                  same=("{r}() is {v}",), still=shape)


def _pycuda_probe(array: Any) -> _Probe:
    """Return the probe of a PyCUDA array; to ask an allocation for its address costs most of a call."""
    layout = (*_DTYPE_AND_SHAPE, "{v}.strides")
    kind = type(array.gpudata)
    if _library(kind)[0] in ("pycuda", "polyloop") and "Allocation" in kind.__name__:
        memory = "(__memory_{v} := {v}.gpudata)"
        return _Probe("__id(__memory_{v})", (f"__type({memory})", *layout), owner="gpudata",
                      record="__ref(__memory_{v})",
                      same=("__type({v}) is {k}", f"{memory} is not None", "__memory_{v} is {r}()"), still=layout)
    return _Probe("__int({v}.gpudata)", layout, ("{v}.gpudata is not None",))


def _records() -> bool:
    """Return whether Torch records what happens to tensors with gradients."""
    return bool(importlib.import_module("torch").is_grad_enabled())


def _in_rows(shape: Sequence[int]) -> bool:
    """Return whether contiguity determines the strides of *shape*: no axis has fewer than two elements."""
    return min(shape, default=2) > 1

# }}}


class Signature:
    """Calls with arguments of one kind and layout.

    Parameters
    ----------
    space
        The functions compiled for it and all that they use.
    outputs
        The names of the arguments that a call returns.
    owners
        Arguments, and the attributes of them, that have to live for a key to mean anything.
    """

    def __init__(self, space: dict[str, Any], outputs: Sequence[str], owners: Sequence[tuple[str, str]]) -> None:
        self._space, self._outputs, self._owners = space, tuple(outputs), tuple(owners)
        self._packed: dict[tuple[Any, ...], PackedCall] = {}
        self._watched: dict[tuple[Any, ...], list[weakref.ref[Any]]] = {}
        self._launches: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        space["__launches"] = self._launches
        self._entries: dict[Callable[..., Result], Callable[..., Result]] = {}
        self._key: Callable[[Mapping[str, Any]], tuple[tuple[Any, ...], tuple[Any, ...]] | None] = space["__key"]

    def entry(
        self, checked: Callable[..., Result], handle_of: Callable[[object], int]
    ) -> Callable[..., Result] | None:
        """Return a function of the kernel's arguments, by their names; None where Python cannot name them.

        Parameters
        ----------
        checked
            Called with all arguments as a mapping, stream, poison and what was passed without a name, if the call is
            not known.
        handle_of
            Gives the handle of a stream.
        """
        if "__call" not in self._space:
            return None
        found = self._entries.get(checked)
        if found is None:
            space = self._space | {"__checked": checked, "__handle_of": handle_of}
            plain: Any = self._space["__call"]
            found = FunctionType(plain.__code__, space, plain.__name__)
            found.__kwdefaults__ = plain.__kwdefaults__
            self._entries[checked] = found
        return found

    def again(self, arguments: Mapping[str, Any], stream: int | None) -> Result | None:
        """Launch the call with *arguments* if it was checked before; None where it was not, or cannot be launched."""
        found = self._key(arguments)
        if found is None:
            return None
        key, values = found
        packed = self._packed.get(key)
        if packed is None:
            return None
        made = {array.name: array.make() for array in packed.passed.fresh}
        if not packed.run(stream, (*values, *(pointer for _, pointer in made.values()))):
            return None
        self._ready(key, packed, stream)
        return Result.of({name: made[name][0] if name in made else arguments[name] for name in self._outputs})

    def keep(self, arguments: Mapping[str, Any], packed: PackedCall) -> bool:
        """Keep *packed* for *arguments*; False: they have another signature."""
        found = self._key(arguments)
        if found is None:
            return False
        key, _ = found
        if len(self._packed) >= MOST_REPEATS:
            for known in (self._packed, self._watched, self._launches):
                known.clear()
        me = weakref.ref(self)
        self._packed[key] = packed
        self._watched[key] = [weakref.ref(getattr(arguments[name], attribute), lambda _: _forget(me, key))
                              for name, attribute in self._owners]
        self._ready(key, packed, None)
        return True

    def _ready(self, key: tuple[Any, ...], packed: PackedCall, stream: int | None) -> None:
        """Let the function that :meth:`entry` returns launch *packed* on *stream*."""
        if len(self._launches) >= MOST_REPEATS:
            self._launches.clear()
        handle = packed.stream() if stream is None else stream
        self._launches[*key, handle] = (packed.on(handle), *(array.make for array in packed.passed.fresh))

    def forget(self, key: tuple[Any, ...]) -> None:
        """Forget a call."""
        self._packed.pop(key, None)
        self._watched.pop(key, None)
        for known in [known for known in list(self._launches) if known[:-1] == key]:
            self._launches.pop(known, None)


def _forget(signature: weakref.ref[Signature], key: tuple[Any, ...]) -> None:
    found = signature()
    if found is not None:
        found.forget(key)


class Repeats:
    """The calls of one kernel that were checked before.

    Parameters
    ----------
    names
        All arguments of the kernel.
    outputs
        Those that a call returns.
    values
        Those that are passed by value.
    """

    __slots__ = ("_names", "_outputs", "_signatures", "_values")

    def __init__(self, names: Sequence[str], outputs: Sequence[str], values: Sequence[str] = ()) -> None:
        self._names, self._outputs, self._values = tuple(names), tuple(outputs), tuple(values)
        self._signatures: tuple[Signature, ...] = ()

    def again(self, arguments: Mapping[str, Any], stream: int | None) -> tuple[Result, Signature] | None:
        """Launch the call with *arguments* if it was checked before; None where it was not, or cannot be launched."""
        for signature in self._signatures:
            result = signature.again(arguments, stream)
            if result is not None:
                return result, signature
        return None

    def remember(self, arguments: Mapping[str, Any], packed: PackedCall) -> Signature | None:
        """Keep *packed* for later calls with *arguments*, if these can be told from others."""
        for signature in self._signatures:
            if signature.keep(arguments, packed):
                return signature
        made = _compiled(self._names, arguments, self._outputs, self._values, packed)
        if made is None or not made.keep(arguments, packed):
            return None
        known = self._signatures if len(self._signatures) < MOST_SIGNATURES else ()
        self._signatures = (made, *known)
        return made


# {{{ the functions of one signature


def _compiled(
    names: Sequence[str], arguments: Mapping[str, Any], outputs: Sequence[str], values: Sequence[str],
    packed: PackedCall,
) -> Signature | None:  # fmt: skip
    """Return the signature of *arguments*; None where there is no key."""
    probes = {name: _probe(value, is_array=name not in values) for name, value in arguments.items()}
    known = {name: probe for name, probe in probes.items() if probe is not None}
    if len(known) < len(probes):
        return None
    free, fresh = {number.name: number for number in packed.passed.free}, [a.name for a in packed.passed.fresh]
    bound = {name: probe for name, probe in known.items() if name not in free}
    shown = [name for name in outputs if name in arguments or name in fresh]
    space: dict[str, Any] = {
        "__type": type, "__id": id, "__len": len, "__int": int, "__float": float, "__bool": bool, "__ref": weakref.ref,
        "__pack": struct.pack, "__absent": ABSENT, "__Result": Result, "__outputs": tuple(shown),
        "__current": packed.current and packed.current.ask, "__records": _records, "__record": None, "__recent": None,
        "__poisons": is_poisoning,
    }  # fmt: skip
    all_names = (*names, *(name for name in arguments if name not in names))
    can_name = all(_is_free(name) for name in all_names)
    stream, poison, _ = call_options(all_names)
    variables = {name: name if can_name else f"__v{number}" for number, name in enumerate(all_names)}
    values_of = {name: (variables[name], arguments[name]) for name in arguments}
    conditions, same = _conditions(known, values_of, space, free)
    handle = "0" if packed.current is None else f"__current{packed.current.how}"
    if packed.current is not None:
        same.append(f"__handle == {handle}")
    records = [probe.record.format(v=variables[name]) or f"__found[{place}]"
               for place, (name, probe) in enumerate(bound.items())]  # fmt: skip
    numbers = [_converted(number, variables[number.name], type(arguments[number.name]), space)
               for number in packed.passed.free]  # fmt: skip
    made = {name: (f"__array{place}", f"__pointer{place}") for place, name in enumerate(fresh)}
    parts = {
        "taken": "; ".join(f"{variables[name]} = __given[{name!r}]" for name in arguments) or "pass",
        "count": len(arguments),
        "conditions": " and ".join(conditions) or "True",
        "same": " and ".join(same) or "True",
        "key": "".join(f"{probe.key.format(v=variables[name])}, " for name, probe in bound.items()),
        "numbers": "".join(f"{number}, " for number in numbers),
        "pointers": "".join(f"{pointer}, " for _, pointer in made.values()),
        "makers": "".join(f", __make{place}" for place in range(len(fresh))),
        "made": "; ".join(f"{array}, {pointer} = __make{place}()"
                          for place, (array, pointer) in enumerate(made.values())) or "pass",
        "poisoned": f" and not ({poison} is None and __poisons())" if fresh else "",
        "missing": "".join(f" and {name} is __absent" for name in all_names if name not in arguments),
        "parameters": "".join(f"{name}=__absent, " for name in all_names),
        "stream": stream,
        "poison": poison,
        "handle": handle,
        "recorded": "".join(f"__r{number}, " for number in range(len(bound))),
        "records": "".join(f"{record}, " for record in records),
        "values": "".join(f"{made[name][0] if name in made else variables[name]}, " for name in shown),
        "given": "".join(f"({name!r}, {name}), " for name in all_names),
    }
    exec(_KEY.format(**parts), space)  # as a dataclass does
    if can_name:
        exec(_CALL.format(**parts), space)
    return Signature(space, shown, [(name, probe.owner) for name, probe in known.items() if probe.owner])


def _converted(number: Free, variable: str, kind: type, space: dict[str, Any]) -> str:
    """Return the value that a launch is passed for a free number of the type *kind*, as Python text.

    It is the one that :func:`polyloop.runtime.arguments.convert_scalar` gives, which is asked where that is not plain.
    """
    convert = f"__convert_{variable}"
    space[convert] = number.convert
    dtype, otherwise = number.dtype, f"{convert}({variable})"
    if not number.is_exact:
        return otherwise
    if dtype.kind == "b":
        return f"__bool({variable})" if kind in (bool, np.bool_) else otherwise
    is_whole = issubclass(kind, (int, np.integer)) and kind is not bool
    if dtype.kind in "iu" and is_whole:
        low, high = integer_limits(dtype)
        return f"(__int({variable}) if {low} <= {variable} <= {high} else {otherwise})"
    if dtype.kind == "f":
        if kind is float or kind in (np.float64, np.float32, np.float16):
            return f"__float({variable})"
        most = 2 ** np.finfo(dtype).nmant  # no integer up to it is rounded
        return f"(__float({variable}) if {-most} <= {variable} <= {most} else {otherwise})" if is_whole else otherwise
    return otherwise


def _conditions(
    probes: dict[str, _Probe], values: Mapping[str, tuple[str, Any]], space: dict[str, Any], free: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return conditions, as Python text, that arguments have the signature of *values*.

    The second list is for arguments identical to recorded ones, of which some properties cannot have changed.  Values
    that conditions compare with are put into *space*.  Tensors that PyTorch checks in one call are probed for their
    addresses only.  Of *free* numbers nothing is recorded: they are of the same type.
    """
    conditions, same, recorded = [], [], count()
    tensors = {name: value for name, (_, value) in values.items() if _library(type(value))[0] == "torch"}
    check = tensor_check(tuple(tensors.values())) if tensors else None
    if check is not None:
        space["__check"] = check
        asked = [f"__type({values[name][0]}) is __kind_{number} and not {values[name][0]}.is_nested"
                 for number, name in enumerate(tensors)]  # of a nested tensor the check ends the process
        space |= {f"__kind_{number}": type(tensor) for number, tensor in enumerate(tensors.values())}
        conditions.append(f"{' and '.join(asked)} and __check({', '.join(values[name][0] for name in tensors)})")
        same.append(conditions[0])
        probes |= {name: _Probe(probes[name].key, needed=(_UNRECORDED,) if tensor.requires_grad else ())
                   for name, tensor in tensors.items()}
    for number, (name, (variable, value)) in enumerate(values.items()):
        probe, kind = probes[name], f"__kind{number}"
        space[kind] = type(value)
        equal = _equal(probe.layout, number, (variable, value), space)
        here = [*equal.values(), *(text.format(v=variable) for text in probe.needed)]
        if check is None or name not in tensors:
            here = [f"__type({variable}) is {kind}", *here]
        conditions += here
        if name in free:
            same += here
            continue
        record = f"__r{next(recorded)}"
        if probe.same:
            same += [text.format(v=variable, r=record, k=kind) for text in probe.same]
            same += [equal[text] for text in probe.still]
        else:
            same += [*here, f"{probe.key.format(v=variable)} == {record}"]
    return conditions, same


def _equal(
    layout: Sequence[str], number: int, argument: tuple[str, Any], space: dict[str, Any]
) -> dict[str, str]:
    """Return expression -> condition that it has its present value, which is stored in *space*."""
    variable, value = argument
    found = {}
    here = space | {variable: value}
    for place, expression in enumerate(layout):
        text, constant = expression.format(v=variable), f"__c{number}_{place}"
        space[constant] = eval(text, here)  # an expression of this module
        same = f"{text} is {constant} or " if text.endswith(".dtype") else ""  # types are compared slowly
        found[expression] = f"({same}{text} == {constant})" if same else f"{text} == {constant}"
    return found


def _is_free(name: str) -> bool:
    """Return whether a function of a signature can have a parameter called *name*."""
    is_name = name.isidentifier() and not keyword.iskeyword(name)
    return is_name and not name.startswith("__")


def call_options(names: Collection[str], where: str = "stream") -> tuple[str, str, str]:
    """Return the keywords of a call for *where* it runs, ``poison`` and ``wait_for``.

    Those that arguments have as *names* get underscores.
    """
    found = [where, "poison", "wait_for"]
    for place, option in enumerate(found):
        while found[place] in names:
            found[place] += "_"
        assert found[place].rstrip("_") == option, "an option is its name and underscores"
    return found[0], found[1], found[2]


_KEY: Final = """
def __key(__given):
    try:
        {taken}
    except KeyError:
        return None
    if __len(__given) == {count} and {conditions}:
        return ({key}), ({numbers})
    return None
"""
# A record is written and read whole: other threads may call meanwhile.  It is made of a call that came twice in a row,
# and dropped when another comes: what takes turns, such as new inputs, is not compared with it in vain.
_CALL: Final = """
def __call(*__unnamed, {parameters}{stream}=None, {poison}=None, **__others):
    global __recent, __record
    if not {poison} and not __others and not __unnamed{missing}{poisoned}:
        __last = __record
        if __last is not None and {stream} is None:
            {recorded}__handle, __launch{makers} = __last
            if {same}:
                {made}
                if not __launch({numbers}{pointers}):
                    __result = __Result()
                    __result._names = __outputs
                    __result._values = ({values})
                    return __result
        if {conditions}:
            __found = ({key}{handle} if {stream} is None else __handle_of({stream}))
            __known = __launches.get(__found)
            if __known is not None:
                __launch{makers}, = __known
                {made}
                if not __launch({numbers}{pointers}):
                    if __found == __recent and {stream} is None:
                        __record = ({records}__found[-1], *__known)
                    else:
                        __record = None
                    __recent = __found
                    __result = __Result()
                    __result._names = __outputs
                    __result._values = ({values})
                    return __result
    __given = {{name: value for name, value in ({given}) if value is not __absent}}
    return __checked(__given | __others, {stream}, {poison}, __unnamed)
"""

# }}}
