"""Every transform, by name: the list from which methods, replayed traces and tests are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

from polyloop.edge.calls import public
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.trace import Trace

if TYPE_CHECKING:  # an import of the package does without all that a transform needs
    from polyloop.transform.base import Transform

__all__ = ["FUNCTIONS", "TRANSFORMS", "install_methods"]

_T = TypeVar("_T")

_HOMES: Final[Mapping[str, str]] = {
    "add_barrier": "barrier",
    "add_dependency": "dependencies",
    "add_dtypes": "specialize",
    "add_inames_for_unused_hw_axes": "housekeeping",
    "add_inames_to_insn": "housekeeping",
    "add_nosync": "dependencies",
    "add_padding": "layout",
    "add_prefetch": "prefetch",
    "affine_map_inames": "affine",
    "alias_temporaries": "alias",
    "assignment_to_subst": "assignment",
    "assume": "specialize",
    "buffer_array": "buffer",
    "chunk_iname": "join",
    "collect_common_factors_on_increment": "factors",
    "concatenate_arrays": "concatenate",
    "distribute_loops": "distribution",
    "duplicate_inames": "duplicate",
    "expand_subst": "rules",
    "extract_subst": "rules",
    "fix_parameters": "specialize",
    "fold_constants": "simplify",
    "fuse_loops": "fusion",
    "hoist_reduction_factors": "hoist",
    "interchange": "reorder",
    "join_inames": "join",
    "make_reduction_inames_unique": "housekeeping",
    "map_domain": "affine",
    "map_instructions": "replacing",
    "peel": "untag",
    "pipeline": "pipeline",
    "precompute": "precompute",
    "prioritize_loops": "reorder",
    "privatize_temporaries_with_inames": "privatize",
    "read_once": "read_once",
    "realize_reduction": "realize",
    "realize_scan": "scan",
    "reduce_atomically": "atomically",
    "remove_instructions": "instructions",
    "remove_unused_arguments": "arguments",
    "remove_unused_inames": "housekeeping",
    "rename_argument": "arguments",
    "rename_iname": "rename",
    "rename_inames": "rename",
    "rename_inames_in_batch": "fusion",
    "replace_instruction_ids": "replacing",
    "reverse": "affine",
    "save_and_reload_temporaries": "save",
    "set_argument_order": "arguments",
    "set_array_axis_names": "axes",
    "set_instruction_priority": "instructions",
    "set_temporary_address_space": "specialize",
    "shift": "affine",
    "simplify_indices": "simplify",
    "split_array_axis": "layout",
    "split_iname": "split",
    "split_reduction_inward": "reduction",
    "split_reduction_outward": "reduction",
    "stage_reduction": "stage_reduction",
    "swizzle": "swizzle",
    "exchange_by_shuffle": "exchange",
    "split_scan": "split_scan",
    "tag_array_axes": "layout",
    "tag_inames": "tag",
    "tag_instructions": "instructions",
    "tensorize": "tensorize",
    "tile": "tile",
    "to_batched": "batched",
    "unchecked": "unchecked",
    "unprivatize_temporaries_with_inames": "privatize",
    "untag_inames": "untag",
    "vectorize": "vectorize",
}
"""The module of each transform, by the name of its public function.  It is loaded when first used."""


class _Catalogue(Mapping[str, _T]):
    """What each transform's module has under a spelling of the transform's name."""

    def __init__(self, spelling: Callable[[str], str]) -> None:
        self._spelling = spelling

    def __getitem__(self, name: str) -> _T:
        module = import_module(f"polyloop.transform.{_HOMES[name]}")
        found: _T = getattr(module, self._spelling(name))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


def _class_name(name: str) -> str:
    return name.title().replace("_", "")


TRANSFORMS: Final[Mapping[str, type[Transform]]] = _Catalogue(_class_name)
"""The classes, by the name of the public function."""



class _Functions(_Catalogue[Callable[..., LoopKernel]]):
    """The functions, each with its arguments checked."""

    def __init__(self) -> None:
        super().__init__(str)
        self._known: dict[str, Callable[..., LoopKernel]] = {}

    def __getitem__(self, name: str) -> Callable[..., LoopKernel]:
        if name not in self._known:
            self._known[name] = public(super().__getitem__(name))
        return self._known[name]


FUNCTIONS: Final[Mapping[str, Callable[..., LoopKernel]]] = _Functions()
"""The public functions, which are also methods of ``LoopKernel``."""


class _Method:
    """A transform as a method, which takes the function's place until it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, kernel: LoopKernel | None, owner: type[LoopKernel]) -> Callable[..., LoopKernel]:
        function = FUNCTIONS[self._name]
        setattr(LoopKernel, self._name, function)
        method: Callable[..., LoopKernel] = getattr(owner if kernel is None else kernel, self._name)
        return method


class _Reader:
    """``Trace.from_json``, until it is first used."""

    def __get__(self, trace: Trace | None, owner: type[Trace]) -> Callable[[str], Trace]:
        Trace.from_json = staticmethod(public(import_module("polyloop.transform.stored").trace_from_json))
        return owner.from_json


def install_methods() -> None:
    """Make every transform a method, ``knl.split_iname("i", 16)``, and let traces be read."""
    for name in _HOMES:
        setattr(LoopKernel, name, _Method(name))
    setattr(Trace, "from_json", _Reader())  # noqa: B010 - the types know only the function
