from __future__ import annotations

import io

from rich.console import Console

from rtc_server.talk.screen import Screen


def screen(encoding: str = "utf-8") -> tuple[Screen, io.BytesIO, io.BytesIO]:
    out, err = io.BytesIO(), io.BytesIO()
    consoles = [
        Console(file=io.TextIOWrapper(stream, encoding, write_through=True), highlight=False) for stream in (out, err)
    ]
    return Screen(*consoles), out, err


def test_words_run_on_and_remarks_stand_beside_them() -> None:
    shown, out, err = screen()
    for piece in (" Hello", ",", " [bold]you[/bold]"):
        shown.words(piece)
    shown.remark("It is late.")
    shown.words(" again")
    shown.end_line()
    shown.end_line()
    assert out.getvalue() == b" Hello, [bold]you[/bold]\n again\n"
    assert err.getvalue() == b"It is late.\n"


def test_what_could_harm_a_terminal_is_left_out() -> None:
    shown, out, err = screen()
    shown.words("\x1b]0;title\x07\x9b2J a\r\nb\x08")
    shown.remark("\x1b[31mred")
    assert out.getvalue() == b"]0;title2J a\nb\n"
    assert err.getvalue() == b"[31mred\n"


def test_letters_that_a_terminal_has_not_are_replaced() -> None:
    shown, out, _ = screen("ascii")
    shown.words(" für")
    assert out.getvalue() == b" f?r"
