"""paddle.profiler's summary: its figures, defects included, and its layout."""
