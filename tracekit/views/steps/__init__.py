"""Training steps and throughput."""
