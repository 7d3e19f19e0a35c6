"""What the local Hub gives: information, listings and files."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, quote

import yaml
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from crucible.commons.localhub.repos import FileEntry, HubRequestError, Repo

__all__ = ["commits", "paths_info", "refs", "repo_info", "resolve", "tree"]

PAGE_ENTRIES = 1000
_FRONT_MATTER = re.compile(rb"---\r?\n(.*?)\r?\n---", re.DOTALL)


def repo_info(repo: Repo, revision: str) -> Response:
    """What ``dataset_info`` shows."""
    commit = repo.resolve(revision)
    files = repo.files(commit)
    card = _card_data(repo, files)
    tags = card.get("tags", [])
    return JSONResponse(
        {
            "_id": commit[:24],
            "id": repo.id,
            "author": repo.id.partition("/")[0],
            "sha": commit,
            "lastModified": _iso_time(repo.history(commit)[0].time),
            "createdAt": _iso_time(repo.created),
            "private": repo.private,
            "gated": False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": tags if isinstance(tags, list) else [],
            "cardData": card,
            "siblings": [{"rfilename": f.path} for f in files.values() if not f.is_folder],
        }
    )


def tree(request: Request, repo: Repo, place: list[str]) -> Response:
    """What ``list_repo_tree`` shows: the entries below a folder, a page at a time."""
    revision, folder = place
    commit = repo.resolve(revision)
    files = repo.files(commit)
    if folder and not (folder in files and files[folder].is_folder):
        raise _no_entry(folder)
    prefix = f"{folder}/" if folder else ""
    below = [entry for path, entry in files.items() if path.startswith(prefix)]
    if request.query_params.get("recursive", "false").lower() not in ("true", "1"):
        below = [entry for entry in below if "/" not in entry.path[len(prefix) :]]
    start = int(request.query_params.get("cursor", "0"))
    headers = {}
    if start + PAGE_ENTRIES < len(below):
        following = request.url.include_query_params(cursor=start + PAGE_ENTRIES)
        headers["Link"] = f'<{following}>; rel="next"'
    page = below[start : start + PAGE_ENTRIES]
    return JSONResponse([_entry(entry) for entry in page], headers=headers)


async def paths_info(request: Request, repo: Repo, revision: str) -> Response:
    """What ``get_paths_info`` shows; paths that are not there are left out."""
    form = parse_qs((await request.body()).decode())
    files = repo.files(repo.resolve(revision))
    found = [files[path.rstrip("/")] for path in form.get("paths", []) if path.rstrip("/") in files]
    return JSONResponse([_entry(entry) for entry in found])


def refs(repo: Repo) -> Response:
    """What ``list_repo_refs`` shows."""

    def listed(kind: str) -> list[dict[str, str]]:
        return [
            {"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": commit}
            for name, commit in repo.refs(kind).items()
        ]

    return JSONResponse({"branches": listed("heads"), "tags": listed("tags"), "converts": []})


def commits(request: Request, repo: Repo, revision: str) -> Response:
    """What ``list_repo_commits`` shows, newest first."""
    history = repo.history(repo.resolve(revision))
    return JSONResponse(
        [
            {
                "id": entry.oid,
                "title": entry.message.partition("\n")[0],
                "message": entry.message.partition("\n")[2].strip(),
                "authors": [{"user": "local"}],
                "date": _iso_time(entry.time),
            }
            for entry in history
        ]
    )


def resolve(request: Request, repo: Repo, place: list[str]) -> Response:
    """A file at a revision, whole or in part; HEAD gives its digest, size and commit."""
    revision, path = place
    commit = repo.resolve(revision)
    entry = repo.files(commit).get(path)
    headers = {"X-Repo-Commit": commit, "Access-Control-Expose-Headers": "*"}
    if entry is None or entry.is_folder:
        missing = _no_entry(path)
        return JSONResponse(
            {"error": missing.message},
            status_code=404,
            headers={
                **headers,
                "X-Error-Code": "EntryNotFound",
                "X-Error-Message": "Entry not found",
            },
        )
    etag = entry.lfs.oid if entry.lfs else entry.oid
    headers |= {"ETag": f'"{etag}"', "X-Linked-Etag": f'"{etag}"'}
    headers["X-Linked-Size"] = str(entry.size)
    headers["Content-Disposition"] = f"inline; filename*=UTF-8''{quote(path.rpartition('/')[2])}"
    if entry.lfs is not None:
        return FileResponse(repo.lfs.path(entry.lfs.oid), headers=headers)
    return _bytes_response(request, repo.read(entry), headers)


def _bytes_response(request: Request, data: bytes, headers: dict[str, str]) -> Response:
    headers["Accept-Ranges"] = "bytes"
    media_type = "application/octet-stream"
    wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
    if wanted is None or not (wanted[1] or wanted[2]):
        return Response(data, headers=headers, media_type=media_type)
    if wanted[1]:
        start, stop = int(wanted[1]), min(int(wanted[2] or len(data) - 1), len(data) - 1)
    else:
        start, stop = max(0, len(data) - int(wanted[2])), len(data) - 1
    if start > stop:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {start}-{stop}/{len(data)}"
    part = data[start : stop + 1]
    return Response(part, status_code=206, headers=headers, media_type=media_type)


def _entry(entry: FileEntry) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "type": "directory" if entry.is_folder else "file",
        "oid": entry.oid,
        "size": entry.size,
        "path": entry.path,
    }
    if entry.lfs is not None:
        pointer_size = len(entry.lfs.to_bytes())
        shown["lfs"] = {"oid": entry.lfs.oid, "size": entry.size, "pointerSize": pointer_size}
    return shown


def _card_data(repo: Repo, files: dict[str, FileEntry]) -> dict[str, Any]:
    readme = files.get("README.md")
    if readme is None or readme.lfs is not None:
        return {}
    match = _FRONT_MATTER.match(repo.read(readme))
    try:
        loaded = yaml.safe_load(match[1]) if match else {}
    except yaml.YAMLError:
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _no_entry(path: str) -> HubRequestError:
    return HubRequestError(404, f"{path} does not exist", "EntryNotFound")


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
