"""Taking turns at one session: one at a time, first come first served, with a bound on the wait.

Why not asyncio.Lock under `wait_for`: before Python 3.12 a waiter that is cancelled just as the lock becomes its own
keeps it for ever.
"""

import asyncio
from collections import deque

from memory_context.runtime import Timer

__all__ = ["Turns"]


class Turns:
    """Who has the turn, and who waits for it.

    A turn is passed directly from one to the next, so that nobody who comes later can come in between.

    Attributes:
        is_taken: Whether somebody has the turn.
    """

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[bool]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def try_take(self) -> bool:
        """Take the turn if nobody has it; whether that was so."""
        is_mine = not self.is_taken
        self.is_taken = True
        return is_mine

    async def take(self, seconds: float) -> bool:
        """Wait for the turn; False if it did not come in so many seconds, or everybody was sent away."""
        if self.try_take():
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        timer = Timer(lambda: self._answer(turn, False))
        timer.plan(seconds)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.pass_on()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        finally:
            timer.cancel()

    def pass_on(self) -> None:
        """Give the turn to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its waiter was cancelled and does not know yet
                turn.set_result(True)
                return
        self.is_taken = False

    def send_away(self) -> None:
        """Tell all who wait that their turn will not come."""
        while self._waiting:
            self._answer(self._waiting[0], False)

    def _answer(self, turn: "asyncio.Future[bool]", has_turn: bool) -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)
        if not turn.done():
            turn.set_result(has_turn)
