"""A proxy between ranks on this machine, which cuts, stalls, delays or flips what goes through it.

`redirected()` is the environment of ranks whose connections all go by way of it.
"""

import os
import select
import socket
import threading
import time

LIBRARY = os.environ["AUTOPAR_REDIRECT_LIBRARY"]


class Proxy:
    """`delay`: seconds that each piece of bytes takes. `flip`: the number of a byte, of all that go
    through, in which a bit is turned. cut() and stall() are for all connections, old and new."""

    def __init__(self, delay=0.0, flip=None):
        self.delay, self.flip = delay, flip
        self.bytes = 0  # that went through
        self.flips = 0
        self.is_cut = self.is_stalled = self.is_over = False
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in list(self.threads):
            thread.join()
        self.listener.close()

    def redirected(self):
        return {**os.environ, "LD_PRELOAD": LIBRARY,
                "AUTOPAR_PROXY_PORT": str(self.listener.getsockname()[1]),
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
                }  # fmt: skip

    def cut(self):
        self.is_cut = True

    def stall(self):
        self.is_stalled = True

    def _accept(self):
        while not self.is_over:
            if not select.select([self.listener], [], [], 0.05)[0]:
                continue
            near, _ = self.listener.accept()
            thread = threading.Thread(target=self._serve, args=(near,))
            self.threads.append(thread)
            thread.start()

    def _serve(self, near):
        with near:
            port = int.from_bytes(near.recv(2, socket.MSG_WAITALL), "big")
            with self._connected(port) as far:
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pump(near, far)

    def _connected(self, port):
        """A rank that connects early must not see that nobody listens yet: the proxy does."""
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port))
            except OSError:
                if self.is_over:
                    return socket.socket()
                time.sleep(0.02)

    def _pump(self, near, far):
        """Until an end closes: then the other is closed, too."""
        while not self.is_over and not self.is_cut:
            if self.is_stalled:
                time.sleep(0.01)
                continue
            for end in select.select([near, far], [], [], 0.05)[0]:
                try:
                    piece = end.recv(1 << 16)
                    if not piece:
                        return
                    (far if end is near else near).sendall(self._disturbed(piece))
                except OSError:
                    return

    def _disturbed(self, piece):
        if self.delay:
            time.sleep(self.delay)
        with self.lock:
            place = None if self.flip is None else self.flip - self.bytes
            self.bytes += len(piece)
        if place is None or not 0 <= place < len(piece):
            return piece
        self.flips += 1
        return piece[:place] + bytes([piece[place] ^ 1]) + piece[place + 1:]
