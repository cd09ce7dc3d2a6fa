"""The doctor: every defect of a profile by class, what viewers do with it, and a repaired trace.

`diagnose` reads an input as its reader does, and checks the notes of the reader (`_notes`), the rows (`_rows`), and for
JSON traces the tracks that viewers see (`_raw`). `defects` lists the classes. `repair` writes a trace without defects.
"""

from __future__ import annotations

from tracekit.doctor.diagnosis import DoctorOptions as DoctorOptions
from tracekit.doctor.diagnosis import diagnose as diagnose
from tracekit.doctor.findings import Diagnosis as Diagnosis
from tracekit.doctor.findings import FoundDefect as FoundDefect
from tracekit.doctor.repair import Repair as Repair
from tracekit.doctor.repair import repair as repair
