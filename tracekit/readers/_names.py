"""C++ names: demangled once for each distinct name, bounded, the file's own spelling kept."""
