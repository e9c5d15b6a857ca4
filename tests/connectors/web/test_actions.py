"""Each tool says what happened, reads back what it wrote, and gives the reason where it could do nothing."""

import pytest

from memory_context import ConnectorError, WebConnector
from memory_context.connectors.web import actions

from ...support.sites import Sites
from ...support.web import open_page, page, ref_in, run, state, told, use

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.thorough]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "_REACH_SECONDS", 1.0)


PAY = "<button>Pay</button>"
COVERED = f"{PAY}<div style='position:fixed;inset:0'>Cookies?</div>"
SIZES = "<select aria-label=Size><option>Small<option>Large (L)<option disabled>Huge</select>"


@pytest.mark.parametrize(
    ("body", "element", "tool", "arguments", "reason"),
    [
        ("<button disabled>Pay</button>", 'button "Pay"', "click", {}, "it is disabled"),
        ("<input aria-label=Code readonly value=A>", 'textbox "Code"', "type", {"text": "B"}, "it is read-only"),
        (PAY, 'button "Pay"', "type", {"text": "B"}, "takes no text"),
        (PAY, 'button "Pay"', "select", {"options": ["B"]}, "click it, then click the option"),
        ("<input type=date aria-label=Day>", 'textbox "Day"', "type", {"text": "25.11.2026"}, "YYYY-MM-DD"),
        (COVERED, 'button "Pay"', "click", {}, "covered by <div>Cookies\\?</div>"),
        (SIZES, 'combobox "Size"', "select", {"options": ["Large"]}, 'no option .*; there are "Small", "Large '),
        (SIZES, 'combobox "Size"', "select", {"options": ["huge"]}, "the option 'huge' is disabled"),
    ],
)
async def test_refused_action_names_element_and_reason(
    web: WebConnector, body: str, element: str, tool: str, arguments: dict[str, object], reason: str
) -> None:
    ref = ref_in(await open_page(web, page(body)), element)
    with pytest.raises(ConnectorError, match=rf"^{element} \[{ref}\]: .*{reason}"):
        await use(web, tool, ref=ref, **arguments)


SPACED = "value = value.replace(/(\\d{2})(?=\\d)/g, '$1 ')"
NOTE = "<textarea aria-label=Note></textarea>"


@pytest.mark.parametrize(
    ("body", "element", "text", "answer"),
    [
        ("<input aria-label=Name value=old>", 'textbox "Name"', "Ada", 'it holds "Ada"'),
        ("<input type=date aria-label=Day>", 'textbox "Day"', "2026-11-25", 'it holds "2026-11-25"'),
        ("<input aria-label=Code maxlength=3>", 'textbox "Code"', "ABCDE", 'it holds "ABC" and not what was typed, as'),
        ("<input type=password aria-label=Key>", 'textbox "Key"', "hunter2", "it holds 7 characters"),
        (f'<input aria-label=Card onkeyup="{SPACED}">', 'textbox "Card"', "123", 'it holds "12 3" and not'),
        (NOTE, 'textbox "Note"', "one\ntwo", 'it holds "one two"'),
        (NOTE, 'textbox "Note"', "long " * 300, 'it holds "long long'),
    ],
)
async def test_what_a_field_holds_is_read_back(
    web: WebConnector, body: str, element: str, text: str, answer: str
) -> None:
    ref = ref_in(await open_page(web, page(body)), element)
    said = await use(web, "type", ref=ref, text=text)
    assert said.startswith(f"Filled {element} [{ref}]; ")
    assert answer in said


async def test_key_is_pressed_in_an_element_or_where_the_focus_is(web: WebConnector) -> None:
    shown = await open_page(web, page('<input aria-label=Name onkeydown="document.title += event.key">'))
    ref = ref_in(shown, 'textbox "Name"')
    assert await use(web, "press", key="a", ref=ref) == f'Pressed a in textbox "Name" [{ref}].'
    assert await use(web, "press", key="b") == "Pressed b."
    assert await run(web, "document.title") == "Pageab"


async def test_suggestions_that_listen_to_keys_come_while_typing(web: WebConnector) -> None:
    """The page waits for a pause between keys, as most do."""
    body = """<input aria-label=To><ul id=s></ul><script>let keys = 0, later;
      document.querySelector('input').onkeydown = () => { keys += 1; clearTimeout(later);
        later = setTimeout(() => { s.innerHTML = keys > 2 ? '<li role=option tabindex=0>Marstal</li>' : '' }, 250) }
      </script>"""
    ref = ref_in(await open_page(web, page(body)), 'textbox "To"')
    await use(web, "type", ref=ref, text="Mar")
    assert 'option "Marstal"' in await state(web)


async def test_editor_of_formatted_text_is_replaced_line_by_line_and_never_sent_by_the_way(web: WebConnector) -> None:
    body = """<p contenteditable aria-label=Reply style='white-space:pre-wrap'><b>Old</b> text</p><output></output>
      <script>const box = document.querySelector('p'); box.onkeydown = (e) => {
        if (e.key === 'Enter' && !e.shiftKey) document.title = 'sent too early' }</script>"""
    shown = await open_page(web, page(body))
    assert 'textbox "Reply" [e' in shown
    said = await use(web, "type", ref=ref_in(shown, 'textbox "Reply"'), text="Dear Ann,\nit is done.")
    assert said.endswith('; it holds "Dear Ann, it is done.".')
    assert (await run(web, "box.innerText")).strip() == "Dear Ann,\nit is done."
    assert "Title: Page" in await state(web)


@pytest.mark.parametrize("style", ["opacity:0;width:0;height:0;position:absolute", "display:none"])
async def test_styled_boxes_are_opened_by_their_labels(web: WebConnector, style: str) -> None:
    """The page hides the native box, and its label draws one."""
    body = f"""<style>input {{ {style} }} label {{ position:relative; display:block }}
      label span {{ position:absolute; inset:0; background:#eee }} label {{ height:30px }}</style>
      <label><input type=radio name=hull><span>Oak hull</span></label>
      <label><input type=checkbox><span>I accept</span></label>"""
    shown = await open_page(web, page(body))
    said = await use(web, "click", ref=ref_in(shown, 'radio "Oak hull"'))
    assert said.startswith('Clicked radio "Oak hull"')
    await use(web, "click", ref=ref_in(await state(web), 'checkbox "I accept"'))
    assert await run(web, "[...document.querySelectorAll('input')].map((one) => one.checked)") == [True, True]
    assert (await state(web)).count("(checked)") == 2


async def test_empty_editor_and_hidden_file_field_can_be_used(web: WebConnector) -> None:
    """The snapshot of Playwright has neither: the one is empty, and the other is drawn by its label."""
    body = """<p>Chat</p><div contenteditable data-placeholder='Say something' style='min-height:30px'></div>
      <label>Attach <input type=file style='display:none'></label>"""
    shown = await open_page(web, page(body))
    await use(web, "type", ref=ref_in(shown, 'textbox "Say something"'), text="Good morning")
    shown = await state(web)
    assert 'textbox "Say something"' in shown
    assert "Good morning" in shown
    web._browser.transfers.folder.write("photo.txt", b"x")
    await use(web, "upload", ref=ref_in(shown, 'button "Attach"'), files=["photo.txt"])
    assert await run(web, "document.querySelector('input').files[0].name") == "photo.txt"


async def test_scroll_says_when_nothing_moved(web: WebConnector) -> None:
    await open_page(web, page("<div style='height:3000px'>Tall</div>"))
    assert await use(web, "scroll") == "Scrolled."
    await use(web, "scroll", screens=10)
    assert (await use(web, "scroll")).startswith("Nothing scrolled: this is the end")
    inner = "<div style='height:900px'>Inner</div>"
    style = "height:300px;width:100vw;position:fixed;top:200px;overflow:auto"
    await open_page(web, page(f"<div style='{style}'>{inner}</div>"))
    assert await use(web, "scroll") == "Scrolled."


async def test_links_to_files_say_so(web: WebConnector, sites: Sites) -> None:
    await use(web, "goto", url=f"{sites.url}/tabs/")
    said = await use(web, "click", ref=ref_in(await state(web), 'link "Download report"'))
    assert "A download began: report" in said
    shown = await open_page(web, page(f"<a href='{sites.url}/nothing.pdf'>Timetable</a><a href='/x' download>Map</a>"))
    assert 'link "Timetable" [' in shown
    assert "(PDF)" in shown
    await told(web)


async def test_pdf_is_named_where_it_opens_and_can_be_kept(web: WebConnector, sites: Sites) -> None:
    await use(web, "goto", url=f"{sites.url}/tabs/")
    assert "A PDF is shown" in await use(web, "click", ref=ref_in(await state(web), 'link "Read timetable"'))
    assert "A PDF is shown, of which no text is read; web_download" in await state(web)
    await use(web, "back")
    shown = await state(web)
    assert "A PDF" not in shown
    said = await use(web, "download", ref=ref_in(shown, 'link "Read timetable"'))
    assert said.startswith("Download: timetable")
    await told(web)


async def test_search_shows_a_row_with_its_button(web: WebConnector) -> None:
    rows = "".join(f"<div><h3>Lamp {n}</h3><p>€{n}</p><p>In stock</p><button>Buy</button></div>" for n in range(40))
    table = "<table>" + "".join(f"<tr><td>Task {n}<td><button>Open</button>" for n in range(40)) + "</table>"
    await open_page(web, page(rows + table))
    assert 'button "Open" [e' in await use(web, "find", text="Task 33")
    found = await use(web, "find", text="Lamp 7")
    assert 'button "Buy" [e' in found
    assert "Lamp 8" not in found


async def test_clock_and_blinking_text_are_no_news(web: WebConnector) -> None:
    body = """<p id=clock>0</p><p id=rec>REC</p><button onclick="done.textContent = 'It was saved now'">Save</button>
      <p id=done></p><script>let n = 0; setInterval(() => { clock.textContent = `12:00:${++n}`;
        rec.style.visibility = n % 2 ? 'hidden' : '' }, 120)</script>"""
    await open_page(web, page(body))
    for _ in range(20):  # nobody acts
        await told(web)
    for _ in range(3):
        await use(web, "hover", ref=ref_in(await state(web), 'button "Save"'))
        assert await told(web) == []
    await use(web, "click", ref=ref_in(await state(web), 'button "Save"'))
    (update,) = await told(web)
    assert "It was saved now" in update.text
    assert "12:00" not in update.text
