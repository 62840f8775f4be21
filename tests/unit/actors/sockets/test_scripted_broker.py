"""The other end of the connections in these tests leaves nothing to the tests after them."""

from __future__ import annotations

import socket
import threading

from tests.unit.actors.sockets.scripted_broker import Peer, ScriptedBroker


def test_a_thread_that_waits_in_its_socket_has_it_open_until_it_has_ended() -> None:
    numbers: list[int] = []
    begun = threading.Event()

    def script(peer: Peer) -> None:
        begun.set()
        try:
            peer.read()
        finally:
            numbers.append(peer.sock.fileno())

    with ScriptedBroker(script) as broker:
        client = socket.create_connection(("127.0.0.1", broker.port))
        begun.wait()

    client.close()
    assert len(numbers) == 1
    assert numbers != [-1], "another file may have had the number meanwhile"
