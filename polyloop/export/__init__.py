"""Kernels outside of Python and of this package: sources with a C interface, and bundles of machine code.

``write`` makes a folder of a kernel: the text of its functions, a header, a launcher in C (``launcher``), files for
builds (``build``), and a manifest. ``binaries`` adds a shared object, or cubins and PTX; such a folder is a bundle.
``load`` runs bundles: it imports neither islpy nor pymbolic, so sizes and grids are in the manifest as ``trees``.
"""
