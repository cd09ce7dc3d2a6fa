"""Renamed, fused and split kernels are found again; what is not alike is new or gone, and nothing is lost."""

from __future__ import annotations

import pytest
from compare_runs import LAYERS, Launch, steps, trace
from doors.compare import NameGroup, Profile, Signature, bare_name, match, profile_of
from hypothesis import given
from hypothesis import strategies as st

from tracekit.analysis.kernel_class import KernelClass

MM, ADD, RELU, GEMM_B, SOFTMAX = LAYERS
FUSED: Launch = ("CompiledFxGraph", "triton_poi_fused_add_relu_0", 40_000, 20)


def profile(*layers: Launch) -> Profile:
    return profile_of(trace(steps(6, layers=layers)), "r")


def matched(base: Profile, new: Profile) -> dict[str, tuple[set[str], set[str]]]:
    groups = match(base.steady, new.steady, base.signatures, new.signatures, base.sequences, new.sequences)
    assert sorted(key for group in groups for key in group.base) == sorted(base.steady)
    assert sorted(key for group in groups for key in group.new) == sorted(new.steady)
    found: dict[str, tuple[set[str], set[str]]] = {}
    for group in groups:
        old, now = found.setdefault(group.how, (set(), set()))
        old |= {name for _, name in group.base}
        now |= {name for _, name in group.new}
    return found


def test_the_same_names_are_matched_by_name_wherever_they_stand() -> None:
    found = matched(profile(*LAYERS), profile(*reversed(LAYERS)))
    assert list(found) == ["same"]
    assert found["same"][0] == {layer[1] for layer in LAYERS}


def test_a_renamed_kernel_is_found_by_its_place_and_operator() -> None:
    found = matched(profile(*LAYERS), profile(MM, ADD, RELU, ("aten::mm", "sm90_xmma_gemm_f16", 290_000, 32), SOFTMAX))
    assert found["renamed"] == ({"gemm_b"}, {"sm90_xmma_gemm_f16"})
    assert set(found) == {"same", "renamed"}


def test_a_renamed_kernel_is_found_where_everything_was_renamed() -> None:
    """No neighbour has kept its name: operator, shape and class are all that is left."""
    layers = [
        (operator, f"v2::{kernel.replace('_', '')}_{i}", ns, grid)
        for i, (operator, kernel, ns, grid) in enumerate(LAYERS)
    ]
    found = matched(profile(*LAYERS), profile(*layers))
    assert found["renamed"][0] == {layer[1] for layer in LAYERS}
    assert set(found) == {"renamed"}


def test_template_arguments_and_numbers_are_no_part_of_a_name() -> None:
    base = profile(MM, ("aten::x", "void my::thing<float, 4>(float*)", 50_000, 7), SOFTMAX)
    new = profile(MM, ("aten::x", "void my::thing<__half, 8>(__half*)", 30_000, 9), SOFTMAX)
    assert matched(base, new)["renamed"] == (
        {"void my::thing<float, 4>(float*)"},
        {"void my::thing<__half, 8>(__half*)"},
    )


def test_fused_kernels_match_the_kernel_at_their_position() -> None:
    found = matched(profile(*LAYERS), profile(MM, FUSED, GEMM_B, SOFTMAX))
    assert found["fused"] == ({"add_kernel", "relu_kernel"}, {"triton_poi_fused_add_relu_0"})
    assert set(found) == {"same", "fused"}


def test_a_split_kernel_matches_its_parts() -> None:
    found = matched(profile(MM, FUSED, GEMM_B, SOFTMAX), profile(*LAYERS))
    assert found["split"] == ({"triton_poi_fused_add_relu_0"}, {"add_kernel", "relu_kernel"})


def test_a_fusion_and_a_renaming_side_by_side_are_two_groups() -> None:
    found = matched(profile(*LAYERS), profile(MM, FUSED, ("aten::mm", "gemm_b_splitk", 320_000, 64), SOFTMAX))
    assert found["fused"] == ({"add_kernel", "relu_kernel"}, {"triton_poi_fused_add_relu_0"})
    assert found["renamed"] == ({"gemm_b"}, {"gemm_b_splitk"})


def test_another_kernel_in_the_same_place_is_no_match() -> None:
    """One kernel was dropped and another put in its place, with which it has nothing in common."""
    found = matched(profile(MM, ADD, SOFTMAX), profile(MM, ("my::sampler", "philox_draw", 70_000, 3), SOFTMAX))
    assert found["gone"] == ({"add_kernel"}, set())
    assert found["new"] == (set(), {"philox_draw"})


def test_of_several_replacements_the_most_frequent_one_is_chosen() -> None:
    a, b, c, d, e, f = (("kernel", name) for name in "abcdef")
    old, often, rare = (("kernel", name) for name in ("old", "often", "rare"))
    signed = {key: Signature("aten::x", (), KernelClass.OTHER, key[1], frozenset()) for key in (old, often, rare)}
    base = [(*(a, old, b) * 5, c, old, d, e, old, f)]
    new = [(*(a, often, b) * 5, c, rare, d, e, rare, f)]
    groups = match(set(base[0]), set(new[0]), signed, signed, base, new)
    assert [(group.base, group.new) for group in groups if group.how != "same"] == [((old,), (often,)), ((), (rare,))]


def test_a_kernel_of_two_operators_has_the_first_of_equally_frequent_ones() -> None:
    base = profile(("aten::first", "shared", 9_000, 8), ("aten::second", "shared", 9_000, 8))
    assert base.signatures["kernel", "shared"].operator == "aten::first"
    more = profile(("aten::first", "shared", 9_000, 8), *[("aten::second", "shared", 9_000, 8)] * 2)
    assert more.signatures["kernel", "shared"].operator == "aten::second"


def test_two_that_fit_equally_well_are_not_guessed_at() -> None:
    two = [("aten::mm", name, 100_000, 8) for name in ("left_gemm", "right_gemm")]
    found = matched(profile(("aten::mm", "old_gemm", 200_000, 8)), profile(*two))
    assert "renamed" not in found


def test_copies_of_two_tools_are_matched_by_their_kind() -> None:
    base = [("memcpy", "[CUDA memcpy HtoD]"), ("memcpy", "[CUDA memcpy DtoH]"), ("memset", "[CUDA memset]")]
    new = [
        ("memcpy", "Memcpy HtoD (Pageable -> Device)"),
        ("memcpy", "Memcpy HtoD (Pinned -> Device)"),
        ("memset", "Memset (Device)"),
    ]
    groups = {g.base[0][1]: g for g in match(base, new, {}, {}, (), ()) if g.base}
    assert groups["[CUDA memcpy HtoD]"].how == "split"
    assert groups["[CUDA memset]"] == NameGroup((base[2],), (new[2],), "renamed", "kind of copy")
    assert groups["[CUDA memcpy DtoH]"].how == "gone"


NAMES = st.lists(st.tuples(st.sampled_from(("kernel", "memcpy")), st.sampled_from("abcdefgh")), max_size=30)


@given(NAMES, NAMES)
def test_every_name_is_in_one_group_and_groups_do_not_depend_on_the_order(
    base: list[tuple[str, str]], new: list[tuple[str, str]]
) -> None:
    groups = match(base, new, {}, {}, (base,), (new,))
    assert sorted(key for group in groups for key in group.base) == sorted(set(base))
    assert sorted(key for group in groups for key in group.new) == sorted(set(new))
    assert groups == match(sorted(base), sorted(new), {}, {}, (base,), (new,))


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void f<int, g<4>>(int)", "f"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_nn"),
        ("triton_red_fused_sum_3", "triton_red_fused_sum"),
        ("", ""),
        ("123", "123"),
        ("<", "<"),
        ("((((", "(((("),
    ],
)
def test_bare_names(name: str, bare: str) -> None:
    assert bare_name(name) == bare


def test_names_of_underscores_cost_no_time() -> None:
    for _ in range(300):
        assert bare_name("k" + "_" * 4_000 + "x") == "k" + "_" * 4_000 + "x"


def test_each_kernel_is_counted_in_each_step_by_itself() -> None:
    rows = steps(6)
    lengths = [row["dur_ns"] for row in rows if row.get("kind", "kernel") == "kernel"][: len(LAYERS)]
    found = profile_of(trace(rows), "r").by_step
    in_each = {number: sorted(found.ns[found.step == number].tolist()) for number in set(found.step.tolist())}
    assert len(in_each) >= 5
    assert in_each == dict.fromkeys(in_each, sorted(float(ns) for ns in lengths))
    assert set(found.calls.tolist()) == {1.0}
