"""The one guard around an agent's step: whatever fails below it, the agent goes on, and the log says so once."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["StepGuard"]

_logger = logging.getLogger("memory_context")


class StepGuard:
    """Lets the steps of one context go on after an error that no part of it expected."""

    def __init__(self) -> None:
        self._known: set[tuple[str, type[Exception]]] = set()

    @contextmanager
    def step(self, what: str) -> Generator[None, None, None]:
        """Log an error inside, with its traceback the first time, and go on behind the block.

        Args:
            what: What the agent then goes on without, for the log.
        """
        try:
            yield
        except Exception as error:
            sort = (what, type(error))
            if sort not in self._known:
                self._known.add(sort)
                _logger.exception("going on without %s", what)
            else:
                _logger.debug("going on without %s again: %s", what, error)
