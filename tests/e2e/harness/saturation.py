"""Two crowds of clients that always ask, and how they share the servers."""

import threading

from harness.waiting import eventually
from harness.wire import error_codes


def ratio_of_answers(pooler, logins, clients, answers) -> float:
    """How many times as many answers the first of two logins gets as the second, with so many clients each."""
    over, lock = threading.Event(), threading.Lock()
    served = [0] * len(logins)

    def work(number: int):
        with pooler.connect(**logins[number]) as c:
            while not over.is_set():
                assert error_codes(c.query("select pg_sleep(0.01)")) == []
                with lock:
                    served[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(logins)) for _ in range(clients)]
    for thread in threads:
        thread.start()
    eventually(lambda: sum(served) > answers, timeout=60)
    over.set()
    for thread in threads:
        thread.join()
    return served[0] / served[1]
