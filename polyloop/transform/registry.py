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
    "add_barrier": "instructions.barrier",
    "add_dependency": "instructions.dependencies",
    "add_dtypes": "instructions.specialize",
    "add_inames_for_unused_hw_axes": "loops.housekeeping",
    "add_inames_to_insn": "loops.housekeeping",
    "add_nosync": "instructions.dependencies",
    "add_padding": "layout.array_axes",
    "add_prefetch": "staging.prefetch",
    "affine_map_inames": "loops.map_domain",
    "alias_temporaries": "staging.alias",
    "assignment_to_subst": "instructions.assignment",
    "assume": "instructions.specialize",
    "buffer_array": "staging.buffer",
    "chunk_iname": "loops.join",
    "collect_common_factors_on_increment": "reductions.factors",
    "concatenate_arrays": "layout.concatenate",
    "distribute_loops": "loops.distribution",
    "duplicate_inames": "loops.duplicate",
    "expand_subst": "instructions.rules",
    "extract_subst": "instructions.rules",
    "fix_parameters": "instructions.specialize",
    "fold_constants": "instructions.simplify",
    "fuse_loops": "loops.fusion",
    "hoist_reduction_factors": "reductions.hoist",
    "interchange": "loops.reorder",
    "join_inames": "loops.join",
    "make_reduction_inames_unique": "loops.housekeeping",
    "map_domain": "loops.map_domain",
    "map_instructions": "instructions.replacing",
    "peel": "loops.peel",
    "pipeline": "staging.pipeline",
    "precompute": "staging.precompute",
    "prioritize_loops": "loops.reorder",
    "privatize_temporaries_with_inames": "layout.privatize",
    "read_once": "staging.read_once",
    "realize_reduction": "reductions.realize",
    "realize_scan": "reductions.scan",
    "reduce_atomically": "reductions.atomic_reduction",
    "remove_instructions": "instructions.instructions",
    "remove_unused_arguments": "layout.arguments",
    "remove_unused_inames": "loops.housekeeping",
    "rename_argument": "layout.arguments",
    "rename_iname": "loops.rename",
    "rename_inames": "loops.rename",
    "rename_inames_in_batch": "loops.fusion",
    "replace_instruction_ids": "instructions.replacing",
    "reverse": "loops.map_domain",
    "save_and_reload_temporaries": "staging.save",
    "set_argument_order": "layout.arguments",
    "set_array_axis_names": "layout.axis_names",
    "set_instruction_priority": "instructions.instructions",
    "set_temporary_address_space": "instructions.specialize",
    "shift": "loops.map_domain",
    "simplify_indices": "instructions.simplify",
    "split_array_axis": "layout.array_axes",
    "split_iname": "loops.split",
    "split_reduction_inward": "reductions.reduction",
    "split_reduction_outward": "reductions.reduction",
    "stage_reduction": "reductions.stage_reduction",
    "swizzle": "layout.swizzle",
    "exchange_by_shuffle": "staging.exchange",
    "split_scan": "reductions.split_scan",
    "tag_array_axes": "layout.array_axes",
    "tag_inames": "loops.tag",
    "tag_instructions": "instructions.instructions",
    "tensorize": "reductions.tensorize",
    "tile": "loops.tile",
    "to_batched": "layout.batched",
    "unchecked": "unchecked",
    "unprivatize_temporaries_with_inames": "layout.privatize",
    "untag_inames": "loops.peel",
    "vectorize": "loops.vectorize",
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
