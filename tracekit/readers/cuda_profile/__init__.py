"""Reader of the CUDA command-line profiler's logs."""
