"""The host's side of a trace: its ranges as a tree, its pauses, the calls in which it waits, and data loading."""
