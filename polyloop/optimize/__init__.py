"""Over-execution at the edges of arrays: blocks there run as full ones, without tests of each operation."""
