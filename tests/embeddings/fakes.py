"""An embedder for tests: deterministic, tiny, and able to fail in every way an embedder fails."""

import asyncio
import math
import re
from collections.abc import Sequence
from hashlib import blake2b

from memory_context.foundation.embeddings.embedder import Purpose

__all__ = ["FakeEmbedder"]


class FakeEmbedder:
    """Counts words into a vector, so that texts that share words are alike; a text without words gives zeros.

    Args:
        name: What identifies the vectors.
        dimensions: How many numbers they have.
        fail_with: What `embed` raises.
        nan: Whether the last vector holds a NaN.
        wrong_dimension: Whether the last vector is one number too long.
        wait_for: What `embed` waits for before it answers.

    Attributes:
        calls: The texts and purpose of each call, in order.
    """

    def __init__(
        self,
        name: str = "fake",
        dimensions: int = 16,
        *,
        fail_with: BaseException | None = None,
        nan: bool = False,
        wrong_dimension: bool = False,
        wait_for: asyncio.Event | None = None,
    ) -> None:
        self.name = name
        self.dimensions = dimensions
        self.fail_with = fail_with
        self.nan = nan
        self.wrong_dimension = wrong_dimension
        self.wait_for = wait_for
        self.calls: list[tuple[list[str], Purpose]] = []

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """Return one vector for each text, or misbehave as told."""
        self.calls.append((list(texts), purpose))
        if self.wait_for is not None:
            await self.wait_for.wait()
        if self.fail_with is not None:
            raise self.fail_with
        vectors = [self._vector(text) for text in texts]
        if self.nan:
            vectors[-1][0] = math.nan
        if self.wrong_dimension:
            vectors[-1].append(1.0)
        return vectors

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in re.findall(r"\w+", text.casefold()):
            digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
            vector[int.from_bytes(digest, "big") % self.dimensions] += 1.0
        return vector
