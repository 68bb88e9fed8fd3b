"""A TCP proxy before a database that delays, holds, refuses and cuts connections on demand."""

import contextlib
import socket
import threading
import time
from typing import Literal

COMMIT = b"COMMIT"
CHUNK = 65536
Moment = Literal["before", "during", "after"]


class Proxy:
    """Forwards a port of loopback to another.

    ``delay_s``: before each chunk is passed on. ``refuses``: new connections are closed at once.
    ``traps``: for each COMMIT to come, when its connection is cut; taken from the end.
    ``connections``: how many were passed on; ``last_words``: of each client that is gone;
    ``received``: unless it is None, what clients send is added to it.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay_s = 0.0
        self.refuses = False
        self.traps: list[Moment] = []
        self.cuts = 0
        self.connections = 0
        self.last_words: list[bytes] = []
        self.received: bytearray | None = None
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Pass nothing on, and close nothing."""
        self._flowing.clear()

    def flow(self) -> None:
        """Pass everything on again."""
        self.refuses, self.delay_s = False, 0.0
        self._flowing.set()

    def cut_all(self) -> None:
        """Close every connection."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._cut(pair)

    def close(self) -> None:
        """Stop for good."""
        self._flowing.set()
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = (client, server)
            self.connections += 1
            with self._lock:
                self._pairs.add(pair)
            for from_client in (True, False):
                threading.Thread(target=self._pump, args=(pair, from_client), daemon=True).start()

    def _pump(self, pair: tuple[socket.socket, socket.socket], from_client: bool) -> None:
        source, sink = pair if from_client else (pair[1], pair[0])
        last = b""
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK):
                if self.delay_s:
                    time.sleep(self.delay_s)
                self._flowing.wait()
                if from_client and self.received is not None:
                    self.received += chunk
                moment = self._trap() if from_client and COMMIT in chunk else None
                if moment is not None:
                    self._spring(moment, pair, chunk)
                    return
                sink.sendall(chunk)
                last = chunk
        if from_client:
            self.last_words.append(last)
        self._cut(pair)

    def _trap(self) -> Moment | None:
        with self._lock:
            return self.traps.pop() if self.traps else None

    def _spring(
        self, moment: Moment, pair: tuple[socket.socket, socket.socket], chunk: bytes
    ) -> None:
        client, server = pair
        self.cuts += 1
        if moment == "after":
            # The client's way is closed first: nobody hears the answer.
            client.shutdown(socket.SHUT_RDWR)
            server.sendall(chunk)
        elif moment == "during":
            server.sendall(chunk[: len(chunk) // 2])
        self._cut(pair)

    def _cut(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._pairs.discard(pair)
        for each in pair:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
