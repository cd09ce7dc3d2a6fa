"""Shortened names: they fit, say what they are, and never look alike."""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, run_command

import tracekit
from tracekit.model import names
from tracekit.model.display import cell_width, cut_middle, head
from tracekit.model.names import LEAST_WIDTH, short_names
from tracekit.model.report import Column, Report, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.render.page.data import SHORT, packed

WORDS = st.sampled_from(["gemm", "at", "native", "AddFunctor", "MulFunctor", "float", "128", "false", "char*", "T2"])


def _template(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arguments = st.lists(inner, min_size=1, max_size=4).map(", ".join)
    return st.builds(lambda name, text: f"{name}<{text}>", st.sampled_from(["Op", "at::Array", "reduce"]), arguments)


TYPES = st.recursive(WORDS, _template, max_leaves=12)


@st.composite
def kernels(draw: st.DrawFn) -> str:
    """Draw a kernel's name as a demangler writes it."""
    spaces = "".join(f"{word}::" for word in draw(st.lists(st.sampled_from(["at", "native", "cub"]), max_size=3)))
    name = draw(st.sampled_from(["wgrad_alg0_engine", "reduce_kernel", "k", "elementwise_kernel"]))
    template = draw(st.lists(TYPES, max_size=5))
    inside = f"<{', '.join(template)}>" if template else ""
    return (
        f"{draw(st.sampled_from(['', 'void ']))}{spaces}{name}{inside}({', '.join(draw(st.lists(TYPES, max_size=4)))})"
    )


ANY_TEXT = st.text(alphabet="ab:<>(){},-_ 核e\u0301🙂…", max_size=60)


@given(texts=st.lists(ANY_TEXT | kernels(), max_size=8), width=st.integers(0, 90))
def test_short_names_fit_and_what_fits_is_whole(texts: list[str], width: int) -> None:
    cut = short_names(texts, width)
    assert len(cut) == len(texts)
    assert all(cell_width(shown) <= width for shown in cut)
    assert all(shown == text for shown, text in zip(cut, texts, strict=True) if cell_width(text) <= width)


@given(texts=st.lists(ANY_TEXT | kernels(), max_size=40), width=st.integers(LEAST_WIDTH, 90))
def test_different_names_never_look_alike_and_equal_ones_always_do(texts: list[str], width: int) -> None:
    shown = dict(zip(texts, short_names(texts, width), strict=True))
    assert len(set(shown.values())) == len(shown)
    assert [shown[text] for text in texts] == short_names(texts, width)


@given(name=kernels(), width=st.integers(20, 90))
def test_a_kernel_keeps_its_own_name_while_there_is_room(name: str, width: int) -> None:
    (shown,) = short_names([name], width)
    own = next(word for word in ("wgrad_alg0_engine", "reduce_kernel", "elementwise_kernel", "k") if word in name)
    assert own in shown


@given(texts=st.lists(kernels(), max_size=8))
def test_names_in_the_levels_of_a_tree_keep_their_indentation(texts: list[str]) -> None:
    inner = short_names([f"    {text}" for text in texts], 30)
    assert all(shown.startswith("    ") for shown in inner)


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        (
            "void cudnn::cnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int, int, int, float const*)",
            60,
            "wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>",
        ),
        (
            "void at::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::Array<int> >(int)",
            60,
            "vectorized_elementwise_kernel<4, CUDAFunctor_add<…>, …>",
        ),
        ("void at::native::(anonymous namespace)::gather<4, float>(float*, long const*)", 30, "gather<4, float>"),
        ("void f<T>(int)::{lambda(float)#1}::operator()(float) const", 26, "f<…>(…)::{…}::operator()"),
        (
            "void reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::MeanOps<float>, (int)4>>(T3)",
            60,
            "reduce_kernel<512, 1, ReduceOp<float, MeanOps<float>, 4>>",
        ),
        (
            "void mul_mat_vec_q<(ggml_type)13, (bool)0, (bool)0>(void const*, float*, int)",
            30,
            "mul_mat_vec_q<13, 0, 0>",
        ),
        ("void scan<(unsigned long long)7, at::Op<(x::y)-1>>(float*, at::Op<(x::y)-1>, int)", 30, "scan<7, Op<-1>>"),
        ("a long sentence (with a word) that is no function at all", 24, "a long sente…tion at all"),
        ("operator<< (with a bracket that nobody closes", 24, "operator<< (…body closes"),
    ],
)
def test_what_says_least_goes_first(name: str, width: int, shown: str) -> None:
    assert short_names([name], width) == [shown]


def test_names_that_differ_show_where() -> None:
    names = [f"void at::map<4, at::{word}Functor<float>, Array<char*, 3>>(int, T2)" for word in ("Add", "Mul")]
    assert short_names(names, 20) == ["map…AddFunctor<floa…", "map…MulFunctor<floa…"]
    assert short_names(["void a::reduce_all(int, int)", "void b::reduce_all(int, int)"], 16) == [
        "a::reduce_all", "b::reduce_all",
    ]  # fmt: skip
    assert short_names(["void reduce_all(int, int)", "void reduce_all(int, float)"], 16) == [
        "reduce_all… int)", "reduce_al…float)",
    ]  # fmt: skip


@pytest.mark.corpus
@pytest.mark.parametrize("width", [24, 44, 80])
def test_kernels_of_a_real_trace(width: int) -> None:
    trace = tracekit.read(corpus("kineto/hta_ns_resolution_rank0.json.gz"), columns=frozenset({"kind", "name"}))
    names = sorted(filter(None, trace.events.column("name").unique().to_pylist()))
    assert len(set(short_names(names, width))) == len(names)


def test_long_hostile_names_take_no_time() -> None:
    names = ["<" * 60_000, "a<" * 8_000, "::" * 30_000, "(" * 10_000 + ")" * 10_000, "f(" + "a::" * 5_000 + ")"]
    assert all(cell_width(shown) <= 40 for shown in short_names(names, 40))


def test_a_name_that_is_all_in_its_template_argument_keeps_the_ends_of_that() -> None:
    gemm = "cutlass_80_tensorop_s1688gemm_128x64_nt_align4"
    assert short_names([f"void cutlass::Kernel<{gemm}>({gemm}::Params)"], 40) == [
        "Kernel<cutlass_80_te…m_128x64_nt_align4>"
    ]


def test_a_name_with_hundreds_of_arguments_costs_few_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    forms = names._forms

    def counted(name: str, width: int) -> Iterator[str]:
        nonlocal seen
        for form in forms(name, width):
            seen += 1
            yield form

    monkeypatch.setattr(names, "_forms", counted)
    many = ", ".join(f"std::integral_constant<int, {i}>" for i in range(400))
    shown = short_names([f"void space::kernel<{many}>(int)"], 56)
    assert shown[0].startswith("kernel<")
    assert 1 <= seen <= 12


def test_every_long_name_of_a_page_is_short_and_its_own() -> None:
    whole = [f"void at::native::some_kind_of_kernel<at::Functor{i}<float>>(int, at::Array<char*>)" for i in range(2000)]
    table = ReportTable("kernels", "Kernels", (Column("name", "Name", Unit.TEXT, whole),))
    data = packed(Report("t", "0", sections=(Section("kernel", "Kernels", (table,)),)))
    loaded = json.loads(zlib.decompress(base64.b64decode(data.text)))
    assert len(loaded["short"]) == 2000
    assert len(set(loaded["short"].values())) == 2000
    assert max(map(len, loaded["short"].values())) <= SHORT


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("forward (/opt/conda/lib/python3.10/site-packages/torch/nn/modules/linear.py:114)", "forward (linear.py:114)"),
        ("step (C:\\Program Files\\my app\\some folder\\loop.py:3)", "step (loop.py:3)"),
        ("memcpy (/usr/lib/x86_64-linux-gnu/a/b/libc.so.6)", "memcpy (libc.so.6)"),
        ("<lambda> (/home/ada/projects/vision/data/load.py:7)", "<lambda> (load.py:7)"),
    ],
)
def test_a_function_of_a_stack_keeps_its_name_and_the_last_part_of_its_file(name: str, shown: str) -> None:
    assert short_names([name], 30) == [shown]
    assert short_names([name], 100) == [name]


def test_functions_of_files_of_one_name_stay_apart() -> None:
    names = [f"forward (/opt/lib/python3.10/site-packages/{package}/linear.py:114)" for package in ("torch", "mine")]
    first, second = short_names(names, 30)
    assert first != second
    assert (first.startswith("forward"), second.startswith("forward")) == (True, True)


def test_a_name_with_a_slash_in_parentheses_is_no_function_of_a_file() -> None:
    name = "copy of many blocks (device/host and back, at once)"
    assert short_names([name], 40) != ["copy of many blocks (host and back, at once)"]
    assert "(…)" in short_names([name], 40)[0]


def test_a_hostile_name_of_a_function_costs_little() -> None:
    name = "f (/" + "a." * 8_000 + "/x"
    assert cell_width(short_names([name, name + ")"], 40)[0]) <= 40


def test_a_screen_shows_the_file_alone_and_json_the_whole_name(tmp_path: Path) -> None:
    path = tmp_path / "run.folded"
    frames = [f"{name} (/home/ada/projects/vision/classification/deep/{name}.py:7)" for name in ("main", "load")]
    path.write_text(f"{frames[0]};{frames[1]} 30\n{frames[0]} 10\n{frames[0]};{frames[0]} 5\n")
    for words in ((), ("--view", "samples")):
        shown = run_command("summary", path, *words, width=80).stdout
        assert "load (load.py:7)" in shown
        assert "deep" not in shown
    exact = json.loads(run_command("summary", path, "--format", "json").stdout)
    assert frames[1] in json.dumps(exact["headline"], ensure_ascii=False)


# The plain forms of what `short_names` computes by brackets alone: character by character.


TEXTS = st.lists(
    st.sampled_from(["<", ">", "(", ")", "{", "}", "[", "]", ",", "->", "-", "…", "a", "_", "é", "核", " "]),
    max_size=14,
).map("".join)


def _depths(text: str) -> list[int] | None:
    pairs = {"<": ">", "(": ")", "{": "}", "[": "]"}
    open_: list[str] = []
    depths = []
    for place, char in enumerate(text):
        is_arrow = char == ">" and place > 0 and text[place - 1] == "-"
        if char in pairs.values() and not is_arrow and (not open_ or open_.pop() != char):
            return None
        depths.append(len(open_))
        if char in pairs:
            open_.append(pairs[char])
    return None if open_ else depths


def _with_ellipses(text: str, depths: list[int], most: int) -> str:
    marked = "".join(char if depth <= most else "\0" for char, depth in zip(text, depths, strict=True))
    while "\0\0" in marked:
        marked = marked.replace("\0\0", "\0")
    return marked.replace("\0", "…")


def _shorter_and_shorter(text: str, depths: list[int], width: int) -> Iterator[str]:
    longest = (0, 0)
    begin = -1
    for place, char in enumerate(text):
        if char == "<" and depths[place] == 0:
            begin = place
        elif char == ">" and depths[place] == 0 and begin >= 0:
            longest = max(longest, (begin, place), key=lambda pair: pair[1] - pair[0])
            begin = -1
    first, last = longest
    commas = [place for place in range(first, last) if text[place] == "," and depths[place] == 1]
    if text.replace("…", "").isascii():
        commas = commas[: bisect_right(commas, width - len(text) + last - len(", …")) + 1]
    for comma in reversed(commas):
        yield f"{text[:comma]}, …{text[last:]}"


@given(TEXTS, st.integers(0, 20))
def test_brackets_give_the_forms_that_a_look_at_each_character_gives(text: str, width: int) -> None:
    depths, brackets = _depths(text), names._brackets(text)
    assert (depths is None) == (brackets is None)
    if depths is None or brackets is None:
        return
    for most in range(4):
        assert names._collapsed(text, brackets, most) == _with_ellipses(text, depths, most)
    flat = names._collapsed(text, brackets, 1)
    whole = _depths(flat)
    assert whole is not None
    assert list(names._fewer_arguments(flat, width)) == list(_shorter_and_shorter(flat, whole, width))


@given(TEXTS, st.integers(-2, 12))
def test_texts_of_ascii_are_cut_like_others(text: str, width: int) -> None:
    plain = text.replace("…", ".").replace("é", "e").replace("核", "k")
    other = plain.replace("a", "é")  # as wide, and not of ASCII
    assert head(plain, width) == head(other, width).replace("é", "a")
    assert cut_middle(plain, width) == cut_middle(other, width).replace("é", "a")


@given(TEXTS)
def test_a_shared_name_ends_before_its_first_arguments(text: str) -> None:
    places = [i for i in range(1, len(text)) if text[i] in "<(" and (text[i - 1].isalnum() or text[i - 1] == "_")]
    assert names._shared_name(text) == (text[: places[0]] if places else text)
