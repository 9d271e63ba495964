"""Kernels made otherwise than from domains and text: from einsum specifications, from other kernels, from functions."""
