"""Truth bench: simulated programs with a known ill, and the savings that tracekit shows against the true gain."""
