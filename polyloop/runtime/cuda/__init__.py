"""Launches on an NVIDIA GPU: the library that reaches the driver, parameter buffers, graphs, and machine code.

``library`` is the interface of a library that reaches the driver; ``withpycuda`` and ``withcudacore`` fill it in, and
``choice`` says which one a process uses; ``rawdriver``, on ``driver``, calls the driver itself where neither has a
function, or takes long.
``tensormaps`` describes arrays to copy engines.  ``asking`` reads elements between launches.  ``parameters``
lays out what a launch is passed as its cubin says.
``graphs`` makes all launches of a call the nodes of one CUDA graph, which is kept for the sizes that decide them, and
says when a graph is chosen.  ``cooperative`` launches one function that runs all of them.  ``linking`` joins device
code of several compilers, and ``disassembler`` prints it.
"""
