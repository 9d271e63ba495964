"""Transforms: from a kernel to a kernel, each of them one class whose fields are the arguments of its function.

``violations`` of a transform says why it cannot be applied, ``rewrite`` changes the kernel and checks nothing, and
``consequences`` looks at the result. Applying one adds a step to the kernel's ``trace``; a trace without its kernel is
a ``Recipe``. ``history`` finds the step that removed a name, and the names in its place.

A transform keeps, for every instruction, the map from its instances to those of the reference program. A change of a
loop nest is one kind of value (``loops.remap``): old inames as affine forms of new ones, one to one on every
instance.

Some transforms change the reference program too: layouts and names of arguments are part of the calling convention,
``assignment_to_subst`` proves that each use of an assignment sees the same value, ``map_instructions`` records what
the user's function answered, and ``to_batched`` puts a loop around the program.

Copies that run ahead (``staging.pipeline``) are the same instructions for later iterations; an asynchronous copy is
two instructions, its start and its arrival.

Examples in the docstrings of transforms run as tests. ``body(knl)`` in them is the body of the C function that is
generated for a kernel, and ``body(knl, "cuda")`` that of the CUDA kernel; arrays without a type get ``float32``.
"""
