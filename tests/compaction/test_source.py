"""Source files and ranges of them: which file and lines, what they define and where."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.compaction.analyzers.source import analyze_source
from memory_context.compaction.compactor import Analysis, Result

from .sound import analyze_soundly, bash, spoiled

pytestmark = pytest.mark.thorough

PYTHON = '''\
"""A shop."""

import os
from shop.prices import price_of

LIMIT = 10


def load(
    path: str,
) -> list[str]:
    """Read it."""

    return open(path).read().split()


class Cart(Base):
    def __init__(self, items):
        self.items = items

    async def total(self, *, tax=0.2):
        return sum(price_of(i) for i in self.items)


def main() -> None:
    print(Cart(load(os.argv[1])).total())
'''
TYPESCRIPT = """\
import { price } from "./prices";

export interface Item {
  name: string;
}

export const total = async (items: Item[]): Promise<number> => {
  return items.length;
};

export default class Cart {
  constructor(private items: Item[]) {}

  public async add(item: Item): Promise<void> {
    if (item) {
      this.items.push(item);
    }
  }
}

function helper(a, b) {
  return a;
}
"""
GO = """\
package shop

import (
	"fmt"
	"example.com/shop/prices"
)

type Cart struct {
	items []string
}

func (c *Cart) Total(tax float64) (float64, error) {
	return 0, nil
}

func main() {
	fmt.Println("x")
}
"""
RUST = """\
use std::collections::HashMap;

pub struct Cart {
    items: Vec<String>,
}

impl Cart {
    pub fn total(&self) -> f64 {
        0.0
    }
}

pub(crate) async fn load(path: &str) -> Cart {
    todo!()
}
"""
JAVA = """\
package shop;

import java.util.List;

public final class Cart extends Base {
    private final List<String> items;

    public Cart(List<String> items) {
        this.items = items;
    }

    @Override
    protected static <T> Map<String, T> group(List<T> all) throws IOException {
        if (all.isEmpty()) {
            return null;
        }
        return null;
    }
}
"""
C = """\
#include <stdio.h>
#include "cart.h"

#define LIMIT 10

struct cart {
    int size;
};

static int cart_total(const struct cart *cart,
                      double tax)
{
    return 0;
}

int main(void) {
    return cart_total(NULL, 0.2);
}
"""
RUBY = "require 'json'\n\nmodule Shop\n  class Cart < Base\n    def total(tax = 0.2)\n      0\n    end\n  end\nend\n"
PHP = """\
<?php
namespace Shop;
use Shop\\Prices;

final class Cart
{
    public function total(float $tax): float
    {
        return 0;
    }
}
"""
SHELL = "#!/bin/bash\nset -e\nsource ./env.sh\n\nbuild() {\n  make all\n}\n\nfunction clean {\n  rm -r out\n}\nbuild\n"
SQL = "CREATE TABLE IF NOT EXISTS shop.carts (\n    id int\n);\n\ncreate unique index carts_id on shop.carts (id);\n"
SAMPLES = [PYTHON, TYPESCRIPT, GO, RUST, JAVA, C, RUBY, PHP, SHELL, SQL]


def numbered(text: str, first: int = 1, mark: str = "\t") -> str:
    return "\n".join(f"{number:6}{mark}{line}" for number, line in enumerate(text.split("\n"), first))


def opened(content: str, path: str, **more: object) -> Result:
    return Result(content, "read_file", json.dumps({"path": path, **more}))


def read(result: Result) -> Analysis:
    analysis = analyze_soundly(analyze_source, result)
    assert analysis is not None
    return analysis


@pytest.mark.parametrize(
    ("content", "path", "names"),
    [
        (PYTHON, "shop/cart.py", ["load", "Cart", "main", "__init__", "total"]),
        (TYPESCRIPT, "src/cart.ts", ["Item", "Cart", "helper"]),
        (GO, "cart.go", ["Cart", "Total", "main"]),
        (RUST, "src/cart.rs", ["Cart", "load", "total"]),
        (JAVA, "Cart.java", ["Cart"]),
        (C, "cart.c", ["cart"]),
        (RUBY, "cart.rb", ["Shop", "Cart", "total"]),
        (PHP, "Cart.php", ["Cart", "total"]),
        (SHELL, "build.sh", ["clean"]),
        (SQL, "shop.sql", []),
    ],
)
@pytest.mark.parametrize("is_numbered", [False, True])
def test_definitions_are_named_outer_ones_first(content: str, path: str, names: list[str], is_numbered: bool) -> None:
    analysis = read(opened(numbered(content) if is_numbered else content, path))
    assert [name for name in analysis.names if name in names] == names


def test_outline_says_where_members_are() -> None:
    analysis = read(opened(numbered(PYTHON, 100), "cart.py"))
    assert "class Cart(Base) (line 116): __init__ 117, total 120" in analysis.facts
    assert "def main() -> None (line 124)" in analysis.facts
    assert analysis.description == "Python source cart.py, lines 100-126"


@pytest.mark.parametrize("mark", ["\t", "→", ": ", "|", " | "])
def test_numbers_of_many_sorts_are_skipped(mark: str) -> None:
    assert "def main() -> None (line 25)" in read(opened(numbered(PYTHON, 1, mark), "cart.py")).facts


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("cat shop/cart.py", 1),
        ("cd /app && sed -n '40,90p' shop/cart.py", 40),
        ("cat shop/cart.py | head -50", 1),
        ("nl -ba shop/cart.py", 1),
    ],
)
def test_file_printed_by_a_command_is_read(command: str, first: int) -> None:
    analysis = read(bash(PYTHON + "\n[Command finished with exit code 0]", command))
    assert analysis.description.startswith(f"Python source shop/cart.py, lines {first}-")
    assert analysis.has_failed is False


def test_range_from_the_arguments_gives_the_numbers() -> None:
    assert "lines 40-65" in read(opened(PYTHON, "cart.py", view_range=[40, 66])).description


def test_headline_of_an_editor_gives_the_path() -> None:
    content = (
        "The file /app/cart.py has been edited. Here's the result of running `cat -n` on a snippet of /app/cart.py:\n"
    )
    content += numbered(PYTHON, 50) + "\nReview the changes.\n"
    analysis = read(Result(content, "edit", json.dumps({"command": "str_replace", "path": "/app/cart.py"})))
    assert analysis.description == "Python source /app/cart.py, lines 50-76"
    assert read(Result(content, "edit")).description == "Python source /app/cart.py, lines 50-76"


def test_file_that_the_tool_cut_says_so() -> None:
    assert (
        read(opened(numbered(PYTHON) + "\n<response clipped>", "cart.py")).facts[0] == "cut by the tool after line 27"
    )


@pytest.mark.parametrize(
    "result",
    [
        opened("", "a.py"),
        opened("No such file: a.py", "a.py"),
        opened("# Guide\n\nUse `import os`.\n\n```python\n" + PYTHON + "```\n", "README.md"),
        opened('{"def": 1}', "a.json"),
        bash(PYTHON, "python gen.py"),
        bash(PYTHON, "grep -n def shop/cart.py"),
        bash(PYTHON, "cat shop/cart.py | grep def"),
        bash("done", "cat > shop/cart.py << 'EOF'\n" + PYTHON + "EOF"),
        Result("# How to\n\nSee [it](https://example.com).\n\n" + PYTHON, "fetch", '{"url": "https://example.com"}'),
        Result("<html><script>" + TYPESCRIPT + "</script></html>", "fetch", '{"url": "https://example.com"}'),
        Result("We from the shop import pears.\nAnd we return home.\n" * 20, "fetch"),
    ],
    ids=range(11),
)
def test_other_content_is_left_alone(result: Result) -> None:
    assert analyze_source(result) is None


@given(
    content=spoiled([*SAMPLES, *map(numbered, SAMPLES)]) | st.text(max_size=300),
    suffix=st.sampled_from(["py", "ts", "go", "rs", "java", "c", "rb", "php", "sh", "sql"]),
)
def test_spoiled_source_is_read_soundly(content: str, suffix: str) -> None:
    analyze_soundly(analyze_source, opened(content, f"a.{suffix}"))
    analyze_soundly(analyze_source, Result(content, "tool"))


@pytest.mark.parametrize("suffix", ["py", "ts", "go", "rs", "java", "c", "rb", "php", "sh", "sql"])
@pytest.mark.parametrize(
    "line",
    [
        "a" * 1_000_000,
        "public static " * 70_000,
        "((((" * 250_000,
        "a b " * 250_000,
        "def a:\n" * 140_000,
        "\n".join(" " * (n % 400) + "def a():" for n in range(5000)),
        "const a = (" * 90_000,
        "{\x00\ud800}\n" * 200_000,
    ],
    ids=range(8),
)
def test_hostile_source_costs_bounded_facts(line: str, suffix: str) -> None:
    analysis = analyze_soundly(analyze_source, opened("def a():\n    return 1\n" + line, f"a.{suffix}"))
    assert analysis is None or len("".join(analysis.facts)) <= 12 * 200
