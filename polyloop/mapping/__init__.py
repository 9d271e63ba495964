"""The mapping of statement instances to hardware: blocks, threads, warps and vector lanes.

``thread_mapping`` places the statements of a lowered program on blocks and threads; ``hardware_axes`` has the axes of a
kernel with their extents, ``grid_blocks`` the blocks that execute statements. ``collective_shape`` divides the threads
that combine values into warps and parts. ``array_contraction`` finds axes of temporaries along which each thread uses
one element. ``contiguity`` proves that the lanes of a vector access consecutive, aligned elements.

Digits. An iname tagged ``l/8%4`` is a digit of the thread number (``mixed_radix``). The thread axes of the analysis
are then the digits of the finest radix: every such iname, and each of ``l.0`` to ``l.2``, is a sum of them, so no set
needs a quotient. A sum of digits determines the digits by a theorem (``poly.radix``), without a question to ISL. Code
generation defines each digit in the prologue of the kernel.

Warps. The tag ``lane`` maps to ``l.0`` and ``w`` to ``l.1``; ``warp_axes`` pads ``l.0`` to whole warps.
"""
