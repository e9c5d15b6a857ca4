"""What survives of a result beside its placeholder.

A compactor reads a result once and says, within a limit of tokens, whether it succeeded, what it is, which lines are
worth keeping, and which passages to show first when it is too long to be shown whole. It is pure and deterministic.
"""

from .excerpt import Passage, excerpt, render_passages
from .generic import Compacted, Compactor, GenericCompactor, Result

__all__ = ["Compacted", "Compactor", "GenericCompactor", "Passage", "Result", "excerpt", "render_passages"]
