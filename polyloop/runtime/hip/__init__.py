"""HIP C++ to code objects of AMD GPUs, by any Clang with their backend; needs no GPU and no ROCm."""
