"""Work of operators from their shapes, peaks of devices, and the floor: the time that no kernel can beat.

`formulas.work` has FLOPs and bytes of one call of an operator (`operators.tsv`: formulas as data), `devices.roof` what
a device can do (`devices.tsv`: peaks with their source), `datatypes.datatype_that_ran` the peak that counts, and
`floors.reach` puts them together. Arithmetic on plain values: nothing here knows a trace.
"""
