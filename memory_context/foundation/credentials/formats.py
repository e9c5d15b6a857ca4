"""Credentials recognised by published formats: RE2 finds prefixes in linear time, then the exact form is matched."""

import math
from collections.abc import Iterator, Mapping

from ..patterns import LinePattern, at_first_use, regex
from .assignments import is_placeholder, is_random

__all__ = ["formatted_credentials"]

_WORD = r"[A-Za-z0-9_-]"

# kind: (prefix for RE2, exact form, not followed by its characters)
_FORMATS: Mapping[str, tuple[str, str]] = {
    # docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
    "aws_access_key_id": (r"A[KSBC][IC]A[A-Z2-7]{4}", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
    # docs.github.com/en/authentication: "GitHub's token formats"
    "github": (
        r"gh[opusr]_|github_pat_",
        r"(?:gh[opusr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255})(?![A-Za-z0-9])",
    ),
    # docs.gitlab.com/security/tokens: "Token prefixes"
    "gitlab": (
        r"gl(?:pat|dt|ptt|ft|imt|agent|oas|soat|ffct|rt|rtr|cbt|wt)-",
        rf"gl[a-z]{{2,5}}-(?=[A-Za-z_-]{{0,60}}[0-9])(?:t\d_)?{_WORD}{{20,300}}(?:\.[0-9a-z]{{2}}\.[0-9a-z]{{9}})?",
    ),
    # docs.slack.dev/authentication/tokens and .../incoming webhooks
    "slack": (
        r"xox[abceoprs][.-]|xapp-|hooks\.slack\.com/",
        r"(?:xox[abceoprs][.-](?:xox[bp]-)?(?=[A-Za-z-]{0,20}\d)[A-Za-z0-9-]{10,250}"
        r"|xapp-\d-[A-Z0-9]{8,12}-\d{10,14}-[a-z0-9]{40,70}"
        r"|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9]{8,14}/[A-Za-z0-9]{8,14}/[A-Za-z0-9]{20,60})",
    ),
    # docs.stripe.com/keys and .../webhooks
    "stripe": (
        r"[rs]k_(?:live|test)_|whsec_",
        r"(?:[rs]k_(?:live|test)_[A-Za-z0-9]{16,200}|whsec_[A-Za-z0-9+/=]{24,100})",
    ),
    # platform.openai.com/docs/api-reference/authentication, docs.anthropic.com/en/api/admin-api; others took over sk-
    "sk": (r"sk-[A-Za-z0-9]", rf"sk-(?:proj-|svcacct-|admin-|ant-[a-z0-9]{{3,12}}-|or-v1-)?{_WORD}{{20,300}}"),
    # cloud.google.com/docs/authentication/api-keys, developers.google.com/identity/protocols/oauth2
    "google": (
        r"AIza|ya29\.|GOCSPX-|1//0",
        rf"(?:AIza{_WORD}{{35}}(?![A-Za-z0-9_-])|ya29\.{_WORD}{{30,1000}}|GOCSPX-{_WORD}{{28}}|1//0{_WORD}{{40,200}})",
    ),
    # learn.microsoft.com/en-us/purview/sit-defn-client-secret-api-key: Entra client secrets
    "azure_client_secret": (
        r"[A-Za-z0-9_~.-]{3}\dQ~",
        r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~])",
    ),
    # github.blog: "Behind GitHub's new authentication token formats" (npm has taken them over)
    "npm": (r"npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    # an API token of PyPI: a macaroon
    "pypi": (r"pypi-AgE", rf"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw){_WORD}{{40,1000}}"),
    # RFC 7519 and RFC 7515: two JSON objects and a signature
    "jwt": (r"eyJ", rf"eyJ{_WORD}{{8,8000}}\.eyJ{_WORD}{{2,8000}}\.{_WORD}{{16,4000}}"),
    # docs.sendgrid.com/ui/account-and-settings/api-keys, mailgun and mailchimp: their API references
    "mail": (
        r"SG\.|key-[0-9a-f]{8}|[0-9a-f]{32}-us",
        rf"(?:SG\.{_WORD}{{22}}\.{_WORD}{{43}}|key-[0-9a-f]{{32}}|[0-9a-f]{{32}}-us\d{{1,2}})(?![A-Za-z0-9])",
    ),
    # huggingface.co/docs/hub/security-tokens, console.groq.com, docs.x.ai, docs.perplexity.ai, replicate.com/docs
    "models": (
        r"hf_[A-Za-z0-9]{4}|gsk_|xai-|pplx-|r8_|nvapi-",
        rf"(?:hf_[A-Za-z0-9]{{34}}|gsk_[A-Za-z0-9]{{52}}|xai-[A-Za-z0-9]{{70,90}}|pplx-[A-Za-z0-9]{{48}}"
        rf"|r8_[A-Za-z0-9]{{37}}|nvapi-{_WORD}{{60,80}})(?![A-Za-z0-9])",
    ),
    # docs.digitalocean.com, docs.databricks.com, docs.docker.com/security/access-tokens, developer.hashicorp.com/vault,
    # .../terraform/cloud-docs, tailscale.com/kb, planetscale.com/docs, pulumi.com/docs, supabase.com/docs, fly.io/docs
    "infrastructure": (
        r"do[opr]_v1_|dapi[0-9a-f]{8}|dckr_|hv[sbr]\.|[A-Za-z0-9]{14}\.atlasv1\.|tskey-|pscale_|pul-[0-9a-f]{8}|sbp_"
        r"|fm[12]_|dp\.[a-z]{2,5}\.",
        rf"(?:do[opr]_v1_[0-9a-f]{{64}}|dapi[0-9a-f]{{32}}(?:-\d)?|dckr_(?:pat|oat)_{_WORD}{{24,60}}"
        rf"|hv[sbr]\.(?=[A-Za-z_-]{{0,60}}\d){_WORD}{{24,300}}|[A-Za-z0-9]{{14}}\.atlasv1\.{_WORD}{{60,70}}"
        rf"|tskey-[a-z]{{3,10}}-[A-Za-z0-9]{{8,30}}(?:-[A-Za-z0-9]{{20,60}})?"
        rf"|pscale_(?:tkn|oauth|pw)_[A-Za-z0-9._-]{{32,64}}|pul-[0-9a-f]{{40}}|sbp_[0-9a-f]{{40}}"
        rf"|fm[12]_[A-Za-z0-9+/=_-]{{60,1000}}|dp\.(?:pt|st|sa|ct|scim|audit)\.[A-Za-z0-9.]{{40,60}})",
    ),
    # grafana.com/docs, docs.sentry.io, docs.newrelic.com, linear.app/docs, developers.notion.com, postman.com/docs,
    # shopify.dev, developer.squareup.com, atlassian.com, figma.com/developers, airtable.com/developers, rubygems.org
    "services": (
        r"gl(?:c|sa)_|sntry[su]_|NRAK-|lin_(?:api|oauth)_|ntn_|secret_[A-Za-z0-9]{8}|PMAK-|shp[a-z]{2}_|sq0[a-z]{3}-"
        r"|ATATT3|ATBB|figd_|pat[A-Za-z0-9]{14}\.|rubygems_",
        rf"(?:glc_[A-Za-z0-9+/=]{{40,400}}|glsa_[A-Za-z0-9]{{32}}_[0-9a-f]{{8}}|sntry[su]_[A-Za-z0-9+/=_-]{{40,300}}"
        rf"|NRAK-[A-Z0-9]{{27}}|lin_(?:api|oauth)_[A-Za-z0-9]{{32,64}}|ntn_\d{{8,12}}[A-Za-z0-9]{{30,40}}"
        rf"|secret_[A-Za-z0-9]{{43}}|PMAK-[0-9a-f]{{24}}-[0-9a-f]{{34}}|shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{{32}}"
        rf"|sq0(?:atp|csp|idp)-{_WORD}{{22,50}}|ATATT3[A-Za-z0-9_=-]{{100,300}}|ATBB[A-Za-z0-9]{{28,32}}"
        rf"|figd_{_WORD}{{35,60}}|pat[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}|rubygems_[0-9a-f]{{48}})(?![A-Za-z0-9])",
    ),
    # core.telegram.org/bots/api, discord.com/developers/docs/reference: id, time and MAC of a bot
    "bot": (
        r"\d{8,10}:AA|[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.",
        rf"(?:\d{{8,10}}:AA{_WORD}{{33}}|[MNO]{_WORD}{{23,27}}\.{_WORD}{{6}}\.{_WORD}{{27,38}})(?![A-Za-z0-9_-])",
    ),
    # github.com/FiloSottile/age
    "age": (r"AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}"),
}
_PREFIX = at_first_use(
    LinePattern,
    r"(?:\b(?:" + "|".join(prefix for prefix, _ in _FORMATS.values()) + r")|\$(?:2[abxy]|5|6|y|argon2(?:id?|d))\$)"
    r"[A-Za-z0-9_-]*",  # to the word's end, which bounds visits of a byte
)
_HASH = (
    # crypt(5) and the PHC string format: crackable by dictionaries
    r"\$(?:2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|[56]\$(?:rounds=\d{1,9}\$)?[^$\s:\"']{1,16}\$[./A-Za-z0-9]{43,86}"
    r"|y\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43}"
    r"|argon2(?:id?|d)\$v=\d{1,3}\$[a-z0-9=,]{1,60}\$[A-Za-z0-9+/]{8,90}\$[A-Za-z0-9+/]{16,90})"
)
_EXACT = regex(
    "|".join([f"(?P<{kind}>{form})" for kind, (_, form) in _FORMATS.items()] + [f"(?P<password_hash>{_HASH})"]).encode()
)
_SHORT_PREFIXES = frozenset(("sk",))
"""Kinds whose prefix may begin a name, such as `sk-learn-contrib`: the rest must look random."""

# RFC 7468, RFC 9580
_PRIVATE_KEY = at_first_use(LinePattern, r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END_OF_KEY = b"-----END"
_LONGEST_KEY = 16_384
_KEY_BODY = regex(rb"[A-Za-z0-9+/=\\\s]{0,16384}")
_LINE = regex(rb"[^\r\n]+")

# RFC 3986, 3.2.1: the password in `scheme://user:password@host`
_USER_INFO = at_first_use(LinePattern, r"://[^\s/:@\"'<>]{0,64}:[^\s/\"'<>]{1,256}@")


def formatted_credentials(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind in UTF-8 text, not in order."""
    yield from _tokens(data)
    yield from _private_keys(data)
    yield from _passwords_of_urls(data)


def _tokens(data: bytes) -> Iterator[tuple[int, int, str]]:
    done = 0
    for start, _ in _PREFIX.spans(data, 0, len(data), deadline=math.inf):
        match = _EXACT.match(data, start) if start >= done else None
        if match is None:
            continue
        kind = match.lastgroup or ""
        if kind not in _SHORT_PREFIXES or is_random(match[0][3:]):
            done = match.end()
            yield start, done, kind


def _private_keys(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield lines; without an end marker, as far as they resemble a key."""
    if b"PRIVATE KEY" not in data:
        return
    done = 0
    for start, body in _PRIVATE_KEY.spans(data, 0, len(data), deadline=math.inf):
        if start < done:
            continue
        done = data.find(_END_OF_KEY, body, body + _LONGEST_KEY)
        if done < 0:
            match = _KEY_BODY.match(data, body)
            done = match.end() if match else body
        for line in _LINE.finditer(data, body, done):
            yield line.start(), line.end(), "private_key"


def _passwords_of_urls(data: bytes) -> Iterator[tuple[int, int, str]]:
    for start, end in _USER_INFO.spans(data, 0, len(data), deadline=math.inf):
        first = data.index(b":", start + 3) + 1
        if not is_placeholder(data[first : end - 1]):
            yield first, end - 1, "url_password"
