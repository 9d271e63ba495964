"""``set_array_axis_names``: names for the axes of arrays, which other transforms accept in place of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.names import check_identifier
from polyloop.kernel.kernel import LoopKernel
from polyloop.transform.base import Transform
from polyloop.transform.layout.storage import on_both, with_arrays
from polyloop.transform.parameters import ArrayNames, NewNames

__all__ = ["SetArrayAxisNames"]


@dataclass(frozen=True)
class SetArrayAxisNames(Transform):
    """Name the axes of arrays; later transforms accept the names in place of numbers.

    >>> knl = pl.make_kernel("{[i, j]: 0 <= i < 8 and 0 <= j < 9}", "b[i, j] = 2*a[i, j]")
    >>> knl = knl.set_array_axis_names("a", "row, col")
    >>> print(knl.argument("a").strides, knl.tag_array_axes("a", "col:N1, row:N0").argument("a").strides)
    (9, 1) (1, 8)

    Parameters
    ----------
    ary_names
        Arguments or temporaries.
    dim_names
        A name for each axis: ``"row, col"`` or a sequence.

    Raises
    ------
    TransformError
        ``unknown-array``, ``wrong-rank``, ``bad-identifier``, ``reserved-name``, ``name-taken``.

    Notes
    -----
    The code stays as it is.  Source: Loopy's transform of the same name.
    """

    ary_names: ArrayNames
    dim_names: NewNames

    def violations(self, kernel: LoopKernel) -> Iterator[Diagnostic]:
        arrays = kernel.arrays()
        for name in self.ary_names:
            if name not in arrays:
                yield unknown_name("array", name, arrays)
                continue
            rank = len(arrays[name].shape or ())
            if rank != len(self.dim_names):
                message = f"'{name}' has {rank} axes and {len(self.dim_names)} names for them"
                yield Diagnostic("wrong-rank", message, hints=("give one for each axis",))
        for axis in self.dim_names:
            problem = check_identifier(axis, "axis")
            if problem is not None:
                yield problem
        if "stride" in self.dim_names or len(set(self.dim_names)) < len(self.dim_names):
            message = f"axes cannot be called {', '.join(self.dim_names)}"
            yield Diagnostic("name-taken", message, hints=("give different names; 'stride' begins a layout",))

    def rewrite(self, kernel: LoopKernel) -> LoopKernel:
        def named(old: LoopKernel, names: Sequence[str]) -> LoopKernel:
            return with_arrays(old, {name: replace(old.arrays()[name], dim_names=self.dim_names) for name in names})

        return on_both(kernel, self.ary_names, named)
