"""Options of reading with a panel of their own: what makes an output safe to share, and how several inputs meet."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

import typer

from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.index.topology import Topology
    from tracekit.privacy.anonymous import Anonymizer

SHARING = "Safe to share"
SEVERAL = "Several inputs"

Align = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOW",
        help="How to align clocks: auto, none, wall-clock, ranges, collectives or launches. "
        "INPUT=HOW or INPUT=+12ms is for one input.",
        rich_help_panel=SEVERAL,
    ),
]
RankFrom = Annotated[
    str,
    typer.Option(
        metavar="REGEX",
        help="Take the rank of an input from its name: the first group, such as 'rank(\\d+)'.",
        rich_help_panel=SEVERAL,
    ),
]

By = Annotated[
    str,
    typer.Option(
        metavar="DIMENSION",
        help="Compare by rank, host, tp, pp, dp, ep or pp-rank: median, minimum and maximum of each row, and where.",
        rich_help_panel=SEVERAL,
    ),
]
Each = Annotated[
    bool,
    typer.Option("--each", help="With --by: show the table of each group instead.", rich_help_panel=SEVERAL),
]
TopologyText = Annotated[
    str,
    typer.Option(
        "--topology",
        metavar="SIZES|FILE",
        help="The groups of ranks, such as tp=8,pp=4,dp=32: Megatron-LM's order tp-cp-ep-dp-pp, unless order=tp-pp-dp "
        "is added. Or a CSV, JSON or TOML file with the columns rank, tp, pp, dp, ep, host.",
        rich_help_panel=SEVERAL,
    ),
]

Anonymize = Annotated[
    bool,
    typer.Option(
        "--anonymize",
        help="Replace paths, hosts, users, commands, environments and addresses by stable tokens.",
        rich_help_panel=SHARING,
    ),
]
AnonymizeNames = Annotated[
    bool,
    typer.Option(
        "--anonymize-names", help="Like --anonymize, and replace the names of events too.", rich_help_panel=SHARING
    ),
]
AnonymizeKey = Annotated[
    str,
    typer.Option(metavar="FILE|TEXT", help="Make the same tokens in every run with this key.", rich_help_panel=SHARING),
]


@functools.cache
def anonymizer(key: str, *, wanted: bool, names: bool) -> Anonymizer | None:
    """Return what replaces private texts, the same one for all inputs of a command; None where nothing is wanted.

    key: a file that has the key, or the key itself. Raises: UsageError for a key alone.
    """
    from tracekit.privacy.anonymous import Anonymizer, key_of

    if wanted or names:
        return Anonymizer(key_of(key), names=names)
    if key:
        raise UsageError("--anonymize-key without --anonymize", hint="add --anonymize")
    return None


def by_options(by: str, topology: str, *, each: bool) -> Topology | None:
    """Return the topology that the user names, None for none. Raises: UsageError for --each without --by."""
    from tracekit.index.topology import parse

    if each and not by:
        raise UsageError("--each without --by", hint="add --by, such as --by rank")
    return parse(topology) if topology else None
