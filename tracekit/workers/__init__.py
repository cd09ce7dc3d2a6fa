"""Workers for many independent tasks: processes of this machine, or a Dask cluster."""
