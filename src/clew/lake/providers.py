"""Providers of object stores: S3, Google Cloud Storage and Azure. Settings come from their usual variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from obstore.store import AzureStore, GCSStore, S3Store

from clew.data_dir import BucketUrl

if TYPE_CHECKING:
    from pyarrow.fs import AzureFileSystem, FileSystem, GcsFileSystem, S3FileSystem

ObjectStore = S3Store | GCSStore | AzureStore

# Short outages are retried. The default (10 retries in 3 minutes) is too long when there is no network at all.
_MAX_RETRIES: Final = 6
_RETRY_TIMEOUT: Final = timedelta(seconds=60)
_CONNECT_TIMEOUT: Final = "5 seconds"
# Of the emulator Azurite.
_EMULATOR_ACCOUNT: Final = "devstoreaccount1"
_EMULATOR_URL: Final = "http://127.0.0.1:10000"


class Provider(NamedTuple):
    """How to open a bucket of a provider, and what messages about it say."""

    open_store: Callable[[BucketUrl], ObjectStore]
    open_filesystem: Callable[[BucketUrl], FileSystem]
    # Storage options of deltalake.
    delta_options: Mapping[str, str]
    # Texts of the hints of errors.
    terms: Mapping[str, str]


def find_provider(url: BucketUrl) -> Provider:
    """Return the provider of a bucket."""
    return _PROVIDERS[url.scheme]


@lru_cache
def open_bucket(url: BucketUrl) -> ObjectStore:
    """Open the bucket of a URL; keys are those of the bucket."""
    return find_provider(url).open_store(url)


@lru_cache
def open_filesystem(url: BucketUrl) -> FileSystem:
    """Open pyarrow's file system for the bucket of a URL."""
    return find_provider(url).open_filesystem(url)


def _client_options(allows_http: str) -> dict[str, Any]:
    # With client options, obstore ignores the variable that allows http.
    return {
        "client_options": {"allow_http": _env_flag(allows_http), "connect_timeout": _CONNECT_TIMEOUT},
        "retry_config": {"max_retries": _MAX_RETRIES, "retry_timeout": _RETRY_TIMEOUT},
    }


def _open_s3(url: BucketUrl) -> S3Store:
    return S3Store(url.bucket, **_client_options("AWS_ALLOW_HTTP"))


def _open_s3_filesystem(_: BucketUrl) -> S3FileSystem:
    from pyarrow.fs import S3FileSystem

    # pyarrow does not read all variables itself.
    endpoint = _env("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return S3FileSystem(
        region=_env("AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1",
        anonymous=_env_flag("AWS_SKIP_SIGNATURE"),
        **({"endpoint_override": endpoint} if endpoint else {}),
    )


def _open_gcs(url: BucketUrl) -> GCSStore:
    return GCSStore(url.bucket, **_client_options("GOOGLE_ALLOW_HTTP"))


def _open_gcs_filesystem(_: BucketUrl) -> GcsFileSystem:
    from pyarrow.fs import GcsFileSystem

    # Application default credentials, as for obstore and deltalake.
    return GcsFileSystem(anonymous=_env_flag("GOOGLE_SKIP_SIGNATURE"))


def _open_azure(url: BucketUrl) -> AzureStore:
    account: dict[str, Any] = {"account_name": url.account} if url.account else {}
    return AzureStore(url.bucket, **account, **_client_options("AZURE_ALLOW_HTTP"))


def _open_azure_filesystem(url: BucketUrl) -> AzureFileSystem:
    from pyarrow.fs import AzureFileSystem

    options: dict[str, str | None] = {
        "account_key": _env("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"),
        "sas_token": _env("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"),
        "client_id": _env("AZURE_CLIENT_ID", "AZURE_STORAGE_CLIENT_ID"),
        "client_secret": _env("AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET"),
        "tenant_id": _env("AZURE_TENANT_ID", "AZURE_STORAGE_TENANT_ID"),
    }
    account = url.account or _env("AZURE_STORAGE_ACCOUNT_NAME")
    if _env_flag("AZURE_STORAGE_USE_EMULATOR"):
        account = account or _EMULATOR_ACCOUNT
        scheme, _, host = (_env("AZURITE_BLOB_STORAGE_URL") or _EMULATOR_URL).partition("://")
        options |= {f"{kind}_storage_authority": host for kind in ("blob", "dfs")}
        options |= {f"{kind}_storage_scheme": scheme for kind in ("blob", "dfs")}
    return AzureFileSystem(account or "", **{name: value for name, value in options.items() if value})


def _env(*variables: str) -> str | None:
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


def _env_flag(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in {"1", "true", "yes", "on"}


_S3: Final = Provider(
    _open_s3,
    _open_s3_filesystem,
    # deltalake's default; explicit, so that the environment cannot change it: commits must not overwrite each other.
    {"aws_conditional_put": "etag"},
    {
        "credentials": "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if there is one, AWS_SESSION_TOKEN; `aws"
        " configure export-credentials --format env` prints those of a profile.",
        "permissions": "Required: s3:ListBucket on the bucket; s3:GetObject, s3:PutObject and s3:DeleteObject on its"
        " objects.",
        "http": "Set AWS_ALLOW_HTTP=true if the network is trusted, or set AWS_ENDPOINT_URL to an https endpoint.",
        "region": "Set AWS_REGION to the region of the bucket.",
        "endpoint": "Check the network connection and, if set, AWS_ENDPOINT_URL.",
    },
)
_GCS: Final = Provider(
    _open_gcs,
    _open_gcs_filesystem,
    {},
    {
        "credentials": "Set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account, or run `gcloud auth"
        " application-default login`.",
        "permissions": "Required: the role Storage Object User (roles/storage.objectUser) on the bucket.",
        "http": "Use https.",
        "region": "Check the name of the bucket.",
        "endpoint": "Check the network connection.",
    },
)
_AZURE: Final = Provider(
    _open_azure,
    _open_azure_filesystem,
    {},
    {
        "credentials": "Set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or"
        " AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID.",
        "permissions": "Check the account and its key or token. Required: the role Storage Blob Data Contributor on the"
        " container.",
        "http": "Set AZURE_ALLOW_HTTP=true if the network is trusted, or use https.",
        "region": "Check the name of the account.",
        "endpoint": "Check the network connection and AZURE_STORAGE_ACCOUNT_NAME.",
    },
)
_PROVIDERS: Final = {"s3": _S3, "gs": _GCS, "az": _AZURE, "abfss": _AZURE}
