"""Kernel IR: ``LoopKernel`` and its parts, without any analysis (docs/architecture.md)."""
