"""Recall of the HNSW index of embeddings, sampled in the background."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

from memory_context.runtime import Background

from ..database import Database
from ..sql import Statement

__all__ = ["AnnQualityCheck"]

_logger = logging.getLogger("memory_context")

CHECK_EVERY = 100
CHECKED_RANKS = 20
CHECKS_AVERAGED = 5  # one query may be an outlier
LEAST_RECALL = 0.9


class AnnQualityCheck:
    """Compares the first and every hundredth approximate ranking with `exact`, in the background."""

    def __init__(self, database: Database, exact: bytes) -> None:
        self._database = database
        self._exact = exact
        self._searches = 0
        self._recalls: deque[float] = deque(maxlen=CHECKS_AVERAGED)
        self._checking = Background[None]("memory_context check of the embedding index")

    def note(self, user_id: str, params: dict[str, Any], nearest: Sequence[dict[str, Any]]) -> None:
        """Count an approximate ranking; now and then check it."""
        self._searches += 1
        if (self._searches - 1) % CHECK_EVERY == 0:
            found = {(row["content_id"], row["chunk_number"]) for row in nearest}
            self._checking.start(lambda: self._check(user_id, params, found))

    async def stop(self) -> None:
        await self._checking.stop()

    async def _check(self, user_id: str, params: dict[str, Any], found: set[tuple[int, int]]) -> None:
        try:
            statement = Statement(self._exact, {**params, "limit": CHECKED_RANKS})
            (exact,) = await self._database.read(user_id, statement, kind="batch")
        except Exception as error:  # searches report this to their callers
            _logger.debug("the index of embeddings was not checked: %s", error)
            return
        if exact:
            hits = sum((row["content_id"], row["chunk_number"]) in found for row in exact)
            self._recalls.append(hits / len(exact))
        mean = sum(self._recalls) / CHECKS_AVERAGED
        if len(self._recalls) == CHECKS_AVERAGED and mean < LEAST_RECALL:
            self._recalls.clear()
            _logger.warning(
                "the index of embeddings found %.0f %% of the nearest passages: REINDEX it, or raise the effort of its "
                "making (m, ef_construction)",
                100 * mean,
            )
