"""The stock Hub client, and every way in which it fails as one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crucible.errors import CrucibleError, HubError, UsageError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

__all__ = ["check_repo_id", "hub_api", "hub_errors", "is_stale_parent"]

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def check_repo_id(repo_id: str) -> None:
    """Nothing, if ``repo_id`` is ``namespace/name``.

    Raises:
        UsageError: if it is not.
    """
    if not _REPO_ID.fullmatch(repo_id) or "--" in repo_id or ".." in repo_id:
        raise UsageError(f"repo id: expected namespace/name, found {repo_id!r:.120}")


def hub_api() -> HfApi:
    """The client for ``HF_ENDPOINT``, or for the Hub."""
    from huggingface_hub import HfApi

    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)


@contextmanager
def hub_errors(what: str) -> Iterator[None]:
    """Turn whatever the client raises in the block into one sentence that begins with ``what``.

    Raises:
        HubError: for every failure of the Hub, the client or the network.
    """
    from huggingface_hub import errors, utils

    # httpx or httpx2, whichever the installed client is built on.
    transport_error: type[Exception] = getattr(utils, "httpx").HTTPError  # noqa: B009

    try:
        yield
    except CrucibleError:
        raise
    except errors.GatedRepoError as error:
        raise HubError(f"{what}: access is gated: ask for it on the dataset's page") from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(f"{what}: no such dataset, or no right to see it (hf auth login)") from error
    except errors.RevisionNotFoundError as error:
        raise HubError(f"{what}: no such branch, tag or commit") from error
    except errors.EntryNotFoundError as error:
        raise HubError(f"{what}: the file is not in that revision") from error
    except errors.HFValidationError as error:
        raise HubError(f"{what}: the Hub does not allow that name: {error}") from error
    except (errors.OfflineModeIsEnabled, errors.LocalTokenNotFoundError) as error:
        raise HubError(f"{what}: {_first_line(error)}") from error
    except errors.HfHubHTTPError as error:
        raise HubError(f"{what}: {_status_sentence(error)}") from error
    except (transport_error, OSError) as error:
        raise HubError(f"{what}: the Hub cannot be reached: {_first_line(error)}") from error


def is_stale_parent(error: BaseException | None) -> bool:
    """Whether a commit failed because another one came first."""
    return _status_of(error) == 412


def _status_of(error: BaseException | None) -> int | None:
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


_SENTENCES = {
    401: "the token is missing or not valid (hf auth login)",
    403: "the token may not do that: it needs write permission",
    409: "it exists already",
    412: "somebody else committed first: try again",
    413: "it is larger than the Hub takes",
    429: "the Hub's rate limit is reached: try again in some minutes",
}


def _status_sentence(error: BaseException) -> str:
    status = _status_of(error)
    if status in _SENTENCES:
        return _SENTENCES[status]
    if status is not None and status >= 500:
        return f"the Hub failed with status {status}: try again"
    message = getattr(error, "server_message", None) or _first_line(error)
    return f"the Hub refused with status {status}: {message}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
