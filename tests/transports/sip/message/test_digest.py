"""Digest authentication, both ends, with the examples of the RFCs."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.transports.sip.message import authparams, digest
from rtc_server.transports.sip.message.digest import Challenger, Outcome, Verdict

URI = "sip:agent@203.0.113.50"
PEER = "192.0.2.1"
PASSWORDS = {"ann": "open sesame", 'a"\\n': "x", "Jäger": "Schloß"}
NONCE_7616 = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"
CNONCE_7616 = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
CHALLENGES_7616 = [
    f'Digest realm="http-auth@example.org", qop="auth, auth-int", algorithm={algorithm}, nonce="{NONCE_7616}", '
    'opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"'
    for algorithm in ("SHA-256", "MD5")
]


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def challenger(clock: Clock | None = None, algorithms: tuple[str, ...] = digest.ALGORITHMS) -> Challenger:
    return Challenger("rtc_server", clock or Clock(), b"0" * 32, algorithms)


def check(server: Challenger, value: str | None, method: str = "INVITE", uri: str = URI) -> Outcome:
    assert value is not None
    return server.check(value, method, uri, PASSWORDS.get, PEER).outcome


def answer(
    challenges: list[str], username: str = "ann", password: str | None = None, count: int = 1, uri: str = URI
) -> str:
    known = PASSWORDS[username] if password is None else password
    return digest.answer(challenge_in(challenges), "INVITE", uri, username, known, nonce_count=count)


def challenge_in(values: list[str]) -> dict[str, str]:
    (challenge,) = digest.answerable(values).values()
    return challenge


def params(value: str) -> dict[str, str]:
    ((scheme, found),) = authparams.parse(value)
    assert scheme == "digest"
    return found


# ---- the client's end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("challenge", "response"),
    [
        (CHALLENGES_7616[0], "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        (CHALLENGES_7616[1], "8ca523f5e9506fed4657c9700eebdbec"),
    ],
)
def test_example_of_rfc_7616_section_3_9_1(challenge: str, response: str) -> None:
    value = digest.answer(
        challenge_in([challenge]), "GET", "/dir/index.html", "Mufasa", "Circle of Life", cnonce=CNONCE_7616
    )
    assert params(value)["response"] == response


def test_example_of_rfc_2617_section_3_5() -> None:
    challenge = (
        'Digest realm="testrealm@host.com", qop="auth,auth-int", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", '
        'opaque="5ccc069c403ebaf9f0171e9517f40e41"'
    )
    asked = challenge_in([challenge])
    value = digest.answer(asked, "GET", "/dir/index.html", "Mufasa", "Circle Of Life", cnonce="0a4f113b")
    assert value == (
        'Digest username="Mufasa", realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", '
        'uri="/dir/index.html", qop=auth, cnonce="0a4f113b", nc=00000001, '
        'response="6629fae49393a05397450978507c4ef1", opaque="5ccc069c403ebaf9f0171e9517f40e41"'
    )


def test_strongest_algorithm_is_answered_wherever_it_stands() -> None:
    weak, strong = 'Digest realm="a", nonce="1"', 'Digest realm="a", nonce="2", algorithm=sha-256'
    for challenges in ([weak, strong], [strong, weak], [f"{weak}, {strong}"], [f'Basic realm="a", {strong}', weak]):
        found = params(answer(challenges))
        assert (found["nonce"], found["algorithm"]) == ("2", "sha-256")


def test_challenge_nobody_here_can_answer_is_passed_over() -> None:
    known = 'Digest realm="a", nonce="2"'
    others = [
        'Digest realm="a", nonce="1", algorithm=SHA-512-256',
        'Digest realm="a", nonce="1", qop="auth-conf"',
        'Digest realm="a", algorithm=SHA-256',
        'Digest nonce="1", algorithm=SHA-256',
        'Digest realm="a", nonce="1", nonce="2", algorithm=SHA-256',
        'Basic realm="a"',
        'Digest realm="open',
        "Negotiate",
        "",
        "Digest " + "x" * authparams.MAX_CHARS,
    ]
    assert params(answer([*others, known]))["nonce"] == "2"
    assert digest.answerable(others) == digest.answerable([]) == {}


def test_strongest_challenge_of_each_realm_is_answered_in_the_order_in_which_they_ask() -> None:
    def challenge(realm: str, algorithm: str) -> str:
        return f'Digest realm="{realm}", nonce="n", algorithm={algorithm}'

    asked = [challenge("a", "MD5"), challenge("b", "MD5"), challenge("a", "SHA-256"), challenge("a", "MD5-sess")]
    chosen = digest.answerable(asked)
    assert [(realm, params["algorithm"]) for realm, params in chosen.items()] == [("a", "SHA-256"), ("b", "MD5")]


def test_server_without_qop_gets_the_old_response() -> None:
    value = answer(['Digest realm="r", nonce="n"'])

    def md5(text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    expected = md5(f"{md5('ann:r:open sesame')}:n:{md5(f'INVITE:{URI}')}")
    assert params(value) == {"username": "ann", "realm": "r", "nonce": "n", "uri": URI, "response": expected}


def test_session_kind_and_integrity_are_answered() -> None:
    def sha(text: str | bytes) -> str:
        return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()

    challenge = 'Digest realm="r", nonce="n", algorithm=SHA-256-sess, qop="auth-int"'
    value = digest.answer(challenge_in([challenge]), "INVITE", URI, "ann", "pw", b"body", 2, cnonce="c")
    secret = sha(f"{sha('ann:r:pw')}:n:c")
    request = sha(f"INVITE:{URI}:{sha(b'body')}")
    found = params(value)
    assert found["response"] == sha(f"{secret}:n:00000002:c:auth-int:{request}")
    assert (found["qop"], found["nc"]) == ("auth-int", "00000002")
    assert "cnonce" in params(answer(['Digest realm="r", nonce="n", algorithm=MD5-sess']))


def test_every_answer_has_a_cnonce_of_its_own() -> None:
    assert len({params(answer(CHALLENGES_7616))["cnonce"] for _ in range(50)}) == 50


# ---- the server's end ------------------------------------------------------------------------------------------------


def test_challenge_is_written_as_sip_wants_it() -> None:
    strong, weak = challenger().challenge(PEER, stale=True)
    form = r'Digest realm="rtc_server", nonce="[\w=-]+", algorithm={}, qop="auth", stale=true'
    assert re.fullmatch(form.format("SHA-256"), strong)
    assert re.fullmatch(form.format("MD5"), weak)
    assert all("stale" not in value for value in challenger().challenge(PEER))


def test_qop_is_quoted_in_a_challenge_and_bare_in_an_answer() -> None:
    value = answer(challenger().challenge(PEER))
    assert ", qop=auth, " in value and ", nc=00000001, " in value and "algorithm=SHA-256" in value


@pytest.mark.parametrize("username", PASSWORDS)
@pytest.mark.parametrize("algorithm", digest.ALGORITHMS)
def test_right_password_proves_the_user(username: str, algorithm: str) -> None:
    server = challenger(algorithms=(algorithm,))
    value = answer(server.challenge(PEER), username)
    assert server.check(value, "INVITE", URI, PASSWORDS.get, PEER) == Verdict(Outcome.OK, username)


def test_wrong_password_and_unknown_user_are_wrong() -> None:
    server = challenger()
    assert check(server, answer(server.challenge(PEER), password="guess")) is Outcome.WRONG
    assert check(server, answer(server.challenge(PEER), "ann").replace('"ann"', '"bob"')) is Outcome.WRONG
    nobody = digest.answer(challenge_in(server.challenge(PEER)), "INVITE", URI, "nobody", "")
    assert check(server, nobody) is Outcome.WRONG


def test_answer_is_for_one_method() -> None:
    server = challenger()
    assert check(server, answer(server.challenge(PEER)), method="BYE") is Outcome.WRONG


def test_answer_is_for_one_number_but_a_proxy_may_change_the_host() -> None:
    server = challenger()
    assert check(server, answer(server.challenge(PEER), uri="sip:agent@pbx.example;user=phone")) is Outcome.OK
    assert check(server, answer(server.challenge(PEER), uri="sip:203.0.113.50:5060")) is Outcome.OK
    assert check(server, answer(server.challenge(PEER), uri="sip:+1900@203.0.113.50")) is Outcome.MALFORMED
    assert check(server, answer(server.challenge(PEER), uri="not a uri")) is Outcome.MALFORMED


def test_each_count_of_a_nonce_serves_once() -> None:
    server = challenger()
    challenges = server.challenge(PEER)
    first, third, second = (answer(challenges, count=count) for count in (1, 3, 2))
    assert check(server, first) is Outcome.OK
    assert check(server, first) is Outcome.STALE
    assert check(server, third) is Outcome.OK
    assert check(server, second) is Outcome.STALE


def test_client_without_qop_uses_a_nonce_once() -> None:
    server = challenger()
    old = [value.replace(', qop="auth"', "") for value in server.challenge(PEER)]
    value = answer(old)
    assert "qop" not in value
    assert check(server, value) is Outcome.OK
    assert check(server, value) is Outcome.STALE
    assert check(server, answer([f'{old[0]}, qop="auth"'], count=9)) is Outcome.STALE


def nonce_replaced(challenges: list[str]) -> list[str]:
    return [re.sub(r'nonce="[^"]*"', 'nonce="made up"', value) for value in challenges]


def test_nonce_that_is_not_fresh_is_stale_and_tells_nothing_of_the_password() -> None:
    """Else one could guess passwords under it without ever being wrong."""
    clock = Clock()
    server = challenger(clock)
    old = server.challenge(PEER)
    clock.now_s += 61.0
    elsewhere = server.challenge("192.0.2.2")
    restarted = Challenger("rtc_server", clock, b"1" * 32).challenge(PEER)
    for challenges in (old, elsewhere, restarted, nonce_replaced(old)):
        for username, password in (("ann", "open sesame"), ("ann", "guess"), ("nobody", "guess")):
            value = answer(challenges, username, password)
            assert server.check(value, "INVITE", URI, PASSWORDS.get, PEER) == Verdict(Outcome.STALE)
    assert check(server, answer(server.challenge(PEER, stale=True))) is Outcome.OK


def test_password_is_not_asked_for_under_a_nonce_that_is_not_fresh() -> None:
    def password_of(username: str) -> str:
        raise AssertionError(username)

    server = challenger()
    value = answer(nonce_replaced(server.challenge(PEER)))
    assert server.check(value, "INVITE", URI, password_of, PEER).outcome is Outcome.STALE


def test_answer_serves_at_the_address_that_was_challenged() -> None:
    server = challenger()
    value = answer(server.challenge(PEER))
    assert server.check(value, "INVITE", URI, PASSWORDS.get, "192.0.2.2").outcome is Outcome.STALE
    assert check(server, value) is Outcome.OK


def test_failures_do_not_use_up_a_nonce() -> None:
    server = challenger()
    challenges = server.challenge(PEER)
    assert check(server, answer(challenges, password="guess")) is Outcome.WRONG
    assert check(server, answer(challenges)) is Outcome.OK


def test_answer_to_another_realm_is_not_for_us() -> None:
    assert check(challenger(), answer(['Digest realm="elsewhere", nonce="n"'])) is Outcome.OTHER_REALM


def test_algorithm_that_was_not_offered_is_refused() -> None:
    weak = answer([challenger().challenge(PEER)[1]])
    assert check(challenger(algorithms=("SHA-256",)), weak) is Outcome.MALFORMED
    assert check(challenger(), weak.replace("algorithm=MD5", "algorithm=MD5-sess")) is Outcome.MALFORMED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nc=00000001", "nc=1"),
        ("nc=00000001", "nc=0000000g"),
        ("nc=00000001, ", ""),
        ("qop=auth", "qop=auth-int"),
        ("cnonce=", "xnonce="),
        ("response=", "xresponse="),
        ('username="ann", ', ""),
        ('username="ann"', 'username="ann", username="ann"'),
        ("Digest ", "Basic "),
        ("Digest ", "Digest"),
        ("Digest ", 'Digest realm="x", Digest '),
        ('response="', 'response="é'),
        ('response="', 'response="x'),
        (", algorithm", " algorithm"),
    ],
)
def test_malformed_answer_is_told_so(old: str, new: str) -> None:
    server = challenger()
    value = answer(server.challenge(PEER))
    assert old in value
    assert check(server, value.replace(old, new)) is Outcome.MALFORMED


@given(st.text(max_size=60) | st.text('Digestusernamrlocp=", \\', max_size=60).map("Digest ".__add__))
def test_whatever_an_answer_holds_is_judged(value: str) -> None:
    assert check(challenger(), value) in (Outcome.MALFORMED, Outcome.OTHER_REALM)
    for challenge in digest.answerable([value]).values():
        digest.answer(challenge, "INVITE", URI, "ann", "x")


@given(st.dictionaries(st.sampled_from(["username", "realm", "opaque"]), st.text(max_size=20), min_size=1))
def test_quoted_values_come_back_as_they_were(values: dict[str, str]) -> None:
    assert authparams.parse(authparams.format_challenge(values)) == [("digest", values)]
    assert authparams.parse(authparams.format_credentials(values)) == [("digest", values)]
