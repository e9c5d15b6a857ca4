"""A web connector in tests: a real Chromium, pages that are their own address, and its tools by name."""

from typing import Any
from urllib.parse import quote

from memory_context import WebConnector

from .browser import chromium_options
from .connectors import state, told, use

__all__ = ["new_connector", "open_page", "page", "ref_in", "run", "state", "told", "use"]


def page(body: str, title: str = "Page") -> str:
    """Return the address of a page that is its own content."""
    return f"data:text/html;charset=utf-8,{quote(f'<!doctype html><title>{title}</title>{body}')}"


def new_connector(*arguments: Any, **options: Any) -> WebConnector:
    """Return a connector with the Chromium of this machine, whose servers it may open."""
    options = {"browser": chromium_options()["executable_path"], "allow_private": True, **options}
    return WebConnector(*arguments, **options)


async def open_page(web: WebConnector, url: str) -> str:
    """Go to an address, which is no news then, and return the text of the state."""
    await use(web, "goto", url=url)
    await told(web)
    return await state(web)


async def run(web: WebConnector, script: str) -> Any:
    """Run a script as one of the page itself."""
    return await (await web._browser.tab()).page.evaluate(script)


def ref_in(text: str, element: str) -> str:
    """Return the reference of an element, such as `button "Pay"`, in what was shown."""
    _, found, rest = text.partition(f"{element} [")
    assert found, f"{element} is not in:\n{text}"
    return rest.partition("]")[0]
