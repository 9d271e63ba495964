"""``make_copy_kernel``: arrays from one layout to another."""

from __future__ import annotations

from collections.abc import Sequence

from polyloop.creation.create import make_kernel
from polyloop.errors import Diagnostic, KernelError
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.layout import order_tags, parse_dim_tags
from polyloop.kernel.text.specs import GlobalArg, ValueArg, auto

__all__ = ["make_copy_kernel"]


def make_copy_kernel(new_dim_tags: str | Sequence[str], old_dim_tags: str | Sequence[str] | None = None) -> LoopKernel:
    """Create a kernel that copies the array ``input`` to the array ``output`` of another layout.

    ::

        knl = pl.make_copy_kernel("N0,N1")

        # is the same as

        knl = pl.make_kernel(
            "{[i0, i1]: 0 <= i0 < n0 and 0 <= i1 < n1}",
            "output[i0, i1] = input[i0, i1]",
            [pl.GlobalArg("input", shape="n0, n1", dim_tags="N1,N0", offset=pl.auto),
             pl.GlobalArg("output", shape="n0, n1", dim_tags="N0,N1", offset=pl.auto), pl.ValueArg("n0, n1")],
            name="copy_kernel")

    Parameters
    ----------
    new_dim_tags, old_dim_tags
        How each axis of ``output`` and of ``input`` is stored, as for :class:`polyloop.GlobalArg`; the number of axes
        is that of the tags, and ``input`` is in order C by default.  ``N1,N0(pad=16)`` copies to padded rows.

    Raises
    ------
    KernelError
        ``bad-dim-tags``; ``wrong-rank`` if the two have different numbers of axes.

    Notes
    -----
    The element type is inferred; give it with :func:`polyloop.add_dtypes`, or at the call.  Elements of padding are not
    written.
    """
    new = parse_dim_tags(new_dim_tags)
    rank = len(new)
    old = order_tags(rank, "C") if old_dim_tags is None else parse_dim_tags(old_dim_tags)
    if len(old) != rank:
        message = f"the new layout has {rank} axes, and the old one has {len(old)}"
        problem = Diagnostic("wrong-rank", message, hints=("give a tag for each axis",))
        raise KernelError("make_copy_kernel", None, [problem])
    inames = [f"i{axis}" for axis in range(rank)]
    sizes = [f"n{axis}" for axis in range(rank)]
    bounds = " and ".join(f"0 <= {iname} < {size}" for iname, size in zip(inames, sizes, strict=True))
    element, shape = ", ".join(inames), ", ".join(sizes)
    arrays = [
        GlobalArg(name, shape=shape, dim_tags=[str(tag) for tag in tags], offset=auto)
        for name, tags in (("input", old), ("output", new))
    ]
    return make_kernel(
        f"{{[{element}]: {bounds}}}",
        f"output[{element}] = input[{element}]",
        [*arrays, ValueArg(shape), ...],
        name="copy_kernel",
    )
