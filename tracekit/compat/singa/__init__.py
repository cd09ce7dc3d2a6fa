"""SINGA's time profiling: its tables, and its layout."""
