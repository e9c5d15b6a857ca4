"""Outputs that hold credentials: the issuers' formats, in what tools print."""

import base64
from collections.abc import Callable, Iterator, Mapping

from .made import BASE62, URL_SAFE, Chance

__all__ = ["FORMATS", "SITUATIONS", "leaked_outputs"]

FORMATS: Mapping[str, Callable[[Chance], str]] = {
    "AWS key id": lambda c: "AKIA" + c.text(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "AWS temporary key id": lambda c: "ASIA" + c.text(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "GitHub": lambda c: "gh" + c.choice("opsur") + "_" + c.text(36),
    "GitHub fine-grained": lambda c: "github_" + "pat_" + c.text(22) + "_" + c.text(59),
    "GitLab": lambda c: "gl" + "pat-" + c.text(20, URL_SAFE),
    "Slack bot": lambda c: "xo" + f"xb-{c.randint(10**11, 10**12)}-{c.randint(10**11, 10**12)}-{c.text(24)}",
    "Slack webhook": lambda c: "hooks.slack" + f".com/services/T{c.hex(8).upper()}/B{c.hex(8).upper()}/{c.text(24)}",
    "Stripe": lambda c: c.choice(("sk", "rk")) + "_live_" + c.text(c.choice((24, 99))),
    "Stripe webhook": lambda c: "wh" + "sec_" + c.text(32),
    "OpenAI": lambda c: "sk-" + c.text(20) + "T3Blb" + "kFJ" + c.text(20),
    "OpenAI project": lambda c: "sk-" + "proj-" + c.text(124, URL_SAFE),
    "Anthropic": lambda c: "sk-" + "ant-api03-" + c.text(93, URL_SAFE) + "AA",
    "Google API": lambda c: "AI" + "za" + c.text(35, URL_SAFE),
    "Google OAuth": lambda c: "ya" + "29." + c.text(120, URL_SAFE),
    "Google client secret": lambda c: "GOC" + "SPX-" + c.text(28, URL_SAFE),
    "Azure client secret": lambda c: c.text(3) + "8" + "Q~" + c.text(34, BASE62 + "_.-~"),
    "npm": lambda c: "np" + "m_" + c.text(36),
    "PyPI": lambda c: "py" + "pi-AgEIcHlwaS5vcmc" + c.text(140, URL_SAFE),
    "JWT": lambda c: c.jwt(),
    "SendGrid": lambda c: "S" + "G." + c.text(22, URL_SAFE) + "." + c.text(43, URL_SAFE),
    "Hugging Face": lambda c: "h" + "f_" + c.text(34),
    "DigitalOcean": lambda c: "do" + "p_v1_" + c.hex(64),
    "Databricks": lambda c: "da" + "pi" + c.hex(32),
    "Docker": lambda c: "dc" + "kr_pat_" + c.text(27, URL_SAFE),
    "Vault": lambda c: "hv" + "s." + c.text(24) + c.text(66, URL_SAFE),
    "Telegram": lambda c: f"{c.randint(10**9, 10**10 - 1)}:" + "AA" + c.text(33, URL_SAFE),
    "Shopify": lambda c: "shp" + "at_" + c.hex(32),
    "Notion": lambda c: "nt" + f"n_{c.randint(10**10, 10**11 - 1)}" + c.text(35),
    "Linear": lambda c: "lin" + "_api_" + c.text(40),
    "Grafana": lambda c: "gl" + "sa_" + c.text(32) + "_" + c.hex(8),
    "Postman": lambda c: "PM" + "AK-" + c.hex(24) + "-" + c.hex(34),
    "Twilio SendGrid style key": lambda c: "ke" + "y-" + c.hex(32),
}
"""What issuers publish of the form of their credentials, by issuer."""

SITUATIONS: Mapping[str, Callable[[Chance, str], str]] = {
    "env": lambda c, s: f"SHELL=/bin/bash\nSERVICE_{c.choice(('TOKEN', 'API_KEY', 'SECRET'))}={s}\nHOME=/root\n",
    "export": lambda c, s: f'export APP_TOKEN="{s}"\nexport PATH=$PATH:/opt/bin\n',
    "YAML": lambda c, s: f"service:\n  host: api.example.org\n  token: {s}\n  retries: 3\n",
    "JSON": lambda c, s: f'{{"user": "ada", "api_key": "{s}", "active": true}}',
    "escaped JSON": lambda c, s: f'{{"body": "{{\\"token\\": \\"{s}\\", \\"n\\": 1}}"}}',
    "header": lambda c, s: f"> GET /v1/me HTTP/1.1\n> Authorization: Bearer {s}\n> Accept: */*\n",
    "key header": lambda c, s: f"POST /v1/messages\nx-api-key: {s}\ncontent-type: application/json\n",
    "Terraform": lambda c, s: f'provider "x" {{\n  region = "eu-west-1"\n  token  = "{s}"\n}}\n',
    "kubectl": lambda c, s: f"    Environment:\n      LOG_LEVEL:  info\n      API_TOKEN:  {s}\n    Mounts:\n",
    "traceback": lambda c, s: f"    client = Client(url, token='{s}')\nValueError: 401 for key {s}\n",
    "prose": lambda c, s: f"I created the key {s} for you; keep it safe.\n",
    "URL": lambda c, s: f"fetching https://api.example.org/v1/items?limit=5&access_token={s}\n",
    "diff": lambda c, s: f'-TOKEN = os.environ["TOKEN"]\n+TOKEN = "{s}"\n',
}
"""What a format stands in."""

_NAMED: Mapping[str, Callable[[Chance, str], str]] = {
    "env password": lambda c, s: f"DB_HOST=db\nDB_PASSWORD={s}\nDB_PORT=5432\n",
    "postgres url": lambda c, s: f"DATABASE_URL=postgres://app:{s}@db.internal:5432/app\n",
    "redis url": lambda c, s: f"redis.exceptions.ConnectionError: Error 111 connecting to redis://:{s}@cache:6379/0\n",
    "mongo url": lambda c, s: f'uri: "mongodb+srv://svc:{s}@cluster0.mongodb.net/db?retryWrites=true"\n',
    "YAML password": lambda c, s: f"postgres:\n  user: app\n  password: {s}\n",
    "JSON password": lambda c, s: f'{{"login": "ada", "password": "{s}"}}\n',
    "Python repr": lambda c, s: f"psycopg.connect(host='db', user='app', password='{s}')\n",
    "dict in traceback": lambda c, s: f"KeyError: 'x' in {{'user': 'ada', 'passwd': '{s}', 'port': 1}}\n",
    "option": lambda c, s: f"+ mysqldump --user app --password {s} --all-databases\n",
    "option with =": lambda c, s: f"+ mysqldump --user=app --password={s} shop\n",
    "curl user": lambda c, s: f"$ curl -s -u ada:{s} https://api.example.org/v1\n",
    "netrc": lambda c, s: f"machine api.example.org login ada password {s}\n",
    "connection string": lambda c, s: f"Server=tcp:db,1433;User ID=app;Password={s};Encrypt=True;\n",
    "JDBC": lambda c, s: f"jdbc:postgresql://db/app?user=app&password={s}&ssl=true\n",
    "SQL": lambda c, s: f"CREATE USER app WITH PASSWORD '{s}';\n",
    "XML": lambda c, s: f"<server><id>nexus</id><username>ci</username><password>{s}</password></server>\n",
    "Kubernetes variable": lambda c, s: f"        - name: DB_PASSWORD\n          value: {s}\n        - name: LOG\n",
    "Docker inspect": lambda c, s: f'    "Env": [\n        "PATH=/usr/bin",\n        "POSTGRES_PASSWORD={s}",\n    ]\n',
    "task definition": lambda c, s: f'{{"name": "DB_PASSWORD", "value": "{s}"}}\n',
    "properties": lambda c, s: f"spring.datasource.username=app\nspring.datasource.password={s}\n",
    "ini": lambda c, s: f"[client]\nuser = root\npassword = {s}\n",
    "Ruby": lambda c, s: f"  :password => '{s}',\n",
}
_SAID: Mapping[str, Callable[[Chance, str], str]] = {
    "English": lambda c, s: f"By the way, my password for the staging server is {s}\n",
    "English key": lambda c, s: f"API key: {s}\n",
    "German": lambda c, s: f"Mein Passwort ist {s}\n",
    "German compound": lambda c, s: f"Das WLAN-Kennwort lautet {s}\n",
    "German variable": lambda c, s: f"DB_HOST=db\nDB_PASSWORT={s}\n",
    "German table": lambda c, s: f"| Benutzer | Passwort |\n|---|---|\nKennwort: {s}\n",
    "Spanish": lambda c, s: f"la contraseña es {s}\n",
    "Spanish key": lambda c, s: f"clave del router: {s}\n",
    "French": lambda c, s: f"Mon mot de passe est {s}\n",
    "French JSON": lambda c, s: f'{{"utilisateur": "ada", "mot_de_passe": "{s}"}}\n',
    "Portuguese": lambda c, s: f"A senha do banco é {s}\n",
    "Italian": lambda c, s: f"la parola d'ordine è {s}\n",
    "Italian loan": lambda c, s: f"La password è {s}\n",
    "Dutch": lambda c, s: f"Het wachtwoord is {s}\n",
    "Polish": lambda c, s: f"hasło do poczty to {s}\n",
    "Czech": lambda c, s: f"Heslo: {s}\n",
    "Swedish": lambda c, s: f"Lösenordet är {s}\n",
    "Turkish": lambda c, s: f"şifre: {s}\n",
    "Russian": lambda c, s: f"Пароль от почты — {s}\n",
    "Russian capitals": lambda c, s: f"ПАРОЛЬ: {s}\n",
    "Chinese": lambda c, s: f"数据库密码是{s}，别告诉别人\n",
    "Chinese traditional": lambda c, s: f"密碼：{s}\n",
    "Japanese": lambda c, s: f"パスワードは{s}です\n",
    "Korean": lambda c, s: f"비밀번호는 {s}입니다\n",
    "Markdown": lambda c, s: f"**Passwort:** `{s}`\n",
}
_PLAIN_KEYS: Mapping[str, tuple[str, str]] = {
    "words in a variable": ("JWT_SECRET=sunnyharbourlantern\n", "sunnyharbourlantern"),
    "passphrase": ("session({ secret: 'amber harbour lantern' })\n", "amber harbour lantern"),
    "words in JSON": ('{"client_secret": "sunnyharbour"}\n', "sunnyharbour"),
    "number": ("api_token = 9348573945\n", "9348573945"),
    "words with hyphens": ('"access_token": "amber-harbour-lantern"\n', "amber-harbour-lantern"),
    "key of an unknown issuer": ("DEEPGRAM=" + "q4w" * 11 + "ertyu\n", "q4w" * 11 + "ertyu"),
}
"""Values that do not look random, under names that say key, token or secret."""
_NAMED_RANDOM: Mapping[str, Callable[[Chance], tuple[str, str]]] = {
    "AWS secret": lambda c: _in("aws_secret_access_key = {}\n", c.text(40, BASE62 + "+/")),
    "AWS session": lambda c: _in('"SecretAccessKey": "{}"', c.text(40, BASE62 + "+/")),
    "Azure account": lambda c: _in("AccountName=a;AccountKey={};EndpointSuffix=core.windows.net\n", c.base64(64)),
    "Azure bus": lambda c: _in("Endpoint=sb://b/;SharedAccessKeyName=x;SharedAccessKey={}\n", c.base64(32)),
    "Azure SAS": lambda c: _in("https://a.blob.core.windows.net/c?sv=2024-01-01&sig={}&se=2026\n", c.text(43) + "%3D"),
    "AWS presigned": lambda c: _in("https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature={}\n", c.hex(64)),
    ".npmrc": lambda c: _in("//registry.example.org/:_authToken={}\n", c.uuid()),
    ".npmrc auth": lambda c: _in("//npm.example.org/:_auth={}\n", c.base64(27)),
    "Basic": lambda c: _in("Authorization: Basic {}\n", _basic(c)),
    "opaque bearer": lambda c: _in("authorization: bearer {}\n", c.text(40)),
    "Django": lambda c: _in("SECRET_KEY = '{}'\n", c.text(50, BASE62 + "!@^&*-_+=")),
    "Rails": lambda c: _in("SECRET_KEY_BASE={}\n", c.hex(128)),
    "client secret": lambda c: _in('"client_secret": "{}",\n', c.text(32)),
    "Heroku": lambda c: _in("HEROKU_API_KEY={}\n", c.uuid()),
    "Datadog": lambda c: _in("DD_API_KEY={}\n", c.hex(32)),
    "cookie": lambda c: _in("Set-Cookie: sessionid={}; Path=/; HttpOnly\n", c.text(32).lower()),
    "Docker config": lambda c: _in('{{"auths": {{"r.example.org": {{"auth": "{}"}}}}}}\n', c.base64(30)),
    "encryption key": lambda c: _in("encryption_key: {}\n", c.base64(32)),
    "Fernet": lambda c: _in("FERNET_KEY={}\n", c.base64(32)),
    "shadow": lambda c: _in("root:{}:19000:0:99999:7:::\n", "$6$" + c.text(16) + "$" + c.text(86)),
    "bcrypt": lambda c: _in("ada | {} | t\n", "$2b$12$" + c.text(53)),
    "PEM": lambda c: _of_pem(c.pem()),
    "PEM in JSON": lambda c: _of_pem(c.pem(""), as_json=True),
}


def leaked_outputs(seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield outputs with the credential that stands in each: (what it is, output, credential)."""
    chance = Chance(seed)
    for issuer, make in FORMATS.items():
        for situation, put in SITUATIONS.items():
            secret = make(chance)
            yield f"{issuer} in {situation}", put(chance, secret), secret
    for name, put in (*_NAMED.items(), *_SAID.items()):
        for _ in range(6):
            secret = chance.password()
            yield name, put(chance, secret), secret
    for name, (output, secret) in _PLAIN_KEYS.items():
        yield name, output, secret
    for name, make_whole in _NAMED_RANDOM.items():
        for _ in range(4):
            output, secret = make_whole(chance)
            yield name, output, secret


def _in(output: str, secret: str) -> tuple[str, str]:
    return output.format(secret), secret


def _basic(chance: Chance) -> str:
    return base64.b64encode(f"ada:{chance.password()}".encode()).decode()


def _of_pem(pem: str, *, as_json: bool = False) -> tuple[str, str]:
    line = pem.split("\n")[3]
    if not as_json:
        return pem, line
    escaped = pem.replace("\n", "\\n")
    return f'{{"type": "service_account", "private_key": "{escaped}", "client_id": "1"}}', line
