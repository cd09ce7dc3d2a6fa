"""SQLite databases: tables as Arrow batches, and the CUPTI activity tables that two profilers share."""
