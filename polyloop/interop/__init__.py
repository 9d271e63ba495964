"""Kernels as parts of other libraries: operators of PyTorch, functions of JAX, gufuncs, linear operators of SciPy.

``operands`` says what a kernel takes and returns, and which shapes its outputs have. ``native`` compiles it as one
C function for batches with broadcasting, which gufuncs call (``gufunc``), and XLA (``jaxcall``). ``torchops`` registers
operators with ``torch.library``, ``linear`` makes linear operators. ``gradients`` matches a kernel with the one that
computes its gradients. No library is imported before it is asked for.
"""
