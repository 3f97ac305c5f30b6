"""Plain Moshi: no opening, its own window rule, and initial tokens that are not told to the depformer."""

from __future__ import annotations

from rtc_server.engine.personaplex.config import AGENT_ROWS, CODEBOOKS
from rtc_server.engine.personaplex.verify.compare import TEXT_LOGITS_LIMIT, Comparison
from rtc_server.engine.personaplex.verify.folder import GoldenFolder, Models, Tensors
from rtc_server.engine.personaplex.verify.language import NONE_EMITTED, compare_frame
from rtc_server.engine.personaplex.verify.rows import GreedyRows, call_of

WEIGHTS = "moshiko_lm_tiny.safetensors"
FILES = ("moshiko_lm_golden.safetensors", WEIGHTS)
NOT_PRODUCING = -2
"""In all rows of a frame of a batch, where the reference has none yet."""
ROWS = slice(0, AGENT_ROWS.stop)
"""Of a frame: the reference of Moshi emits no user codes."""
RESET = "batch.reset_row1_at"


def check(folder: GoldenFolder, models: Models, compare: Comparison) -> None:
    config = folder.lm_config("mk", personaplex=False)
    golden = folder.tensors(FILES[0])
    _alone(golden, GreedyRows(models.lm(WEIGHTS, config, rows=1), models.device), compare)
    users = golden["batch.user_codes"]
    _batch(golden, GreedyRows(models.lm(WEIGHTS, config, rows=len(users)), models.device), compare)


def _alone(golden: Tensors, rows: GreedyRows, compare: Comparison) -> None:
    user, alike = golden["user_codes"], True
    for c in range(user.shape[1]):
        step = rows.step({0: call_of(user[:, c])})
        if alike:
            compare.near("moshi: text logits", step.text_logits[0], golden["text_logits"][0, c], TEXT_LOGITS_LIMIT)
        group = "moshi: tokens"
        alike &= compare.same(group, step.sampled_text[0], golden["sampled_text"][0, c], f"text, call {c}")
        codes = golden["sampled_audio"][0, c, :CODEBOOKS]
        alike &= compare.same(group, step.sampled_codes[0], codes, f"codes, call {c}")
        want = golden["emitted"][0, c]
        frame = None if bool((want == NONE_EMITTED).all()) else want
        alike &= compare_frame(compare, group, step.frame[0, ROWS], step.valid[0], frame, f"frame, call {c}")


def _batch(golden: Tensors, rows: GreedyRows, compare: Comparison) -> None:
    """Row 1 starts anew in the middle."""
    users, emitted = golden["batch.user_codes"], golden["batch.emitted"]
    restart = int(golden[RESET])
    for c in range(users.shape[2]):
        if c == restart:
            rows.reset(1)
        step = rows.step({row: call_of(user[:, c]) for row, user in enumerate(users)})
        for row in range(len(users)):
            want = emitted[row, c]
            frame = None if bool((want == NOT_PRODUCING).all()) else want
            place = f"row {row}, call {c}"
            compare_frame(
                compare, "moshi rows, one reset: tokens", step.frame[row, ROWS], step.valid[row], frame, place
            )
