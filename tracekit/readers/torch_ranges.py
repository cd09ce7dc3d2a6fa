"""Ranges that PyTorch puts around what it does, as a profiler that reads NVTX sees them.

`torch.autograd.profiler.emit_nvtx` writes `aten::mm, op_id = 12` and `aten::mm, seq = 3, op_id = 12, sizes = [[8, 4]],
input_op_ids = [(11,0)]`: the name, then what differs from call to call. Source: getNvtxStr of
torch/csrc/profiler/util.cpp. Ranges of the user (record_function) have such an end too, but no `seq`.
"""

from __future__ import annotations

import re

from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind

__all__ = ["CALL", "OF_OPERATOR", "TorchRange", "range_of", "split"]

CALL = r"(?:, seq = [0-9]+)?, op_id = [0-9]+(?:, sizes = [^\n]*?)?(?:, input_op_ids = [^\n]*)?$"
"""The end of a text, behind the name; for RE2 as well."""
OF_OPERATOR = r", seq = [0-9]+, op_id = [0-9]+"

_CALL = re.compile(CALL)
_OF_OPERATOR = re.compile(OF_OPERATOR)
_OPERATOR = re.compile(r"::|Backward[0-9]*$")
_PHASES = (("enumerate(DataLoader)#", Kind.DATALOADER), ("Optimizer.step#", Kind.OPTIMIZER))
_COMMUNICATION = re.compile(r"(?:nccl|rccl|gloo|mpi|ucc|hccl|xccl|oneccl):")
_STEP = re.compile(
    r"(?:Profiler|Profile|train(?:ing)?[ _]?)?(?:step|iter(?:ation)?)[ _#:=]*([0-9]{1,9})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class TorchRange:
    """The kind of a range, and the number of a step."""

    kind: Kind
    step: int | None = None


def split(text: str) -> tuple[str, bool, bool]:
    """Return the name in the text of a range, whether PyTorch recorded it, and whether it has a sequence number.

    >>> split("aten::mm, seq = 3, op_id = 12")
    ('aten::mm', True, True)
    """
    end = _CALL.search(text) if ", op_id = " in text else None
    if end is None:
        return text, False, False
    return text[: end.start()], True, _OF_OPERATOR.match(end[0]) is not None


def range_of(name: str, *, recorded: bool, numbered: bool) -> TorchRange:
    """Return the kind of a range with this name. recorded, numbered: as `split` has them.

    >>> range_of("step 12", recorded=False, numbered=False)
    TorchRange(kind=<Kind.STEP: 'step'>, step=12)
    """
    if (step := _STEP.fullmatch(name)) is not None:
        return TorchRange(Kind.STEP, int(step[1]))
    for start, kind in _PHASES:
        if name.startswith(start):
            return TorchRange(kind)
    if not recorded:
        return TorchRange(Kind.USER_RANGE)
    if _COMMUNICATION.match(name):
        return TorchRange(Kind.COMMUNICATION)
    return TorchRange(Kind.OPERATOR if numbered or _OPERATOR.search(name) else Kind.USER_RANGE)
