"""A study's report on the loopback address, built anew while its runs go on."""

import contextlib
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tfbaselines.errors import UsageError, bad_argument
from tfbaselines.report import NAME, build
from tfbaselines.study.status import text
from tfbaselines.study.store import Study

# This machine alone can reach it: other users of the network cannot.
ADDRESS = "127.0.0.1"
HOSTS = ("localhost", ADDRESS)
# Seconds between two loads of an open page.
REFRESH = 10.0
# A report is served for this many times the seconds that it took to build.
SHARE = 5


class Page:
    """The report of a study, built on request; building takes at most 1 / (1 + SHARE) of the time."""

    def __init__(self, study: Study, directory: str) -> None:
        self._study = study
        self._path = Path(directory, NAME)
        self._content = b""
        self._until = 0.0
        self._lock = threading.Lock()

    def content(self) -> bytes:
        """Return the page."""
        with self._lock:
            if time.monotonic() >= self._until:
                began = time.monotonic()
                title = self._study.directory.resolve().name
                build([self._study.directory], self._path, title, refresh=REFRESH)
                self._content = self._path.read_bytes()
                self._until = time.monotonic() + SHARE * (time.monotonic() - began)
            return self._content


def server(study: Study, directory: str, port: int = 0) -> ThreadingHTTPServer:
    """Make the server; `/` is the report, `/status` the state of the study as text.

    Args:
        study: the study.
        directory: place for the report's file.
        port: port on the loopback address; 0 for a free one.
    """
    page = Page(study, directory)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A page of another site must not read this one under a name that leads here.
            if self.headers.get("Host", "").rpartition(":")[0] not in HOSTS:
                self.send_error(403)
            elif self.path == "/":
                self._send(page.content(), "text/html")
            elif self.path == "/status":
                self._send(f"{text(study)}\n".encode(), "text/plain")
            else:
                self.send_error(404)

        def _send(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    if not 0 <= port < 2**16:
        raise bad_argument("port", port, "0 to 65535")
    try:
        return ThreadingHTTPServer((ADDRESS, port), Handler)
    except OSError as error:
        raise UsageError(f"--port={port} cannot be used: {(error.strerror or str(error)).lower()}") from None


def watch(study: Study, port: int = 0) -> None:
    """Serve the report until Ctrl-C."""
    with tempfile.TemporaryDirectory() as directory, server(study, directory, port) as served:
        print(
            f"http://{ADDRESS}:{served.server_address[1]}/ has the report, /status the state; Ctrl-C ends", flush=True
        )
        with contextlib.suppress(KeyboardInterrupt):
            served.serve_forever()
