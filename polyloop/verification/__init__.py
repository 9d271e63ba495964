"""The proof that a transformed program computes what its reference program computes.

``correspondence`` says which instance copies which.  Then each read must see the write that it sees in the program
(``order``), each right-hand side must be the program's (``provenance``, operand by operand, each with its way back:
``origins``), what transforms put in between must only pass values on (``values``, ``buffers``), each reduction must
have its terms, once and in order (``reduction_terms``, by what each read of an accumulator sees: ``accumulators``), and
accesses must stay inside of their arrays (``bounds``).  ``distance_test`` answers for variables whose accesses keep
their order, without ISL's dataflow.
"""
