"""Reader of the recorder's log."""
