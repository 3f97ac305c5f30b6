"""Openings of conversations: given calls taken in one pass or several, from a cache, and moved to another row."""

from __future__ import annotations

from rtc_server.engine.personaplex.config import LmConfig
from rtc_server.engine.personaplex.prompt import align
from rtc_server.engine.personaplex.verify.compare import HIDDEN_LIMIT, Comparison
from rtc_server.engine.personaplex.verify.folder import GoldenFolder, Models
from rtc_server.engine.personaplex.verify.language import FILES, WEIGHTS, Trace, traces_of
from rtc_server.engine.personaplex.verify.rows import GreedyRows

MIN_CALLS = 3
"""Of an opening: less cannot be taken in parts."""


def check(folder: GoldenFolder, models: Models, compare: Comparison) -> None:
    config = folder.lm_config("lm", personaplex=True)
    if why := no_openings(config):
        compare.report.skip("openings", why)
        return
    rows = GreedyRows(models.lm(WEIGHTS, config, rows=4), models.device)
    for trace in traces_of(folder.tensors(FILES[0]), config):
        if min(trace.opening, len(trace) - 1) >= MIN_CALLS:
            _check_trace(trace, rows, compare)


def _check_trace(trace: Trace, rows: GreedyRows, compare: Comparison) -> None:
    opening = trace.opening
    given, group = trace.calls[:opening], f"lm {trace.name}, prefill"
    want = trace.want["hidden"][0, :opening]
    for name, chunks in (("whole", ()), ("chunks", chunk_sizes(opening))):
        rows.reset(1)
        hidden = rows.prefill(1, given, chunks)
        compare.near(f"{group}, {name}: hidden", hidden, want, HIDDEN_LIMIT)
    # Short of the end, so that there is something left to go on with where every call is given.
    first = opening if opening < len(trace) else 2 * len(trace) // 3
    rows.reset(1)
    rows.prefill(1, trace.calls[:first], chunk_sizes(first))
    _go_on(trace, rows, first, 1, compare, f"{group}, then live")
    _from_cache(trace, rows, first, compare, f"{group}, cache, moved")


def no_openings(config: LmConfig) -> str:
    """Why such a model takes no opening in one pass; empty if it does."""
    if max(config.delays) <= 1:
        return ""
    return f"openings are made for delays of at most one call, and here is one of {max(config.delays)}"


def chunk_sizes(positions: int) -> list[int]:
    """Uneven ones, together no more than `positions`."""
    sizes: list[int] = []
    size = 1
    while sum(sizes) + size <= positions:
        sizes.append(size)
        size = size % 7 + 3
    return sizes


def _from_cache(trace: Trace, rows: GreedyRows, first: int, compare: Comparison, group: str) -> None:
    """The start of the opening is saved from one row and loaded into another, as for a second persona; the conversation
    then changes its row in the middle."""
    lm = rows.lm
    saved = min(first // 2, lm.kv.capacity)
    positions = align(lm.config, trace.calls[:first])
    rows.reset(2)
    rows.open(2, 0, lm.embed(positions[:saved].to(rows.device)), positions[saved])
    keys = lm.kv.save(2, saved)
    rows.step({2: trace.calls[saved]})  # the row it came from goes on, which must not show
    rows.reset(3)
    lm.kv.load(3, keys)
    lm.kv.set_length(3, saved)
    hidden = rows.open(3, saved, lm.embed(positions[:-1].to(rows.device)), positions[-1])
    compare.near(f"{group}: hidden", hidden, trace.want["hidden"][0, saved:first], HIDDEN_LIMIT)
    middle = (first + len(trace)) // 2
    alike = _go_on(trace, rows, first, 3, compare, group, stop=middle)
    rows.reset(0)
    rows.move(3, 0)
    _go_on(trace, rows, middle, 0, compare, group, alike=alike)


def _go_on(
    trace: Trace,
    rows: GreedyRows,
    start: int,
    row: int,
    compare: Comparison,
    group: str,
    *,
    stop: int | None = None,
    alike: bool = True,
) -> bool:
    """Calls start..stop-1. False once the conversation has taken another turn."""
    for c in range(start, len(trace) if stop is None else stop):
        step = rows.step({row: trace.calls[c]})
        if alike:
            compare.near(f"{group}: hidden", step.hidden[row], trace.want["hidden"][0, c], HIDDEN_LIMIT)
        free_next = not trace.given[c + 1]
        want = trace.frame(c)
        if want is not None and free_next:
            same = compare.same(f"{group}: tokens", step.frame[row], want, f"frame, call {c}")
            alike &= same
    return alike
