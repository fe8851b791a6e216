"""What may be wrong with a bucket, each in a sentence with a way out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError

from clew.errors import ClewError
from clew.home import BucketUrl

_NO_BUCKET: Final = "NoSuchBucket"
_OF_STORE: Final = re.compile(r"\bS3\b|\bAWS\b")
_KEYS: Final = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is one, AWS_SESSION_TOKEN"


class _Cause(NamedTuple):
    """What a store's own words show, and what to say then."""

    words: str
    sentence: str
    hint: str


# The first that fits.
_CAUSES: Final = (
    _Cause(_NO_BUCKET, "there is no bucket of that name", "Make it first, or name another with --lake."),
    _Cause(
        r"169\.254\.169\.254|CredentialsNotLoaded|token request|NoCredentials",
        "there are no keys to it",
        f"Set {_KEYS}; `aws configure export-credentials --format env` prints those of a profile.",
    ),
    _Cause(
        "InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|InvalidClientTokenId",
        "its keys are not accepted",
        f"Set {_KEYS} anew.",
    ),
    _Cause(
        r"AccessDenied|AllAccessDisabled|\b403\b|\b401\b|PermissionDenied|Unauthenticated",
        "that is not permitted",
        "Ask for s3:ListBucket of the bucket, and for s3:GetObject, s3:PutObject and s3:DeleteObject of what is below.",
    ),
    _Cause(
        "BadScheme|URL scheme is not allowed",
        "its endpoint is http, which is not allowed",
        "Set AWS_ALLOW_HTTP=true if the way to it is safe, or name an endpoint of https in AWS_ENDPOINT_URL.",
    ),
    _Cause(
        r"\b301\b|PermanentRedirect|AuthorizationHeaderMalformed|IncorrectEndpoint",
        "it is in another region",
        "Name the bucket's region in AWS_REGION.",
    ),
    _Cause(
        r"NotImplemented|\b501\b",
        "its store cannot put an object only if there is none",
        "Commits and the lock need that (If-None-Match). Use a store that has it, or a folder.",
    ),
    _Cause(
        r"Connect|connect|dns|resolve|timed out|Timeout|HTTP error|NETWORK_CONNECTION|\b50[0234]\b",
        "it cannot be reached",
        "Is the network up, and AWS_ENDPOINT_URL right, if it is set?",
    ),
)


@contextmanager
def told_of_bucket(url: BucketUrl) -> Iterator[None]:
    """Turn what a store, or an engine on it, says of a bucket into a sentence; what a caller asks about passes."""
    try:
        yield
    except Exception as fault:
        if not _is_of_store(fault):
            raise
        raise _told(url, str(fault)) from fault


@contextmanager
def suppress_absence() -> Iterator[None]:
    """Let it pass that there is no such object, but not that there is no such bucket."""
    try:
        yield
    except (FileNotFoundError, NotFoundError) as fault:
        if _NO_BUCKET in str(fault):
            raise


def _is_of_store(fault: Exception) -> bool:
    """Whether it is a fault of the store, and none of the answers that a condition or a look may get."""
    # Here, and not above: most looks at a bucket need no table.
    from deltalake.exceptions import DeltaError, TableNotFoundError

    if isinstance(fault, NotFoundError | FileNotFoundError):
        return _NO_BUCKET in str(fault)
    if isinstance(fault, AlreadyExistsError | PreconditionError | TableNotFoundError):
        return False
    # Engines give the same error for files of this machine.
    return isinstance(fault, BaseError) or (
        isinstance(fault, OSError | DeltaError) and bool(_OF_STORE.search(str(fault)))
    )


def _told(url: BucketUrl, text: str) -> ClewError:
    for cause in _CAUSES:
        if re.search(cause.words, text):
            return ClewError(f"The lake {url} cannot be used: {cause.sentence}.", hint=cause.hint)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[0][:300].rstrip(".") if lines else "the store does not say why"
    return ClewError(f"The lake {url} cannot be used: {said}.", hint="Mend the cause and run it again.")
