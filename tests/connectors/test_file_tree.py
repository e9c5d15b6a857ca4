"""Looks at a tree: partial ones see what whole ones see, and whatever fails, no change is lost."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.connectors import file_tree, filesystem
from memory_context.connectors.changes import changes_between
from memory_context.connectors.file_tree import FileTree
from memory_context.connectors.filesystem import FileSystemConnector
from memory_context.connectors.folder import FileStat, Folder
from memory_context.connectors.folder_watch import FolderWatch

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's"),
    pytest.mark.thorough,
]

_FOLDERS = ["a", "b", "a/c", "a/c/d", "skipped"]
_FILES = [f"{folder}/{name}" for folder in _FOLDERS for name in ("x.txt", "y.log")] + ["x.txt", "a/.gitignore"]
_ANY = [*_FOLDERS, *_FILES]


@pytest.fixture(autouse=True)
def small_trees_are_watched() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_tree, "_LEAST_WATCHED", 0)
        patch.setattr(file_tree, "_WHOLE_SECONDS", float("inf"))
        yield


def write(root: Path, path: str, text: str) -> None:
    (root / path).write_text(text)


def move(root: Path, path: str, to: str) -> None:
    os.rename(root / path, root / to)


def remove(root: Path, path: str) -> None:
    whole = root / path
    shutil.rmtree(whole) if whole.is_dir() else whole.unlink()


def make(root: Path, path: str) -> None:
    (root / path).mkdir(parents=True)


changes = st.one_of(
    st.tuples(st.just(write), st.sampled_from(_FILES), st.sampled_from(["", "1\n", "*.log\n", "x.txt\n"])),
    st.tuples(st.just(move), st.sampled_from(_FILES), st.sampled_from(_FILES)),
    st.tuples(st.just(move), st.sampled_from(_FOLDERS), st.sampled_from([*_FOLDERS, "e", "a/e", "b/e", "skipped/e"])),
    st.tuples(st.just(remove), st.sampled_from(_ANY)),
    st.tuples(st.just(make), st.sampled_from(_FOLDERS)),
)


def whole(folder: Folder) -> dict[str, FileStat]:
    tree = FileTree()
    with tree.look(folder) as look:
        tree.close()
        return dict(look.after)


@given(st.lists(st.lists(changes, max_size=6), max_size=5))
def test_partial_looks_see_what_whole_looks_see(steps: list[list[tuple[Callable[..., None], str]]]) -> None:
    """Whatever is written, moved, removed and made between two looks, also whole folders and rules."""
    with tempfile.TemporaryDirectory() as root:
        for name in ("a/c/d", "b"):
            make(Path(root), name)
            write(Path(root), f"{name}/x.txt", "x\n")
        (Path(root) / ".gitignore").write_text("skipped/\n")
        folder, tree = Folder(root), FileTree()
        with tree.look(folder):
            pass
        for step in steps:
            for act, *arguments in step:
                try:
                    act(Path(root), *arguments)
                except OSError:
                    continue
            before = tree.files
            assert before is not None
            known = dict(before)
            with tree.look(folder) as look:
                assert look.before is not None
                assert changes_between(look.before, look.after) == changes_between(known, whole(folder))
            assert tree.files == whole(folder)
        tree.close()
        folder.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.txt").write_text("x\n")
    opened = Folder(str(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def tree(folder: Folder) -> Iterator[FileTree]:
    """A tree that is watched; skips where the user has no inotify instance left."""
    tree = FileTree()
    with tree.look(folder) as look:
        assert look.is_whole
    if tree._watch is None:
        pytest.skip("no inotify instance is left")
    yield tree
    tree.close()


def test_partial_look_reads_only_folders_that_changed(folder: Folder, tree: FileTree, tmp_path: Path) -> None:
    (tmp_path / "b" / "x.txt").write_text("y\n")
    with tree.look(folder) as look:
        assert (look.is_whole, [*look.after]) == (False, ["b/x.txt"])
    with tree.look(folder) as look:
        assert (look.is_whole, look.before, look.after) == (False, {}, {})


def test_overflow_of_the_queue_makes_the_next_look_whole(folder: Folder, tree: FileTree, tmp_path: Path) -> None:
    """The kernel drops events beyond its limit; the file that is made then is seen."""
    with open("/proc/sys/fs/inotify/max_queued_events") as limit:
        most = int(limit.read())
    for number in range(most // 2 + 10):
        os.utime(tmp_path / "a" / "x.txt", ns=(number, number))
        os.utime(tmp_path / "b" / "x.txt", ns=(number, number))
    (tmp_path / "c" / "made.txt").touch()
    with tree.look(folder) as look:
        assert look.is_whole
        assert "c/made.txt" in look.after


@pytest.mark.parametrize("fails", ["opened", "add"])
def test_tree_without_watches_is_read_whole(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def no_watch(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FolderWatch, fails, no_watch if fails == "add" else lambda: None)
    tree = FileTree()
    for number in range(3):
        (tmp_path / f"{number}.txt").touch()
        with tree.look(folder) as look:
            assert look.is_whole
            assert f"{number}.txt" in look.after


def test_change_that_inotify_does_not_tell_is_seen_later(
    folder: Folder, tree: FileTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FolderWatch, "changed", lambda self: (set(), set()))
    (tmp_path / "made.txt").touch()
    with tree.look(folder) as look:
        assert not look.after
    tree._whole_at = 0.0
    with tree.look(folder) as look:
        assert "made.txt" in look.after


async def test_change_is_told_by_the_look_after_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FileSystemConnector(str(tmp_path))
    await files.on_start()
    await files.get_observations()
    (tmp_path / "made.txt").touch()
    with monkeypatch.context() as patch:
        patch.setattr(filesystem, "changes_between", None)
        with pytest.raises(TypeError):
            await files.get_observations()
    assert [one.text for one in await files.get_observations()] == ["[files] Created made.txt (0 lines)"]
    await files.on_stop()
