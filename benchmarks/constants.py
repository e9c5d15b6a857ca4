"""Constants of the package with other values, for one run or one life."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

__all__ = ["constants"]


@contextmanager
def constants(values: Mapping[str, object]) -> Iterator[None]:
    """Let constants, by their full names such as `memory_context.view.budget._FOLD_TO_RATIO`, have other values."""
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(patch(name, value))
        yield
