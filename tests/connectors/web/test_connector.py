"""The web connector with a real Chromium: what it shows of pages, and what its tools do to them."""

import os
import re
import shutil
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from autogen_core import CancellationToken

from memory_context import ConnectorError, WebConnector
from memory_context.connectors.protocols import TextObservation

from ...support.browser import chromium_options

pytestmark = pytest.mark.asyncio(loop_scope="module")


def page(body: str, title: str = "Page") -> str:
    """Return the address of a page that is its own content."""
    return f"data:text/html;charset=utf-8,{quote(f'<!doctype html><title>{title}</title>{body}')}"


def new_connector(**arguments: Any) -> WebConnector:
    return WebConnector(browser=chromium_options()["executable_path"], allow_private=True, **arguments)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web() -> AsyncIterator[WebConnector]:
    connector = new_connector()
    await connector.on_start()
    yield connector
    await connector.on_stop()


async def use(web: WebConnector, name: str, **arguments: Any) -> Any:
    tool = next(one for one in web.tools() if one.name == f"web_{name}")
    return await tool.run_json(arguments, CancellationToken())


async def told(web: WebConnector) -> list[TextObservation]:
    return await web.get_observations()


async def state(web: WebConnector) -> str:
    (text,) = await web.render_current_state()
    return text


async def run(web: WebConnector, script: str) -> Any:
    """Run a script as one of the page itself."""
    return await (await web._screen.tab()).page.evaluate(script)


def ref_in(text: str, element: str) -> str:
    """Return the reference of an element, such as `button "Pay"`, in a state or an observation."""
    _, found, rest = text.partition(f"{element} [")
    assert found, f"{element} is not in:\n{text}"
    return rest.partition("]")[0]


async def test_first_observation_names_the_page_and_has_its_picture(web: WebConnector) -> None:
    web._seen = None
    await use(web, "goto", url=page("<h1>Hello</h1>", "First"))
    (first,) = [one for one in await told(web) if one.type == "screen"]
    assert first.text.startswith("[web] Initial page: data:text/html;")
    assert first.text.endswith(" (First)")
    assert len(first.images) == 1
    assert await told(web) == []


async def test_update_has_address_title_and_what_changed(web: WebConnector) -> None:
    rows = "".join(f"<li>Row {number}</li>" for number in range(20))
    await use(
        web, "goto", url=page(f"<ul>{rows}</ul><button onclick='document.title=`Two`;this.after(`Done`)'>Go</button>")
    )
    await told(web)
    await use(web, "click", ref=ref_in(await state(web), 'button "Go"'))
    (update,) = await told(web)
    head, *lines = update.text.splitlines()
    assert head.startswith("Screen update. Current URL: data:text/html;")
    assert lines == ["Title: Two", 'in document "Row 0":', '  + - text "Done"']
    assert update.subject == "page"


async def test_blinking_cursor_is_no_change_and_a_colour_is(web: WebConnector) -> None:
    await use(
        web,
        "goto",
        url=page(
            "<input autofocus><span id=c style='background:#000;width:2px;height:18px;display:inline-block'></span>"
        ),
    )
    await told(web)
    await run(web, "document.getElementById('c').style.visibility = 'hidden'")
    assert await told(web) == []
    await run(web, "document.body.style.background = '#036'")
    (update,) = await told(web)
    assert len(update.images) == 1


async def test_form_is_filled_by_the_references_of_the_state(web: WebConnector) -> None:
    form = """<form onsubmit="event.preventDefault(); out.textContent = [...new FormData(this).values()].join('|')">
      <label>Name <input name=name></label> <label for=size>Size</label>
      <select id=size name=size><option>Small<option>Large</select>
      <label><input type=checkbox name=gift value=gift> As a gift</label>
      <button>Order</button></form><output id=out></output>"""
    await use(web, "goto", url=page(form))
    shown = await state(web)
    await use(web, "type", ref=ref_in(shown, 'textbox "Name"'), text="Ada")
    await use(web, "select", ref=ref_in(shown, 'combobox "Size"'), options=["Large"])
    await use(web, "click", ref=ref_in(shown, 'checkbox "As a gift"'))
    shown = await state(web)
    assert 'textbox "Name"' in shown
    assert ': "Ada"' in shown
    assert await use(web, "press", key="Enter", ref=ref_in(shown, 'textbox "Name"'))
    assert 'status "Ada|Large|gift"' in await state(web)


async def test_reference_never_clicks_another_element_after_the_page_is_drawn_anew(web: WebConnector) -> None:
    draw = """<ul id=list></ul><script>
      const draw = names => { list.innerHTML = names.map(name =>
        `<li><span>${name}</span> <button onclick="document.title = '${name}'">Delete</button></li>`).join('') };
      draw(['Apple', 'Pear', 'Plum']);</script>"""
    await use(web, "goto", url=page(draw))
    refs = dict(re.findall(r'"(\w+)", \[(e\d+)\]', await state(web)))
    await run(web, "draw(['Plum', 'Fig', 'Apple'])")
    await use(web, "click", ref=refs["Plum"])
    assert await run(web, "document.title") == "Plum"
    with pytest.raises(ConnectorError, match=r'button "Delete"\) is gone or is another element'):
        await use(web, "click", ref=refs["Pear"])
    assert await run(web, "document.title") == "Plum"


async def test_element_behind_another_is_not_clicked(web: WebConnector) -> None:
    await use(web, "goto", url=page("<button>Under</button><div id=over style='position:fixed;inset:0'>Cookies?</div>"))
    ref = ref_in(await state(web), 'button "Under"')
    with pytest.raises(ConnectorError, match="intercepts pointer events"):
        await use(web, "click", ref=ref)


async def test_missing_browser_says_what_to_do() -> None:
    with pytest.raises(ConnectorError, match="there is no browser 'no-such-browser'"):
        await WebConnector(browser="no-such-browser").on_start()


async def test_component_names_browser_and_hosts_and_opens_nothing() -> None:
    chromium = shutil.which("chromium") or "chromium"
    web = WebConnector("https://example.org", browser=chromium, allowed_hosts=["example.org"])
    again = WebConnector.load_component(web.dump_component())
    assert again.dump_component() == web.dump_component()
    assert again.dump_component().config["allowed_hosts"] == ["example.org"]
    assert not again._screen.is_open
    assert os.path.basename(again.dump_component().config["browser"]).startswith("chromium")
