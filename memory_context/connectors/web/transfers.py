"""Files that pages give and take: downloads land in one folder, uploads come from it, and nothing else is read."""

import asyncio
import mimetypes
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from playwright.async_api import Download, FilePayload
from playwright.async_api import Error as PlaywrightError

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.runtime.background import begin

from ..folder import Folder, shown

__all__ = ["DownloadRecord", "Transfers"]

_MOST_DOWNLOADS = 50
_MOST_BYTES = 100 << 20
_MOST_SECONDS = 300.0


@dataclass
class DownloadRecord:
    """A download: where it lands, and how it stands."""

    name: str
    state: str = "loading"
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def __str__(self) -> str:
        return f"{shown(self.name)} ({self.state})"


class Transfers:
    """Downloads and uploads of a browser.

    Args:
        folder: None makes one that ends with the browser.
        tell: Called when a download has ended.
    """

    def __init__(self, folder: str | None, tell: Callable[[str], None]) -> None:
        self.records: list[DownloadRecord] = []
        self.begun = asyncio.Event()
        self._named = folder
        self._tell = tell
        self._folder: Folder | None = None
        self._temporary = ""

    @property
    def folder(self) -> Folder:
        """Return the open folder; it is made if it does not exist."""
        if self._folder is None:
            if self._named is None:
                self._temporary = tempfile.mkdtemp(prefix="memory-context-web-")
            else:
                os.makedirs(self._named, exist_ok=True)
            self._folder = Folder(self._named or self._temporary)
        return self._folder

    def close(self) -> None:
        """Close the folder; a temporary one is removed."""
        if self._folder is not None:
            self._folder.close()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)
        self._folder, self._temporary = None, ""

    def begin(self, download: Download) -> None:
        """Take a download that a page began."""
        try:
            if sum(one.state == "loading" for one in self.records) >= _MOST_DOWNLOADS:
                raise ConnectorError(f"{_MOST_DOWNLOADS} are under way")
            name = self._free_name(os.path.basename(download.suggested_filename) or "download")
        except (ConnectorError, OSError) as error:
            begin(download.cancel())
            self._tell(f"A download was cancelled: {error}")
            return
        record = DownloadRecord(name)
        self.records = [*self.records, record][-_MOST_DOWNLOADS:]
        begin(self._end(download, record))
        self.begun.set()

    async def _end(self, download: Download, record: DownloadRecord) -> None:
        try:
            path = await asyncio.wait_for(download.path(), _MOST_SECONDS)
            if (size := path.stat().st_size) > _MOST_BYTES:
                raise ConnectorError(f"larger than {_MOST_BYTES >> 20} MB")
            await asyncio.to_thread(lambda: self.folder.write(record.name, path.read_bytes()))
            record.state = f"{size:,} bytes"
            self._tell(f"Downloaded {record} to {self.folder.root}")
        except Exception as error:
            record.state = f"failed: {str(error).splitlines()[0][:200] if str(error) else 'it took too long'}"
            self._tell(f"Download of {record}")
        finally:
            record.ended.set()
            with suppress(PlaywrightError):
                await download.cancel()  # else the deletion waits for one that never ends
                await download.delete()

    def _free_name(self, name: str) -> str:
        taken = {one.name for one in self.records} | {one for one, _ in self.folder.entries()}
        stem, dot, end = name.strip(". ")[-150:].rpartition(".")
        stem, end = (stem, f".{end}") if dot else (end or "download", "")
        names = (f"{stem}{f'-{number}' if number > 1 else ''}{end}" for number in count(1))
        return next(one for one in names if one not in taken)

    def uploads(self, names: Sequence[str]) -> list[FilePayload]:
        """Return files of the folder as a page is given them.

        Raises:
            ConnectorError: One is not in the folder, or too large.
        """
        payloads: list[FilePayload] = []
        for name in names:
            data = self.folder.read(name, _MOST_BYTES // 2 + 1)
            if len(data) > _MOST_BYTES // 2:
                raise ConnectorError(f"{name} is larger than {_MOST_BYTES >> 21} MB, the most that can be uploaded")
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            payloads.append({"name": os.path.basename(name), "mimeType": kind, "buffer": data})
        return payloads
