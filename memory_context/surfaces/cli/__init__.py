"""The command `memory-context`. Commands import their libraries when they run, so help appears at once."""

import sys

try:
    from .app import execute, main, make_app
except ImportError as error:
    if error.name not in ("typer", "rich"):
        raise
    sys.exit(f"memory-context: the command needs {error.name}: pip install 'memory-context[cli]'")

__all__ = ["execute", "main", "make_app"]
