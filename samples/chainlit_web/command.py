"""The command line: says where to open and who may log in, and serves."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from memory_context.surfaces.http_server import check_port

from .users import Users

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser("samples.chainlit_web", description="Chat with agents that forget nothing.")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="(default %(default)s)")
    parser.add_argument("--model", help="the model, if OPENAI_API_KEY is set (OPENAI_BASE_URL: where it is)")
    asked = parser.parse_args(arguments)
    if asked.model:
        os.environ["OPENAI_MODEL"] = asked.model
    try:
        users = Users.from_env()
        users.check_host(asked.host)
        check_port(asked.host, asked.port)
    except (ValueError, OSError) as error:
        return _refuse(getattr(error, "strerror", None) or str(error))
    live = bool(os.environ.get("OPENAI_API_KEY"))
    print("The model is live." if live else "No OPENAI_API_KEY: the model is scripted, the tools and memory are real.")
    if problem := _say_light_model():
        return _refuse(problem)
    print("Starting (the first time this also makes the database) …", flush=True)
    from memory_context import StoreError

    from .serving import prepare, serve  # from here on it takes seconds

    prepare()
    try:
        asyncio.run(serve(asked.host, asked.port, users))
    except StoreError as error:
        return _refuse(f"the store cannot be opened: {error}")
    return 0


def _say_light_model() -> str:
    """Say which light model decides beside the agents; return what is wrong with the one that is named."""
    from memory_context import choose_light_model

    from ..code_agent import model_client_from_env

    try:
        print(choose_light_model(model_client_from_env()))
    except ValueError as error:
        return str(error)
    return ""


def _refuse(text: str) -> int:
    print(f"chainlit_web: {text}", file=sys.stderr)
    return 1
