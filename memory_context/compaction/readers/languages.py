"""What a line that defines something looks like, in the languages and configuration formats that agents read most.

One expression a language, tried at the beginning of a line; a definition's body is found by indentation, which all
formatted code keeps. So no parser is needed, and half a file or one with errors reads as well as a whole one.
"""

import re
from dataclasses import dataclass

__all__ = ["LANGUAGES", "Language", "language_by_shape", "language_of"]


@dataclass(frozen=True)
class Language:
    """How a language is written.

    Attributes:
        name: What it is called in a description.
        define: Matches a line that defines something: group `name` is what, group `kind` (optional) the sort.
        imports: Matches a line that imports a module, its first group that is set; None if there are none.
        is_config: Whether definitions are keys and sections instead of code.
    """

    name: str
    define: re.Pattern[str]
    imports: re.Pattern[str] | None = None
    is_config: bool = False


_MODIFIERS = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|override|virtual|sealed|partial|async|readonly"
    r"|open|data"
    r"|default|native|synchronized|suspend|inline|operator|unsafe|extern|inner|companion|lateinit) +)"
)
_NOT_METHOD = r"(?!(?:if|for|while|switch|catch|return|function|else|do|with|await|new|throw|typeof|super)\b)"

PYTHON = Language(
    "Python source",
    re.compile(
        r"[ \t]{0,40}(?:async +)?(?P<kind>def|class) +(?P<name>\w+)"
        r"|(?P<constant>[A-Z][A-Z0-9_]{2,60})(?:: [^=]{1,80})? = "
    ),
    re.compile(r"[ \t]{0,16}(?:from +([\w.]+) +import\b|import +([\w.]+))"),
)
SCRIPT = Language(
    "JavaScript source",
    re.compile(
        r"[ \t]{0,16}(?:export +)?(?:default +)?(?:declare +)?(?:abstract +)?(?:async +)?"
        r"(?P<kind>function\*?|class|interface|type|enum|namespace) +(?P<name>[\w$]+)"
        r"|[ \t]{0,8}(?:export +)?(?:const|let|var) +(?P<value>[\w$]+)(?:: [^=]{1,120})? = (?:async +)?(?:function\b"
        r"|\([^)]{0,300}\)(?:: [^=]{1,80})? =>|\w+ =>|\($)"
        rf"|(?:  |    |\t){_MODIFIERS}{{0,4}}(?:get +|set +|\*"
        rf"|#)?(?P<method>{_NOT_METHOD}[\w$]+)(?:<[^>]{{0,60}}>)? ?\([^)]{{0,300}}\)(?:: [^{{]{{1,120}})? *\{{"
    ),
    re.compile(
        r"(?:import|export)\b[^'\"\n]{0,300}['\"]([^'\"]+)['\"]|(?:const|let|var) [^=]{1,200}= require\(['\"]([^'\"]+)"
    ),
)
GO = Language(
    "Go source",
    re.compile(r"(?P<kind>func) (?:\([^)]{0,100}\) )?(?P<name>\w+)|type (?P<type>\w+) "),
    re.compile(r"(?:import )?\t?(?:\w+ )?\"([\w./-]+)\"$"),
)
RUST = Language(
    "Rust source",
    re.compile(
        r"[ \t]{0,16}(?:pub(?:\([^)]{0,40}\))? +)?(?:default +)?(?:const +)?(?:async +)?(?:unsafe +)?"
        r"(?:extern +\"C\" +)?"
        r"(?P<kind>fn|struct|enum|trait|mod|union|macro_rules!) +(?P<name>\w+)|(?P<impl>impl\b[^{\n]{0,150})"
    ),
    re.compile(r"[ \t]{0,8}(?:pub +)?use +([\w:]+)"),
)
MANAGED = Language(
    "Java source",
    re.compile(
        rf"[ \t]{{0,16}}{_MODIFIERS}{{0,6}}(?P<kind>class|interface|enum|record|struct|object|fun|@interface"
        rf"|namespace|trait|protocol|extension|func|def) +(?:<[^>]{{0,60}}> *)?(?P<name>[\w.]+)"
        rf"|[ \t]{{1,16}}{_MODIFIERS}{{1,6}}(?:<[^>]{{0,60}}> *)?(?:[\w<>\[\],.?]+ +){{0,2}}"
        rf"(?P<method>{_NOT_METHOD}\w+) *\("
    ),
    re.compile(r"(?:import|using) +(?:static +)?([\w.]+)"),
)
NATIVE = Language(
    "C/C++ source",
    re.compile(
        r"(?:typedef +)?(?P<kind>struct|class|enum|union|namespace) +(?P<name>\w+)(?=[^;]*$)|#define +(?P<macro>\w+)"
        r"|(?!return\b|else\b|typedef\b"
        r"|using\b)[A-Za-z_][\w:<>,*& ]{0,120}[ *&](?P<function>~?[\w:~]{1,80})\([^;]{0,300};?$"
    ),
    re.compile(r"#\s{0,4}include\s{1,4}[<\"]([^>\"]+)"),
)
RUBY = Language(
    "Ruby source",
    re.compile(r"[ \t]{0,16}(?P<kind>def|class|module) +(?P<name>[\w.:?!=]+)"),
    re.compile(r"require(?:_relative)? ['\"]([^'\"]+)"),
)
PHP = Language(
    "PHP source",
    re.compile(rf"[ \t]{{0,16}}{_MODIFIERS}{{0,4}}(?P<kind>function|class|interface|trait|enum) +&?(?P<name>\w+)"),
    re.compile(r"use +([\w\\]+)|(?:require|include)(?:_once)?[ (]+['\"]([^'\"]+)"),
)
SHELL = Language(
    "shell script",
    re.compile(r"(?:function +)?(?P<name>[\w-]+) ?\(\) *\{?|function +(?P<function>[\w-]+)"),
    re.compile(r"(?:source|\.) +([\w./$-]+)"),
)
SQL = Language(
    "SQL source",
    re.compile(
        r"[ \t]{0,8}(?:create|alter|drop) +(?:or +replace +)?(?:unique +|temp +|temporary +|materialized +)?"
        r"(?P<kind>table|index|view|function|procedure|trigger|type|schema|policy|role|extension"
        r"|sequence) +(?:concurrently +)?"
        r"(?:if +(?:not +)?exists +)?(?P<name>[\w.\"]+)|-- name: (?P<block>\S+)",
        re.IGNORECASE,
    ),
)
YAML = Language("YAML file", re.compile(r"(?:  )?(?P<name>[\w./$-]{1,100}):(?: |$)"), is_config=True)
SECTIONS = Language(
    "configuration file", re.compile(r"\[{1,2}(?P<name>[^\]]{1,100})\]|(?P<key>[\w.-]{1,80}) ?= ?"), is_config=True
)
MAKE = Language(
    "Makefile", re.compile(r"(?P<name>[\w./%-]{1,80}):(?!=)|(?P<variable>\w{1,80}) ?[:?+]?="), is_config=True
)

_BY_SUFFIX = {
    "py pyi pyx pyw": PYTHON, "js jsx mjs cjs ts tsx mts cts vue svelte": SCRIPT, "go": GO, "rs": RUST,
    "java kt kts cs scala swift groovy dart": MANAGED, "c h cc cpp cxx hpp hh hxx m mm cu": NATIVE,
    "rb rake gemspec": RUBY,
    "php": PHP, "sh bash zsh ksh": SHELL, "sql": SQL, "yaml yml": YAML,
    "toml ini cfg conf properties env": SECTIONS, "mk": MAKE,
}  # fmt: skip
LANGUAGES = {suffix: language for suffixes, language in _BY_SUFFIX.items() for suffix in suffixes.split()}
_NAMES = {
    "ts": "TypeScript", "tsx": "TypeScript", "mts": "TypeScript", "kt": "Kotlin", "kts": "Kotlin", "cs": "C#",
    "scala": "Scala", "swift": "Swift", "groovy": "Groovy", "dart": "Dart", "c": "C", "h": "C", "cc": "C++",
    "cpp": "C++", "hpp": "C++", "vue": "Vue",
}  # fmt: skip
_BY_NAME = {"makefile": MAKE, "dockerfile": SHELL, "gemfile": RUBY, "rakefile": RUBY, ".bashrc": SHELL}

_SHAPES: tuple[tuple[Language, re.Pattern[str]], ...] = (
    (PYTHON, re.compile(r"(?:from [\w.]+ import |import [\w.]+(?: as \w+)?$|\s*(?:async )?def \w+\(.*(?:\)|,|\()"
    r"|\s*class \w+.*:$|\s*@\w|\s*if .+:$|\s*return\b|\s*self\.)")),
    (GO, re.compile(r"package \w+$|func .*\{$|type \w+ (?:struct|interface)|\t+(?:if err|return)|import \($")),
    (RUST, re.compile(r"use [\w:]+(?:::|;)|\s*(?:pub )?(?:fn|struct|enum|impl|mod) .*[{;]$|\s*let (?:mut )?\w+.* = "
    r"|#\[\w")),
    (MANAGED, re.compile(r"package [\w.]+;?$|import (?:static )?[\w.]+(?:\.\*)?;?$|using [\w.]+;$|\s*(?:public"
    r"|private|protected)\b.*[{;]$|namespace [\w.]+")),
    (SCRIPT, re.compile(r"import .* from ['\"]|\s*(?:export )?(?:const|let) [\w{$].* = "
    r"|\s*(?:export )?(?:async )?function\b|.*=> \{$|export (?:default|const|class)|module\.exports")),
    (NATIVE, re.compile(r"#(?:include|define|ifdef|ifndef|endif|pragma)\b|using namespace \w+;|(?:static|int|void"
    r"|char|struct) .*[{;]$")),
    (PHP, re.compile(r"<\?php|namespace [\w\\]+;|\s*(?:public|private|protected) function |use [\w\\]+;|\s*\$\w+ = ")),
    (RUBY, re.compile(r"require(?:_relative)? ['\"]|\s*(?:def|module) \w+|\s*end$|\s*attr_\w+ :")),
    (SHELL, re.compile(r"#!/(?:usr/)?bin/(?:env )?(?:ba|z|k)?sh|\s*(?:fi|done|esac)$|\s*(?:if|while) \[.*(?:then"
    r"|do)?$|export \w+=|set -e")),
    (SQL, re.compile(r"(?:CREATE|ALTER|DROP) (?:OR REPLACE )?(?:TABLE|INDEX|VIEW|FUNCTION)|INSERT\s+INTO|SELECT .*FROM"
    r"|-- ", re.IGNORECASE)),
)  # fmt: skip
_LEAST_SHARE = 0.3
_LEAST_LINES = 6
_SHAPED_CHARACTERS = 200


def language_of(path: str) -> tuple[Language, str] | None:
    """Return the language of a file by its name, and what to call it; None if the name does not tell."""
    name = path.rstrip("/").replace("\\", "/").rpartition("/")[2].lower()
    suffix = name.rpartition(".")[2] if "." in name else ""
    language = _BY_NAME.get(name) or LANGUAGES.get(suffix)
    if language is None:
        return None
    return language, f"{_NAMES[suffix]} source" if suffix in _NAMES else language.name


def language_by_shape(lines: list[str]) -> Language | None:
    """Return the language that enough of these lines look like; None if they look like none."""
    counts = [
        (sum(shape.match(text[:_SHAPED_CHARACTERS]) is not None for text in lines), language)
        for language, shape in _SHAPES
    ]
    count, language = max(counts, key=lambda pair: pair[0])
    return language if count >= max(_LEAST_LINES, _LEAST_SHARE * len(lines)) else None
