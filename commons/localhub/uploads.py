"""What the local Hub takes before a commit: checks, and large files."""

from __future__ import annotations

import hmac
import re
import secrets
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crucible.commons.localhub.names import is_sha256
from crucible.commons.localhub.repos import HubRequestError, Repo

__all__ = ["is_given_address", "lfs_batch", "lfs_object", "preupload", "validate_yaml"]

MAX_REGULAR_BYTES = 10 * 1024 * 1024
MAX_OBJECT_BYTES = 50 * 1024**3
PART_BYTES = 64 * 1024 * 1024
_SECRET = secrets.token_bytes(32)
_LARGE = re.compile(r"\.(parquet|arrow|bin|gz|zip|zst|png|jpg|safetensors|pt)$")


async def validate_yaml(request: Request) -> Response:
    """Whether the YAML at the top of a card can be read."""
    content = str((await request.json()).get("content", ""))
    match = re.match(r"---\r?\n(.*?)\r?\n---", content, re.DOTALL)
    try:
        loaded = yaml.safe_load(match[1]) if match else {}
    except yaml.YAMLError as error:
        errors = [{"message": str(error)}]
        return JSONResponse({"errors": errors, "warnings": []}, status_code=400)
    if not isinstance(loaded, dict):
        errors = [{"message": "the YAML is not a mapping"}]
        return JSONResponse({"errors": errors, "warnings": []}, status_code=400)
    return JSONResponse({"errors": [], "warnings": []})


async def preupload(request: Request, repo: Repo, revision: str) -> Response:
    """Which files go in whole and which as large files, and what is there already."""
    files = repo.files(repo.resolve(revision))
    answers = []
    for wanted in (await request.json())["files"]:
        path, size = str(wanted["path"]), int(wanted["size"])
        large = size > MAX_REGULAR_BYTES or _LARGE.search(path.lower()) is not None
        answer: dict[str, Any] = {
            "path": path,
            "uploadMode": "lfs" if large else "regular",
            "shouldIgnore": False,
        }
        entry = files.get(path)
        if entry is not None and not entry.is_folder:
            answer["oid"] = entry.lfs.oid if entry.lfs else entry.oid
        answers.append(answer)
    return JSONResponse({"files": answers})


async def lfs_batch(request: Request, repo: Repo) -> Response:
    """Where to send each large file; nothing to do for those that are here (Git LFS batch API)."""
    body = await request.json()
    multipart = "multipart" in body.get("transfers", [])
    objects, transfer = [], "basic"
    for wanted in body["objects"]:
        oid, size = str(wanted["oid"]), int(wanted["size"])
        if not is_sha256(oid) or not 0 <= size <= MAX_OBJECT_BYTES:
            raise HubRequestError(422, f"object {oid:.80} of {size} bytes is not acceptable")
        answer: dict[str, Any] = {"oid": oid, "size": size}
        if not repo.lfs.has(oid, size):
            url = f"{request.base_url}lfs/{repo.id}/{oid}"
            key = f"?key={_address_key(repo, oid)}"
            upload: dict[str, Any] = {"href": f"{url}{key}"}
            if multipart and size > PART_BYTES:
                transfer = "multipart"
                count = -(-size // PART_BYTES)
                parts = {f"{n:05d}": f"{url}/part/{n}{key}" for n in range(1, count + 1)}
                header = {"chunk_size": str(PART_BYTES), **parts}
                upload = {"href": f"{url}{key}", "header": header}
            answer["actions"] = {"upload": upload, "verify": {"href": f"{url}/verify{key}"}}
        objects.append(answer)
    return JSONResponse({"transfer": transfer, "objects": objects})


def is_given_address(request: Request, repo: Repo, oid: str) -> bool:
    """Whether the request's address is one that :func:`lfs_batch` gave for this object."""
    given = request.query_params.get("key", "")
    return hmac.compare_digest(given.encode(), _address_key(repo, oid).encode())


def _address_key(repo: Repo, oid: str) -> str:
    return hmac.new(_SECRET, f"{repo.id}:{oid}".encode(), "sha256").hexdigest()


async def lfs_object(request: Request, repo: Repo, place: list[str]) -> Response:
    """Receive a large file, whole or in parts, and say whether it is here."""
    match (request.method, *place):
        case ("PUT", oid):
            await repo.lfs.receive(oid, request.stream(), max_bytes=MAX_OBJECT_BYTES)
            return Response(status_code=200)
        case ("PUT", oid, "part", number) if number.isdigit():
            with repo.lfs.part(oid, int(number)).open("wb") as file:
                async for chunk in request.stream():
                    if file.tell() + len(chunk) > PART_BYTES:
                        raise HubRequestError(413, f"part {number}: more than {PART_BYTES} bytes")
                    file.write(chunk)
            return Response(status_code=200, headers={"ETag": f'"{number}"'})
        case ("POST", oid):
            parts = (await request.json())["parts"]
            numbers = [int(part["partNumber"]) for part in parts]
            await repo.lfs.assemble(oid, numbers, max_bytes=MAX_OBJECT_BYTES)
            return JSONResponse({})
        case ("POST", oid, "verify"):
            size = int((await request.json())["size"])
            if not repo.lfs.has(oid, size):
                raise HubRequestError(404, f"object {oid} is not here")
            return JSONResponse({})
    raise HubRequestError(404, f"{request.method} {request.url.path} is not served here")
