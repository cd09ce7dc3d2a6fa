"""Nsight Systems' own reports (.nsys-rep, .qdrep), as the tables of their SQLite export."""
