"""Translation of S3 errors into user errors with a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError

from clew.errors import ClewError
from clew.home import BucketUrl

_NO_BUCKET: Final = "NoSuchBucket"
_S3_NAME: Final = re.compile(r"\bS3\b|\bAWS\b")
_CREDENTIAL_VARIABLES: Final = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is one, AWS_SESSION_TOKEN"


class _Cause(NamedTuple):
    """A pattern in the error text of the store, with the message and hint for it."""

    pattern: str
    reason: str
    hint: str


# The first match is used.
_CAUSES: Final = (
    _Cause(_NO_BUCKET, "the bucket does not exist", "Create the bucket, or pass another with --lake."),
    _Cause(
        r"169\.254\.169\.254|CredentialsNotLoaded|token request|NoCredentials",
        "no credentials were found",
        f"Set {_CREDENTIAL_VARIABLES}; `aws configure export-credentials --format env` prints those of a profile.",
    ),
    _Cause(
        "InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|InvalidClientTokenId",
        "the credentials were rejected",
        f"Set {_CREDENTIAL_VARIABLES} again.",
    ),
    _Cause(
        r"AccessDenied|AllAccessDisabled|\b403\b|\b401\b|PermissionDenied|Unauthenticated",
        "access was denied",
        "Required: s3:ListBucket on the bucket; s3:GetObject, s3:PutObject and s3:DeleteObject on its objects.",
    ),
    _Cause(
        "BadScheme|URL scheme is not allowed",
        "its endpoint uses http, which is not allowed",
        "Set AWS_ALLOW_HTTP=true if the network is trusted, or set AWS_ENDPOINT_URL to an https endpoint.",
    ),
    _Cause(
        r"\b301\b|PermanentRedirect|AuthorizationHeaderMalformed|IncorrectEndpoint",
        "the bucket is in another region",
        "Set AWS_REGION to the region of the bucket.",
    ),
    _Cause(
        r"NotImplemented|\b501\b",
        "the object store does not support conditional puts",
        "Commits and the lock need If-None-Match. Use a store that supports it, or a local folder.",
    ),
    _Cause(
        r"Connect|connect|dns|resolve|timed out|Timeout|HTTP error|NETWORK_CONNECTION|\b50[0234]\b",
        "the object store cannot be reached",
        "Check the network connection and, if set, AWS_ENDPOINT_URL.",
    ),
)


@contextmanager
def translate_s3_errors(url: BucketUrl) -> Iterator[None]:
    """Raise errors of S3 as ClewError with a hint; results of conditional requests pass unchanged."""
    try:
        yield
    except Exception as error:
        if not _is_s3_error(error):
            raise
        raise _user_error(url, str(error)) from error


@contextmanager
def ignore_not_found() -> Iterator[None]:
    """Ignore a missing object, but not a missing bucket."""
    try:
        yield
    except (FileNotFoundError, NotFoundError) as error:
        if _NO_BUCKET in str(error):
            raise


def _is_s3_error(error: Exception) -> bool:
    """Return whether this is an error of S3, and not the expected result of a conditional request or a get."""
    # Imported lazily: most requests do not need deltalake.
    from deltalake.exceptions import DeltaError, TableNotFoundError

    if isinstance(error, NotFoundError | FileNotFoundError):
        return _NO_BUCKET in str(error)
    if isinstance(error, AlreadyExistsError | PreconditionError | TableNotFoundError):
        return False
    # pyarrow and deltalake raise the same types for local files.
    return isinstance(error, BaseError) or (
        isinstance(error, OSError | DeltaError) and bool(_S3_NAME.search(str(error)))
    )


def _user_error(url: BucketUrl, text: str) -> ClewError:
    for cause in _CAUSES:
        if re.search(cause.pattern, text):
            return ClewError(f"The lake {url} cannot be used: {cause.reason}.", hint=cause.hint)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = lines[0][:300].rstrip(".") if lines else "the store gave no reason"
    return ClewError(f"The lake {url} cannot be used: {reason}.", hint="Fix the cause and run the command again.")
