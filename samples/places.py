"""Where the samples are and where they write: the same in a checkout and in an installed package.

A checkout has them as `samples`, an installed package as `memory_context.samples`.
"""

from pathlib import Path

__all__ = ["import_root", "output_folder"]


def import_root() -> Path:
    """Return the folder from which these modules were imported: what another Python needs on its path."""
    return Path(__file__).resolve().parents[__name__.count(".")]


def output_folder() -> Path:
    """Return where files go: `out/` in the checkout; of an installed package, `out/` where it was started."""
    root = import_root()
    return (root if (root / "pyproject.toml").exists() else Path.cwd()) / "out"
