"""Reader of the tables that timemory prints, and rocprof-sys and Omnitrace with it."""
