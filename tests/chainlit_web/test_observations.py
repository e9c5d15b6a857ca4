"""What connectors observe, on the page: a diff that is highlighted, screenshots, and both again after a reload."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from playwright.async_api import expect

from ..conftest import needs
from ..support.browser import free_port
from .conftest import ChainlitServer, Person

pytestmark = pytest.mark.asyncio(loop_scope="module")

Come = Callable[..., Awaitable[Person]]

PICTURES = "img[src*='/memory-context/images/']"
ARE_LOADED = f"() => [...document.querySelectorAll({PICTURES!r})].every(one => one.naturalWidth == 640)"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chainlit_server(
    chainlit_database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ChainlitServer]:
    """The sample with an agent that edits a file while a screen changes."""
    needs("chromium")
    folder = tmp_path_factory.mktemp("observing")
    (folder / "watched").mkdir()
    (folder / "watched" / "area.py").write_text("def area(r):\n    return 3 * r * r\n")
    server = ChainlitServer(chainlit_database_url, folder, free_port(), "tests.chainlit_web.observing")
    await server.start(OBSERVED_FOLDER=str(folder / "watched"))
    yield server
    await server.stop()
    assert "Traceback" not in server.log, server.log


async def test_observations_are_steps_with_diffs_and_screenshots(come: Come, chainlit_server: ChainlitServer) -> None:
    ada = await come(viewport={"width": 1200, "height": 1600})
    page = ada.page
    await ada.log_in("ada", "ada")
    await ada.say("mend area.py", 1)
    assert "3.14" in (chainlit_server.folder / "watched" / "area.py").read_text()

    pictures = page.locator(PICTURES)
    await expect(pictures).to_have_count(2)
    await expect(pictures.last).to_be_visible()
    await page.wait_for_function(ARE_LOADED)
    await page.get_by_role("button", name="Changed area.py (2 lines) · files", exact=True).click()
    await expect(page.locator(".hljs-addition")).to_contain_text("return 3.14 * r * r")
    await expect(page.locator(".hljs-deletion")).to_contain_text("return 3 * r * r")

    # the thread refers to the images, which only their user may see
    address = await pictures.last.get_attribute("src")
    assert address is not None
    url = f"{chainlit_server.url.rstrip('/')}/{address.partition('://')[2].partition('/')[2] or address.lstrip('/')}"
    answer = await ada.profile.request.get(url)
    assert (answer.status, answer.headers["content-type"]) == (200, "image/png")
    assert (await answer.body()).startswith(b"\x89PNG")
    grace = await come()
    await grace.log_in("grace", "grace")
    await expect(grace.page.locator("#chat-input")).to_be_visible()
    assert (await grace.profile.request.get(url)).status == 404

    await page.reload()
    await ada.answered(1)
    await expect(pictures).to_have_count(2)
    await page.wait_for_function(ARE_LOADED)
