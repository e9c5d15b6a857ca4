"""Files that commands write. Promise: what is there under a name is whole; until then it is `<name>.part` beside it."""

from contextlib import suppress
from pathlib import Path

from .console import Failure

__all__ = ["write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, or leave what was there as it was.

    Raises:
        Failure: It cannot be written; says why.
    """
    try:
        if path.exists() and not path.is_file():  # a device or a pipe has no place beside it
            path.write_bytes(data)
            return
        part = path.with_name(f"{path.name}.part")
        try:
            part.write_bytes(data)
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}") from error
