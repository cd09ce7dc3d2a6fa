"""Every join over a Trace: owners, launch to work, lanes, steps, kernel classes, collectives. Views ask here."""
