"""Every join over a Trace: owners, launch to work, lanes, steps, kernel classes, collectives. The views use these."""
