"""Execution of generated text: compilers, the disk cache, checks of arguments, launches.

``invoke`` compiles (with a C compiler, or NVRTC to a cubin) through a cache that is addressed by content, solves
integer sizes from the shapes of arrays, checks every argument and launches (``backends``). Strides and offsets that
arrays leave open are arguments of the functions, read off the arrays passed (``layouts``).

A call like the one before (the same addresses, types, shapes and numbers) is neither checked nor packed again:
``repeat`` compiles a function of the kernel's arguments that compares just these. A bound call
(``CompiledKernel.bind``) compares nothing and can be captured in a CUDA graph.

``fibres`` runs CUDA C on the CPU, one fibre a thread. ``explain`` puts sizes and the published figures of a device to
what ``cost`` counts: sectors, bank conflicts, occupancy; ``explanation`` is the result, ``advice`` the list of possible
improvements.  ``bounds`` has the parts: counts, and processors with what is measured of this one.
"""
