"""Truth bench: programs are simulated with an ill and without it, and the findings are compared with the true gain.

Without --ills, --healthy and --variant the targets are judged, and the exit code is 1 if one is missed.

python -m benchmarks.truth                                   everything
python -m benchmarks.truth --ills loading --variant kineto-api --verbose
python -m benchmarks.truth --healthy server --seeds 5
python -m benchmarks.truth --ills "sync each" --keep DIR     leave the files of each case in DIR
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # as a file, without -m

from benchmarks.truth.scenarios import HEALTHY, ILLS, VARIANTS
from benchmarks.truth.score import Outcome, healthy_case, ill_case


def main() -> None:
    """Parse the arguments, run the cases, print them and the totals."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ills", metavar="TEXT", help="only ills whose name contains TEXT, and no healthy programs")
    parser.add_argument("--healthy", metavar="TEXT", help="only healthy programs whose name contains TEXT, and no ills")
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="only this format; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds of each ill (1)")
    parser.add_argument("--healthy-seeds", type=int, default=2, metavar="N", help="seeds of each healthy program (2)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (1)")
    parser.add_argument("--keep", default="", metavar="DIR", help="leave the files of each case in DIR/CASE")
    parser.add_argument("--verbose", action="store_true", help="print each finding and each note")
    parser.add_argument("--list", action="store_true", help="print the names of the programs and stop")
    given = parser.parse_args()
    if given.list:
        print(*(f"ill      {each.name}  ({', '.join(each.rules)})" for each in ILLS), sep="\n")
        print(*(f"healthy  {each.name}" for each in HEALTHY), sep="\n")
        return
    cases = []
    for variant in given.variant or VARIANTS:
        if given.ills is not None or given.healthy is None:
            named = [each.name for each in ILLS if (given.ills or "") in each.name]
            cases += [("ill", name, variant, seed) for name in named for seed in range(given.seeds)]
        if given.healthy is not None or given.ills is None:
            names = [each.name for each in HEALTHY if (given.healthy or "") in each.name]
            cases += [("healthy", name, variant, seed) for name in names for seed in range(given.healthy_seeds)]
    if not cases:
        parser.error("no program has such a name; --list prints them")
    print(f"{'ill':<42} {'variant':<12} {'place':>5} {'shown ms':>9} {'true ms':>9} {'ratio':>6}  other findings")
    outcomes = []
    for outcome in _outcomes([(*each, given.keep) for each in cases], given.jobs):
        outcomes.append(outcome)
        _print(outcome, given.verbose)
    print(*totals(outcomes), sep="\n")
    if given.ills is given.healthy is given.variant is None:
        met = targets(outcomes)
        print("", *(f"{'met' if good else 'MISSED':<8}{text}" for text, good in met), sep="\n")
        sys.exit(0 if all(good for _, good in met) else 1)


def _outcomes(cases: Sequence[tuple[str, str, str, int, str]], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(_case, cases)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_case, cases)


def _case(case: tuple[str, str, str, int, str]) -> Outcome:
    what, name, variant, seed, keep = case
    folder = str(Path(keep) / f"{name}-{variant}-{seed}".replace(" ", "_")) if keep else ""
    return (ill_case if what == "ill" else healthy_case)(name, variant, seed, folder)


def _print(outcome: Outcome, verbose: bool) -> None:
    place = "-" if outcome.hidden else str(outcome.place) if outcome.place else "MISS"
    figures = f"{'':>5} {'':>9} {'':>9} {'':>6}"
    if outcome.rules:
        ratio = f"{outcome.shown / outcome.true:.2f}" if outcome.place and outcome.true > 0 else ""
        figures = f"{place:>5} {outcome.shown / 1e6:>9.2f} {outcome.true / 1e6:>9.2f} {ratio:>6}"
    if outcome.rules or outcome.alarms or verbose:
        others = "; ".join(f"ALARM {each}" for each in outcome.alarms)
        print(f"{outcome.name[:42]:<42} {outcome.variant:<12} {figures}  {others}")
    if verbose:
        for each in outcome.findings:
            print(f"    {each.rule}: {each.saving_ns / 1e6:.2f} ms, {each.confidence}: {each.claim} [{each.because}]")
        for note in outcome.notes:
            print(f"    note: {note}")


def totals(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines of the totals, by variant and by rule, and of all."""
    ills = [each for each in outcomes if each.rules and not each.hidden]
    healthy = [each for each in outcomes if not each.rules]
    lines = [
        "",
        f"{'':<34} {'cases':>5} {'named':>7} {'first':>7} {'lowest':>7} {'<0.98':>6} {'<=1.25':>7} {'alarms':>7}",
    ]
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for each in ills:
        groups[f"{each.variant}"].append(each)
    for each in sorted(ills, key=lambda each: each.rules):
        groups[f"{each.rules[0]}"].append(each)
    groups["all ills"] = ills
    lines += [_line(name, group) for name, group in groups.items() if group]
    if healthy:
        alarmed = sum(1 for each in healthy if each.alarms)
        lines.append(f"{'healthy programs':<34} {len(healthy):>5} {'':>7} {'':>7} {'':>7} {'':>6} {'':>7} {alarmed:>7}")
    return lines


def targets(outcomes: Sequence[Outcome]) -> list[tuple[str, bool]]:
    """Return each target with the figure, and whether it is met."""
    ills = [each for each in outcomes if each.rules and not each.hidden]
    ratios = [each.shown / each.true for each in ills if each.place and each.true > 0]
    named = sum(1 for each in ills if each.place) / len(ills)
    first = sum(1 for each in ills if each.place == 1) / len(ills)
    tight = sum(1 for each in ratios if each <= 1.25) / max(1, len(ratios))
    lowest = min(ratios, default=0.0)
    alarms = sum(1 for each in outcomes if each.alarms)
    return [
        (f"ills that are named: {named:.1%}, at least 97 %", named >= 0.97),
        (f"the right cause first: {first:.1%}, at least 93 %", first >= 0.93),
        (f"lowest saving: {lowest:.2f} times the true gain, at least 0.98", lowest >= 0.98),
        (f"savings within 1.25 times the true gain: {tight:.1%}, at least 85 %", tight >= 0.85),
        (f"programs with a false alarm of medium or high confidence: {alarms}, none", not alarms),
    ]


def _line(name: str, group: Sequence[Outcome]) -> str:
    named = [each for each in group if each.place]
    ratios = [each.shown / each.true for each in named if each.true > 0]
    low, tight = sum(1 for each in ratios if each < 0.98), sum(1 for each in ratios if each <= 1.25)
    first = sum(1 for each in group if each.place == 1)
    cells = [f"{len(group):>5}", f"{len(named) / len(group):>7.0%}", f"{first / len(group):>7.0%}"]
    cells += [f"{min(ratios):>7.2f}", f"{low:>6}", f"{tight / len(ratios):>7.0%}"] if ratios else [" " * 22]
    return f"{name:<34} {' '.join(cells)} {sum(1 for each in group if each.alarms):>7}"


if __name__ == "__main__":
    main()
