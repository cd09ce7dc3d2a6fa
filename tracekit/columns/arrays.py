"""Names for the types of numpy arrays, for the whole package."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

I32: TypeAlias = npt.NDArray[np.int32]
I64: TypeAlias = npt.NDArray[np.int64]
U64: TypeAlias = npt.NDArray[np.uint64]
F64: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Rows: TypeAlias = npt.NDArray[np.signedinteger]
"""Row numbers, of whatever width numpy chose."""
Codes: TypeAlias = npt.NDArray[np.signedinteger]
"""Numbers of names or classes, of a width that holds them all."""
Numbers: TypeAlias = npt.NDArray[np.generic]
"""Numbers of any type, which a function converts itself."""
