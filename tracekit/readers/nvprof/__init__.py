"""Readers of nvprof: CSV, printed text, and its database."""
