"""Reader of Trace Event files of any producer, and of those that tracekit wrote."""
