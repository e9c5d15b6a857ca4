"""The server: Chainlit's own application with this folder as its root.

Chainlit reads its settings from the environment and from its root folder while it is imported, so they are prepared
first: `prepare`, then `serve`.
"""

import logging
import os
import shutil
import socket
import tempfile
from importlib import import_module
from pathlib import Path

import platformdirs
import uvicorn

from memory_context.surfaces.http_server import bounded_config, serve_until_stopped

from ..web_chat.visitors import kept_secret
from .users import Users

__all__ = ["prepare", "serve", "shown_host"]

ROOT = Path(__file__).resolve().parent


def prepare() -> None:
    """Say in the environment where Chainlit's root and secret are, unless somebody said so before."""
    folder = platformdirs.user_data_path("memory-context-chainlit", appauthor=False)
    if "CHAINLIT_APP_ROOT" not in os.environ:
        root = ROOT
        if not os.access(ROOT, os.W_OK):  # installed for everybody: Chainlit has to write beside its settings
            root = folder / "root"
            shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns("*.py", "__pycache__"), dirs_exist_ok=True)
        os.environ["CHAINLIT_APP_ROOT"] = str(root)
    if "CHAINLIT_AUTH_SECRET" not in os.environ:
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["CHAINLIT_AUTH_SECRET"] = kept_secret(folder / "auth_secret").decode()


async def serve(host: str, port: int, users: Users) -> None:
    """Serve until somebody stops it; then every chat is archived.

    Raises:
        StoreError: The store cannot be opened.
    """
    import chainlit.config

    # of this process: Chainlit deletes the folder when it ends, and with it the files of a second chat
    chainlit.config.FILES_DIRECTORY = Path(tempfile.mkdtemp(prefix="chainlit_web-"))
    from chainlit.config import config
    from chainlit.server import app

    logging.getLogger("chainlit").setLevel(logging.ERROR)
    config.run.host, config.run.port, config.run.headless = host, port, True
    await import_module(f"{__package__}.hooks").store.open()
    server = _Server(
        bounded_config(app, host=host, port=port, log_level="error", ws="auto", timeout_graceful_shutdown=2)
    )
    server.ready_text = "\n".join(
        [f"Open http://{shown_host(host)}:{port}/ (Ctrl+C ends it)", *([users.login_hint] if users.are_demo else [])]
    )
    await serve_until_stopped(server)


class _Server(uvicorn.Server):
    """Says where to open once that works."""

    ready_text = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self.ready_text, flush=True)


def shown_host(host: str) -> str:
    """Return a host as it stands in an address."""
    return f"[{host}]" if ":" in host else host
