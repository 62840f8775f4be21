"""In which order the addresses of a name are tried."""

from __future__ import annotations

import socket

from aktor.actors.sockets.addresses import HEAD_START, Address, AddressBook, head_start


def v4(last: int) -> Address:
    return (socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{last}", 9092))


def v6(last: int) -> Address:
    return (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (f"::{last}", 9092, 0, 0))


FOUND = [v6(1), v6(2), v6(3), v4(1), v4(2)]
IN_TURNS = [v6(1), v4(1), v6(2), v4(2), v6(3)]


def test_families_take_turns_and_the_resolvers_first_begins() -> None:
    assert AddressBook().ordered("name", 9092, FOUND) == IN_TURNS


def test_the_next_attempt_begins_with_the_address_that_works() -> None:
    book = AddressBook()
    book.note("name", 9092, v4(2), works=True)

    assert book.ordered("name", 9092, FOUND) == [v4(2), v6(3), v6(1), v4(1), v6(2)]


def test_the_next_attempt_goes_on_after_the_address_that_failed() -> None:
    book = AddressBook()
    book.note("name", 9092, v4(1), works=False)

    assert book.ordered("name", 9092, FOUND) == [v6(2), v4(2), v6(3), v6(1), v4(1)]


def test_after_the_last_address_comes_the_first() -> None:
    book = AddressBook()
    book.note("name", 9092, v6(3), works=False)

    assert book.ordered("name", 9092, FOUND) == IN_TURNS


def test_an_address_that_the_name_has_no_longer_is_forgotten() -> None:
    book = AddressBook()
    book.note("name", 9092, v4(9), works=True)

    assert book.ordered("name", 9092, FOUND) == IN_TURNS


def test_names_are_told_apart_by_their_ports() -> None:
    book = AddressBook()
    book.note("name", 9093, v4(2), works=True)

    assert book.ordered("name", 9092, FOUND) == IN_TURNS


def test_each_address_has_its_share_of_the_time_that_there_is() -> None:
    assert head_start(2, within=10.0) == HEAD_START
    assert head_start(20, within=4.0) == 0.2
