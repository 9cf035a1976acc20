"""The command line: ``python -m jitcore demo|graph|inspect|ops|cache``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from jitcore import demo
from jitcore.codegen import cache
from jitcore.errors import Error
from jitcore.frontend.constants import is_layer
from jitcore.ir.ops import TABLE, Op
from jitcore.script import ScriptFunction, script
from jitcore.serialization.inspection import inspect_file

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        The exit status: 1 where the command could not do its work.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except Error as error:
        print(f"jitcore: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m jitcore", description="A compiler for NumPy.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    text = "see a function compiled, explained, checked, timed and drawn"
    command = commands.add_parser("demo", help=text, description=text)
    demo.add_arguments(command)
    command.set_defaults(run=demo.main)

    text = "print the graph of a function, or draw it"
    command = commands.add_parser("graph", help=text, description=text)
    command.add_argument("function", metavar="WHERE:NAME", help="file.py:name or module:name")
    command.add_argument("--code", action="store_true", help="as Python source instead")
    text = "write a web page with a picture of it instead"
    command.add_argument("-o", "--output", metavar="FILE.html", type=Path, help=text)
    command.set_defaults(run=_graph)

    text = "show what is in a saved program, without running it"
    command = commands.add_parser("inspect", help=text, description=text)
    command.add_argument("file", help="what jitcore.save() wrote")
    command.set_defaults(run=_inspect)

    text = "print the table of operations that graphs are made of"
    command = commands.add_parser("ops", help=text, description=text)
    command.set_defaults(run=_ops)

    text = "say what the cache of compiled code holds, or remove it"
    command = commands.add_parser("cache", help=text, description=text)
    command.add_argument("action", nargs="?", choices=("info", "clear"), default="info")
    command.set_defaults(run=_cache)
    return parser


def _graph(options: argparse.Namespace) -> None:
    function = _find(options.function)
    if options.output is None:
        print(function.code if options.code else function.graph)
        return
    try:
        function.save_html(options.output)
    except OSError as error:
        raise Error(f"cannot write {options.output}: {error}") from error
    print(f"wrote {options.output}")


def _inspect(options: argparse.Namespace) -> None:
    print(inspect_file(options.file))


def _find(where: str) -> ScriptFunction:
    """The function that ``file.py:name`` or ``module:name`` names, compiled as far as a graph."""
    place, colon, name = where.rpartition(":")
    if not colon or not place or not name:
        raise Error(f"expected file.py:name or module:name; found {where!r}")
    found: object = _load(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise Error(f"{place} has no {name!r}")
        found = getattr(found, part)
    if is_layer(found):
        layer: Any = found
        found = script(layer).forward
    if isinstance(found, ScriptFunction):
        return found
    if not isinstance(found, FunctionType):
        raise Error(f"{name!r} of {place} is not a Python function; it is {found!r}")
    return ScriptFunction(found)


def _load(place: str) -> ModuleType:
    """Import a file or a module, with the search path that Python itself would use for it."""
    if not place.endswith(".py"):
        sys.path.insert(0, "")
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            raise Error(f"there is no module {place!r}: {error}") from error
    path = Path(place).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise Error(f"there is no file {place}")
    sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _ops(options: argparse.Namespace) -> None:
    rows = [(op.kind, _traits(op), op.doc) for op in TABLE.values()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for kind, traits, doc in rows:
        print(f"{kind:{widths[0]}}  {traits:{widths[1]}}  {doc}".rstrip())


def _cache(options: argparse.Namespace) -> None:
    files = cache.current()
    if files is None:
        print("there is no cache: JITCORE_CACHE is 0, or the user has no home")
    elif options.action == "clear":
        print(f"removed {files.clear()} modules from {files.directory}")
    else:
        print(_cache_info(files))


def _cache_info(files: cache.ObjectCache) -> str:
    megabytes = (files.size() / 2**20, files.limit / 2**20)
    lines = [
        f"folder   {files.directory}",
        f"modules  {files.count()}",
        f"size     {megabytes[0]:.1f} MB of at most {megabytes[1]:.0f} MB",
    ]
    if files.directory.exists() and not files.is_private():
        lines.append("not used: another user owns the folder or may write to it")
    return "\n".join(lines)


def _traits(op: Op) -> str:
    writes = [f"writes {', '.join(map(str, op.writes))}"] if op.writes else []
    view = ["view"] if op.view else []
    elementwise = ["elementwise"] if op.scalar is not None else []
    return ", ".join(elementwise + view + writes)


if __name__ == "__main__":
    sys.exit(main())
