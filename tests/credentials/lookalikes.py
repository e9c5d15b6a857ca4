"""Outputs without credentials that look as if they held some: what agents need verbatim to go on."""

# ruff: noqa: E501 - outputs stand here as tools print them

from collections.abc import Callable, Iterator, Mapping

from .made import Chance

__all__ = ["LOOK_ALIKES", "look_alikes"]

LOOK_ALIKES: Mapping[str, Callable[[Chance], str]] = {
    "git log": lambda c: f"commit {c.hex(40)}\nAuthor: Ada <ada@example.org>\n\n    Mend the token parser\n",
    "git oneline": lambda c: f"{c.hex(7)} Rename password field\n{c.hex(9)} Add api_key check\n",
    "diff index": lambda c: f"diff --git a/auth/token.py b/auth/token.py\nindex {c.hex(7)}..{c.hex(7)} 100644\n",
    "UUIDs": lambda c: f'{{"id": "{c.uuid()}", "request_id": "{c.uuid()}", "session_id": "{c.uuid()}"}}',
    "record ids": lambda c: f"user_id={c.uuid()} order={c.hex(24)} key={c.uuid()}\n",
    "sha256sum": lambda c: f"{c.hex(64)}  dist/secret_sauce-1.2.tar.gz\n",
    "md5": lambda c: f"MD5 (key.txt) = {c.hex(32)}\nchecksum: {c.hex(32)}\n",
    "pip hash": lambda c: f"requests==2.31.0 \\\n    --hash=sha256:{c.hex(64)}\n",
    "npm lock": lambda c: f'"node_modules/js-tokens": {{"version": "4.0.0", "integrity": "sha512-{c.base64(64)}"}}',
    "yarn lock": lambda c: (
        f'css-tokenize@^1.0.1:\n  version "1.0.1"\n  resolved "https://r/x.tgz#{c.hex(40)}"\n  integrity sha1-{c.base64(20)}\n'
    ),
    "cargo lock": lambda c: f'[[package]]\nname = "secrecy"\nversion = "0.8.0"\nchecksum = "{c.hex(64)}"\n',
    "go.sum": lambda c: f"github.com/golang-jwt/jwt/v5 v5.2.0 h1:{c.base64(32)}\n",
    "poetry lock": lambda c: f'files = [\n    {{file = "keyring-24.whl", hash = "sha256:{c.hex(64)}"}},\n]\n',
    "image digest": lambda c: f"registry.example.org/auth-token-service@sha256:{c.hex(64)}\n",
    "docker images": lambda c: f"REPOSITORY   TAG      IMAGE ID\nvault/secret   1.15   {c.hex(12)}\n",
    "base64 image": lambda c: f'<img src="data:image/png;base64,iVBORw0KGgo{c.base64(300)}">',
    "base64 font": lambda c: f"src:url(data:font/woff2;base64,d09GMgABAAAAA{c.base64(200)})format('woff2')",
    "source map": lambda c: f"//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjoz{c.base64(120)}",
    "minified": lambda c: (
        f'var {c.text(1, "abc")}=function(e,t){{return e.token=t.key||n(e.password),a.secret?r(t):void 0}},o="{c.hex(20)}";'
    ),
    "minified keys": lambda c: f'e.exports={{key:"{c.text(6)}",token:r({c.randint(10, 9999)}),auth:!0,pwd:s.pwd}};',
    "webpack": lambda c: f'{{{c.randint(1, 999)}:"{c.hex(20)}",{c.randint(1, 999)}:"{c.hex(20)}"}}[e]+".chunk.js"',
    "colours": lambda c: f"--token-color-keyword: #{c.hex(6)};\n--key-bg: #{c.hex(8)};\n",
    "ETag": lambda c: f'HTTP/1.1 200 OK\nETag: W/"{c.hex(32)}"\nX-Request-Id: {c.uuid()}\nCache-Key: {c.hex(16)}\n',
    "cookie names": lambda c: (
        "Cookies set: sessionid, csrftoken, PHPSESSID (values hidden)\nSet-Cookie: theme=dark; Path=/\n"
    ),
    "expired cookie": lambda c: (
        "Set-Cookie: sessionid=; Max-Age=0\nset-cookie: auth_token=deleted; expires=Thu, 01 Jan 1970\n"
    ),
    "trace ids": lambda c: f"traceparent: 00-{c.hex(32)}-{c.hex(16)}-01\ntrace_id={c.hex(32)} span_id={c.hex(16)}\n",
    "Amazon ids": lambda c: (
        f"x-amz-request-id: {c.text(16).upper()}\narn:aws:iam::{c.randint(10**11, 10**12)}:role/token-reader\ni-0{c.hex(16)} ami-0{c.hex(16)}\n"
    ),
    "versions": lambda c: (
        f"tokenizers==0.{c.randint(1, 20)}.{c.randint(0, 9)}\nkeyring 24.3.{c.randint(0, 9)}\npasslib-1.7.4+build.{c.hex(7)}\n"
    ),
    "page token": lambda c: f'{{"items": [], "next_page_token": "{c.text(32)}", "nextPageToken": "{c.text(24)}"}}',
    "cursor": lambda c: f"sync_token: {c.text(28)}\ncontinuation_token={c.text(40)}\ncursor: {c.base64(24)}\n",
    "model config": lambda c: (
        f'{{"eos_token": "<|endoftext|>", "pad_token_id": {c.randint(1, 99999)}, "max_token": 4096, "token": "Ġthe"}}'
    ),
    "usage": lambda c: (
        f'{{"prompt_tokens": {c.randint(1, 9999)}, "total_tokens": {c.randint(1, 9999)}, "token_count": 12}}'
    ),
    "Python code": lambda c: (
        "def login(password: str, token: str | None = None) -> None:\n    api_key = os.environ['API_KEY']\n    self.password = password\n"
    ),
    "JS code": lambda c: (
        "const token = req.headers.authorization.split(' ')[1];\nconst { password, apiKey } = config;\nif (!secret) throw new Error('secret missing');\n"
    ),
    "Java code": lambda c: (
        'private String password;\nKey secretKey = keyFactory.generateSecret(spec2);\nparams.put("token", request.getToken1());\n'
    ),
    "form": lambda c: (
        '<label for="password">Password:</label><input type="password" name="password" autocomplete="current-password2">\n'
    ),
    "templates": lambda c: (
        "password: ${DB_PASSWORD}\ntoken: {{ .Values.token1 }}\nAPI_KEY=<your-api-key-123>\nSECRET=$(openssl rand -hex 32)\n"
    ),
    "docs": lambda c: (
        "export OPENAI_API_KEY=sk-...\nSet `password` to your password. The API key: see Settings > API keys (v2).\n"
    ),
    "masked": lambda c: "password=******** token=xxxxxxxxxxxx1 api_key: [redacted] secret=••••••••\n",
    "translations": lambda c: (
        '{"password": "Passwort", "token": "Jeton", "password_hint": "At least 8 characters", "secret": "Geheimnis"}'
    ),
    "errors": lambda c: (
        f"ERROR: password authentication failed for user \"app\"\ninvalid token at line {c.randint(1, 99)}: unexpected key 'x1'\n"
    ),
    "Kubernetes secret": lambda c: (
        f"Name: db-secret\nType: Opaque\nData\n====\npassword:  {c.randint(8, 32)} bytes\ntoken:  {c.randint(100, 2000)} bytes\n"
    ),
    "Kubernetes refs": lambda c: (
        f"  env:\n  - name: DB_PASSWORD\n    valueFrom:\n      secretKeyRef:\n        name: db-credentials-2\n        key: password\n  pod: api-{c.hex(9)}-{c.text(5).lower()}\n"
    ),
    "paths": lambda c: (
        f"/etc/ssl/private/key-{c.randint(1, 9)}.pem\nsrc/auth/token_{c.hex(4)}.ts:12: secret\nkey_path: /home/ada/.ssh/id_ed25519\n"
    ),
    "cache keys": lambda c: (
        f"cache_key={c.hex(40)}\nkey: user:{c.randint(1, 9999)}:profile\nprimary_key: {c.hex(24)}\nCACHE_KEY={c.hex(32)}\n"
    ),
    "public keys": lambda c: (
        f'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{c.base64(30)} ada@laptop\npublic_key: {c.base64(32)}\npublicKeyToken="{c.hex(16)}"\n'
    ),
    "certificate": lambda c: (
        f"-----BEGIN CERTIFICATE-----\n{c.base64(48)}\n{c.base64(48)}\n-----END CERTIFICATE-----\n"
    ),
    "fingerprints": lambda c: (
        f"SHA256:{c.base64(32).rstrip('=')} ada@laptop (ED25519)\nkey fingerprint = {c.hex(40).upper()}\n"
    ),
    "memory keys": lambda c: (
        f"[MemoryRef: run_shell_{c.text(6, 'abcdefghijklmnopqrstuvwxyz234567')} - env, 30 lines - 2340 tokens] memory_key=search_k3f7x2\n"
    ),
    "call ids": lambda c: f'"tool_call_id": "call_{c.text(24)}", "id": "msg_{c.text(24)}", "run": "run-{c.text(20)}"',
    "object ids": lambda c: (
        f"gs://bucket/secret-data/{c.text(28)}\nhttps://docs.example.org/d/{c.text(44)}/edit?key=value\n"
    ),
    "SQL schema": lambda c: (
        "CREATE TABLE users (id serial PRIMARY KEY, password varchar(255) NOT NULL, token text UNIQUE, api_key_id int4);\n"
    ),
    "table of words": lambda c: f"| key | token | password |\n|---|---|---|\n| {c.hex(8)} | yes | required2 |\n",
    "prose": lambda c: (
        "The password is case sensitive. Token: a string of at least 16 characters. Authorization: Bearer authentication is used.\n"
    ),
    "prose on passwords": lambda c: (
        "My password is wrong. The password is base64-encoded, SHA-256 hashed. Change the password on server01.\nDas Passwort ist 8-stellig. Mein Passwort ist abgelaufen seit 2024-05-01. пароль: неверный\n"
    ),
    "password managers": lambda c: (
        "My password manager is 1Password. La clave primaria es user_id2. Die Parola ist gut.\n"
    ),
    "constants": lambda c: 'CONTENT_FILTER_KEY = "prompt_filter_results"\nSPAN_KEY = "current-span"\nTOKEN="UNSET"\n',
    "labels": lambda c: '{"delete secret": "Deleted.", "api_key": "API-Schlüssel", "access_token": "Zugriffstoken"}\n',
    "commit in the environment": lambda c: f"GIT_SHA={c.hex(40)}\nBUILD_ID={c.text(40)}\nIMAGE_DIGEST={c.base64(32)}\n",
    "schema": lambda c: (
        '"password": string, "secret_key": str | None, secret: db-credentials, existingSecret: "shop-db-config"\n'
    ),
    "npm packages": lambda c: (
        "sk-learn-contrib-extensions-toolkit 1.0\nnpm_config_registry_authentication_provider_x\nhf_transfer==0.1.6 xoxo-tokens\n"
    ),
    "names": lambda c: (
        f"sk-loading-indicator-component-container-{c.randint(1, 9)} ghp_helpers key-value-store do_v1_migrate\n"
    ),
    "addresses": lambda c: (
        f"http://localhost:8080/@scope/pkg mailto:ada@example.org ssh://git@host:22/x.git image: nginx:1.25@sha256:{c.hex(64)}\n"
    ),
}
"""Outputs, by what they are."""


def look_alikes(seed: int, each: int = 6) -> Iterator[tuple[str, str]]:
    """Yield look-alikes: (what it is, output)."""
    chance = Chance(seed)
    for name, make in LOOK_ALIKES.items():
        for _ in range(each):
            yield name, make(chance)
