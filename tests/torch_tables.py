"""Print PyTorch's own tables, each with the averages that it was made of: PyTorch 1.0 and later, on a CPU.

    python tests/torch_tables.py FOLDER

FOLDER gets VERSION.txt.gz, the tables with a blank line between two, and VERSION.json.gz: for each table its form, its
options, and the events as `key_averages()` or `events()` holds them, before any is formatted. Forms with options that
a version does not know are left out. Paths in stacks are cut to their last two parts.

In the JSON an event is a list: name, calls, self and total CPU time in us, whether it is within another event, total
and self CPU memory in bytes, FLOPs, shapes, stack.
"""

import contextlib
import gzip
import inspect
import io
import json
import os
import re
import sys
import warnings

import torch
from torch.autograd import profiler as legacy

FOLDERS = re.compile(r"[^\s()]*/(?=[^/\s()]+/[^/\s()]+\.py\()")
PROGRAM = "import torch\ntorch.ones(8, 8).mm(torch.ones(8, 8)).sum()"


def work():
    with getattr(legacy, "record_function", contextlib.nullcontext)("model_inference"):
        loss = model(torch.ones(4, 16)).sum()
    loss.backward()
    optimizer.step()


def options_of(call):
    return set(inspect.signature(call).parameters)


def profiled(make, **options):
    """Profile the work once; options that this version does not have are left out."""
    known = options_of(make.__init__)
    with make(**{key: value for key, value in options.items() if key in known}) as prof:
        work()
    return prof


def kineto(**options):
    """Profile with torch.profiler, or with what came before it."""
    try:
        from torch.profiler import ProfilerActivity, profile
    except ImportError:
        return profiled(legacy.profile, **options)
    config = getattr(getattr(torch._C, "_profiler", None), "_ExperimentalConfig", None)
    if options.get("with_stack") and config is not None:
        with contextlib.suppress(TypeError):
            options["experimental_config"] = config(verbose=True)
    return profiled(profile, activities=[ProfilerActivity.CPU], **options)


def shortened(events):
    """Cut the paths in stacks, which are those of this machine."""
    for event in events:
        event.stack = [FOLDERS.sub("", frame) for frame in event.stack or []]
    return events


def facts_of(events, *, nested_too=False):
    """Return what the events hold; single events within others only if asked: the form `top level` has none."""
    found = []
    for event in events:
        nested = getattr(event, "cpu_parent", None) is not None
        if nested and isinstance(event, legacy.FunctionEvent) and not nested_too:
            continue
        times = [getattr(event, "self_cpu_time_total", 0), event.cpu_time_total]
        sizes = [getattr(event, name, 0) for name in ("cpu_memory_usage", "self_cpu_memory_usage")]
        shapes = str(getattr(event, "input_shapes", None) or "")
        stack = list(getattr(event, "stack", None) or [])
        found.append(
            [event.key, event.count, *times, int(nested), *sizes, getattr(event, "flops", None) or 0, shapes, stack]
        )
    return found


def forms():
    """Yield the forms: a name, the events, and the options of the table."""
    plain = kineto(record_shapes=True)
    averages = plain.key_averages()
    single = getattr(plain, "profiler", plain).function_events
    yield "plain", averages, {}
    yield "sorted", averages, {"sort_by": "self_cpu_time_total", "row_limit": 5}
    yield "ms", averages, {"time_unit": "ms", "row_limit": 2}
    yield "header", averages, {"header": "A model on a CPU", "row_limit": 2}
    yield "narrow", averages, {"max_name_column_width": 20, "row_limit": 4}
    yield "top level", single, {"top_level_events_only": True, "row_limit": -1}
    yield "top level of averages", averages, {"top_level_events_only": True, "header": "A model", "row_limit": 20}
    full = kineto(record_shapes=True, profile_memory=True, with_flops=True)
    if options_of(full.key_averages):  # its first option groups by shape, whatever its name
        by_shape = full.key_averages(True)
        order = "flops" if hasattr(by_shape[0], "flops") else "cpu_time_total"
        yield "shapes, memory, FLOPs", by_shape, {"sort_by": order, "row_limit": 4}
    stacked = kineto(with_stack=True, profile_memory=True, with_flops=True)
    if "group_by_stack_n" in options_of(stacked.key_averages):
        by_time = {"sort_by": "self_cpu_time_total", "row_limit": 3}
        yield "stacks, memory, FLOPs", shortened(stacked.key_averages(group_by_stack_n=3)), by_time
    old = profiled(legacy.profile, use_kineto=False, record_shapes=True)
    yield "legacy", old.key_averages(), {"row_limit": 4}


def bottleneck():
    """Return what torch.utils.bottleneck prints of an autograd profile, and the events of the profile."""
    from torch.utils.bottleneck import __main__ as module

    with contextlib.redirect_stdout(io.StringIO()) as text:
        profiles = module.run_autograd_prof(compile(PROGRAM, "program.py", "exec"), {"__name__": "__main__"})
        module.print_autograd_prof_summary(profiles[0], "CPU", "cpu_time_total", 5)
    return text.getvalue(), profiles[0].function_events


def main(folder):
    texts, tables, stored = [], [], []
    for name, events, options in forms():
        # 1.8 overwrites FLOPs by a rate when it prints them, so the facts are taken before.
        facts, whole = facts_of(events), getattr(events, "self_cpu_time_total", None)
        if set(options) - options_of(events.table):
            continue
        texts.append(events.table(**options))
        if facts not in stored:
            stored.append(facts)
        tables.append({"form": name, "options": options, "whole": whole, "events": stored.index(facts)})
    with contextlib.suppress(ImportError):  # 2.13 has none
        text, events = bottleneck()
        texts.append(text.lstrip("\n"))
        whole = None  # that of the rows alone, which are a list for it
        options = {"sort_by": "cpu_time_total", "row_limit": 5}
        tables.append({"form": "bottleneck", "options": options, "whole": whole, "events": len(stored)})
        stored.append(facts_of(events, nested_too=True))
    version = torch.__version__.split("+")[0]
    heads = ",\n".join(json.dumps(table) for table in tables)
    rows = ",".join("[\n{}\n]".format(",\n".join(json.dumps(event) for event in events)) for events in stored)
    for suffix, text in (("txt", "\n".join(texts)), ("json", f'{{"tables": [\n{heads}\n],\n"events": [{rows}]}}\n')):
        with gzip.GzipFile(os.path.join(folder, f"{version}.{suffix}.gz"), "wb", mtime=0) as file:
            file.write(text.encode())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    work()
    main(sys.argv[1])
