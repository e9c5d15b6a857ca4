"""Credentials are found where they stand, what only looks like one is not, and a mask keeps lines and places."""

import asyncio
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_context.foundation.credentials.assignments import states_a_credential
from memory_context.foundation.credentials.masks import MASK, credentials_in, masked, masked_in_place, without_padding
from tests.support.growth import assert_linear

from .leaked import leaked_outputs
from .lookalikes import look_alikes
from .made import Chance

SEEDS = (1, 2, 3)
_SHOWN = 8  # so many characters of a credential are a part of it that tells something


def parts_left(output: str, credential: str) -> list[str]:
    """Return the parts of a credential that a text still has."""
    parts = {credential[start : start + _SHOWN] for start in range(max(len(credential) - _SHOWN + 1, 1))}
    return sorted(part for part in parts if part in output)


@pytest.mark.parametrize("seed", SEEDS)
def test_credentials_of_real_outputs_are_masked_completely(seed: int):
    """Recall: of 640 outputs in which a credential stands, at least 99 % show no part of it."""
    outputs = list(leaked_outputs(seed))
    missed = [what for what, output, credential in outputs if parts_left(masked(output), credential)]
    assert len(outputs) >= 600
    assert len(missed) <= 0.01 * len(outputs), missed


@pytest.mark.parametrize("seed", SEEDS)
def test_credentials_in_coloured_output_are_masked_like_plain_ones(seed: int):
    """As `bat`, `jq -C` and `docker compose config` colour keys and values."""
    outputs = [one for one in leaked_outputs(seed) if not parts_left(masked(one[1]), one[2])]
    colour = "\x1b[38;5;186m{}\x1b[0m".format
    missed = [
        what for what, text, secret in outputs if parts_left(masked(text.replace(secret, colour(secret))), secret)
    ]
    assert len(missed) <= 0.01 * len(outputs), missed
    assert (
        masked("\x1b[36mDB_PASSWORD\x1b[0m=\x1b[32mhunter2zebra\x1b[0m")
        == f"\x1b[36mDB_PASSWORD\x1b[0m=\x1b[32m{MASK}\x1b[0m"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_lookalikes_of_credentials_are_not_masked(seed: int):
    """Precision: of 342 outputs with hashes, ids, code and the like, at most 2 % are touched."""
    outputs = list(look_alikes(seed))
    touched = [what for what, output in outputs if masked(output) != output]
    assert len(outputs) >= 300
    assert len(touched) <= 0.02 * len(outputs), touched


@pytest.mark.parametrize("seed", SEEDS)
def test_mask_in_place_keeps_length_and_lines(seed: int):
    for _, output, credential in leaked_outputs(seed):
        text = f"Größe: 3 日本\n{output}ende\n"
        hidden = masked_in_place(text)
        assert [len(line) for line in hidden.split("\n")] == [len(line) for line in text.split("\n")]
        assert not parts_left(hidden, credential) or parts_left(masked(text), credential)
        spans = credentials_in(text)
        assert all(spans[i].end <= spans[i + 1].start for i in range(len(spans) - 1))
        kept = [i for i in range(len(text)) if not any(one.start <= i < one.end for one in spans)]
        assert all(hidden[i] == text[i] for i in kept)


def test_padded_masks_are_restored_to_the_mask():
    chance = Chance(5)
    for length in (20, 40, 200):
        text = f"SERVICE_TOKEN={chance.text(length)}"
        assert without_padding(masked_in_place(text)) == masked(text) == f"SERVICE_TOKEN={MASK}"
    assert without_padding(MASK) == MASK
    assert without_padding("[credential] and [credential of]") == "[credential] and [credential of]"


@given(st.text())
@example("password=\ud800\x00a1b2c3")
@example("-----BEGIN PRIVATE KEY-----")
@example("密码 token='aB3dE9xQ2rT5yU8wP1' \U0001f600 token='aB3dE9xQ2rT5yU8wP1'")
@example("https://:@/ ://a:b@ cookie: bearer  -u a:b")
def test_masking_accepts_any_text(text: str):
    """What is masked twice is as masked as once, and nothing but credentials changes."""
    hidden = masked_in_place(text)
    assert len(hidden) == len(text)
    assert masked(masked(text)) == masked(text)


def test_truncated_private_key_is_masked_to_its_end():
    pem = Chance(7).pem()
    cut = pem[: len(pem) // 2]
    assert not parts_left(masked(cut), pem.split("\n")[4])
    assert masked(cut).startswith("-----BEGIN RSA PRIVATE KEY-----\n")


@pytest.mark.parametrize(
    "said",
    ["My password is sunflower", "Mein Passwort lautet Sonnenblume", "пароль: подсолнух", "la contraseña es girasol"],
)
def test_plain_word_that_is_a_password_is_recognised_as_stated(said: str):
    """No mask finds a word, but nothing may be learned of it."""
    assert states_a_credential(said)


@pytest.mark.parametrize("said", ["My password manager is Bitwarden", "I prefer tokens to passwords", "my key is lost"])
def test_talk_of_passwords_states_none(said: str):
    assert not states_a_credential(said)


def test_credential_cut_within_a_character_is_masked():
    text = "password: " + "é1" * 3000
    assert masked(text).startswith(f"password: {MASK}")


HOSTILE = {
    "assignments": "token=aB3dE9xQ2rT5yU8wP1 ",
    "words": "password: x\n",
    "token heads": "eyJaaaaaaaaaa.",
    "keys without an end": "-----BEGIN PRIVATE KEY-----\n",
    "addresses": "://a:bcd9@ ",
    "cookies": "cookie: sid=aaaaaaaaaaaaaaaaaaaa;",
    "options": " -u a:b",
    "password hashes": "$6$aa$",
    "backslashes": 'key\\\\\\\\"',
    "one word": "password",
    "spaces": "key ",
    "colours": "\x1b[31mpassword=\x1b[0mx",
    "names in prose": "mein Passwort für den ",
    "names of CJK": "密码是",
    "variables": "ABCD=" + "a" * 40 + "\n",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_masking_is_linear_in_hostile_text(piece: str):
    assert_linear(masked_in_place, piece)


@pytest.mark.thorough
async def test_masking_in_a_thread_does_not_block_the_event_loop():
    """Masking gives way to other threads, also in text that is nothing but assignments."""
    chance = random.Random(3)
    text = "\n".join(f"VALUE_{n}={chance.random()} token: {chance.random()}" for n in range(40_000))
    turns = 0
    work = asyncio.create_task(asyncio.to_thread(masked_in_place, text))
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    await work
    assert turns > 5
