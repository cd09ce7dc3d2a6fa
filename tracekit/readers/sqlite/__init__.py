"""SQLite databases: tables as Arrow batches, and the CUPTI activity tables of nvprof and Nsight Systems."""
