"""Programs for OpenCL through PyOpenCL: arrays in its memory, programs built for a context, launches on a queue."""
