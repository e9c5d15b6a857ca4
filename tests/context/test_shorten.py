"""How parts give way to a budget: an equal share for each, an excerpt or a placeholder, texts and images at the end."""

from autogen_core.models import UserMessage

from memory_context import ContextPolicy
from memory_context.foundation.messages import Address, PartKind
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.entries import Part, StoredPart
from memory_context.sessions.transcript.part_decisions import PartsCompacted, PartShortened
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.view.shorten import Shortener, ShownPart
from memory_context.view.view import MessageList, View, ViewMessage

counter = default_token_counter()
LINES = "\n".join(f"line {number} of the text" for number in range(400))


def view_of(tokens: int) -> View:
    messages = MessageList()
    messages.replace(0, 0, [ViewMessage(0, UserMessage(content="whole view", source="user"), tokens, (), 0)])
    return messages.newest()


def shown(
    tokens: int, kind: PartKind = "text", stored: StoredPart | None = None, text: str = LINES, index: int = 0
) -> ShownPart:
    """Return a part that takes so many tokens in the view, of a message of its own."""
    transcript = Transcript.of([UserMessage(content=text, source="user")])
    part = Part(Address(kind, index), tokens, stored=stored)
    return transcript[0], part, tokens


def shortener(token_budget: int | None = None) -> Shortener:
    return Shortener(ContextPolicy(token_budget=token_budget), counter)


def sizes(decisions: list[Decision]) -> list[int]:
    return [decision.tokens for decision in decisions if isinstance(decision, PartShortened)]


def test_large_parts_get_an_equal_share_of_what_the_rest_leaves():
    """100 + 3,000 + 3,000 beside 500 others, in 2,600: the small one stays, the others get 1,000 each."""
    parts = [shown(100), shown(3000), shown(3000)]
    decisions = shortener().shorten(view_of(6600), parts, 2600)
    assert len(decisions) == 2
    assert all(900 < tokens <= 1000 for tokens in sizes(decisions))
    assert [decision.text.partition("\n")[0] for decision in decisions if isinstance(decision, PartShortened)] == [
        "Shortened to fit the budget; whole: read_history(first_message=1)"
    ] * 2


def test_parts_that_fit_their_share_stay_whole_wherever_they_stand():
    """The first of three is small; those behind it are shortened all the same."""
    small, large = shown(300), shown(3000)
    decisions = shortener().shorten(view_of(3300), [small, large], 1300)
    assert [900 < tokens <= 1000 for tokens in sizes(decisions)] == [True]
    assert shortener().shorten(view_of(3300), [small, large], 3300) == []
    assert shortener().shorten(view_of(60), [shown(60)], 0) == [], "what stands for it would take as many"
    assert len(shortener().shorten(view_of(61), [shown(61, text="word " * 55)], 0)) == 1


def test_stored_part_without_room_for_an_excerpt_is_compacted():
    """All of these in one decision; one whose placeholder takes more stays as it is."""
    ref = MemoryRef("key", "an item", 3000)
    stored = StoredPart((ref,), "compacted", 20)
    decisions = shortener().shorten(view_of(6000), [shown(3000, stored=stored), shown(3000, stored=stored)], 300)
    assert decisions == [PartsCompacted(((0, Address("text", 0)), (0, Address("text", 0))), "budget")]
    longer = StoredPart((ref,), "compacted", 70)
    assert shortener().shorten(view_of(70), [shown(70, stored=longer)], 0) == []
    (excerpt,) = shortener().shorten(view_of(3000), [shown(3000, stored=stored)], 500)
    assert isinstance(excerpt, PartShortened)
    assert excerpt.text.startswith(f"Shortened to fit the budget; whole: {ref.render()}\nline 0 of the text")


def test_excerpt_needs_200_tokens_and_what_has_no_text_says_how_to_read_it():
    entry, part, _ = shown(3000)
    assert "line 0 of" in _text(shortener().excerpted(entry, part, 200))
    bare = "[3000 tokens left out to fit the budget; whole: read_history(first_message=1)]"
    assert _text(shortener().excerpted(entry, part, 199)) == bare
    entry.drop_texts([part.address])
    assert _text(shortener().excerpted(entry, part, 2000)) == bare
    assert shortener().excerpted(entry, Part(part.address, 3000, stored=StoredPart((), "compacted", 20)), 2000) is None
    entry, part, _ = shown(3000, "arguments")
    assert "these arguments were left out" in _text(shortener().excerpted(entry, part, 2000))


def test_images_are_left_out_from_the_last_until_it_fits():
    """One that takes less than the words in its place stays."""
    images = [shown(500, "image", index=number) for number in range(3)] + [shown(5, "image", index=3)]
    left_out = [address.index for address in _addresses(shortener(1000).without_images(view_of(1600), images))]
    assert left_out == [2, 1], "one is 9 tokens short of 600"
    assert len(shortener(1000).without_images(view_of(1400), images)) == 1
    assert shortener(1000).without_images(view_of(1000), images) == []
    assert len(shortener(1000).without_images(view_of(9000), images)) == 3


def test_texts_of_the_task_are_left_out_from_the_last_and_counted():
    """The last decision says how many; what is empty already does not count."""
    texts = [shown(tokens, index=number) for number, tokens in enumerate((400, 0, 400, 400))]
    decisions = shortener(1000).without_blocks(view_of(1500), texts)
    assert [address.index for address in _addresses(decisions)] == [3, 2]
    assert _text(decisions[0]) == ""
    assert _text(decisions[1]) == "[2 texts left out to fit the budget; whole: read_history(first_message=1)]"
    assert sizes(decisions) == [0, counter.count(_text(decisions[1]))]
    assert len(shortener(1000).without_blocks(view_of(1300), texts)) == 1
    every = shortener(1000).without_blocks(view_of(9000), texts)
    assert [address.index for address in _addresses(every)] == [3, 2, 0]
    assert _text(every[-1]).startswith("[3 texts left out")


def _text(decision: Decision | None) -> str:
    assert isinstance(decision, PartShortened)
    return decision.text


def _addresses(decisions: list[Decision]) -> list[Address]:
    return [decision.address for decision in decisions if isinstance(decision, PartShortened)]
