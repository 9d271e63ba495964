"""Translation validation: the proof that a transformed program computes the values of its reference program.

A statement of the transformed program is a *copy* of one of the reference program, or was made by a transform: it fills
a temporary, moves elements to and from a buffer, or begins and combines partial results.  ``correspondence`` maps
copies, their instances and their reads to those of the reference program.  The proof has these parts:

* Order: each read sees a copy of the write that it sees in the reference program.  ``order`` compares value-based
  dataflow; ``distance_test`` is a quicker sufficient test by dependence distances.  ``lockstep`` is about vector lanes.
* Expressions: right-hand sides, conditions and subscripts are equal, operand by operand (``provenance``), and so are
  the types of their operations (``program.operand_types``).  ``origins`` has the relations between an operand and the
  original that it stands for.
* Values: temporaries of transforms hold the values that are read from them (``values``); so do buffers (``buffers``,
  with ``unbuffered`` as the view of the program in which each access to a buffer is one to its array).
* Reductions: each result combines its own terms, each once, and in order where that matters (``reduction_terms``).
  ``accumulators`` finds the updates that a read of an accumulator sees; ``matrix_instructions`` is about tensor cores.
* Bounds: accesses stay inside of their arrays (``bounds``, and ``computed_subscripts`` for non-affine subscripts).
* Layouts: elements have distinct addresses, and vector accesses are contiguous and aligned (``addresses``).

``dependences`` lists the dependences of the reference program for users.
"""
