"""A watched tree shows what reading it whole shows, and whatever fails, no change is lost."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.connectors import file_tree, filesystem, folder_watch
from memory_context.connectors.changes import changes_between
from memory_context.connectors.file_tree import FileTree
from memory_context.connectors.filesystem import FileSystemConnector
from memory_context.connectors.folder import FileStat, Folder
from memory_context.connectors.folder_watch import FolderWatch

pytestmark = pytest.mark.thorough

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
    with tree.look(folder) as (_, after):
        return dict(after)


def watched(folder: Folder) -> FileTree:
    """Return a tree that is watched; skips where the user has no inotify instance left."""
    tree = FileTree()
    for _ in range(2):  # the first look tells how large it is
        with tree.look(folder):
            pass
    if tree._watch is None:
        pytest.skip("no inotify instance is left")
    return tree


@given(st.lists(st.lists(changes, max_size=6), max_size=5))
def test_watched_tree_sees_what_reading_it_whole_sees(steps: list[list[tuple[Callable[..., None], str]]]) -> None:
    """Whatever is written, moved, removed and made between two looks, also whole folders and rules."""
    with tempfile.TemporaryDirectory() as root:
        for name in ("a/c/d", "b"):
            make(Path(root), name)
            write(Path(root), f"{name}/x.txt", "x\n")
        (Path(root) / ".gitignore").write_text("skipped/\n")
        folder = Folder(root)
        tree = watched(folder)
        for step in steps:
            for act, *arguments in step:
                try:
                    act(Path(root), *arguments)
                except OSError:
                    continue
            with tree.look(folder):
                pass
            assert tree.files == whole(folder)
        assert tree._watch is not None
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
    tree = watched(folder)
    yield tree
    tree.close()


def test_change_of_a_file_is_seen_without_reading_the_tree(
    folder: Folder, tree: FileTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileTree, "_walk", None)
    (tmp_path / "b" / "x.txt").write_text("yes\n")
    (tmp_path / "b" / "new.txt").write_text("new\n")
    (tmp_path / "c" / "x.txt").unlink()
    with tree.look(folder) as (before, after):
        assert before is not None
        found = [(one.kind, one.path) for one in changes_between(before, after)]
    assert found == [("created", "b/new.txt"), ("changed", "b/x.txt"), ("deleted", "c/x.txt")]
    with tree.look(folder) as (before, after):
        assert (before, after) == ({}, {})


def none_left(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("place", "name", "stand_in", "reason"),
    [
        (folder_watch, "RustNotify", None, "watchfiles is not installed"),
        (folder_watch, "RustNotify", none_left, "[Errno 28] No space left on device"),
        (FolderWatch, "changed", none_left, "[Errno 28] No space left on device"),
    ],
)
def test_tree_that_cannot_be_watched_is_read_whole(
    folder: Folder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: object,
    name: str,
    stand_in: object,
    reason: str,
) -> None:
    monkeypatch.setattr(place, name, stand_in)
    tree = FileTree()
    for number in range(5):
        (tmp_path / f"{number}.txt").touch()
        with tree.look(folder) as (_, after):
            assert f"{number}.txt" in after
    assert [one.message for one in caplog.records] == [f"a large folder is read whole at each look: {reason}"]


def test_change_without_an_event_is_seen_later(
    folder: Folder, tree: FileTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FolderWatch, "changed", lambda self: set())
    (tmp_path / "made.txt").touch()
    with tree.look(folder) as (_, after):
        assert "made.txt" not in after
    tree._whole_at = 0.0
    with tree.look(folder) as (_, after):
        assert "made.txt" in after


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
