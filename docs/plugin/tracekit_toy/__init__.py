"""A reader, a view and a writer for tracekit, to copy from."""
