"""Ways to try kernels: equivalence of two kernels on random inputs, random kernels and transforms, brute force."""
