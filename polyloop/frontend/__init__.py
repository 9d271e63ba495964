"""Frontends besides ``make_kernel``: einsum specifications, copies, functions, fusion of kernels, Python functions."""
