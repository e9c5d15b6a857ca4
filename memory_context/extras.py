"""What a part of the package needs beyond the core: a missing library is told in one line, with its extra."""

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(extra: str, what: str) -> Generator[None, None, None]:
    """Import libraries of an extra inside of this.

    Args:
        extra: The extra of memory-context that installs them.
        what: What needs them, as the subject of the error.

    Raises:
        ImportError: One is missing; says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module == __package__:
            raise
        raise ImportError(f"{what} needs {module}: pip install 'memory-context[{extra}]'", name=module) from error
