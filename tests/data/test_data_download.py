"""Fetching files from a server that may misbehave."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from download_samples import CONTENT, ONCE, described, leftovers, refused, zipped

from drobench.data.cache import DownloadError, State, require, state
from drobench.data.download import Patience, fetch


@pytest.fixture(autouse=True)
def _own_cache_and_no_pause(cache, monkeypatch):
    """Retry at once."""
    monkeypatch.setattr("drobench.data.download._PAUSE", 0.0)


class Server(ThreadingHTTPServer):
    """Serves what `answers` says, and remembers what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.archive = b""

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def handle_error(self, request, client_address) -> None:
        """A client that went away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *arguments) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        getattr(self, "answer_" + self.path.strip("/").split(".")[0])(wanted)

    def send(self, content: bytes, status: int = 200, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)

    def ranged(self, wanted: str | None, content: bytes) -> None:
        if wanted is None:
            self.send(content)
            return
        begin = int(wanted.removeprefix("bytes=").removesuffix("-"))
        self.send(content[begin:], status=206)

    def answer_good(self, wanted) -> None:
        self.ranged(wanted, CONTENT)

    def answer_plain(self, _wanted) -> None:
        self.send(CONTENT)

    def answer_archive(self, _wanted) -> None:
        self.send(self.server.archive)

    def answer_broken(self, wanted) -> None:
        """Break off in the middle of the first answer; continue on request."""
        if wanted is None:
            self.send(CONTENT[:200_000], length=len(CONTENT))
            self.close_connection = True
        else:
            self.ranged(wanted, CONTENT)

    def answer_always_broken(self, _wanted) -> None:
        self.send(CONTENT[:1000], length=len(CONTENT))
        self.close_connection = True

    def answer_short(self, _wanted) -> None:
        self.send(CONTENT[:-1])

    def answer_long(self, _wanted) -> None:
        self.send(CONTENT + b"more")

    def answer_tampered(self, _wanted) -> None:
        self.send(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]))

    def answer_absent(self, _wanted) -> None:
        self.send(b"no such file", status=404)

    def answer_busy(self, _wanted) -> None:
        """Be busy the first time."""
        if len(self.server.asked) == 1:
            self.send(b"later", status=503)
        else:
            self.send(CONTENT)

    def answer_stalled(self, _wanted) -> None:
        self.send(CONTENT[:1000], length=len(CONTENT))
        self.wfile.flush()
        time.sleep(1.5)

    def answer_moved(self, _wanted) -> None:
        self.send_response(302)
        self.send_header("Location", "/good")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer_unsatisfiable(self, wanted) -> None:
        if wanted is None:
            self.send(CONTENT)
        else:
            self.send(b"", status=416)


@pytest.fixture
def server():
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.mark.parametrize("path", ["good", "moved"])
def test_a_file_is_downloaded_and_verified(path, server, cache):
    file = described(urls=(server.address(path),))
    assert state("thing", (file,)) is State.ABSENT
    (found,) = fetch("thing", (file,), patience=ONCE)
    assert found == cache / "thing" / "some.data"
    assert found.read_bytes() == CONTENT
    assert state("thing", (file,)) is State.VERIFIED
    assert require("thing", (file,)) == [found]
    assert leftovers(found.parent) == []


def test_a_verified_file_is_not_asked_for_again(server):
    file = described(urls=(server.address("good"),))
    fetch("thing", (file,), patience=ONCE)
    fetch("thing", (file,), patience=ONCE)
    assert len(server.asked) == 1


def test_a_damaged_file_is_replaced(server, cache):
    file = described(urls=(server.address("good"),))
    (cache / "thing").mkdir(parents=True)
    (cache / "thing" / "some.data").write_bytes(b"x" * len(CONTENT))
    assert state("thing", (file,)) is State.DAMAGED
    fetch("thing", (file,), patience=ONCE)
    assert state("thing", (file,)) is State.VERIFIED


def test_a_broken_download_is_continued_by_the_next_attempt(server):
    file = described(urls=(server.address("broken"),))
    fetch("thing", (file,), patience=Patience(2, 2, retries=1))
    assert state("thing", (file,)) is State.VERIFIED
    (_, first), (_, second) = server.asked
    assert first is None
    assert second is not None
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= 200_000


def test_a_broken_download_is_continued_by_the_next_call(server, cache):
    file = described(urls=(server.address("broken"),))
    assert "could not be downloaded" in refused("thing", (file,))
    part = cache / "thing" / "some.data.part"
    assert CONTENT.startswith(part.read_bytes())
    fetch("thing", (file,), patience=ONCE)
    assert server.asked[-1][1] is not None
    assert leftovers(cache / "thing") == []


@pytest.mark.parametrize("path", ["plain", "unsatisfiable"])
def test_a_server_that_cannot_continue_sends_the_file_from_its_beginning(path, server, cache):
    (cache / "thing").mkdir(parents=True)
    (cache / "thing" / "some.data.part").write_bytes(CONTENT[:500])
    file = described(urls=(server.address(path),))
    fetch("thing", (file,), patience=Patience(2, 2, retries=1))
    assert server.asked[0][1] == "bytes=500-"
    assert state("thing", (file,)) is State.VERIFIED


@pytest.mark.parametrize("length", [700, len(CONTENT)])
def test_a_wrong_partial_file_is_found_out_and_begun_anew(length, server, cache):
    (cache / "thing").mkdir(parents=True)
    (cache / "thing" / "some.data.part").write_bytes(b"?" * length)
    file = described(urls=(server.address("good"),))
    fetch("thing", (file,), patience=Patience(2, 2, retries=1))
    assert state("thing", (file,)) is State.VERIFIED


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("absent", "404"),
        ("tampered", "other content"),
        ("short", f"must have {len(CONTENT)} bytes; the server has {len(CONTENT) - 1}"),
        ("long", f"at most {len(CONTENT)} bytes"),
        ("always_broken", "IncompleteRead"),
    ],
)
def test_what_a_server_does_wrong_is_reported_and_nothing_is_placed(path, found, server, cache):
    file = described(urls=(server.address(path),))
    message = refused("thing", (file,))
    assert server.address(path) in message
    assert found in message
    assert "drobench data fetch thing --from DIR" in message
    assert state("thing", (file,)) is State.ABSENT
    assert set(leftovers(cache / "thing")) <= {"some.data.part"}


def test_a_file_that_is_not_there_is_asked_for_once(server):
    file = described(urls=(server.address("absent"),))
    refused("thing", (file,), patience=Patience(2, 2, retries=5))
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(server):
    file = described(urls=(server.address("busy"),))
    fetch("thing", (file,), patience=Patience(2, 2, retries=1))
    assert state("thing", (file,)) is State.VERIFIED


def test_a_server_that_stalls_is_given_up(server):
    file = described(urls=(server.address("stalled"),))
    begin = time.monotonic()
    message = refused("thing", (file,), patience=Patience(connect=1, read=0.2, retries=0))
    assert time.monotonic() - begin < 1.4
    assert "timed out" in message.lower()


def test_a_server_that_is_not_there_is_reported():
    message = refused("thing", (described(urls=("http://127.0.0.1:9/some.data",)),))
    assert "http://127.0.0.1:9/some.data" in message


def test_addresses_are_tried_in_turn(server):
    file = described(urls=(server.address("absent"), server.address("tampered"), server.address("good")))
    fetch("thing", (file,), patience=ONCE)
    assert [path for path, _ in server.asked] == ["/absent", "/tampered", "/good"]


def test_other_protocols_are_no_addresses(tmp_path):
    (tmp_path / "some.data").write_bytes(CONTENT)
    message = refused("thing", (described(urls=((tmp_path / "some.data").as_uri(),)),))
    assert "No connection adapters" in message


def test_a_file_without_address_says_how_to_get_it():
    assert "no address is known" in refused("thing", (described(),))


def test_progress_is_told(server):
    calls = []
    file = described(urls=(server.address("good"),))
    fetch("thing", (file,), patience=ONCE, progress=lambda *call: calls.append(call))
    assert calls[-1] == ("some.data", len(CONTENT), len(CONTENT))
    assert [have for _, have, _ in calls] == sorted(have for _, have, _ in calls)


def test_a_file_is_taken_out_of_a_downloaded_archive(server, tmp_path, cache):
    server.archive = zipped(tmp_path / "a.zip", {"deep/some.data": CONTENT, "other": b"o"}).read_bytes()
    file = described(urls=(server.address("archive.zip"),))
    fetch("thing", (file,), patience=ONCE)
    assert state("thing", (file,)) is State.VERIFIED
    assert leftovers(cache / "thing") == []


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "without the file", "with another file"])
def test_a_bad_archive_is_refused(damage, server, tmp_path, cache):
    good = zipped(tmp_path / "a.zip", {"some.data": CONTENT}).read_bytes()
    server.archive = {
        "truncated": good[: len(good) // 2],
        "empty": b"",
        "text": b"<html>please log in</html>",
        "without the file": zipped(tmp_path / "b.zip", {"x": b"1"}).read_bytes(),
        "with another file": zipped(tmp_path / "c.zip", {"some.data": CONTENT[:-1]}).read_bytes(),
    }[damage]
    message = refused("thing", (described(urls=(server.address("archive.zip"),)),))
    assert "archive.zip" in message
    assert leftovers(cache / "thing") == []
    assert not (cache / "thing" / "some.data").exists()


def test_two_that_fetch_at_once_both_succeed(server):
    file = described(urls=(server.address("good"),))
    troubles: list[Exception] = []

    def work() -> None:
        try:
            fetch("thing", (file,), patience=ONCE)
        except DownloadError as error:
            troubles.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert len(server.asked) == 1
    assert state("thing", (file,)) is State.VERIFIED
