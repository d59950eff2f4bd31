"""A hub for tests: serves folders as models, by the API that huggingface_hub's snapshot_download uses.

Files of more than 4 KiB are those of Git LFS, on the address of another server, to which /resolve/ redirects.
"""
import hashlib
import http.server
import json
import pathlib
import re
import threading
import urllib.parse


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub:
    """`models`: {"org/name": folder}. `requests` has (method, path, headers) of each request, by server."""

    def __init__(self, models, token=None):
        self.token = token
        self.models = {}
        for name, folder in models.items():
            files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}
            commit = hashlib.sha1(repr(sorted(files)).encode()).hexdigest()
            self.models[name] = (commit, files)
        self.blobs = {hashlib.sha256(content).hexdigest(): content for _, files in self.models.values() for content in files.values()}
        self.requests = {"hub": [], "storage": []}
        self.storage = self._serve("storage", self._storage)
        self.hub = self._serve("hub", self._hub)

    def url(self):
        return f"http://127.0.0.1:{self.hub.server_port}"

    def close(self):
        for server in (self.hub, self.storage):
            server.shutdown()
            server.server_close()

    def _serve(self, name, answer):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_request(self):
                hub.requests[name].append((self.command, self.path, dict(self.headers)))
                status, headers, body = answer(self)
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_HEAD = handle_request

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    @staticmethod
    def _content(request, content, headers):
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        if not asked:
            return 200, headers, content
        first = int(asked[1])
        return 206, {**headers, "Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"}, content[first:]

    def _storage(self, request):
        content = self.blobs.get(request.path.rsplit("/", 1)[-1])
        return self._content(request, content, {}) if content is not None else (404, {}, b"")

    def _hub(self, request):
        path = urllib.parse.unquote(urllib.parse.urlsplit(request.path).path)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}, b""
        for name, (commit, files) in self.models.items():
            api = f"/api/models/{name}"
            if path.startswith(api + "/revision/"):
                if path.rsplit("/", 1)[-1] not in ("main", commit):
                    return 404, {"X-Error-Code": "RevisionNotFound"}, b""
                siblings = [{"rfilename": file} for file in files]
                return self._json({"id": name, "modelId": name, "sha": commit, "private": False, "tags": [], "downloads": 0,
                                   "likes": 0, "siblings": siblings})
            if path == f"{api}/tree/{commit}":
                return self._json([self._entry(file, content) for file, content in files.items()])
            resolve = f"/{name}/resolve/"
            if path.startswith(resolve):
                revision, file = path[len(resolve):].split("/", 1)
                if revision not in ("main", commit) or file not in files:
                    return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b""
                content, entry = files[file], self._entry(file, files[file])
                if "lfs" not in entry:
                    return self._content(request, content, {"ETag": f'"{entry["oid"]}"', "X-Repo-Commit": commit})
                location = f"http://127.0.0.1:{self.storage.server_port}/{entry['lfs']['oid']}"
                return 302, {"Location": location, "X-Linked-ETag": f'"{entry["lfs"]["oid"]}"', "X-Linked-Size": str(len(content)),
                             "X-Repo-Commit": commit}, b""
        return 404, {"X-Error-Code": "RepoNotFound"}, b""

    @staticmethod
    def _entry(file, content):
        entry = {"type": "file", "path": file, "size": len(content), "oid": git_sha1(content)}
        if len(content) > 4096:
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return entry

    @staticmethod
    def _json(value):
        return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()
