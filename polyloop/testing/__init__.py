"""Testing of kernels: equivalence on random inputs, random kernels and transforms, brute force."""
