"""The words of the page that are this application's own, over Chainlit's."""

import json
from pathlib import Path
from typing import Any

from chainlit.config import TRANSLATIONS_DIR, config_translation_dir

__all__ = ["put_wording"]

_LANGUAGE = "en-US.json"


def put_wording() -> None:
    """Have Chainlit say what `wording.json` has, and all else as the installed Chainlit does."""
    words = json.loads((Path(TRANSLATIONS_DIR) / _LANGUAGE).read_text(encoding="utf-8"))
    own = json.loads(Path(__file__).with_name("wording.json").read_text(encoding="utf-8"))
    folder = Path(config_translation_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _LANGUAGE).write_text(json.dumps(_over(words, own), indent=2), encoding="utf-8")


def _over(words: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    whole = {**words, **own}
    for name, value in own.items():
        if isinstance(value, dict):
            whole[name] = _over(words.get(name, {}), value)
    return whole
