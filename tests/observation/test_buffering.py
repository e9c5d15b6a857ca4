"""When a range is observed and how many chunks are activated: arithmetic on token counts."""

from hypothesis import given
from hypothesis import strategies as st

from memory_context.compaction.observation.activation import (
    TARGET_MARGIN,
    Leaving,
    buffer_interval,
    chunks_to_activate,
    retention_start,
    tokens_until_activation,
)

sizes = st.integers(0, 40_000)
leaving_chunks = st.lists(st.builds(Leaving, st.integers(0, 99), sizes, st.integers(0, 4000)), max_size=8)


def test_activation_is_due_at_the_ratio_of_the_window():
    assert tokens_until_activation(0, 100_000, 0.9) == 90_000
    assert tokens_until_activation(90_000, 100_000, 0.9) == 0
    assert tokens_until_activation(95_000, 100_000, 0.9) < 0


def test_interval_is_a_share_of_what_is_left_between_its_limits():
    assert buffer_interval(80_000, 100_000, 128_000) == 20_000  # a quarter
    assert buffer_interval(400_000, 500_000, 128_000) == 30_000  # the cap
    assert buffer_interval(400_000, 500_000, 32_000) == 0.6 * 32_000  # what the light model can read
    assert buffer_interval(8_000, 100_000, 128_000) == 5_000  # the minimum
    assert buffer_interval(400, 16_000, 128_000) == 5_000
    assert buffer_interval(400, 4_000, 128_000) == 500  # an eighth of a small window


@given(st.floats(-1e6, 1e6), st.integers(1000, 1_000_000), st.integers(1000, 1_000_000))
def test_interval_keeps_its_limits(until: float, window: int, light_window: int):
    assert min(5_000, window / 8) <= buffer_interval(until, window, light_window) <= 30_000


def test_activation_takes_the_oldest_chunks_down_to_the_target_and_no_more():
    chunks = [Leaving(n, 10_000, 1_000) for n in range(5)]
    assert chunks_to_activate(chunks, 90_000, 100_000, 0.9) == 4  # 90 - 4 x 9 = 54 <= 60
    assert chunks_to_activate(chunks, 78_000, 100_000, 0.9) == 2
    assert chunks_to_activate(chunks[:2], 90_000, 100_000, 0.9) == 2  # they do not suffice
    assert chunks_to_activate(chunks, 60_000, 100_000, 0.9) == 0
    assert chunks_to_activate(chunks, 60_000, 100_000, 0.9, is_free=True) == 1


@given(leaving_chunks, st.integers(0, 100_000))
def test_one_chunk_less_would_stay_above_the_target(chunks: list[Leaving], view_tokens: int):
    count = chunks_to_activate(chunks, view_tokens, 100_000, 0.9)
    target = (0.9 - TARGET_MARGIN) * 100_000

    def after(number: int) -> int:
        return view_tokens - sum(one.removed_tokens - one.added_tokens for one in chunks[:number])

    assert count == len(chunks) or after(count) <= target
    assert all(after(number) > target for number in range(count))


@given(st.lists(st.integers(1, 500), min_size=1, max_size=20), st.integers(0, 3000))
def test_retention_keeps_whole_newest_steps_and_at_least_one(steps: list[int], limit: int):
    ends = [0]
    for size in steps:
        ends.append(ends[-1] + size)  # one token a position
    start = retention_start(ends, lambda position: ends[-1] - position, limit)
    assert start in ends[:-1]
    assert ends[-1] - start <= limit or start == ends[-2]
    earlier = [end for end in ends if end < start]
    assert not earlier or ends[-1] - earlier[-1] > limit


def test_retention_of_nothing_is_its_beginning():
    assert retention_start([7], lambda position: 0, 100) == 7
