"""Problems of a run, with evidence and an upper bound of what a fix could save."""
