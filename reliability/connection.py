"""A persistent HTTP/1.1 connection. Requests are given as bytes, so that invalid requests can also be sent."""

from __future__ import annotations

import socket
from dataclasses import dataclass


class ConnectionEnded(Exception):
    """The server has closed the connection."""


@dataclass
class Response:
    status: int
    headers: dict[bytes, bytes]
    body: bytes


def request(method: str, path: str, body: bytes = b"", **headers: object) -> bytes:
    """The bytes of a request. Underscores in the names of headers are sent as hyphens."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Connection:
    def __init__(self, port: int, timeout: float = 30.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Received bytes that are not part of a response yet.
        self.rest = b""

    def close(self) -> None:
        self.socket.close()

    def exchange(self, message: bytes) -> Response:
        """Sends a request and reads its response."""
        try:
            self.socket.sendall(message)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionEnded from error
        return self.response()

    def response(self) -> Response:
        head = self._until(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if headers.get(b"transfer-encoding") == b"chunked":
            body = self._chunks()
        else:
            body = self._take(int(headers.get(b"content-length", 0)))
        return Response(int(first.split(b" ")[1]), headers, body)

    def _receive(self) -> bytes:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError as error:
            raise ConnectionEnded from error
        if not data:
            raise ConnectionEnded
        return data

    def _until(self, end: bytes) -> bytes:
        while end not in self.rest:
            self.rest += self._receive()
        head, _, self.rest = self.rest.partition(end)
        return head

    def _take(self, length: int) -> bytes:
        parts, size = [self.rest], len(self.rest)
        while size < length:
            parts.append(self._receive())
            size += len(parts[-1])
        data = b"".join(parts)
        self.rest = data[length:]
        return data[:length]

    def _chunks(self) -> bytes:
        body = []
        while True:
            size = int(self._until(b"\r\n"), 16)
            body.append(self._take(size + 2)[:-2])
            if size == 0:
                return b"".join(body)
