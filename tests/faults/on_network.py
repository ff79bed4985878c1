"""Foreign connections to lead while the ranks join."""

import select
import socket
import time

from kinds import ALL_JOBS, EMPTY_RESTART_LIST, Injected, Kind, Scene, Truth, causes

FLOOD_S = 2.0
OPEN_CONNECTIONS = 300  # at a time


def flood(scene: Scene) -> Injected:
    """Opens connections from the login node and sends nothing or invalid bytes; reconnects whenever
    lead closes a connection. Ends after FLOOD_S, or when the run has ended."""
    started = next(event for event in scene.job.events() if event["event"] == "started")
    host, port = started["lead"].split(",")[0].rsplit(":", 1)
    nonsense = [
        b"",
        b"GET / HTTP/1.0\r\n\r\n",
        b"DLRUN1\n" + bytes(32),
        scene.generator.randbytes(400),
    ]
    poller = select.poll()
    strangers: dict[int, socket.socket] = {}
    opened = 0
    injected = Injected()
    until = time.monotonic() + FLOOD_S
    while time.monotonic() < until and not scene.job.has_ended():
        while len(strangers) < OPEN_CONNECTIONS:
            stranger = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            stranger.setblocking(False)
            stranger.connect_ex((host, int(port)))
            strangers[stranger.fileno()] = stranger
            poller.register(stranger, select.POLLIN | select.POLLOUT)
            opened += 1
        for descriptor, ready in poller.poll(20):
            stranger = strangers[descriptor]
            try:
                if ready & select.POLLOUT:
                    stranger.send(nonsense[opened % len(nonsense)])
                    poller.modify(stranger, select.POLLIN)
                elif not stranger.recv(4096):
                    raise ConnectionError
            except OSError:
                poller.unregister(stranger)
                stranger.close()
                del strangers[descriptor]
    for stranger in strangers.values():
        stranger.close()
    injected.words = f"strangers at {host}:{port}: {opened} connections"
    return injected


KINDS = (
    Kind(
        "foreign flood while joining",
        flood,
        Truth(causes=causes(EMPTY_RESTART_LIST), blames="nobody"),
        jobs=ALL_JOBS,
        weight=3,
        is_before_join=True,
    ),
)
