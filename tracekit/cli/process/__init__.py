"""The process of a command: its memory, and pandas only when it is needed."""
