"""An application decides about the calls of real phones: who answers them, or what they are told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import ServerProcess, running_server
from tests.e2e.sip.application import Application, running_application
from tests.e2e.sip.baresip import running_baresip
from tests.e2e.sip.namingecho import OTHER_VOICE, USUAL_VOICE, NamingEcho
from tests.e2e.sip.phoneline import NUMBER, RINGS, PhoneLine, answered_call, call_feed
from tests.e2e.sip.pjsua import running_pjsua

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

SECRET = "known to the two of them"
TIMEOUT_S = 2.0
PERSONA = "You take orders."
RULE_PERSONA = "30"
"""What the number `RINGS` says by itself."""


class Decided:
    """A line whose calls an application decides about."""

    def __init__(self, application: Application, line: PhoneLine, server: ServerProcess) -> None:
        self.application = application
        self.server = server
        self._line = line

    def uri(self, number: str = NUMBER) -> str:
        return f"sip:{number}@127.0.0.1:{self._line.port}"

    async def who_answers(self) -> str:
        """``PERSONA|VOICE`` of the only call."""
        async with call_feed(self.server.url, await answered_call(self.server)) as feed:
            return str((await feed.until("text"))["text"])

    async def ended(self) -> tuple[str, str | None]:
        """Reason and detail of the call that was begun, which has ended or is about to."""
        async with asyncio.timeout(15):
            while True:
                _, body = await self.server.get("/v1/calls")
                (call,) = body["calls"]
                if call["state"] == "ended":
                    return call["end_reason"], call["end_detail"]
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def decided_line(
    directory: Path, *, known_secret: str = SECRET, on_failure: str = "reject"
) -> AsyncIterator[Decided]:
    secret = directory / "webhook-secret"
    secret.write_text(SECRET + "\n")
    async with running_application(known_secret) as application:
        settings = (
            f'webhook_url = "{application.url}"',
            f'webhook_secret_file = "{secret}"',
            f"webhook_timeout_s = {TIMEOUT_S}",
            f'webhook_on_failure = "{on_failure}"',
        )
        line = PhoneLine(directory, more="\n".join(settings))
        engine = f"{NamingEcho.__module__}:{NamingEcho.__name__}"
        async with running_server(directory, engine, 2, *line.flags) as server:
            yield Decided(application, line, server)


async def test_a_call_is_answered_by_whom_the_application_names(microphone: Path, tmp_path: Path) -> None:
    async with decided_line(tmp_path) as decided, running_pjsua(tmp_path / "pjsua", microphone) as phone:
        decided.application.answer = {"action": "accept", "persona": PERSONA, "voice": OTHER_VOICE}
        await phone.call(decided.uri())
        assert await decided.who_answers() == f"{PERSONA}|{OTHER_VOICE}"
        await phone.ask("hangup")
        assert await decided.ended() == ("peer_closed", None)
        (question,) = decided.application.asked
    assert question.pop("call_id").startswith("call_")
    assert question == {"trunk": "phones", "from": "pj", "to": NUMBER, "headers": {}}
    assert decided.application.not_believed == 0


async def test_an_application_that_names_nobody_leaves_it_to_the_number(microphone: Path, tmp_path: Path) -> None:
    async with decided_line(tmp_path) as decided, running_baresip(tmp_path / "baresip", microphone) as phone:
        await phone.ask("dial", decided.uri(RINGS))
        await phone.until("CALL_ESTABLISHED")
        assert await decided.who_answers() == f"{RULE_PERSONA}|{USUAL_VOICE}"
        await phone.ask("hangup")
        assert [question["to"] for question in decided.application.asked] == [RINGS]


@pytest.mark.parametrize(("said", "status"), [({}, 603), ({"status": 486}, 486), ({"status": 404}, 404)])
async def test_a_caller_whom_the_application_rejects_is_told_its_status(
    microphone: Path, tmp_path: Path, said: Mapping[str, Any], status: int
) -> None:
    async with decided_line(tmp_path) as decided, running_pjsua(tmp_path / "pjsua", microphone) as phone:
        decided.application.answer = {"action": "reject", **said}
        with pytest.raises(AssertionError, match=rf": {status} "):
            await phone.call(decided.uri())
        assert await decided.ended() == ("rejected", str(status))
        assert await decided.server.slots_in_use() == 0


async def test_a_caller_hears_nothing_of_an_application_that_does_not_answer_but_that_nobody_is_there(
    microphone: Path, tmp_path: Path
) -> None:
    async with decided_line(tmp_path) as decided, running_pjsua(tmp_path / "pjsua", microphone) as phone:
        decided.application.answer = None
        with pytest.raises(AssertionError, match=r": 480 "):
            await phone.call(decided.uri())
        assert await decided.ended() == ("webhook_failed", f"no answer within {TIMEOUT_S:g} s")
        assert len(decided.application.asked) == 1


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        pytest.param(b"take it", 200, "not JSON", id="no JSON"),
        pytest.param({"action": "think"}, 200, "neither", id="no decision"),
        pytest.param({"action": "reject", "status": 200}, 200, "status", id="no refusal"),
        pytest.param({"action": "accept", "voice": "nobody's"}, 200, "voice", id="no such voice"),
        pytest.param({"action": "accept", "persona": "x" * 4001}, 200, "4001 characters", id="too long"),
        pytest.param({"action": "accept"}, 500, "HTTP status 500", id="failed"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_none(
    microphone: Path, tmp_path: Path, answer: Mapping[str, Any] | bytes, status: int, why: str
) -> None:
    async with decided_line(tmp_path) as decided, running_pjsua(tmp_path / "pjsua", microphone) as phone:
        decided.application.answer, decided.application.status = answer, status
        with pytest.raises(AssertionError, match=r": 480 "):
            await phone.call(decided.uri())
        reason, detail = await decided.ended()
        assert reason == "webhook_failed"
        assert why in str(detail)
        assert await decided.server.slots_in_use() == 0


async def test_an_application_with_another_secret_does_not_believe_us(microphone: Path, tmp_path: Path) -> None:
    async with (
        decided_line(tmp_path, known_secret="known to one of them") as decided,
        running_pjsua(tmp_path / "pjsua", microphone) as phone,
    ):
        with pytest.raises(AssertionError, match=r": 480 "):
            await phone.call(decided.uri())
        assert await decided.ended() == ("webhook_failed", "HTTP status 401")
    assert (decided.application.asked, decided.application.not_believed) == ([], 1)


async def test_calls_may_be_taken_where_the_application_does_not_answer(microphone: Path, tmp_path: Path) -> None:
    async with (
        decided_line(tmp_path, on_failure="accept") as decided,
        running_pjsua(tmp_path / "pjsua", microphone) as phone,
    ):
        decided.application.answer = None
        await phone.call(decided.uri(RINGS))
        assert await decided.who_answers() == f"{RULE_PERSONA}|{USUAL_VOICE}"
        await phone.ask("hangup")
        assert await decided.ended() == ("peer_closed", None)


async def test_a_caller_need_not_wait_for_the_application(microphone: Path, tmp_path: Path) -> None:
    async with decided_line(tmp_path) as decided, running_baresip(tmp_path / "baresip", microphone) as phone:
        decided.application.answer = None
        await phone.ask("dial", decided.uri())
        await decided.application.was_asked.wait()
        await phone.ask("hangup")
        assert await decided.ended() == ("cancelled", None)
        assert "CALL_ESTABLISHED" not in [event["type"] for event in phone.past]
