"""The line at one client: decisions at once, background questions one at a time and never beside them."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from autogen_core.models import ChatCompletionClient

from ..runtime import Background

__all__ = ["Line", "line_of"]


class Line:
    """Who asks one client in one event loop.

    Attributes:
        background: Held while a background question is asked or waits for decisions.
        call: The background question that is asked now.
        is_idle: Set while no decision is asked.
    """

    def __init__(self, client: ChatCompletionClient, loop: asyncio.AbstractEventLoop) -> None:
        self.client, self.loop = client, loop
        self.background = asyncio.Lock()
        self.call = Background[Any]("memory_context background question")
        self.is_idle = asyncio.Event()
        self.is_idle.set()
        self._decisions = 0

    @contextmanager
    def deciding(self) -> Generator[None, None, None]:
        """Keep background questions from the client, and give up the one that is asked."""
        self._decisions += 1
        self.is_idle.clear()
        self.call.cancel()
        try:
            yield
        finally:
            self._decisions -= 1
            if not self._decisions:
                self.is_idle.set()


_lines: "WeakValueDictionary[tuple[int, int], Line]" = WeakValueDictionary()  # a line holds what its ids are of


def line_of(client: ChatCompletionClient, loop: asyncio.AbstractEventLoop) -> Line:
    """Return the one line at a client in an event loop, whoever asks."""
    place = id(client), id(loop)
    line = _lines.get(place)
    if line is None:
        line = _lines[place] = Line(client, loop)
    return line
