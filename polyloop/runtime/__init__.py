"""From generated text to something that runs: compilers, disk cache, argument checks, launches."""
