"""The mapping of instances to hardware: the thread that executes an instance, and the axes it lies on.

``thread_mapping`` places the statements of a lowered program on blocks and threads; ``hardware_axes`` has the extents
of the axes, which are those of the instances. ``collective_shape`` lays out in warps the threads that combine values;
``array_contraction`` and ``contiguity`` find the axes of an array that a thread or a vector has to itself.

Digits. An iname tagged ``l/8%4`` is a digit of the thread number (``mixed_radix``). The thread axes of the analysis
are then the digits of the radix in which every such iname, and ``l.0`` to ``l.2``, is a sum, so no set needs a
quotient. That a sum of digits determines them is a theorem (``poly.radix``), for which ISL is not asked. Code
generation defines each digit in the prologue of the kernel.

Warps. ``lane`` lies on ``l.0`` and ``w`` on ``l.1``; ``warp_axes`` pads ``l.0`` to whole warps.
"""
