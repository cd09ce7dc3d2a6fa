"""Columns of the tables of this folder."""

from __future__ import annotations

from tracekit.units import Unit
from tracekit.views import specs
from tracekit.views.base import ColumnSpec

SHOWS = (
    specs.NAME,
    specs.KIND,
    *specs.STATISTICS,
    ColumnSpec("function", "Function", Unit.TEXT, "The name of the function."),
    ColumnSpec("thread", "Thread", Unit.TEXT, "The name of the thread."),
    ColumnSpec("fn", "In fn.__call__", Unit.NS, "The time in calls of the compiled function."),
    ColumnSpec("thunks", "In thunks", Unit.NS, "The time in the nodes of the graph."),
    ColumnSpec("nodes", "Nodes", Unit.COUNT, "The number of nodes."),
    ColumnSpec("compile", "Compile", Unit.NS, "The time of compilation."),
    ColumnSpec("optimizer", "Optimizer", Unit.NS, "The time in the graph optimizer."),
    ColumnSpec("validate", "Validate", Unit.NS, "The time of validating the graph."),
    ColumnSpec("linker", "Linker", Unit.NS, "The time in the linker."),
    ColumnSpec("import", "Import", Unit.NS, "The time of importing compiled modules."),
    ColumnSpec("make_thunk", "Make thunk", Unit.NS, "The time of making thunks."),
    ColumnSpec("id", "Id", Unit.ID, "The number of the node in its function."),
    ColumnSpec("sum_ratio", "Sum", Unit.RATIO, "The running sum of the ratios."),
    ColumnSpec("mflops", "Mflops", Unit.NUMBER, "Millions of floating-point operations."),
    ColumnSpec(
        "gflops_per_s", "Gflops/s", Unit.NUMBER, "Thousands of millions of floating-point operations per second."
    ),
    ColumnSpec("type", "Type", Unit.TEXT, "The implementation: C or Py."),
    ColumnSpec("remaining", "Left out", Unit.COUNT, "The number of rows that are not shown."),
    ColumnSpec("function_ratio", "In its function", Unit.RATIO, "The share of the time of its function."),
    ColumnSpec("ops_ratio", "In its ops", Unit.RATIO, "The share of the time of its ops."),
    ColumnSpec("within", "Within", Unit.TEXT, "The optimizer that this one belongs to."),
    ColumnSpec("class", "Class", Unit.TEXT, "The class of the optimizer."),
    ColumnSpec("nodes_before", "Nodes before", Unit.COUNT, "The number of nodes before the optimizer ran."),
    ColumnSpec("nodes_after", "Nodes after", Unit.COUNT, "The number of nodes after the optimizer ran."),
    ColumnSpec("bytes", "Bytes", Unit.BYTES, "The size of the outputs, or the peak of memory."),
    ColumnSpec("c_py_bytes", "With linker c", Unit.BYTES, "The peak of memory with the linker c and py."),
    ColumnSpec("shapes", "Shapes", Unit.TEXT, "The shapes of the outputs."),
    ColumnSpec("made", "Created, inplace, view", Unit.TEXT, "The origin of each output: created, inplace or a view."),
    ColumnSpec("percent", "%", Unit.NUMBER, "The share in percent, as Theano prints it."),
    ColumnSpec("sum_percent", "sum %", Unit.NUMBER, "The running sum of the shares in percent."),
    ColumnSpec("s", "Time (s)", Unit.NUMBER, "The time in seconds."),
    ColumnSpec("s_per_call", "time per call (s)", Unit.NUMBER, "The time of a call in seconds."),
    ColumnSpec("sign", "Sign", Unit.TEXT, "The sign at the beginning of the line."),
    ColumnSpec("fact", "Fact", Unit.TEXT, "The name of a line of the head."),
    ColumnSpec("label", "Label", Unit.TEXT, "The label of a line."),
    ColumnSpec("text", "Text", Unit.TEXT, "The text of a line."),
    ColumnSpec("steps", "Steps", Unit.COUNT, "The number of steps of a scan."),
    ColumnSpec("form", "Form", Unit.TEXT, "The form of a line."),
    ColumnSpec("below", "Below", Unit.TEXT, "The line below the table."),
    ColumnSpec("level", "Level", Unit.COUNT, "The depth of the row."),
    ColumnSpec("index", "Index", Unit.ID, "The place of the row."),
    ColumnSpec("validate_s", "Validate (s)", Unit.TEXT, "The time of validation in seconds, as printed."),
    ColumnSpec("line", "Line", Unit.TEXT, "The line as printed."),
    ColumnSpec("computed_in_s", "Computed in (s)", Unit.TEXT, "The time of computing the memory profile, as printed."),
    ColumnSpec("code", "created/inplace/view", Unit.TEXT, "The origin of each output, in Theano's letters."),
    ColumnSpec("bytes_of_all", "Bytes of all", Unit.BYTES, "The size of all outputs."),
)
