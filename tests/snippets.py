"""The Python of the README as files, for type checkers: `python -m tests.snippets FOLDER`.

A file for each block, as it stands, under a name that says which it is.
"""

import re
import sys
from pathlib import Path

__all__ = ["snippets", "write_snippets"]

README = Path(__file__).parents[1] / "README.md"


def snippets() -> list[str]:
    """Return the blocks of Python in the README, in order."""
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def write_snippets(folder: Path) -> None:
    """Write each block to a file of its own; what an earlier run left there goes."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for number, block in enumerate(snippets(), 1):
        (folder / f"readme_{number}.py").write_text(block, encoding="utf-8")


if __name__ == "__main__":
    write_snippets(Path(sys.argv[1]))
