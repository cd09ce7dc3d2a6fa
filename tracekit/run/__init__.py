"""Several inputs that are one run: their rows in one stream, and what they share: clocks, processes, events."""
