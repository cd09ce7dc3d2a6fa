"""Readers of Nsight Systems' exports: SQLite, JSON lines, and the tables of `nsys stats`."""
