"""`demo`: the demo of the samples, from wherever they are: in the package, or beside it in a checkout."""

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import typer

from .console import ASKED_WRONGLY, Failure, UrlOption

__all__ = ["demo"]

_MODULE = "samples.demo.run"
_PACKAGE = Path(__file__).resolve().parents[1]


def demo(
    token_budget: Annotated[
        int | None, typer.Option(help="Tokens a view may take; 6000 shows folding. [default: 100000]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the chart and the session. [default: out/, or here]")
    ] = None,
    url: UrlOption = None,
) -> None:
    """Watch an agent explore code while its context stays small.

    The code is AutoGen's own. It needs no API key and no database; with OPENAI_API_KEY a live model decides.
    """
    if out is not None and not out.is_dir():
        raise Failure(f"{out}: there is no such folder", ASKED_WRONGLY)
    if url is not None:
        os.environ["MEMORY_CONTEXT_URL"] = url  # the demo and its second process open the store by themselves
    arguments = [] if token_budget is None else ["--token-budget", str(token_budget)]
    if out is not None:
        arguments += ["--out", str(out)]
    status = _demo()(arguments)
    if status:
        raise typer.Exit(status)


def _demo() -> Callable[[list[str]], int]:
    """Return what tells the story of the demo.

    Raises:
        Failure: It is not here, or a library it needs is not.
    """
    try:
        return _main_of(_module())
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        raise Failure(f"the demo needs {missing}: pip install 'memory-context[samples]'") from error


def _module() -> str:
    """Return the name under which the demo can be imported."""
    package = __name__.partition(".")[0]
    if (_PACKAGE / "samples" / "demo").is_dir():
        return f"{package}.{_MODULE}"
    checkout = _PACKAGE.parent
    if not (checkout / "samples" / "demo").is_dir():
        raise Failure("the demo is neither in this installation nor beside it: it comes with the samples")
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    return _MODULE


def _main_of(module: str) -> Callable[[list[str]], int]:
    return cast(Callable[[list[str]], int], importlib.import_module(module).main)
