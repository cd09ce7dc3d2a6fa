"""Run the fault matrix and print it as a table: python tests/faults/print_table.py [--every] [--command TEXT] ..."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from faults.matrix import Cell, Judge, Matrix, Server, build  # noqa: E402
from faults.table import COMMANDS, READS  # noqa: E402


def table(cells: list[Cell]) -> str:
    """Return the outcomes of each fault, with the number of cells: commands x moments."""
    rows: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for cell in cells:
        after = ", after" if cell.fault.after and "around" in cell.fault.name else ""
        rows[cell.fault.name + after]["WRONG" if cell.wrong else cell.result] += 1
    lines = ["| fault | cells | outcome |", "|---|---|---|"]
    for name, found in rows.items():
        outcome = ", ".join(f"{count} {what}" for what, count in sorted(found.items(), key=lambda x: -x[1]))
        lines.append(f"| {name} | {sum(found.values())} | {outcome} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--every", action="store_true", help="each call, not the first, the middle and the last one")
    parser.add_argument("--command", default="", help="only commands with this text")
    parser.add_argument("--fault", default="", help="only faults with this text")
    parser.add_argument("--verbose", action="store_true", help="print right cells too")
    given = parser.parse_args()
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        with Server(build(folder)) as server:
            matrix = Matrix(folder, server)
            for command in (*COMMANDS, *READS):
                if given.command not in command.words:
                    continue
                judge = Judge(matrix, command)
                print(f"{command.words}: {len(judge.plain.calls)} calls", flush=True)
                faults = [fault for fault in command.faults() if given.fault in fault.name]
                for cell in judge.cells(faults, "every" if given.every else "first, middle, last"):
                    cells.append(cell)
                    if cell.wrong or given.verbose:
                        print(f"  {'WRONG' if cell.wrong else 'right'} {cell}", flush=True)
            wrong = sum(bool(cell.wrong) for cell in cells)
            print(f"{len(cells)} cells, {wrong} wrong, {matrix.cpu:.0f} s of CPU time\n\n{table(cells)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
