"""Every profile of the corpus is known by exactly one reader, whatever it is called, and its ledger adds up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import corpus_root, sure_readers, without_corpus

from tracekit.api import inspect
from tracekit.errors import UnknownFormatError

pytestmark = pytest.mark.corpus

NO_PROFILES = ("README.md", "SOURCES.md", "facts.json", "nvtx_numpy.jsonl")
"""Prose, notes of the scripts that made the files, and the log of a test's NVTX tool."""
ORACLES = (".figures.json", ".averages.json")
"""Figures that producers gave beside their traces: what tests compare with."""


def is_profile(path: Path) -> bool:
    return (
        path.is_file()
        and path.name not in NO_PROFILES
        and not path.name.endswith(ORACLES)
        and not {"cupti", "viewer_cases"} & set(path.parts)
        and path.stat().st_size > 1  # Paddle prints nothing for views that have nothing to show
    )


FILES = sorted(str(p.relative_to(corpus_root())) for p in corpus_root().rglob("*") if is_profile(p))


@pytest.mark.parametrize("name", FILES or ["nothing"])
def test_exactly_one_reader_knows_it_and_every_record_is_accounted_for(name: str, tmp_path: Path) -> None:
    if not FILES:
        without_corpus("the corpus of real files is not here (TRACEKIT_CORPUS names the folder)")
    path = corpus_root() / name
    renamed = tmp_path / "unknown"
    shutil.copy(path, renamed)
    for each in (path, renamed):
        assert len(sure_readers(each)) == 1
    entry = inspect(renamed).inputs[0]
    ledger = entry["ledger"]
    parts = sum(ledger[k] for k in ("kept", "merged", "facts", "filtered"))
    assert ledger["read"] == parts + sum(ledger["ignored"].values()) + sum(ledger["dropped"].values()) > 0


def test_what_is_no_profile_is_refused() -> None:
    for name in ("generated/torch/plain.averages.json", "generated/paddle26/facts.json", "SOURCES.md"):
        path = corpus_root() / name
        if not path.exists():
            without_corpus(f"the corpus file {name} is not here")
        with pytest.raises(UnknownFormatError):
            inspect(path)
