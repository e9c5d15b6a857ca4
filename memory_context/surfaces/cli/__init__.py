"""The command `memory-context`. Commands import their libraries when they run, so help appears at once."""

import sys

try:
    from .app import app, execute, main
except ImportError as error:
    if error.name not in ("typer", "rich"):
        raise
    sys.exit(f"memory-context: the command needs {error.name}: pip install 'memory-context[cli]'")

__all__ = ["app", "execute", "main"]
