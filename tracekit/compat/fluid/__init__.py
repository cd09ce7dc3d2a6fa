"""fluid.profiler: its tables, and its layout."""
