"""tracekit formats: what can be read and written."""

from __future__ import annotations

from tracekit.cli._common import example


@example("tracekit formats")
def formats() -> None:
    """List the formats that can be read (--from) and the targets that can be written (--to)."""
    from tracekit import compat
    from tracekit.readers import READERS
    from tracekit.views import VIEWS
    from tracekit.writers import WRITERS

    print("reads (--from)")
    for reader in sorted(READERS.values(), key=lambda r: r.name):
        print(f"  {reader.name:<16} {reader.title}; gives {reader.gives.replace('both', 'events and totals')}")
        for option in reader.options:
            print(f"  {'':<16} --option {option.key}={option.placeholder()}: {option.help}")
    print("\nwrites (--to)")
    for writer in sorted(WRITERS.values(), key=lambda w: w.name):
        suffixes = f" [{' '.join(writer.suffixes)}]" if writer.suffixes else ""
        print(f"  {writer.name:<16} {writer.title}{suffixes}")
    print("\nviews (--view)")
    for view in VIEWS.values():
        print(f"  {view.name:<20} {view.title}")
    for name in compat.VIEWS:
        print(f"  {name:<20} {compat.load(name).title}")
