"""The Trace Event grammar (Chrome JSON): streaming, plans, columns, pairs, repair. No producer's own reader."""
