"""Execution of generated text: compilers, disk cache, argument checks, launches."""
