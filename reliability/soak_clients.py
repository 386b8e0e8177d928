"""Clients of the service under load, each in a process of its own: readers, writers and clients that break the protocol.

A client sends a `Second` to the driver for each second, with its latencies, the statuses of its responses and what was wrong.
"""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe

from arrays import npy, rows
from connection import Connection, ConnectionEnded, Response, request

# A reader closes its connection after a random number of requests, at most this number.
REQUESTS_PER_CONNECTION = 400

# A writer that has this many inserted rows does not insert more until it has removed a row.
OWN_ROWS = 200

# Seconds after which the service must have ended the connection of a slow client.
SLOW_SECONDS = 45

VERSION = re.compile(rb'"(?:model_)?version":"?(\d+)"?')


@dataclass
class Second:
    """What a client did in a second: latencies in milliseconds, counts of responses by status, the number of compared answers, and
    descriptions of what was wrong."""

    kind: str
    time: int
    latencies: list[float] = field(default_factory=list)
    statuses: Counter = field(default_factory=Counter)
    compared: int = 0
    wrong: list[str] = field(default_factory=list)


class Client:
    """The common part of clients: sends the reports of each second to the driver, and keeps the rate of requests."""

    def __init__(self, kind: str, pipe: Pipe, rate: float | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.kind, self.pipe = kind, pipe
        # Seconds between two requests; with None, a request is sent directly after the previous response.
        self.interval = None if rate is None else 1 / rate
        self.next = time.monotonic()
        self.second = Second(kind, int(time.time()))
        self.lock = threading.Lock()

    def wait(self) -> float:
        """Waits until the scheduled time of the next request, and returns this time. A late request keeps its scheduled time, so that its
        latency includes the delay that the previous request caused. After a delay of more than 5 seconds, the schedule starts again."""
        now = time.monotonic()
        if self.interval is None:
            return now
        if now - self.next > 5:
            self.next = now
        if now < self.next:
            time.sleep(self.next - now)
        scheduled = self.next
        self.next += self.interval
        return scheduled

    def note(self, status: int | str, latency: float | None = None, compared: int = 0, wrong: str | None = None) -> None:
        """Adds a response to the report of the current second. The first response of a second also sends the previous report."""
        with self.lock:
            now = int(time.time())
            if now != self.second.time:
                self.pipe.send(self.second)
                self.second = Second(self.kind, now)
            self.second.statuses[status] += 1
            self.second.compared += compared
            if latency is not None:
                self.second.latencies.append(1000 * latency)
            if wrong is not None:
                self.second.wrong.append(f"{self.kind}: {wrong}")


def without_version(body: bytes) -> tuple[int | None, bytes]:
    """The version of the model in a response, and the other bytes of the response."""
    found = VERSION.search(body[:200])
    if found is None:
        return None, body
    return int(found[1]), body[: found.start()] + body[found.end() :]


@dataclass
class Question:
    """A request whose answer is known. With two answers, an odd version of the model gives the first one; a response without a version
    may be either."""

    message: bytes
    answers: list[bytes]

    def is_answered_by(self, response: Response) -> bool:
        version, body = without_version(response.body)
        if version is None or len(self.answers) == 1:
            return body in self.answers
        return body == self.answers[(version - 1) % 2]


def read(port: int, pipe: Pipe, kind: str, questions: list[Question], rate: float | None, seed: int) -> None:
    """Sends questions and compares the answers."""
    client, rng = Client(kind, pipe, rate), random.Random(seed)
    connection, left = None, 0
    while True:
        scheduled = client.wait()
        if connection is None or left == 0:
            if connection is not None:
                connection.close()
            connection, left = Connection(port), rng.randint(1, REQUESTS_PER_CONNECTION)
        left -= 1
        question = rng.choice(questions)
        try:
            response = connection.exchange(question.message)
        except (ConnectionEnded, TimeoutError) as error:
            connection = None
            client.note("no response", wrong=f"no response: {error!r}")
            continue
        latency = time.monotonic() - scheduled
        if response.status == 200:
            is_right = question.is_answered_by(response)
            client.note(200, latency, 1, None if is_right else f"other answer: {response.body[:300]!r}")
        else:
            client.note(response.status, latency, 0, f"status {response.status}: {response.body[:300]!r}")


def write(port: int, pipe: Pipe, lock, columns: int, rate: float, seed: int) -> None:
    """Inserts rows and removes them again. Each acknowledged change must be seen by the next request: an inserted row is its own
    nearest neighbor at distance zero, and a removed one is not."""
    client, rng = Client("writer", pipe, rate), random.Random(seed)
    connection = Connection(port)
    own: list[tuple[int, list[float]]] = []

    def post(path: str, body: object) -> dict:
        response = connection.exchange(request("POST", f"/v1/models/live/{path}", json.dumps(body).encode()))
        if response.status != 200:
            raise ValueError(f"status {response.status}: {response.body[:300]!r}")
        return json.loads(response.body)

    while True:
        scheduled = client.wait()
        try:
            is_removal = len(own) >= OWN_ROWS or (bool(own) and rng.random() < 0.45)
            # The driver takes the lock while it compares the model with its file.
            with lock:
                if is_removal:
                    identifier, row = own.pop(rng.randrange(len(own)))
                    post("rows/remove", {"ids": [identifier]})
                else:
                    count = rng.randint(1, 4)
                    values, _ = rows(count, columns, rng.getrandbits(32))
                    new = [list(values[i * columns : (i + 1) * columns]) for i in range(count)]
                    changed = post("rows", {"rows": new, "labels": [rng.randrange(5) for _ in new]})
                    own += zip(changed["ids"], new)
                    identifier, row = own[-1]
            latency = time.monotonic() - scheduled
            nearest = post("score?neighbors=1", {"rows": [row]})["rows"][0]["neighbors"][0]
            is_found = (nearest["id"], nearest["distance"]) == (identifier, 0)
            if is_removal == is_found:
                what = "removed" if is_removal else "inserted"
                client.note(200, latency, 1, f"the nearest neighbor of {what} row {identifier} is {nearest}")
            else:
                client.note(200, latency, 1)
        except (ConnectionEnded, TimeoutError, ValueError, KeyError) as error:
            client.note("failed change", wrong=repr(error))
            connection.close()
            connection, own = Connection(port), []


def bad_messages(columns: int) -> list[tuple[str, bytes, set[int | str]]]:
    """Invalid requests: name, bytes and expected statuses. "closed" means that the server has closed the connection without a
    response."""
    score, infer = "/v1/models/fixed/score", "/v2/models/fixed/infer"
    good = json.dumps({"rows": [[0.5] * columns]}).encode()
    head = f"POST {score} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    values, _ = rows(2, columns, 1)
    tensor = {"name": "embeddings", "shape": [1, columns], "datatype": "FP32"}

    def inference(**changes: object) -> bytes:
        return request("POST", infer, json.dumps({"inputs": [{**tensor, **changes}]}).encode())

    short_npy = npy(values, (10**9, columns))
    binary = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": 4 * columns}}]}).encode()
    return [
        ("truncated body", head.encode() + b"content-length: 5000\r\n\r\n" + good[:40], {400}),
        ("truncated head", head.encode()[:30], {400, "closed"}),
        ("truncated body of 1 TB", head.encode() + b"content-length: 1000000000000\r\n\r\n[[1", {400, 413}),
        ("negative length", head.encode() + b"content-length: -5\r\n\r\n", {400}),
        ("broken chunks", head.encode() + b"transfer-encoding: chunked\r\n\r\nzz\r\n", {400}),
        ("another protocol", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", {400}),
        ("rows of text", request("POST", score, b'{"rows": [["a", "b"]]}'), {422}),
        ("NaN in JSON", request("POST", score, good.replace(b"0.5", b"NaN", 1)), {422}),
        ("too few columns", request("POST", score, b"[[1, 2]]"), {422}),
        ("deep JSON", request("POST", score, b"[" * 100_000), {422}),
        ("npy that ends early", request("POST", score, short_npy), {422}),
        ("compressed body", request("POST", score, b"\x1f\x8b\x08\x00", content_encoding="gzip"), {415}),
        ("wrong type of tensor", inference(datatype="INT8", data=[1] * columns), {422}),
        ("other shape than data", inference(data=[1.0]), {422}),
        ("huge shape", inference(shape=[2**63 - 1, columns], data=[1.0]), {422, 413}),
        ("binary tensor that ends early", request("POST", infer, binary, inference_header_content_length=len(binary)), {422}),
        ("unknown route", request("GET", "/v1/models/..%2f..%2fetc%2fpasswd/file"), {404}),
        ("unknown method", request("DELETE", score), {405}),
        ("unknown ids", request("POST", "/v1/models/live/rows/remove", b'{"ids": [4000000000]}'), {422}),
    ]


def misbehave(port: int, pipe: Pipe, columns: int, rate: float, seed: int) -> None:
    """Sends invalid requests, closes connections before the end of the response, and sends and reads slowly."""
    client, rng = Client("bad client", pipe, rate), random.Random(seed)
    messages = bad_messages(columns)
    good = request("POST", "/v1/models/fixed/score", json.dumps([[0.5] * columns] * 200).encode())
    for number in range(4):
        threading.Thread(target=be_slow, args=(port, client, good, seed + number), daemon=True).start()
    while True:
        client.wait()
        choice = rng.randrange(len(messages) + 2)
        connection = Connection(port)
        try:
            if choice < len(messages):
                name, message, expected = messages[choice]
                status = outcome(connection, name, message)
                is_right = status in expected
                client.note(f"{status}", wrong=None if is_right else f"{name}: {status}, expected {expected}")
            else:
                # The connection ends with a reset while the server computes or answers.
                connection.socket.sendall(good)
                if choice == len(messages):
                    connection.socket.recv(10)
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.note("reset")
        except (ConnectionError, TimeoutError) as error:
            client.note("no response", wrong=f"bad message {choice}: {error!r}")
        finally:
            connection.close()


def outcome(connection: Connection, name: str, message: bytes) -> int | str:
    """Sends a message and returns the status of the response. After a truncated message, the client closes its sending side of the
    connection."""
    try:
        connection.socket.sendall(message)
        if name.startswith("truncated"):
            connection.socket.shutdown(socket.SHUT_WR)
    except OSError:
        # The server may answer and close before everything is sent.
        pass
    try:
        return connection.response().status
    except ConnectionEnded:
        return "closed"


def be_slow(port: int, client: Client, good: bytes, seed: int) -> None:
    """Sends one byte every half second, or reads nothing, or declares a long body and sends only its first bytes, until the
    server ends the connection after its time limit."""
    rng = random.Random(seed)
    while True:
        connection, begin, status = Connection(port, 60), time.monotonic(), "slow"
        kind = rng.choice(["sends slowly", "reads nothing", "sends a part of the body"])
        try:
            if kind == "sends slowly":
                send_slowly(connection.socket, good, begin + SLOW_SECONDS)
            elif kind == "reads nothing":
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                for _ in range(1000):
                    connection.socket.sendall(good)
            else:
                declared = good.partition(b"content-length: ")[0] + b"content-length: 1000000000000\r\n\r\n[[1"
                status = str(connection.exchange(declared).status)
        except (ConnectionError, ConnectionEnded, TimeoutError):
            pass
        seconds = time.monotonic() - begin
        is_right = seconds < SLOW_SECONDS and status in ("slow", "408", "413")
        client.note(status, wrong=None if is_right else f"the connection of a client that {kind} ended with {status} after {seconds:.0f} s")
        connection.close()


def send_slowly(to: socket.socket, message: bytes, deadline: float) -> None:
    """Sends one byte every half second until the server ends the connection, or until the time `deadline` of the monotonic clock."""
    to.settimeout(0.5)
    for i in range(len(message)):
        if time.monotonic() >= deadline:
            return
        to.sendall(message[i : i + 1])
        try:
            if not to.recv(1000):
                return
        except TimeoutError:
            pass
