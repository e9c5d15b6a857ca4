"""The one lexicon of names of credentials in the languages that people write, for names in prose and in files.

A word written with a space stands for its spellings with a space, `_`, `-` or nothing. Names in English identifiers
(`DB_PASSWORD`, `apiKey`) follow rules of their own in `assignments`.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

from ..patterns import regex

__all__ = ["NAMES_PATTERN", "CredentialName", "Sort", "name_of", "names_a_credential"]

Sort = Literal["password", "key"]


class _Language(NamedTuple):
    passwords: str
    keys: str
    copulas: str


_SORTS: Sequence[Sort] = ("key", "password")
_LANGUAGES: Mapping[str, _Language] = {
    "en": _Language(
        "password, passwd, passphrase, passcode, pwd, pass word, pass phrase",
        "api key, access key, secret key, private key, license key, encryption key, signing key, access token, "
        "api token, auth token, bearer token, refresh token, client secret, app secret, shared secret, token, secret",
        "is, was, will be, ist, lautet, es, est, è, é, jest, är",
    ),
    "de": _Language(
        "passwort, passwörter, passwoerter, kennwort, kennwörter, zugangscode, passphrase, losungswort",
        "api schlüssel, api schluessel, zugangsschlüssel, geheimer schlüssel, geheimschlüssel, zugriffsschlüssel, "
        "zugriffstoken, lizenzschlüssel, schlüssel, geheimnis",
        "ist, lautet, war, heißt, heisst",
    ),
    "es": _Language(
        "contraseña, contrasena, contraseñas, contrasenia, clave de acceso, clave, palabra de paso, palabra clave",
        "clave api, clave de api, clave secreta, clave privada, llave api, llave secreta, secreto",
        "es, era, será",
    ),
    "fr": _Language(
        "mot de passe, mots de passe, mdp, code d'accès, phrase secrète",
        "clé api, clé d'api, clé secrète, clé privée, clé d'accès, cle api, cle secrete, jeton, jeton d'accès",
        "est, était, c'est",
    ),
    "pt": _Language(
        "senha, senhas, palavra passe, palavra chave",
        "chave api, chave de api, chave da api, chave secreta, chave de acesso, segredo",
        "é, e, era, será",
    ),
    "it": _Language(
        "parola d'ordine, parola chiave, parola", "chiave api, chiave segreta, segreto", "è, e', era, sarà"
    ),
    "nl": _Language("wachtwoord, wachtwoorden, paswoord", "api sleutel, geheime sleutel, sleutel, geheim", "is, was"),
    "pl": _Language("hasło, haslo, hasła, hasłem", "klucz api, klucz dostępu, tajny klucz", "to, jest, brzmi"),
    "cs": _Language("heslo, hesla", "api klíč, tajný klíč, klíč api", "je, bylo"),
    "hu": _Language("jelszó, jelszo, jelszavam", "api kulcs, titkos kulcs", ""),
    "ro": _Language("parolă, parola", "cheie api, cheia api", "este, e"),
    "tr": _Language("parola, şifre, sifre, parolam, şifrem, sifrem, şifresi", "api anahtarı, gizli anahtar", ""),
    "sv": _Language("lösenord, losenord, lösenordet", "api nyckel, hemlig nyckel", "är, var"),
    "da": _Language(
        "adgangskode, kodeord, adgangskoden, kodeordet, passord, passordet", "api nøgle, api nøkkel", "er, var"
    ),
    "fi": _Language("salasana, salasanani", "api avain", "on, oli"),
    "hr": _Language("lozinka, lozinku, geslo, zaporka", "api ključ, tajni ključ", "je"),
    "vi": _Language("mật khẩu, mat khau", "khóa api, mã bí mật", "là, la"),
    "id": _Language("kata sandi, kata laluan, sandi", "kunci api, kunci rahasia", "adalah, ialah"),
    "ru": _Language(
        "пароль, пароля, паролем, пароли, лозинка, парола",
        "ключ api, api ключ, api-ключ, секретный ключ, ключ доступа, токен, токен доступа, секрет",
        "это, есть, такой, был, е, є, —, –, -",
    ),
    "el": _Language("κωδικός, κωδικος, κωδικός πρόσβασης, συνθηματικό", "κλειδί api", "είναι, ειναι"),
    "he": _Language("סיסמה, סיסמא, הסיסמה, הסיסמא", "מפתח api", "היא, זה"),
    "ar": _Language("كلمة المرور, كلمة السر, كلمة مرور, رمز عبور, گذرواژه", "مفتاح api, المفتاح السري", "هي, هو, است"),
    "hi": _Language("पासवर्ड", "एपीआई कुंजी, api कुंजी", "है"),
    "th": _Language("รหัสผ่าน", "คีย์ api", "คือ"),
    "zh": _Language(
        "密码, 密碼, 口令, 登录密码", "密钥, 密鑰, 令牌, api 密钥, 金钥, 金鑰", "是, 为, 為, 就是, 改成, 设为"
    ),
    "ja": _Language("パスワード, パスフレーズ, 暗証番号, 合言葉", "api キー, シークレット, トークン, 秘密鍵", "は, が"),
    "ko": _Language("비밀번호, 비번, 패스워드, 암호", "api 키, 비밀 키, 시크릿, 토큰", "은, 는, 이, 가"),
}

_UNSPACED = frozenset(("zh", "ja", "ko", "th"))
"""Languages whose copula stands at the name, and the value at the copula."""
_PREPOSITIONS = (
    "for|of|to|on|at|in|from|für|fuer|vom|von|zu|zum|zur|des|der|im|am|beim|de|del|da|do|dos|para|pour|du|di|per|voor"
    "|van|od|na|för|til|till|dla|pro|für's|для|от|к|на|в"
)
_SIGN = r"\\*(?:[\"'`*_]|»|”){0,3}[\])]?(?:[ \t]|\u3000){0,8}(?:=>|:=|[:=]|：|＝|(?<=[ \t])\|(?=[ \t]))[*_]{0,2}"
_QUALIFIER = rf"(?:[ \t]+(?:{_PREPOSITIONS})[ \t]+[^\n.:=!?;,\"'(){{}}<>\[\]]{{1,60}}?)?"
_OPENING_QUOTE = r"(?P<quote>\\*[\"'`]|„|“|”|«|»|「|『|‘|’)?"


class CredentialName(NamedTuple):
    """A name as the lexicon has it.

    Attributes:
        opening: Matches from the name's end to the value; `is` is its copula, `quote` an opening quotation mark.
    """

    language: str
    sort: Sort
    opening: re.Pattern[bytes]

    @property
    def is_unspaced(self) -> bool:
        return self.language in _UNSPACED


def _plain(name: str) -> str:
    return re.sub(r"[ _-]", "", name).casefold()


@cache
def _opening(language: str) -> re.Pattern[bytes]:
    copulas = "|".join(re.escape(one.strip()) for one in _LANGUAGES[language].copulas.split(",") if one.strip())
    if copulas and language in _UNSPACED:
        said = rf"[ \t]*(?:{copulas})[ \t]?(?::|：)?"
    elif copulas:
        said = rf"{_QUALIFIER}[ \t]+(?:{copulas})[ \t]*:?(?=[ \t\"'`]|„|“|«)"
    else:  # the value follows the name
        said = r"[ \t]+(?=\S*\d)"
    form = rf"(?:{_QUALIFIER}{_SIGN}|(?P<is>{said}))(?:[ \t]|\u3000)*{_OPENING_QUOTE}"
    return regex(form.replace(r"\u3000", "\u3000").encode(), re.IGNORECASE)


_NAMES: Mapping[str, tuple[str, Sort]] = {
    _plain(name.strip()): (language, sort)
    for language, words in reversed(_LANGUAGES.items())
    for sort, names in zip(_SORTS, (words.keys, words.passwords), strict=True)
    for name in names.split(",")
    if name.strip()
}


def _pattern(name: str) -> str:
    return re.sub(r"\\?[ ]", "[ _-]?", re.escape(name))


NAMES_PATTERN = "|".join(
    _pattern(name)
    for name in sorted(
        {
            name.strip()
            for words in _LANGUAGES.values()
            for names in (words.keys, words.passwords)
            for name in names.split(",")
        },
        key=lambda name: (-len(name), name),
    )
    if name
)
"""All names, the longest first, for RE2 without regard to case."""


@cache
def name_of(name: str) -> CredentialName | None:
    """Return what the lexicon says of a name, in any case."""
    found = _NAMES.get(_plain(name))
    if found is None:
        return None
    language, sort = found
    return CredentialName(language, sort, _opening(language))


_SAYS_ITSELF = regex(rf"{NAMES_PATTERN}|key|auth|credential", re.IGNORECASE)


def names_a_credential(text: str) -> bool:
    """Return whether a text has a word for credentials in it, such as a label or a name of one."""
    return _SAYS_ITSELF.search(text) is not None
