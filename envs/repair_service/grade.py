"""Scores repair-service: sends requests to the running service and compares each answer with its own.

Called as ``grade.py SUBMISSION_DIR ROOT_DATA_DIR RESULT_PATH`` in the student's machine, when nothing of the student's
runs any more but the service. The service is taken as hostile: bounded answers, bounded time, all or nothing. The items
come from what was handed in, and only if they are those that were handed out: with fewer there would be less to answer.
"""

import hashlib
import http.client
import json
import os
import random
import socket
import sys
import time

from karotte_grading import SubmissionUnusable, read_submitted

PORT = 8080
PAGE_SIZE = 5
ANSWER_TIMEOUT_S = 30.0  # from the question to the answer's last byte; a tenth of a second, emulated on a quiet host
DEADLINE_S = 240.0  # of all answers, which take 10 s there; a busy host must not cost a good service its score
MAX_ANSWER_BYTES = 64 * 1024
ITEMS = "workdir/data/service/items.json"
MAX_ITEMS_BYTES = 64 * 1024
HALF_CENTS = 6


class Wrong(Exception):
    """An answer is not what it must be."""


def reject(number):
    """NaN and infinity are no JSON."""
    raise ValueError(f"{number} is no JSON")


class BoundedSocket(socket.socket):
    """Times out at `deadline`, however often something arrives: a timeout alone is one of each read."""

    deadline = 0.0

    def recv_into(self, *arguments):
        """What http.client reads with."""
        self.hurry()
        return super().recv_into(*arguments)

    def hurry(self):
        """The next wait ends at the deadline."""
        left_s = self.deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the deadline has passed")
        self.settimeout(left_s)


class BoundedConnection(http.client.HTTPConnection):
    """To the service, over by `deadline`."""

    def __init__(self, deadline):
        super().__init__("127.0.0.1", PORT)
        self.deadline = deadline

    def connect(self):
        """Connecting is bounded, and so is sending: one timeout is that of a whole sendall()."""
        self.sock = BoundedSocket()
        self.sock.deadline = self.deadline
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as http.client's own
        self.sock.hurry()
        self.sock.connect((self.host, self.port))


def ask(method, path, body=None, *, deadline=float("inf")):
    """Status and object of one answer; Wrong when it is none, or not whole in ANSWER_TIMEOUT_S and by the deadline."""
    connection = BoundedConnection(min(deadline, time.monotonic() + ANSWER_TIMEOUT_S))
    try:
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        data = answer.read(MAX_ANSWER_BYTES + 1)
        if len(data) > MAX_ANSWER_BYTES:
            raise Wrong("the answer is too long")
        if answer.getheader("Content-Length") != str(len(data)):
            raise Wrong("the answer's Content-Length is not its length")
        value = json.loads(data.decode("utf-8"), parse_constant=reject)
    except TimeoutError:
        raise Wrong("no answer in time") from None
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        raise Wrong(f"no answer: {type(error).__name__}") from None
    finally:
        connection.close()
    if not isinstance(value, dict):
        raise Wrong("the answer is no object")
    return answer.status, value


def read_items(submission_dir, root_data_dir):
    """The items, when they are what they were."""
    with open(os.path.join(root_data_dir, "items.sha256"), encoding="ascii") as file:
        expected = file.read().strip()
    try:
        data = read_submitted(os.path.join(submission_dir, ITEMS), MAX_ITEMS_BYTES, "items.json")
    except SubmissionUnusable as unusable:
        raise Wrong(str(unusable)) from None
    if hashlib.sha256(data).hexdigest() != expected:
        raise Wrong("items.json was changed")
    return json.loads(data)


def same(found, expected):
    """Equal in type, too: true is not 1, and 1.0 is not 1."""
    return json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)


def total_cents(price_cents, quantity):
    """The price with its discount, half a cent up."""
    percent = 80 if quantity >= 100 else 90 if quantity >= 10 else 100
    return (price_cents * quantity * percent + 50) // 100


class Examiner:
    """Asks and expects; keeps what the service should have in stock and in its books."""

    def __init__(self, items, seed):
        self.items = {item["id"]: dict(item) for item in items}
        self.ids = sorted(self.items)
        self.random = random.Random(seed)
        self.orders = []
        self.deadline = time.monotonic() + DEADLINE_S

    def expect(self, status, value, method, path, body=None):
        if time.monotonic() > self.deadline:
            raise Wrong("the time was up")
        found = ask(method, path, None if body is None else json.dumps(body).encode(), deadline=self.deadline)
        if value is None:
            good = found[0] == status and set(found[1]) == {"error"} and isinstance(found[1]["error"], str)
        else:
            good = found[0] == status and same(found[1], value)
        if not good:
            raise Wrong(f"{method} {path.partition('?')[0]}: a wrong answer")

    def health(self):
        self.expect(200, {"status": "ok", "items": len(self.items)}, "GET", "/health")
        self.expect(404, None, "GET", f"/{self.random.randrange(10**9)}")

    def pages(self):
        for category in sorted({item["category"] for item in self.items.values()}):
            ids = [name for name in self.ids if self.items[name]["category"] == category]
            pages = [ids[at : at + PAGE_SIZE] for at in range(0, len(ids), PAGE_SIZE)]
            for number, page in enumerate(pages, start=1):
                value = {"items": page, "pages": len(pages)}
                self.expect(200, value, "GET", f"/items?category={category}&page={number}")
            self.expect(200, {"items": pages[0], "pages": len(pages)}, "GET", f"/items?category={category}")
            for absent in (0, len(pages) + 1):
                self.expect(404, None, "GET", f"/items?category={category}&page={absent}")
        self.expect(404, None, "GET", "/items?category=nothing")

    def half_cents(self):
        """Items and quantities whose total ends in half a cent that a round() to even loses."""
        found = []
        while len(found) < HALF_CENTS:
            name, quantity = self.random.choice(self.ids), self.random.randint(10, 99)
            exact = self.items[name]["price_cents"] * quantity * 9
            if exact % 10 == 5 and exact // 10 % 2 == 0:
                found.append((name, quantity))
        return found

    def quotes(self):
        quantities = [1, 9, 10, 11, 99, 100, 101, 1000] + [self.random.randint(1, 1000) for _ in range(12)]
        for name, quantity in [(self.random.choice(self.ids), each) for each in quantities] + self.half_cents():
            total = total_cents(self.items[name]["price_cents"], quantity)
            value = {"item": name, "quantity": quantity, "total_cents": total}
            self.expect(200, value, "GET", f"/quote?item={name}&quantity={quantity}")
        for quantity in ("0", "-1", "1001", "1.5", "x", ""):
            self.expect(400, None, "GET", f"/quote?item={self.ids[0]}&quantity={quantity}")
        self.expect(404, None, "GET", f"/quote?item=x{self.random.randrange(10**6)}&quantity=1")

    def order(self, name, quantity):
        item = self.items[name]
        body = {"item": name, "quantity": quantity}
        if item["stock"] < quantity:
            self.expect(409, None, "POST", "/orders", body)
            return
        item["stock"] -= quantity
        total = total_cents(item["price_cents"], quantity)
        self.orders.append({**body, "total_cents": total})
        self.expect(201, {"order": len(self.orders), "total_cents": total}, "POST", "/orders", body)

    def buying(self):
        for name in self.random.sample(self.ids, 6):
            quantity = self.random.randint(1, self.items[name]["stock"] - 1)
            self.order(name, quantity)
            self.order(name, self.items[name]["stock"])  # the last piece, exactly
            self.order(name, 1)  # and now there is none
        self.expect(404, None, "POST", "/orders", {"item": "nothing", "quantity": 1})
        for body in ({"item": self.ids[0]}, [1], {"item": self.ids[0], "quantity": 0}):
            self.expect(400, None, "POST", "/orders", body)
        for number, order in enumerate(self.orders, start=1):
            self.expect(200, {"order": number, **order}, "GET", f"/orders/{number}")
        for number in (0, len(self.orders) + 1):
            self.expect(404, None, "GET", f"/orders/{number}")


def main():
    submission_dir, root_data_dir, result_path = sys.argv[1:]
    with open(os.path.join(root_data_dir, "seed.txt"), encoding="ascii") as file:
        seed = int(file.read())
    passed, reason, score = [], "all answers are right", 0.0
    try:
        examiner = Examiner(read_items(submission_dir, root_data_dir), seed)
        for part in (examiner.health, examiner.pages, examiner.quotes, examiner.buying):
            part()
            passed.append(part.__name__)
        score = 1.0
    except Wrong as wrong:
        reason = str(wrong)
    result = {"score": score, "metadata": {"reason": reason, "passed": passed}}
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
