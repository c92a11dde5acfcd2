"""The quote service. Start it with: python3 /workdir/data/service/server.py"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from shop import Refused, Shop

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_BODY_BYTES = 4096


def load(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return json.load(file)


CONFIG = load("config.json")
SHOP = Shop(load("items.json"), CONFIG["page_size"])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/health":
            self.answer(200, {"status": "ok", "items": len(SHOP.items)})
        elif parts.path == "/items":
            self.attempt(200, SHOP.page, query.get("category", ""), query.get("page", "1"))
        elif parts.path == "/quote":
            self.attempt(200, SHOP.quote, query.get("item", ""), query.get("quantity", ""))
        elif parts.path.startswith("/order/"):
            self.attempt(200, SHOP.order, parts.path.removeprefix("/order/"))
        else:
            self.answer(404, {"error": "no such path"})

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(min(length, MAX_BODY_BYTES))
        if self.path != "/orders":
            self.answer(404, {"error": "no such path"})
            return
        try:
            wanted = json.loads(body)
            item, quantity = wanted["item"], wanted["quantity"]
        except (ValueError, KeyError, TypeError):
            self.answer(400, {"error": "no order"})
            return
        self.attempt(200, SHOP.buy, item, quantity)

    def attempt(self, status, function, *arguments):
        try:
            self.answer(status, function(*arguments))
        except Refused as refused:
            self.answer(refused.status, {"error": str(refused)})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", CONFIG["port"]), Handler).serve_forever()
