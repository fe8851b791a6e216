"""Tests of redaction of secrets in code and of values in types."""

from __future__ import annotations

import pytest

from clew.capture.emit.redaction import redact, redact_type


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("postgresql://ann:s3cret@db:5432/shop", "postgresql://ann:***@db:5432/shop"),
        ("create_engine('mysql+pymysql://u:p%40ss@h/d')", "create_engine('mysql+pymysql://u:***@h/d')"),
        ("password = 'hunter2'", "password = '***'"),
        ('connect(user="ann", password="hunter2", db=\'x\')', 'connect(user="ann", password="***", db=\'x\')'),
        ("os.environ['API_KEY'] = \"abc\"", "os.environ['API_KEY'] = \"***\""),
        ("{'token': 'abc'}", "{'token': '***'}"),
        ("key = 'AKIAABCDEFGHIJKLMNOP'", "key = '***'"),
        ("ghp_" + "a" * 36, "***"),
        ("redis://:s3cret@cache:6379/0", "redis://:***@cache:6379/0"),
        ("pd.read_csv('https://x.org/d.csv?token=abc&v=1')", "pd.read_csv('https://x.org/d.csv?token=***&v=1')"),
        ("'https://b.blob.org/d?sv=1&sig=a%2Fb'", "'https://b.blob.org/d?sv=1&sig=***'"),
        ('password = """two\nlines"""', 'password = """***"""'),
        ("password = 'it\\'s'", "password = '***'"),
        ("connect('host=db password=hunter2 dbname=x')", "connect('host=db password=*** dbname=x')"),
        ("'AccountName=a;AccountKey=b64==;Suffix=x'", "'AccountName=a;AccountKey=***;Suffix=x'"),
        ("{'h': 'Bearer abcdefgh12345678'}", "{'h': 'Bearer ***'}"),
        ("client_secret: str | None = 'abc'", "client_secret: str | None = '***'"),
        ("aws_secret = ('two '\n    'parts')", "aws_secret = ('***')"),
        ("passphrase='abc', PRIVATE_KEY = 'def'", "passphrase='***', PRIVATE_KEY = '***'"),
        ("pw = 'abc'; upwind = 'abc'", "pw = '***'; upwind = 'abc'"),
        ("f'postgresql://{user}:abc@h/d'", "f'postgresql://{user}:***@h/d'"),
        ("k = '-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----'", "k = '***'"),
    ],
)
def test_secrets_are_replaced(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "df['status'] == 'paid'",
        "https://example.org/data.csv",
        "tokens = df['text'].str.split(' ')",
        "author = 'Ann'",
        "s3://bucket/key.csv",
        "connect(user=user, password=password)",
        "password = getpass('Your password: ')",
        "key = 'id'; keys = ['a', 'b']",
        "out = df[df['token'] == 'x']",
        "https://example.org/data.csv?page=2",
    ],
)
def test_other_code_is_unchanged(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("type_text", "redacted"),
    [
        ("ENUM('Ann', 'it''s)')", "ENUM"),
        ("STRUCT(a ENUM('Ann'), b INTEGER)[]", "STRUCT(a ENUM, b INTEGER)[]"),
        ("""List(Enum(categories=["O'Neil", '])', 'a\\'b']))""", "List(Enum)"),
        ("Enum(categories=[])", "Enum"),
        ("Struct({'name': String})", "Struct({'name': String})"),
        ("datetime64[ns, Europe/Paris]", "datetime64[ns, Europe/Paris]"),
        ("category", "category"),
    ],
)
def test_redact_type_removes_values(type_text: str, redacted: str) -> None:
    assert redact_type(type_text) == redacted
