"""Commits to the local Hub: one request, one commit, all or nothing."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crucible.commons.localhub.lfs import Pointer
from crucible.commons.localhub.names import is_file_path, is_sha256
from crucible.commons.localhub.repos import Change, HubRequestError, Repo

__all__ = ["commit"]

MAX_BODY_BYTES = 256 * 1024 * 1024


async def commit(request: Request, repo: Repo, revision: str) -> Response:
    """Apply the operations of a commit request (newline-delimited JSON) to a branch."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HubRequestError(413, f"a commit has at most {MAX_BODY_BYTES} bytes")
    header: dict[str, Any] = {}
    changes = []
    for line in bytes(body).splitlines():
        if not line.strip():
            continue
        key, value = _operation(line)
        if key == "header":
            header = value
        else:
            changes.append(_change(repo, key, value))
    summary = str(header.get("summary") or "Update")
    description = str(header.get("description") or "")
    oid = repo.commit(
        revision,
        changes,
        message=f"{summary}\n\n{description}".strip(),
        parent=header.get("parentCommit"),
    )
    url = f"{request.base_url}datasets/{repo.id}/commit/{oid}"
    return JSONResponse({"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""})


def _operation(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        operation = json.loads(line)
        return str(operation["key"]), dict(operation["value"])
    except (ValueError, KeyError, TypeError) as error:
        raise HubRequestError(400, f"an operation cannot be read: {error}") from None


def _change(repo: Repo, key: str, value: dict[str, Any]) -> Change:
    path = str(value.get("path", ""))
    if not is_file_path(path.rstrip("/")):
        raise HubRequestError(400, f"path {path!r:.80} is not acceptable")
    match key:
        case "file":
            try:
                content = base64.b64decode(str(value["content"]), validate=True)
            except (binascii.Error, KeyError) as error:
                raise HubRequestError(400, f"content of {path}: {error}") from None
            return Change(path, content)
        case "lfsFile":
            oid, size = str(value.get("oid", "")), int(value.get("size", -1))
            if not is_sha256(oid) or not repo.lfs.has(oid, size):
                raise HubRequestError(422, f"the large file of {path} was not uploaded")
            return Change(path, Pointer(oid, size).to_bytes())
        case "deletedFile" | "deletedFolder" | "deletedEntry":
            return Change(path.rstrip("/"), None)
    raise HubRequestError(400, f"operation {key!r:.40} is not known here")
