#!/usr/bin/env python3
"""usage: slow_link.py SECONDS PORT

Connects standard input and output to a port of this machine and delays each byte by SECONDS, in
both directions. As ssh's ProxyCommand, it simulates a host with a round trip of twice SECONDS. Ends
as soon as one side closes; bytes that are still delayed then are lost.
"""

import os
import selectors
import socket
import sys
import time


def main():
    delay_s, port = float(sys.argv[1]), int(sys.argv[2])
    peer = socket.create_connection(("127.0.0.1", port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ, peer.fileno())
    selector.register(peer.fileno(), selectors.EVENT_READ, 1)
    delayed = []  # (time to send, descriptor, bytes)
    while True:
        timeout_s = max(0, delayed[0][0] - time.monotonic()) if delayed else None
        for key, _ in selector.select(timeout_s):
            data = os.read(key.fd, 1 << 16)
            if not data:
                return
            delayed.append((time.monotonic() + delay_s, key.data, data))
        while delayed and delayed[0][0] <= time.monotonic():
            _, descriptor, data = delayed.pop(0)
            while data:
                data = data[os.write(descriptor, data) :]


main()
