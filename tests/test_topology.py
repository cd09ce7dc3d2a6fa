"""The groups of ranks that a user names: Megatron-LM's order of ranks, files, and what is refused."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tracekit.errors import UsageError
from tracekit.index.parallel_groups import ORDER, PARALLEL, listed
from tracekit.index.process_groups import contradiction, groups_of_processes
from tracekit.index.topology import parse


def groups(labels: dict[int, str] | object) -> list[list[int]]:
    """The ranks of each group, in order."""
    members: dict[str, list[int]] = defaultdict(list)
    assert isinstance(labels, dict)
    for rank, label in labels.items():
        members[label].append(rank)
    return sorted(sorted(ranks) for ranks in members.values())


def test_the_groups_of_16_ranks_are_those_of_the_documentation_of_megatron() -> None:
    """initialize_model_parallel documents 16 GPUs with 2 of tensor and 4 of pipeline parallelism."""
    found = parse("tp=2,pp=4").dimensions(16)
    assert groups(found["tp"]) == [[i, i + 1] for i in range(0, 16, 2)]
    assert groups(found["pp"]) == [[i, i + 4, i + 8, i + 12] for i in range(4)]
    assert groups(found["dp"]) == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]]
    assert found == parse("tp=2,dp=2,pp=4").dimensions(None)
    assert found["pp-rank"][13] == "pp rank 3"


def test_context_parallel_groups_are_those_of_the_documentation_of_megatron() -> None:
    """It documents 8 GPUs with 4 of tensor and 2 of context parallelism: [0, 4], [1, 5], [2, 6], [3, 7]."""
    assert groups(parse("tp=4,cp=2,dp=1").dimensions(8)["cp"]) == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_another_order_is_that_of_the_documentation_of_megatron() -> None:
    """generate_masked_orthogonal_rank_groups documents the order tp-pp-dp of sizes 2-2-2 and tp-dp-pp of 2-3-4."""
    found = parse("tp=2,pp=2,dp=2,order=tp-pp-dp").dimensions(8)
    assert groups(found["dp"]) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    wide = groups(parse("tp=2,dp=3,pp=4").dimensions(24)["dp"])
    assert (wide[0], wide[1], wide[-1]) == ([0, 2, 4], [1, 3, 5], [19, 21, 23])


def test_experts_share_the_ranks_of_data_parallelism() -> None:
    """8 ranks, tp 2, ep 2: neighbours of equal tp rank are an expert group, in Megatron's order tp-cp-ep-dp-pp."""
    assert groups(parse("tp=2,dp=4,ep=2").dimensions(8)["ep"]) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert groups(parse("tp=2,dp=4,ep=8,etp=1").dimensions(8)["ep"]) == [list(range(8))]
    assert groups(parse("tp=2,dp=4,ep=2").dimensions(8)["dp"]) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    with pytest.raises(UsageError, match="gives experts other pipelines than the rest"):
        parse("cp=2,pp=2,dp=2,ep=4,order=tp-cp-ep-pp-dp").dimensions(8)


@given(
    sizes=st.fixed_dictionaries({key: st.integers(1, 3) for key in ("tp", "cp", "dp", "pp")}),
    order=st.permutations(("tp", "cp", "dp", "pp")),
    ep=st.sampled_from((1, 2, 3)),
)
def test_a_formula_is_the_file_of_its_coordinates(sizes: dict[str, int], order: list[str], ep: int) -> None:
    """The rank is the sum of its coordinates times the product of the sizes before them, as Megatron-LM defines it."""
    assume(sizes["dp"] * sizes["cp"] % ep == 0)
    order = ["tp", "cp", "dp", "pp"] if ep > 1 else order
    rows = {}
    whole = sizes["tp"] * sizes["cp"] * sizes["dp"] * sizes["pp"]
    for rank in range(whole):
        left, row = rank, {}
        for key in order:
            left, row[key] = divmod(left, sizes[key])
        row["ep"] = rank // sizes["tp"] % (sizes["dp"] * sizes["cp"]) % ep if ep > 1 else 0
        rows[rank] = row
    said = ",".join(f"{key}={size}" for key, size in sizes.items()) + f",ep={ep}"
    named = order if ep == 1 else ORDER.split("-")
    formula = parse(f"{said},order={'-'.join(named)}").dimensions(whole)
    columns = ("tp", "cp", "dp", "pp", "ep")
    lines = [",".join(str(cell) for cell in (rank, *(row[key] for key in columns))) for rank, row in rows.items()]
    text = "\n".join([f"rank,{','.join(columns)}", *lines])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ranks.csv"
        path.write_text(text)
        file = parse(str(path)).dimensions(whole)
    for key in PARALLEL:
        assert groups(file[key]) == groups(formula[key]), key
        assert file[f"{key}-rank"] == formula[f"{key}-rank"], key


ROWS = [
    {"rank": r, "tp": r % 2, "dp": r // 2, "host": "ab"[r // 2], "rack": "r2" if r == 3 else "r1"} for r in range(4)
]


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".csv", "rank,tp,dp,host,rack\n0,0,0,a,r1\n1,1,0,a,r1\n2,0,1,b,r1\n3,1,1,b,r2\n"),
        (".csv", "\ufeffRank, tp, dp, host, rack\r\n0, 0, 0, a, r1\r\n1, 1, 0, a, r1\r\n2,0,1,b,r1\r\n3,1,1,b,r2\r\n"),
        (".json", json.dumps(ROWS)),
        (".json", json.dumps({"ranks": ROWS})),
        (".toml", "".join("[[ranks]]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in row.items()) for row in ROWS)),
    ],
)
def test_a_file_has_the_coordinates_of_each_rank(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_text(text, encoding="utf-8")
    found = parse(str(path)).dimensions(4)
    assert groups(found["tp"]) == [[0, 1], [2, 3]]
    assert groups(found["dp"]) == [[0, 2], [1, 3]]
    assert found["host"] == {0: "a", 1: "a", 2: "b", 3: "b"}
    assert groups(found["rack"]) == [[0, 1, 2], [3]]


@pytest.mark.parametrize(("suffix", "text"), [(".json", '{"tp": 2, "pp": 2}'), (".toml", "tp = 2\npp = 2")])
def test_a_file_may_have_the_sizes(tmp_path: Path, suffix: str, text: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_text(text)
    assert parse(str(path)).dimensions(8) == parse("tp=2,pp=2").dimensions(8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tp=2,ordr=tp-dp", "ordr: no such size; did you mean order"),
        ("tp=x", "tp=x is not a number of ranks"),
        ("tp=0", "tp=0 is not a number of ranks"),
        ("tp=2,", "tp 2 ranks do not divide the 9 of the run"),
        ("order=tp-pp", "no sizes"),
        ("tp=2,dp=2,order=tp-tp", "order=tp-tp is not an order"),
        ("tp=2,dp=2,order=tp", "order=tp has no dp"),
        ("tp=2,8", "8 is not a size"),
        ("tp=3,dp=3,ep=2", "etp 3 x ep 2 x pp 1 does not divide the 9 ranks"),
        ("tp=1000000,dp=1000000", "more than 1,048,576 ranks"),
        ("nowhere.csv", "nowhere.csv: No such file"),
        ("=" * 5000, "is not a size|no such size"),
    ],
)
def test_a_wrong_formula_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(text).dimensions(9)


@pytest.mark.parametrize(
    ("suffix", "text", "said"),
    [
        (".csv", "tp,dp\n0,0\n", "line 2: no rank"),
        (".csv", "rank,tp\n0,0\n0,1\n", "line 3: rank 0 has a row already"),
        (".csv", "rank,tp\n0,x\n", "line 2: tp 'x' is not a coordinate"),
        (".csv", "rank,tp\n0,1,2\n", "line 2: not the columns of a rank"),
        (".csv", "rank,tp\n-1,1\n", "line 2: no rank"),
        (".csv", "rank\n0\n", "no rank has a group"),
        (".csv", "", "no rank has a group"),
        (".json", "[1]", "row 0: not the columns of a rank"),
        (".json", "{", "t.json: "),
        (".json", "3", "neither rows of ranks nor sizes"),
        (".json", '{"tp": [2]}', "neither rows of ranks nor sizes"),
        (".json", "[" * 100_000, "t.json: "),
        (".toml", "tp = ", "t.toml: "),
        (".toml", "tp = true", "tp=True is not a number of ranks"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, suffix: str, text: str, said: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        parse(str(path)).dimensions(4)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff\xfe\x00rank")
    with pytest.raises(UsageError, match="not a text file in UTF-8"):
        parse(str(path))


def test_process_groups_that_overlap_are_no_dimension() -> None:
    made, overlapping = groups_of_processes([("tp", [0, 1]), ("tp", [1, 0]), ("dp", [0, 2]), ("dp", [2, 4]), ("", [0])])
    assert groups(made["tp"]) == [[0, 1]]
    assert "dp" not in made
    assert overlapping == {"dp": 2}


def test_two_accounts_of_groups_are_held_against_each_other() -> None:
    assert contradiction({0: "a", 1: "a", 2: "b"}, {0: "x", 1: "x"}) is None
    assert contradiction({0: "a", 1: "a", 2: "b"}, {1: "x", 2: "x"}) == ([0, 1], [1, 2])
    assert contradiction({0: "a"}, {5: "x"}) is None


def test_ranks_in_words() -> None:
    assert [listed([3]), listed([1, 4, 9, 16, 25, 36, 49, 64])] == ["3", "1, 4, 9, 16, 25, 36 and 2 more"]
