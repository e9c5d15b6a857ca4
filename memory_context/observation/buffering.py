"""The arithmetic of observation: when a range is observed, and how many finished chunks replace messages.

Pure functions of token counts, positions and policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..policy import ObservationPolicy

__all__ = ["Leaving", "buffer_interval", "chunks_to_activate", "retention_start", "tokens_until_activation"]

TARGET_MARGIN = 0.3
"""Activation goes down to `activation_ratio` less this share of the window."""

LIGHT_WINDOW_SHARE = 0.6
"""The most of the light model's window that one observer reads."""


@dataclass(frozen=True)
class Leaving:
    """One chunk whose messages may leave the view.

    Attributes:
        last: Position after its messages.
        removed_tokens: Tokens of its messages in the view.
        added_tokens: Tokens that its observations add to the view, with their message, lead and hints.
    """

    last: int
    removed_tokens: int
    added_tokens: int = 0

    @property
    def net_tokens(self) -> int:
        return self.removed_tokens - self.added_tokens


def tokens_until_activation(view_tokens: int, window_tokens: int, activation_ratio: float) -> float:
    """Return how many tokens the view may still grow; at 0 or below, finished chunks are activated."""
    return (activation_ratio - view_tokens / window_tokens) * window_tokens


def buffer_interval(until_activation: float, policy: ObservationPolicy, light_window_tokens: int) -> float:
    """Return the number of unobserved tokens at which an observer runs."""
    cap = min(policy.buffer_token_cap, LIGHT_WINDOW_SHARE * light_window_tokens)
    return max(min(until_activation / policy.buffer_target_cycles, cap), policy.buffer_min_tokens)


def chunks_to_activate(
    leaving: Sequence[Leaving], view_tokens: int, window_tokens: int, activation_ratio: float, *, is_free: bool = False
) -> int:
    """Return how many chunks, from the oldest, bring the utilisation to the target: all if they do not suffice.

        utilisation' = utilisation - (tokens removed - tokens added) / window

    `is_free` (the prompt cache is cold) activates at least one.
    """
    target = (activation_ratio - TARGET_MARGIN) * window_tokens
    for count, chunk in enumerate(leaving):
        if view_tokens <= target and not (is_free and count == 0):
            return count
        view_tokens -= chunk.net_tokens
    return len(leaving)


def retention_start(step_ends: Sequence[int], tokens_from: Callable[[int], int], retention_tokens: int) -> int:
    """Return where the newest messages begin that stay: whole steps within the limit, but at least the newest.

    Args:
        step_ends: Where the first step begins, then the end of each.
        tokens_from: Tokens of the view from a position on.
    """
    start = step_ends[-2] if len(step_ends) > 1 else step_ends[-1]
    for position in reversed(step_ends[:-1]):
        if tokens_from(position) > retention_tokens:
            break
        start = position
    return start
