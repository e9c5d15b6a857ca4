"""Optional dependencies: an error names the extra that installs a missing library."""

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(extra: str, what: str) -> Generator[None, None, None]:
    """Import libraries of an extra in this context; the ImportError for `what` says how to install them."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module == __package__:
            raise
        raise ImportError(f"{what} needs {module}: pip install 'memory-context[{extra}]'", name=module) from error
