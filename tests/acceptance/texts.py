"""Texts as tools return them: search results, web pages and query results, made from a seed and all different.

Sentences come from word lists, but names, figures, dates and addresses are drawn anew each time, so that no stretch of
a text stands in another one.
"""

import json
import random

__all__ = ["page", "query_result", "search_results"]


def _listed(words: str) -> list[str]:
    """Return words that stand in one text, or phrases that stand in one with bars between them."""
    return words.split("|") if "|" in words else words.split()


_SYLLABLES = _listed("al ben cor dun el fal gar hol is jor kel lin mar nor os pel quin ros sel tam ur vel wen yar zel")
_ENDINGS = _listed("bridge dale field ford haven holm mere mouth ness port stead ton wick")
_FIRST_NAMES = _listed(
    "Adaeze Bruno Chiara Dmitri Eun Farida Goran Hana Ines Jonas Kirra Luis Mei Nadia Oskar Priya Rafael Sanne"
)
_THINGS = _listed(
    "spillway turbine penstock intake reservoir embankment culvert sluice aquifer catchment weir gauge pump valve "
    "transformer substation cable relay inverter battery feeder meter pylon insulator permit tariff contract audit "
    "forecast ledger levy grant tender inspection licence hatchery fish-ladder eel-pass wetland meadow heron otter "
    "salmon sediment gravel silt algae flood drought snowmelt rainfall monsoon frost landslide tremor fault seepage "
    "grout concrete clay geotextile rebar crane barge ferry quay towpath lock canal cottage village museum archive"
)
_QUALITIES = _listed(
    "abandoned brittle calibrated corroded disputed dormant draughty elevated faulty flooded fragile gravity-fed "
    "historic idle improvised leaking listed modest municipal narrow overgrown pressurised private provisional quiet "
    "rebuilt remote rusted seasonal secondary shallow steep submerged temporary tidal unlined untested upstream vaulted"
)
_DEEDS = _listed(
    "was surveyed by|was replaced under|was financed with help of|was opposed by|was photographed for|failed during|"
    "was reopened by|was measured twice by|is managed from the office of|was drained at the request of|was sold to|"
    "was described in a letter of|is monitored remotely by|was condemned by|was insured by|was restored by"
)
_REASONS = _listed(
    "because the {q} {t} had not been cleaned since {year}|although nobody at {place} remembered the {t}|"
    "after the {t} near {place} had lost {n} per cent of its capacity|so that the {q} {t} could be kept in service|"
    "while {person} still held the licence for the {t}|which left {n} households in {place} without a {t}|"
    "and the council paid {n},{m} crowns for a {q} {t}|but the {t} was never entered in the register of {place}"
)
_SECTIONS = _listed(
    "Background|Site and {t}|How the {t} works|Measurements of {year}|The {q} {t}|Ownership|Costs|What went wrong|"
    "Repairs after {year}|Ecology|Records and {t} data|Notes on the {t}|Open questions|Visiting {place}|Further reading"
)


class _Writer:
    """Draws words, names and sentences from one random source."""

    def __init__(self, seed: str) -> None:
        self.draw = random.Random(seed)

    def place(self) -> str:
        stem = "".join(self.draw.choices(_SYLLABLES, k=self.draw.choice([1, 2, 2])))
        return (stem + self.draw.choice(_ENDINGS)).capitalize()

    def person(self) -> str:
        surname = "".join(self.draw.choices(_SYLLABLES, k=self.draw.choice([2, 3])))
        return f"{self.draw.choice(_FIRST_NAMES)} {surname.capitalize()}"

    def filled(self, text: str) -> str:
        """Return a text with its fields drawn."""
        return text.format(
            t=self.draw.choice(_THINGS),
            q=self.draw.choice(_QUALITIES),
            n=self.draw.randrange(2, 980),
            m=f"{self.draw.randrange(1000):03}",
            year=self.draw.randrange(1841, 2024),
            place=self.place(),
            person=self.person(),
        )

    def sentence(self) -> str:
        deed, reason = self.draw.choice(_DEEDS), self.draw.choice(_REASONS)
        return self.filled(f"The {{q}} {{t}} at {{place}} {deed} {{person}} in {{year}}, {reason}.")

    def paragraph(self) -> str:
        return " ".join(self.sentence() for _ in range(self.draw.randrange(3, 7)))

    def links(self, number: int) -> str:
        return "\n".join(f"- [{self.filled('The {q} {t} of {place}')}]({self.address()})" for _ in range(number))

    def table(self) -> str:
        rows = [
            f"| {self.place()} | {self.draw.randrange(1841, 2024)} | {self.draw.uniform(0.1, 90):.2f} |"
            for _ in range(self.draw.randrange(5, 14))
        ]
        return "\n".join(["| station | opened | level in m |", "|---|---|---|", *rows])

    def address(self) -> str:
        host = self.place().lower()
        words = "-".join(self.draw.choices(_THINGS, k=2))
        return f"https://www.{host}.example/{words}/{self.draw.randrange(10**5)}"


def page(url: str, size: int = 50_000, *, planted: str = "") -> str:
    """Return a web page as Markdown: navigation, headings, paragraphs, lists of links, tables.

    Args:
        url: Where it stands; another page for another one.
        size: Characters, exactly.
        planted: A sentence that stands in its middle.
    """
    writer = _Writer(f"page {url}")
    title = writer.filled("The {q} {t} of {place}")
    blocks = [f"# {title}", f"Source: {url}", writer.links(12)]
    length = sum(map(len, blocks))
    while length < size:
        section = [f"## {writer.filled(writer.draw.choice(_SECTIONS))}"]
        section += [writer.paragraph() for _ in range(writer.draw.randrange(2, 5))]
        if writer.draw.random() < 0.4:
            section.append(writer.table())
        if writer.draw.random() < 0.4:
            section.append(writer.links(writer.draw.randrange(2, 6)))
        if planted and length > size // 2:
            section.insert(2, planted)
            planted = ""
        blocks += section
        length += sum(len(block) + 2 for block in section)
    return "\n\n".join(blocks)[:size]


def query_result(statement: str, size: int = 50_000) -> str:
    """Return a database's answer as a JSON list of records, of about so many characters."""
    writer = _Writer(f"query {statement}")
    number, rows = writer.draw.randrange(1000, 9000), list[str]()
    length = 0
    while length < size - 150:
        number += writer.draw.randrange(1, 9)
        row = {
            "station_id": number,
            "name": f"{writer.place()} {writer.draw.choice(_THINGS)}",
            "operator": writer.person(),
            "status": writer.draw.choice(["active", "active", "active", "standby", "retired"]),
            "level_m": round(writer.draw.uniform(0, 90), 3),
            "inspected_on": f"{writer.draw.randrange(1990, 2024)}-{writer.draw.randrange(1, 13):02}-17",
            "remark": None if writer.draw.random() < 0.6 else writer.filled("{q} {t}, see {person}"),
        }
        rows.append(json.dumps(row))
        length += len(rows[-1]) + 3
    return f"[{', '.join(rows)}]"


def search_results(query: str, size: int = 8000) -> str:
    """Return what a search engine answers: title, address and snippet of each hit."""
    writer = _Writer(f"search {query}")
    hits: list[str] = [f"Results for: {query}"]
    while sum(map(len, hits)) < size - 250:
        title, snippet = writer.filled("{place}: the {q} {t}"), writer.sentence()
        hits.append(f"{len(hits)}. {title}\n   {writer.address()}\n   {snippet}")
    return "\n\n".join(hits)
