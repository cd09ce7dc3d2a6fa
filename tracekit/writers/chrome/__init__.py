"""Chrome Trace Event JSON."""
