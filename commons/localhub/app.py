"""The Hub's HTTP protocol over local repositories, for the stock clients.

What is served is what ``huggingface_hub`` and ``datasets`` ask for; the shapes follow their source.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crucible.commons.localhub import commits, downloads, uploads
from crucible.commons.localhub.names import is_sha256
from crucible.commons.localhub.repos import HubRequestError, Repo, RepoStore
from crucible.errors import IntegrityError

__all__ = ["make_app"]

_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE"]


def make_app(folder: Path, *, token: str | None = None) -> Starlette:
    """The application that serves the repositories below ``folder``.

    With a ``token``, private repositories and every change need it; without one, whoever reaches
    the server owns it.
    """
    hub = _Hub(RepoStore(folder), token)
    return Starlette(routes=[Route("/{path:path}", hub.serve, methods=_METHODS)])


class _Hub:
    def __init__(self, store: RepoStore, token: str | None) -> None:
        self._store, self._token = store, token

    async def serve(self, request: Request) -> Response:
        """Answer one request; every failure in the shape that the clients understand."""
        try:
            return await self._route(request)
        except HubRequestError as error:
            return _failure(error.status, error.message, error.code)
        except IntegrityError as error:
            return _failure(400, str(error), None)

    async def _route(self, request: Request) -> Response:
        # Revisions arrive with encoded slashes, so the path is split before it is decoded.
        raw: bytes = request.scope["raw_path"]
        parts = [unquote(part) for part in raw.decode("ascii").split("?")[0].split("/")[1:]]
        match (request.method, *parts):
            case ("GET", "api", "whoami-v2"):
                return self._whoami(request)
            case ("POST", "api", "repos", "create"):
                return await self._create(request)
            case ("DELETE", "api", "repos", "delete"):
                return await self._delete(request)
            case ("POST", "api", "validate-yaml"):
                return await uploads.validate_yaml(request)
            case (_, "api", "datasets", namespace, name, *rest):
                return await self._dataset(request, self._repo(request, namespace, name), rest)
            case (_, "datasets", namespace, name, "resolve", revision, *path):
                repo = self._repo(request, namespace, name)
                return downloads.resolve(request, repo, [revision, "/".join(path)])
            case ("POST", "datasets", namespace, name, "info", "lfs", "objects", "batch"):
                repo = self._repo(request, namespace, name.removesuffix(".git"))
                return await uploads.lfs_batch(request, repo)
            case (_, "lfs", namespace, name, oid, *rest) if is_sha256(oid):
                # The clients send no token here: the address itself was given to its owner.
                repo = self._store.get(namespace, name)
                if not uploads.is_given_address(request, repo, oid):
                    raise HubRequestError(403, "this address was not given by this Hub")
                return await uploads.lfs_object(request, repo, [oid, *rest])
        raise HubRequestError(404, f"{request.method} {request.url.path} is not served here")

    async def _dataset(self, request: Request, repo: Repo, rest: list[str]) -> Response:
        match (request.method, *rest):
            case ("GET",):
                return downloads.repo_info(repo, "main")
            case ("GET", "revision", revision):
                return downloads.repo_info(repo, revision)
            case ("GET", "tree", revision, *path):
                return downloads.tree(request, repo, [revision, "/".join(path)])
            case ("POST", "paths-info", revision):
                return await downloads.paths_info(request, repo, revision)
            case ("GET", "refs"):
                return downloads.refs(repo)
            case ("GET", "commits", revision):
                return downloads.commits(request, repo, revision)
            case ("POST", "preupload", revision):
                return await uploads.preupload(request, repo, revision)
            case ("POST", "commit", revision):
                return await commits.commit(request, repo, revision)
            case ("POST", "tag", revision):
                body = await request.json()
                repo.set_ref("tags", str(body["tag"]), repo.resolve(revision))
                return JSONResponse({})
            case ("POST", "branch", branch):
                body = await request.json()
                start = repo.resolve(str(body.get("startingPoint") or "main"))
                repo.set_ref("heads", branch, start)
                return JSONResponse({})
            case ("DELETE", "tag", name):
                repo.delete_ref("tags", name)
                return Response(status_code=204)
            case ("DELETE", "branch", name):
                repo.delete_ref("heads", name)
                return Response(status_code=204)
        raise HubRequestError(404, f"{request.method} {request.url.path} is not served here")

    def _may(self, request: Request) -> bool:
        """The one place where it is decided whether a request has its owner's rights."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self._token is None or given == self._token

    def _repo(self, request: Request, namespace: str, name: str) -> Repo:
        repo = self._store.get(namespace, name)
        if self._may(request):
            return repo
        if repo.private:
            raise HubRequestError(401, "Repository not found", "RepoNotFound")
        reads = request.method in ("GET", "HEAD") or request.url.path.count("/paths-info/")
        if not reads:
            raise HubRequestError(403, "This token may not write here")
        return repo

    def _whoami(self, request: Request) -> Response:
        if not self._may(request):
            raise HubRequestError(401, "Invalid user token.")
        access = {"displayName": "local", "role": "write"}
        user = {"type": "user", "name": "local", "fullname": "Local user", "orgs": []}
        return JSONResponse({**user, "auth": {"type": "access_token", "accessToken": access}})

    async def _create(self, request: Request) -> Response:
        namespace, name, body = await self._named(request)
        private = body.get("visibility") == "private" or body.get("private") is True
        repo_id = f"{namespace}/{name}"
        answer = {"url": f"{request.base_url}datasets/{repo_id}", "name": repo_id, "id": repo_id}
        try:
            self._store.create(namespace, name, private=private)
        except HubRequestError as error:
            if error.status != 409:
                raise
            # The client reads the address from this answer where it accepts that a repo exists.
            return JSONResponse({**answer, "error": error.message}, status_code=409)
        return JSONResponse(answer)

    async def _delete(self, request: Request) -> Response:
        namespace, name, _ = await self._named(request)
        self._store.delete(namespace, name)
        return Response(status_code=200)

    async def _named(self, request: Request) -> tuple[str, str, dict[str, Any]]:
        if not self._may(request):
            raise HubRequestError(401, "Invalid user token.")
        body: dict[str, Any] = await request.json()
        if body.get("type", "model") != "dataset":
            raise HubRequestError(400, "this Hub holds dataset repositories only")
        name = str(body.get("name", ""))
        namespace, _, short = name.rpartition("/")
        return namespace or str(body.get("organization") or "local"), short, body


def _failure(status: int, message: str, code: str | None) -> Response:
    headers = {"X-Error-Message": message.encode("ascii", "replace").decode()}
    if code is not None:
        headers["X-Error-Code"] = code
    return JSONResponse({"error": message}, status_code=status, headers=headers)
