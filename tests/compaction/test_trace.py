"""Stack traces: what was raised, where in one's own code, and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.compaction.compactor import Result
from memory_context.compaction.readers.trace import read_trace
from memory_context.compaction.reading import Reading

from .sound import bash, read_soundly, spoiled

PYTHON = """\
loading
Traceback (most recent call last):
  File "/app/shop/cart.py", line 12, in total
    return prices[name]
           ~~~~~~^^^^^^
KeyError: 'pear'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/main.py", line 3, in <module>
    print(total("pear"))
  File "/app/shop/cart.py", line 14, in total
    raise PriceError(f"no price of {name}")
  File "/usr/lib/python3.11/site-packages/money/core.py", line 99, in check
    raise PriceError(text)
shop.errors.PriceError: no price of pear
"""
JAVA = """\
Exception in thread "main" java.lang.IllegalStateException: cart is closed
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat com.acme.shop.Cart.add(Cart.java:42)
\tat com.acme.shop.Main.main(Main.java:7)
Caused by: java.io.IOException: disk full
\tat com.acme.shop.Store.save(Store.java:18)
\t... 2 more
"""
NODE = """\
/app/src/cart.js:12
    throw new TypeError("no price");
    ^

TypeError: no price
    at total (/app/src/cart.js:12:11)
    at Module._compile (node:internal/modules/cjs/loader:1105:14)
    at Object.<anonymous> (/app/src/main.js:3:1)

Node.js v20.1.0
"""
GO = """\
panic: runtime error: index out of range [3] with length 3

goroutine 1 [running]:
main.total(...)
\t/app/cart.go:12
main.main()
\t/app/main.go:7 +0x1d
exit status 2
"""
RUST = """\
thread 'main' panicked at src/cart.rs:12:5:
index out of bounds: the len is 3 but the index is 3
stack backtrace:
   0: std::panicking::begin_panic
             at /rustc/abc/library/std/src/panicking.rs:645:5
   1: shop::cart::total
             at ./src/cart.rs:12:5
note: run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
CSHARP = """\
Unhandled exception. System.InvalidOperationException: cart is closed
   at System.Collections.Generic.List`1.get_Item(Int32 index)
   at Shop.Cart.Add(Item item) in /app/Cart.cs:line 42
   at Shop.Program.Main(String[] args) in /app/Program.cs:line 7
"""
SAMPLES = [PYTHON, JAVA, NODE, GO, RUST, CSHARP]


def read(content: str, command: str = "./run") -> Reading:
    reading = read_soundly(read_trace, bash(content, command))
    assert reading is not None
    return reading


@pytest.mark.parametrize(
    ("content", "first", "name"),
    [
        (PYTHON, "shop.errors.PriceError: no price of pear (/app/shop/cart.py:14 in total)", "shop.errors.PriceError"),
        (
            JAVA,
            "java.lang.IllegalStateException: cart is closed (Cart.java:42 in com.acme.shop.Cart.add)",
            "java.lang.IllegalStateException",
        ),
        (NODE, "TypeError: no price (/app/src/cart.js:12 in total)", "TypeError"),
        (GO, "panic: runtime error: index out of range [3] with length 3 (/app/cart.go:12 in main.total)", "panic"),
        (RUST, "panic: index out of bounds: the len is 3 but the index is 3 (src/cart.rs:12)", "panic"),
        (
            CSHARP,
            "System.InvalidOperationException: cart is closed (/app/Cart.cs:42 in Shop.Cart.Add)",
            "System.InvalidOperationException",
        ),
    ],
)
def test_exception_and_innermost_own_frame_come_first(content: str, first: str, name: str) -> None:
    reading = read(content)
    assert reading.facts[0] == first
    assert reading.names[0] == name
    place = first.rpartition("(")[2]
    assert place.startswith(reading.names[1] + ":")


def test_chain_is_told_with_its_places() -> None:
    assert "cause: KeyError: 'pear' (/app/shop/cart.py:12 in total)" in read(PYTHON).facts
    assert "cause: java.io.IOException: disk full (Store.java:18 in com.acme.shop.Store.save)" in read(JAVA).facts


def test_exception_is_the_first_landmark() -> None:
    reading = read(PYTHON)
    first = reading.landmarks[0]
    assert PYTHON[first.start : first.end] == "shop.errors.PriceError: no price of pear"


def test_trace_that_ends_the_output_is_a_failure() -> None:
    assert read(PYTHON).has_failed is True


def test_exit_status_outweighs_the_trace() -> None:
    assert read(PYTHON + "exit status 0\n").has_failed is False


def test_trace_that_repeats_is_counted() -> None:
    one = 'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\n    g()\nOSError: busy\n'
    assert read(one * 30).facts[0] == "30 times OSError: busy (/app/a.py:1 in f)"


def test_cell_of_a_notebook_is_read() -> None:
    content = (
        "-----------------------------------------------------------------\n"
        "ZeroDivisionError                Traceback (most recent call last)\n"
        "Cell In[3], line 2\n      1 x = 0\n----> 2 1 / x\n\nZeroDivisionError: division by zero\n"
    )
    reading = read_soundly(read_trace, Result(content, "python", '{"code": "x = 0\\n1 / x"}'))
    assert reading is not None
    assert reading.facts[0] == "ZeroDivisionError: division by zero (In[3]:2)"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "all is well\n" * 50,
        "def f():\n    raise ValueError('Traceback')\n" * 20,
        "a long page\n" * 300 + PYTHON + "and it goes on\n" * 300,  # a page that has one
        PYTHON + "=========================== short test summary info ============================\nFAILED a.py::b\n",
        "    at noon we eat\n    at night we sleep\n" * 20,
    ],
)
def test_other_content_is_left_alone(content: str) -> None:
    assert read_trace(bash(content, "./run")) is None


@given(content=spoiled(SAMPLES) | st.text(max_size=300))
def test_spoiled_traces_are_read_soundly(content: str) -> None:
    read_soundly(read_trace, bash(content, "./run"))


@pytest.mark.parametrize(
    "content",
    [
        "Traceback (most recent call last):\n" * 30_000,
        'Traceback (most recent call last):\n  File "' + "a" * 1_000_000,
        "Error" * 60 + "\n" + ("a.b" * 100 + "\n    at x\n") * 3000,
        "panic: x\n" + "goroutine 1\n" * 90_000,
        PYTHON * 2000,
        "\tat " * 250_000,
        "System.Error: closed\n\n   at Shop.Add(Item item) in /app/Cart.cs:line 42\n   at \nall\n",
    ],
    ids=range(7),
)
def test_hostile_traces_cost_bounded_facts(content: str) -> None:
    reading = read_soundly(read_trace, bash(content, "./run"))
    assert reading is None or len("".join(reading.facts)) <= 12 * 200
