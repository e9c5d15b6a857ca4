"""Optional dependencies."""

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(extra: str, what: str) -> Generator[None, None, None]:
    """Context for imports of an extra; its ImportError tells how to install `what`."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module == __name__.partition(".")[0]:
            raise
        raise ImportError(f"{what} needs {module}: pip install 'memory-context[{extra}]'", name=module) from error
