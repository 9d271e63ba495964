"""Thread mapping of instances: the thread that executes each one, and the axes that number threads.

``thread_mapping`` places the statements of a lowered program on blocks and threads; the axes are ``hardware_axes``, and
parts of thread numbers (``l%8``) are coordinates of a mixed radix.  ``collective_shape`` arranges the threads that
combine values by warps; ``array_contraction`` and ``contiguity`` are about one axis of an array.
"""
