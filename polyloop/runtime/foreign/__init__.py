"""Arrays of all libraries, read the same way: pointer, shape, strides, type, device, read-only, stream.

``readers`` turns any argument into an ``ArrayView`` (``view``), through what its library offers: attributes of NumPy,
Torch, CuPy, PyCUDA, the CUDA array interface (Numba), or DLPack (``capsule``: JAX and all others).  Nothing is copied.
``tensors`` checks many tensors of PyTorch at once.
"""
