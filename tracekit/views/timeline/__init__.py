"""The picture of a trace: lanes over time, and where device time went."""
