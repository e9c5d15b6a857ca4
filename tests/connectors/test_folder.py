"""A folder cannot be left: not by names, links, or links that appear meanwhile."""

import os
import threading
from pathlib import Path

import pytest

from memory_context import ConnectorError
from memory_context.connectors.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    return Folder(str(inside))


def test_written_file_is_read_back_and_leaves_nothing_beside_it(folder: Folder) -> None:
    folder.write("a/b/c.txt", b"one")
    folder.write("a/b/c.txt", b"two\x00\xff")
    assert folder.read("a/b/c.txt", 100) == b"two\x00\xff"
    assert [name for name, _ in folder.entries("a/b")] == ["c.txt"]


def test_file_keeps_its_mode(folder: Folder) -> None:
    folder.write("run.sh", b"#!/bin/sh")
    os.chmod(Path(folder.root) / "run.sh", 0o755)
    folder.write("run.sh", b"#!/bin/sh\n")
    assert (Path(folder.root) / "run.sh").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "a/../../secret.txt", "..", "x\0y", ""])
def test_names_that_lead_out_are_refused(folder: Folder, path: str) -> None:
    for act in (lambda: folder.read(path, 10), lambda: folder.write(path, b""), lambda: folder.delete(path)):
        with pytest.raises(ConnectorError):
            act()
    assert (Path(folder.root).parent / "secret.txt").read_text() == "secret"


def test_links_are_not_followed(folder: Folder) -> None:
    root = Path(folder.root)
    (root / "file").symlink_to(root.parent / "secret.txt")
    (root / "folder").symlink_to(root.parent)
    for path in ("file", "folder/secret.txt"):
        with pytest.raises(ConnectorError, match="link"):
            folder.read(path, 10)
    with pytest.raises(ConnectorError, match="link"):
        folder.write("folder/new.txt", b"x")
    with pytest.raises(ConnectorError, match="is a symbolic link"):
        folder.write("file", b"mine")  # a file in place of the link would have the link's mode
    assert (root / "file").is_symlink()
    assert (root.parent / "secret.txt").read_text() == "secret"
    assert not (root.parent / "new.txt").exists()


def test_root_replaced_by_a_link_still_leads_to_the_folder(folder: Folder) -> None:
    root = Path(folder.root)
    root.rename(root.parent / "moved")
    root.symlink_to("/etc")
    folder.write("kept.txt", b"x")
    assert (root.parent / "moved" / "kept.txt").exists()
    with pytest.raises(ConnectorError, match="there is no"):
        folder.read("passwd", 10)


def test_folder_swapped_for_a_link_while_reading_never_leads_out(folder: Folder) -> None:
    root, outside = Path(folder.root), Path(folder.root).parent
    (root / "real").mkdir()
    (root / "real" / "secret.txt").write_text("mine")
    (root / "way").mkdir()
    (root / "way" / "secret.txt").write_text("mine")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "way", root / "away")
            (root / "way").symlink_to(outside)
            os.unlink(root / "way")
            os.rename(root / "away", root / "way")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(500):
            try:
                assert folder.read("way/secret.txt", 10) == b"mine"
            except ConnectorError:
                continue
    finally:
        stop.set()
        swapping.join()


def test_move_does_not_overwrite(folder: Folder) -> None:
    folder.write("a", b"a")
    folder.write("b", b"b")
    with pytest.raises(ConnectorError, match="exists already"):
        folder.move("a", "b")
    folder.move("a", "c/d")
    assert folder.read("c/d", 10) == b"a"
    with pytest.raises(ConnectorError, match="not empty"):
        folder.delete("c")
    folder.delete("c/d")
    folder.delete("c")
    assert [name for name, _ in folder.entries()] == ["b"]
