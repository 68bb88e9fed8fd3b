"""One keep-alive HTTP/1.1 connection on a plain socket.

Written by hand because the client shares two cores with the server and its database: an exchange
here costs some 30 microseconds of CPU, with the usual libraries ten to thirty times that. It knows
what a benchmark needs: Content-Length and chunked answers, one request at a time.
"""

import re
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

RECEIVE_BYTES = 1 << 18
MICROVERSION = re.compile(rb"(OpenStack-API-Version: placement )[0-9.]+")


class Answer(NamedTuple):
    """What came back: status, raw header block, body."""

    status: int
    head: bytes
    body: bytes | bytearray

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None."""
        wanted = name.lower().encode()
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.strip().lower() == wanted:
                return value.strip().decode("latin-1")
        return None


class Connection:
    """A connection to one server that is opened again whenever the server closed it.

    :param url: root of the service; a path in it is put before every request's path.
    :param headers: sent with every request.
    """

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float = 120.0) -> None:
        parts = urlsplit(url)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if self._secure else 80)
        self._prefix = parts.path.rstrip("/").encode()
        self._timeout_s = timeout_s
        lines = [f"Host: {parts.netloc}", *(f"{key}: {value}" for key, value in headers.items())]
        self._lines = "".join(f"{line}\r\n" for line in lines).encode("latin-1")
        self._socket: socket.socket | None = None

    def exchange(
        self, method: str, path: str, body: bytes | None = None, version: str | None = None
    ) -> Answer:
        """Send one request and return its whole answer.

        :param version: another microversion than that of the headers, like ``1.27``.
        :raises OSError: the server does not answer.
        """
        request = self._request(method, path, body, version)
        reused = self._socket is not None
        try:
            return self._send(request, method)
        except (ConnectionError, BrokenPipeError):
            self.close()
            # An idle connection may have been closed under our feet before anything was sent.
            if not reused:
                raise
            return self._send(request, method)

    def _request(self, method: str, path: str, body: bytes | None, version: str | None) -> bytes:
        head = method.encode() + b" " + self._prefix + path.encode() + b" HTTP/1.1\r\n"
        head += self._lines
        if version:
            head = MICROVERSION.sub(b"\\g<1>" + version.encode(), head)
        if body is None:
            return head + b"\r\n"
        return (
            head
            + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )

    def _send(self, request: bytes, method: str) -> Answer:
        connection = self._socket or self._open()
        connection.sendall(request)
        received = connection.recv(RECEIVE_BYTES)
        if not received:
            raise ConnectionResetError("closed before an answer")
        while (end := received.find(b"\r\n\r\n")) < 0:
            more = connection.recv(RECEIVE_BYTES)
            if not more:
                raise ConnectionResetError("closed inside the headers")
            received += more
        head, rest = received[:end], received[end + 4 :]
        status = int(head[9:12])
        lowered = head.lower()
        if method == "HEAD" or status in (204, 304):
            body: bytes | bytearray = b""
        elif b"transfer-encoding: chunked" in lowered:
            body = self._read_chunks(connection, rest)
        elif (at := lowered.find(b"content-length:")) >= 0:
            length = int(lowered[at + 15 :].split(b"\r\n", 1)[0])
            body = rest if len(rest) >= length else self._read_exactly(connection, rest, length)
        else:
            body = self._read_to_end(connection, rest)
            self.close()
        if b"connection: close" in lowered:
            self.close()
        return Answer(status, head, body)

    def _open(self) -> socket.socket:
        connection = socket.create_connection((self._host, self._port), self._timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._secure:
            connection = ssl.create_default_context().wrap_socket(
                connection, server_hostname=self._host
            )
        self._socket = connection
        return connection

    @staticmethod
    def _read_exactly(connection: socket.socket, start: bytes, length: int) -> bytearray:
        body = bytearray(length)
        body[: len(start)] = start
        view, done = memoryview(body), len(start)
        while done < length:
            count = connection.recv_into(view[done:])
            if not count:
                raise ConnectionResetError("closed inside the body")
            done += count
        return body

    @staticmethod
    def _read_to_end(connection: socket.socket, start: bytes) -> bytes:
        pieces = [start]
        while more := connection.recv(RECEIVE_BYTES):
            pieces.append(more)
        return b"".join(pieces)

    @staticmethod
    def _read_chunks(connection: socket.socket, buffer: bytes) -> bytes:
        pieces: list[bytes] = []
        while True:
            while (end := buffer.find(b"\r\n")) < 0:
                buffer += _more(connection)
            size = int(buffer[:end].split(b";")[0], 16)
            buffer = buffer[end + 2 :]
            while len(buffer) < size + 2:
                buffer += _more(connection)
            if not size:
                return b"".join(pieces)
            pieces.append(buffer[:size])
            buffer = buffer[size + 2 :]

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close; the next exchange opens again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _more(connection: socket.socket) -> bytes:
    received = connection.recv(RECEIVE_BYTES)
    if not received:
        raise ConnectionResetError("closed inside a chunked body")
    return received
