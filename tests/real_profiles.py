"""Record small profiles with the real producers, each with the figures that the producer's own tools compute of it.

    python tests/real_profiles.py jax|tensorflow|py-spy FOLDER
    python tests/real_profiles.py figures FOLDER

The first writes a profile into the folder. The second, with JAX and xprof installed, writes NAME.figures.json beside
each XPlane file there: events by line and name as in JAX's `ProfileData`, and the operators as in xprof, the tool of
TensorFlow. For py-spy the figures are how many samples it says it took, and how many seconds each function ran by the
clock of the program. JSON of VizTracer and JAX is checked against Perfetto elsewhere.
"""

import contextlib
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

PROGRAM = """
import json, time

def wait_for(seconds):
    while time.perf_counter() < seconds:
        pass

def long_part(start):
    wait_for(start + 0.03)

def short_part(start):
    wait_for(start + 0.01)

def main():
    spent = {"long_part": 0.0, "short_part": 0.0}
    for _ in range(50):
        for part in (long_part, short_part):
            start = time.perf_counter()
            part(start)
            spent[part.__name__] += time.perf_counter() - start
    print(json.dumps(spent))

main()
"""


def of_jax(folder):
    """Record three steps on a CPU. The paths of the program, which XLA stores, are cut to its name."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_hlo_source_file_canonicalization_regex", r".*/")

    @jax.jit
    def step(weights, batch):
        return weights - 0.1 * jax.grad(lambda w: jnp.tanh(batch @ w).sum())(weights)

    weights, batch = jnp.ones((16, 3)), jnp.ones((4, 16))
    step(weights, batch).block_until_ready()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as made:
        with jax.profiler.trace(made, profiler_options=options):
            for number in range(3):
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    weights = step(weights, batch).block_until_ready()
        keep_xplane(made, folder / f"jax-{jax.__version__}.xplane.pb")


def of_tensorflow(folder):
    """Record three steps on a CPU."""
    import tensorflow as tf

    weights, batch = tf.Variable(tf.ones((16, 3))), tf.ones((4, 16))

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(batch @ weights))
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    step()
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    with tempfile.TemporaryDirectory() as made, contextlib.chdir(made):
        with tf.profiler.experimental.Profile("logs", options):  # the profile has the name of the folder
            for number in range(3):
                with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
                    step()
        keep_xplane(made, folder / f"tensorflow-{tf.__version__}.xplane.pb")


def keep_xplane(made, target):
    (path,) = Path(made).rglob("*.xplane.pb")
    target.write_bytes(path.read_bytes())


def of_py_spy(folder):
    """Record two seconds of a program that says how long it was in each function."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "program.py").write_text(PROGRAM)
        target = folder / "py-spy.folded"
        words = ["py-spy", "record", "--format", "raw", "--rate", "200", "--output", str(target)]
        done = subprocess.run(
            [*words, "--", sys.executable, "program.py"], cwd=place, capture_output=True, text=True, check=True
        )
    samples, errors = map(int, re.search(r"Samples: (\d+) Errors: (\d+)", done.stdout + done.stderr).groups())
    seconds = json.loads(re.search(r"\{.*\}", done.stdout)[0])
    keep(target, {"samples": samples, "errors": errors, "seconds": seconds})


def keep(profile, figures):
    text = json.dumps(figures, indent=1) + "\n"
    profile.with_name(profile.name + ".figures.json").write_text(text)


def figures_of_xplane(path):
    """Return what JAX's `ProfileData` and xprof find in an XPlane file; both are other programs than the one tested."""
    from jax.profiler import ProfileData
    from xprof.convert import raw_to_tool_data

    lines = []
    for plane in ProfileData.from_file(str(path)).planes:
        for line in plane.lines:
            events = list(line.events)
            by_name = defaultdict(lambda: [0, 0.0])
            for event in events:
                by_name[event.name][0] += 1
                by_name[event.name][1] += event.duration_ns
            total = sum(event.duration_ns for event in events)
            lines.append({"plane": plane.name, "line": line.name, "events": len(events), "ns": total, "names": by_name})
    with tempfile.TemporaryDirectory() as place:  # xprof writes files beside its input
        copy = Path(place) / path.name
        copy.write_bytes(path.read_bytes())
        text, _ = raw_to_tool_data.xspace_to_tool_data([str(copy)], "framework_op_stats", {})
    table = json.loads(text)[0]
    rows, columns = table["rows"], [column["id"] for column in table["cols"]]
    stats = [dict(zip(columns, (cell["v"] for cell in row["c"]), strict=True)) for row in rows]
    kept = ("operation", "occurrences", "total_time", "total_self_time")
    return {"lines": lines, "operators": [{key: row[key] for key in kept} for row in stats]}


def main(what, folder):
    if what == "figures":
        for path in folder.glob("*.xplane.pb"):
            keep(path, figures_of_xplane(path))
    else:
        {"jax": of_jax, "tensorflow": of_tensorflow, "py-spy": of_py_spy}[what](folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve())
