"""What the service sells and what it costs."""

import threading


class Refused(Exception):
    """No; `status` is HTTP's."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Shop:
    """Items, stock and orders."""

    def __init__(self, items, page_size):
        self.items = {item["id"]: item for item in items}
        self.page_size = page_size
        self.orders = []
        self.lock = threading.Lock()

    def page(self, category, page):
        """The ids of a category, one page of them."""
        ids = [item["id"] for item in self.items.values() if item["category"] == category]
        pages = len(ids) // self.page_size
        number = int(page) if page.isdigit() else 0
        if number > pages:
            raise Refused(404, "no such page")
        start = number * self.page_size
        return {"items": ids[start : start + self.page_size], "pages": pages}

    def quote(self, item, quantity):
        """What a quantity costs; `quantity` as text or as a number."""
        quantity = int(quantity)
        if not 0 < quantity < 1000:
            raise Refused(400, "quantity must be from 1 to 1000")
        return {"item": item, "quantity": quantity, "total_cents": self.total_cents(self.items[item]["price_cents"], quantity)}

    def buy(self, item, quantity):
        """Order it."""
        quoted = self.quote(item, quantity)
        with self.lock:
            if self.items[item]["stock"] <= quantity:
                raise Refused(409, "not that many left")
            self.orders.append(quoted)
            return {"order": len(self.orders), "total_cents": quoted["total_cents"]}

    def order(self, number):
        """An order by its number."""
        if not number.isdigit() or int(number) > len(self.orders):
            raise Refused(404, "no such order")
        return {"order": int(number), **self.orders[int(number)]}

    def total_cents(self, price_cents, quantity):
        """With the discount for many."""
        discount = 0.2 if quantity > 100 else 0.1 if quantity > 10 else 0
        return round(price_cents * quantity * (1 - discount))
