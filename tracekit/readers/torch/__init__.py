"""Files that PyTorch writes: printed tables of its profiler, snapshots of its allocator."""
