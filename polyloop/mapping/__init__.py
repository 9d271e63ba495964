"""The mapping of instances to hardware: which thread executes which one, over which axes.

``thread_mapping`` places the statements of a lowered program on blocks and threads; the axes are ``hardware_axes``, and
parts of thread numbers (``l%8``) are coordinates of a mixed radix.  ``collective_shape`` lays the threads that combine
their values out in warps; ``array_contraction`` and ``contiguity`` say what threads do with one axis of an array.
"""
