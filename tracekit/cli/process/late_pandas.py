"""Commands start without pandas: pyarrow imports it at its first conversion, whether it needs it or not."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa


def postpone_pandas() -> None:
    """Let pyarrow do without pandas until something else imports it. For a process of our own, such as a command.

    pyarrow imports pandas at its first conversion, which takes 0.3 s of CPU time and 45 MB. It looks once, finds
    nothing, and looks again when a column is to become a pandas object. `pa.array` of a Series does not look again, so
    the import of pandas, whoever asks for it, makes pyarrow look.
    """
    if "pandas" in sys.modules:
        return
    finder = _LatePandas()
    sys.meta_path.insert(0, finder)
    pa.array([])
    finder.hides = False


class _LatePandas(MetaPathFinder):
    """Hides pandas while `hides` is true; afterwards the import of pandas makes pyarrow look for it again."""

    hides = True

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the import system asks so
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        if self.hides:
            raise ModuleNotFoundError(name=fullname)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_look(module: ModuleType) -> None:
                execute(module)
                pa.nulls(0).to_pandas()

            setattr(spec.loader, "exec_module", execute_and_look)  # noqa: B010 - the published type has no such setter
        return spec
