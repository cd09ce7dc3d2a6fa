"""Reader of SINGA's printed profiles."""
