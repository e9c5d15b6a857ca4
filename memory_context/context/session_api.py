"""The methods of a context about its session: reports, statistics, archive and resume."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .. import archive, view
from ..policy import ContextPolicy

if TYPE_CHECKING:
    from ..archive import Archiver, ResumeReport
    from ..stats import ContextStats
    from .parts import Parts

__all__ = ["SessionApi"]


class SessionApi:
    """What an application asks of the session of a context."""

    policy: ContextPolicy

    _parts: Parts
    _session: archive.Session

    async def explain(self) -> view.ViewReport:
        """Report the last view and its reasons."""
        return view.report(self._parts.transcript, *self._parts.meter.views, self.policy.token_budget)

    @property
    def stats(self) -> ContextStats:
        """Counts since creation or `load_state`; light model calls of the whole session."""
        parts, session = self._parts, self._session
        stats = parts.meter.stats(parts.transcript, parts.offloader.transactions, session.light_model_bill)
        return replace(stats, archive_transactions=session.archiver.transactions)

    async def resume(self) -> ResumeReport:
        """Read a known session's history now, or raise StoreError; the report lists gaps."""
        return await self._session.resume()

    @property
    def resume_report(self) -> ResumeReport:
        """`pending` until the history is read."""
        return self._session.report

    async def archive(self) -> None:
        """Write unarchived messages now, or raise StoreError; they stay buffered."""
        await self._session.flush()

    @property
    def is_dirty(self) -> bool:
        """True if something is not archived."""
        return self._session.archiver.is_dirty

    @property
    def archiver(self) -> Archiver:
        return self._session.archiver
