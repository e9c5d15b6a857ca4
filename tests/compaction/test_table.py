"""Tables: columns, rows, names, least and greatest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context.compaction.compactor import Result
from memory_context.compaction.readers.table import read_table
from memory_context.compaction.reading import Reading

from .sound import bash, read_soundly, spoiled

ROWS = [("apple", 3, "0.5"), ("pear", 12, ""), ("plum", 7, "2.5"), ("fig", 9, "1.0")]
CSV = "name,stock,price\n" + "".join(f"{n},{s},{p}\n" for n, s, p in ROWS)
TSV = CSV.replace(",", "\t")
MARKDOWN = "| name | stock | price |\n|:-----|------:|---|\n" + "".join(f"| {n} | {s} | {p} |\n" for n, s, p in ROWS)
PSQL = (
    " name  | stock | price \n-------+-------+-------\n"
    + "".join(f" {n:5} | {s:5} | {p:5}\n" for n, s, p in ROWS)
    + "(4 rows)\n"
)
_BORDER = "+-------+-------+-------+\n"
MYSQL = (
    f"{_BORDER}| name  | stock | price |\n{_BORDER}"
    + "".join(f"| {n:5} | {s:5} | {p or 'NULL':5} |\n" for n, s, p in ROWS)
    + f"{_BORDER}4 rows in set (0.01 sec)\n"
)
PANDAS = "    name  stock  price\n" + "".join(
    f"{i}  {n:>5}  {s:5}  {p or 'NaN':>5}\n" for i, (n, s, p) in enumerate(ROWS)
)
PODS = """\
NAME      READY   STATUS             RESTARTS   AGE
web-1     1/1     Running            0          5d
web-2     0/1     CrashLoopBackOff   12         5d
db-0      1/1     Running            1          9d
"""
SAMPLES = [CSV, TSV, MARKDOWN, PSQL, MYSQL, PANDAS, PODS]


def read(content: str) -> Reading:
    reading = read_soundly(read_table, Result(content, "query"))
    assert reading is not None
    return reading


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("CSV", CSV),
        ("CSV", CSV.replace(",", ";")),
        ("CSV", CSV.replace("\n", "\r\n")),
        ("TSV", TSV),
        ("Markdown table", MARKDOWN),
        ("psql table", PSQL),
        ("mysql table", MYSQL),
        ("table", PANDAS),
    ],
)
def test_columns_rows_and_extremes_are_told_of_every_form(kind: str, content: str) -> None:
    reading = read(content)
    assert reading.description.startswith(f"{kind}, 4 rows (name, stock, price)")
    assert reading.facts[0] == "columns: name, stock, price (1 empty)"
    assert "stock 3 (apple) to 12 (pear)" in "\n".join(reading.facts)
    assert list(reading.names[:4]) == ["apple", "pear", "plum", "fig"]


def test_header_and_extreme_rows_come_first_in_the_excerpt() -> None:
    reading = read(CSV)
    shown = [CSV[passage.start : passage.end] for passage in reading.landmarks]
    assert shown[0] == "name,stock,price"
    assert "pear,12," in shown


def test_stretches_of_rows_are_named_by_their_first_and_last() -> None:
    content = "id,label\n" + "".join(f"{n},item-{n}\n" for n in range(1000))
    passage, name = read(content).labels[1]
    assert name == "item-20 to item-39"
    assert content[passage.start : passage.end].startswith("20,item-20\n")
    assert content[passage.start : passage.end].endswith("39,item-39")


def test_states_of_a_kubectl_table_are_counted() -> None:
    reading = read(PODS)
    assert "STATUS: Running 2, CrashLoopBackOff 1" in reading.facts
    assert "RESTARTS 0 (web-1) to 12 (web-2)" in "\n".join(reading.facts)


def test_a_table_may_be_introduced_by_its_tool() -> None:
    reading = read(f"Content type text/csv, here is the raw content:\nContents of https://a.example/stock.csv:\n{CSV}")
    assert reading.description.startswith("CSV, 4 rows (name, stock, price)")


def test_cells_with_line_breaks_do_not_put_rows_out_of_place() -> None:
    reading = read('id,name,note\n1,ann,"two\nlines"\n2,bob,none\n3,cy,none\n')
    assert reading.description.startswith("CSV, 3 rows")
    assert reading.labels == []


def test_the_exit_status_of_the_shell_is_no_row() -> None:
    reading = read_soundly(read_table, bash(f"{CSV}[Command finished with exit code 1]", "cat stock.csv"))
    assert reading is not None
    assert "4 rows" in reading.description
    assert reading.has_failed is True


@pytest.mark.parametrize(
    "content",
    [
        "",
        "one line",
        "Hello, this is prose, with commas\nand more, of it, here\nline, again, three\n",
        "import a, b, c\nfrom x import y, z, w\nfoo(1, 2, 3)\n",
        "x = 1, 2\ny = 3, 4\nz = 5, 6\n",
        "total 8\n-rw-r--r-- 1 root root  0 Nov 21 14:39 a\n-rw-r--r-- 1 root root  0 Nov 21 14:39 b\n",
        "Title\n-----\n\nSome text below a heading.\nAnd another line of it.\n",
        "[1,2,3]\n[2,3,4]\n[4,5,6]\n",
        "Here is the file shop.py:\n     1\timport os\n     2\timport sys\n     3\tprint(1)\n     4\tprint(2)\n",
    ],
)
def test_other_contents_are_left_to_other_readers(content: str) -> None:
    assert read_table(Result(content, "tool")) is None


@pytest.mark.parametrize(
    "content",
    [
        'a,b,c\n1,2,3\n"' + "x," * 300_000,
        "|" * 500_000,
        "a  b\n" + "-" * 500_000 + "\nc  d\n",
        "a,b,c\n" + '"\n' * 100_000,
        ",".join(f"c{n}" for n in range(2000)) + "\n" + (",".join("1" * 2000) + "\n") * 100,
        "a\tb\n\x00\t\ud800\n1\t2\n",
    ],
)
def test_hostile_tables_are_survived(content: str) -> None:
    read_soundly(read_table, Result(content, "tool"))


def test_rows_beyond_the_window_are_counted_without_being_parsed() -> None:
    content = "id,name\n" + "".join(f"{n},item-{n}\n" for n in range(200_000))
    reading = read(content)
    assert "CSV, 200,000 rows" in reading.description
    assert max(passage.end for passage, _ in reading.labels) <= 1_000_000


@settings(deadline=None)
@given(spoiled(SAMPLES) | st.text() | st.text(alphabet='ab1,|\t-+ \n"'))
def test_any_text_is_read_soundly(content: str) -> None:
    read_soundly(read_table, Result(content, "tool"))


def test_columns_apart_by_single_spaces_have_the_rest_in_the_last_one() -> None:
    processes = "USER PID %CPU COMMAND\nroot 1 0.0 /sbin/init --user me\napp 27 4.5 python serve.py\n"
    reading = read(processes)
    assert reading.facts[0] == "columns: USER, PID, %CPU, COMMAND"
    disks = "Filesystem Size Used Use% Mounted on\n/dev/sda 252G 26G 25% /\ntmpfs 12G 0 0% /run/my disk\n"
    assert "2 rows (Filesystem, Size, Used, Use%, Mounted)" in read(disks).description


def test_values_alike_at_their_beginning_are_not_counted_as_one() -> None:
    rows = "".join(f"{n},{'/a/very/long/path/of/more/than/forty/characters/' + str(n)}\n" for n in range(9))
    assert not any("forty 9" in line or "characters 9" in line for line in read("id,place\n" + rows).facts)
