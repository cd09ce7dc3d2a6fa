"""Options of views: declared once, and wrong ones refused with the nearest name."""

from __future__ import annotations

import pytest
from views.tables import trace

from tracekit import pipeline
from tracekit.errors import UsageError
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

MADE = trace({"name": "a", "dur_ns": 1})


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("totl", "; did you mean total?"),
        ("device-total", "; did you mean device_total?"),
        ("exposed_com", "; did you mean exposed_comm"),
        ("xyz", ""),
    ],
)
def test_a_sort_key_that_no_view_has_is_refused_with_what_looks_like_it(key: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        pipeline.view(MADE, "kernel", ViewOptions(sorted_by=key))
    text = str(caught.value)
    assert text.startswith(f"sort {key.removeprefix('-')}: no such column{near}")
    assert caught.value.hint.startswith(f"one of: {', '.join(spec.key for spec in VIEWS['kernel'].shows)}")


@pytest.mark.parametrize("key", ["total", "-total", "Total", "CPUTotal", "bandwidth", "default", "sum_ratio", ""])
def test_a_column_of_any_view_sorts_or_leaves_a_table_in_its_own_order(key: str) -> None:
    assert pipeline.view(MADE, "kernel", ViewOptions(sorted_by=key)).tables


def test_an_option_of_a_view_that_is_not_shown_is_refused() -> None:
    with pytest.raises(UsageError, match="options n_ops: only the view theano has it"):
        pipeline.view(MADE, "kernel", ViewOptions(values={"n_ops": 1}))
    assert pipeline.view(MADE, "theano", ViewOptions(values={"n_ops": 1})).tables


def test_an_unknown_option_and_a_bad_value_are_refused() -> None:
    with pytest.raises(UsageError, match="options n_opps: no such option of any format or view; did you mean n_ops"):
        pipeline.summary(MADE, options=ViewOptions(values={"n_opps": 1}))
    with pytest.raises(UsageError, match="options sync_share=much: not a number of 0 or more"):
        pipeline.summary(MADE, options=ViewOptions(values={"sync_share": "much"}))
    with pytest.raises(UsageError, match="verbosity=4: not a whole number from 1 to 3"):
        pipeline.view(MADE, "singa", ViewOptions(values={"verbosity": 4}))


def test_options_of_the_command_line_are_divided_between_formats_and_views() -> None:
    assert pipeline.view_options({"osrt": "yes", "n_ops": "3", "sync_share": "0.5"}) == {"n_ops": 3, "sync_share": 0.5}
    with pytest.raises(UsageError, match="options orst: no such option of any format or view; did you mean osrt"):
        pipeline.view_options({"orst": "yes"})
