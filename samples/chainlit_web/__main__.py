"""Starts the chat: `python -m samples.chainlit_web`."""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from pathlib import Path

import platformdirs
import uvicorn

from memory_context import StoreError, choose_light_model
from memory_context.surfaces.http_server import bounded_config, check_port, serve_until_stopped

from ..code_agent import model_client_from_env
from ..web_chat.visitors import kept_secret
from .users import Users

_ROOT = str(Path(__file__).resolve().parent)


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and serve until somebody stops it."""
    parser = argparse.ArgumentParser("samples.chainlit_web", description="Chat with agents that remember.")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="(default %(default)s)")
    asked = parser.parse_args(arguments)
    try:
        Users.from_env().check_host(asked.host)
        check_port(asked.host, asked.port)
        model_client = model_client_from_env()
        print("The model is live." if model_client else "No OPENAI_API_KEY: the model is scripted, its memory is real.")
        print(choose_light_model(model_client))
        print("Starting (the first time this also makes the database) …", flush=True)
        asyncio.run(serve(asked.host, asked.port))
    except (ValueError, OSError, StoreError) as error:
        reason = f"the store cannot be opened: {error}" if isinstance(error, StoreError) else error
        print(f"chainlit_web: {getattr(error, 'strerror', None) or reason}", file=sys.stderr)
        return 1
    return 0


async def serve(host: str, port: int) -> None:
    """Serve until somebody stops it; then every chat is archived. Raises StoreError if the store cannot be opened."""
    # Chainlit reads these while it is imported
    os.environ.setdefault("CHAINLIT_APP_ROOT", _ROOT)
    if "CHAINLIT_AUTH_SECRET" not in os.environ:
        folder = platformdirs.user_data_path("memory-context-chainlit", appauthor=False, ensure_exists=True)
        os.environ["CHAINLIT_AUTH_SECRET"] = kept_secret(folder / "auth_secret").decode()
    import chainlit.config as chainlit_config
    from chainlit.server import app

    # Chainlit deletes this folder when it ends, and with it the files of another process
    chainlit_config.FILES_DIRECTORY = Path(tempfile.mkdtemp(prefix="chainlit_web-"))
    logging.getLogger("chainlit").setLevel(logging.ERROR)
    run = chainlit_config.config.run
    run.host, run.port, run.headless = host, port, True
    from .app import store

    await store.open()
    await serve_until_stopped(_Server(bounded_config(app, host=host, port=port, log_level="error", ws="auto")))


class _Server(uvicorn.Server):
    async def startup(self, *args: object, **others: object) -> None:
        """Start, then say where to open it."""
        await super().startup(*args, **others)
        host = self.config.host
        print(f"Open http://{f'[{host}]' if ':' in host else host}:{self.config.port}/ (Ctrl+C ends it)", flush=True)


if __name__ == "__main__":
    sys.exit(main())
