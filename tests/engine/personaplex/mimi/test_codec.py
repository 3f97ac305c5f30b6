from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.profiler import profile
from torch.nn import functional

from rtc_server.engine.personaplex.mimi import codec as codec_module
from rtc_server.engine.personaplex.mimi import quantizer as quantizer_module
from rtc_server.engine.personaplex.mimi import transformer as transformer_module
from rtc_server.engine.personaplex.mimi.codec import Mimi, Trace
from rtc_server.engine.personaplex.mimi.convolution import Convolution
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import golden, largest_error
from tests.engine.personaplex.mimi.tiny import (
    FRAME,
    FRAMES,
    HIDDEN,
    PCM,
    everyone,
    frames_in,
    memory,
    only,
    single_run,
    tiny_codec,
    tiny_config,
    wanted,
)

STAGES = ("seanet_enc", "enc_transformer", "latent", "dec_latent", "upsampled", "dec_transformer")
LIMITS = dict.fromkeys(STAGES, HIDDEN) | {"codes": 0.0, "pcm_out": PCM, "pcm of random codes": PCM}


# ---- the reference's numbers -----------------------------------------------------------------------------------------


def errors(codec: Mimi) -> dict[str, float]:
    """Of the golden run by stage, each frame decoded from the reference's codes; codes are right or wrong (0 or 1)."""
    worst: dict[str, float] = defaultdict(float)
    for index, frame in enumerate(frames_in()):
        trace: Trace = {}
        codes = codec.encode(frame[None], everyone(1), trace=trace)[0]
        pcm = codec.decode(wanted("codes", index)[None], everyone(1), trace=trace)[0]
        got = {name: x[0] for name, x in trace.items()} | {"codes": codes, "pcm_out": pcm}
        for name, x in got.items():
            worst[name] = max(worst[name], largest_error(x, wanted(name, index)))
    worst["codes"] = float(worst["codes"] > 0)
    codec.reset(0)
    run = golden("mimi_golden")
    for codes, pcm in zip(run["dec_only.codes"][0].t(), run["dec_only.pcm_out"].view(-1, FRAME), strict=True):
        got_pcm = codec.decode(codes[None], everyone(1))[0]
        worst["pcm of random codes"] = max(worst["pcm of random codes"], largest_error(got_pcm, pcm))
    return worst


def test_every_stage_matches_the_reference() -> None:
    found = errors(tiny_codec(1))
    assert found.keys() == LIMITS.keys()
    assert all(error <= LIMITS[name] for name, error in found.items()), found


def test_rows_that_come_late_pause_and_start_anew_match_the_reference() -> None:
    """Row 0 is the golden run, row 1 comes late and pauses, row 2 is used by somebody else before."""
    codec = tiny_codec(3)
    noise = torch.randn(FRAME, generator=torch.Generator().manual_seed(1))
    seen = [0, 0, 0]
    for call in range(FRAMES + 12):
        if call == 9:
            codec.reset(2)
        active = torch.tensor([call < FRAMES, call >= 5 and call % 4 != 3 and seen[1] < FRAMES, seen[2] < FRAMES])
        inputs = torch.stack([frames_in()[min(count, FRAMES - 1)] for count in seen])
        if call < 9:
            inputs[2] = noise
        codes = codec.encode(inputs, active)
        pcm = codec.decode(codes, active)
        for row, count in enumerate(seen):
            if not active[row] or (row == 2 and call < 9):
                continue
            assert torch.equal(codes[row], wanted("codes", count)), (call, row)
            assert largest_error(pcm[row], wanted("pcm_out", count)) < PCM, (call, row)
            seen[row] += 1
    assert seen[0] == FRAMES and seen[1] > 20 and seen[2] == FRAMES


def tanh_gelu(patch: pytest.MonkeyPatch) -> Mimi:
    gelu = functional.gelu
    patch.setattr(functional, "gelu", lambda x: gelu(x, approximate="tanh"))
    return tiny_codec(1)


def wider_window(patch: pytest.MonkeyPatch) -> Mimi:
    return tiny_codec(1, personaplex=False)


def no_clamp(patch: pytest.MonkeyPatch) -> Mimi:
    patch.setattr(quantizer_module, "MIN_USAGE", 0.0)
    return tiny_codec(1)


def zeros_before_the_first_latent(patch: pytest.MonkeyPatch) -> Mimi:
    patch.setattr(codec_module, "ReplicatingConvolution", Convolution)
    return tiny_codec(1)


def wrong_norm_eps(patch: pytest.MonkeyPatch) -> Mimi:
    patch.setattr(transformer_module, "NORM_EPS", 1e-3)
    return tiny_codec(1)


@pytest.mark.parametrize("changed", [tanh_gelu, wider_window, no_clamp, zeros_before_the_first_latent, wrong_norm_eps])
def test_the_reference_run_notices_a_changed_rule(
    changed: Callable[[pytest.MonkeyPatch], Mimi], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = errors(changed(monkeypatch))
    assert any(error > LIMITS[name] for name, error in found.items()), found


# ---- rows are strangers ----------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_a_row_is_what_it_would_be_alone_whatever_the_others_do(data: st.DataObject) -> None:
    rows, frames = 3, 14
    codec = tiny_codec(rows)
    alone = [single_run(seed, frames) for seed in range(rows)]
    seen = [0] * rows
    for _ in range(frames):
        live = [data.draw(st.booleans()) and seen[row] < frames for row in range(rows)]
        for row in range(rows):
            if not live[row] and data.draw(st.integers(0, 9)) == 0:
                codec.reset(row)
                seen[row] = 0
        n = max((row + 1 for row in range(rows) if live[row]), default=1)
        pcm = torch.stack([alone[row][0][min(seen[row], frames - 1)] for row in range(n)])
        active = torch.tensor(live[:n])
        codes = codec.encode(pcm, active, keys=codec.keys_for(seen[row] for row in range(n) if live[row]))
        out = codec.decode(codes, active)
        for row in range(n):
            if live[row]:
                assert torch.equal(codes[row], alone[row][1][seen[row]])
                assert largest_error(out[row], alone[row][2][seen[row]]) < PCM
                seen[row] += 1


def test_a_row_that_is_not_active_keeps_every_bit_even_if_its_input_is_nan() -> None:
    codec = tiny_codec(3)
    pcm = single_run(0, 14)[0]
    for frame in pcm[:12]:
        codec.decode(codec.encode(frame.expand(3, -1), everyone(3)), everyone(3))
    before = [memory(codec, row) for row in (0, 2)]
    garbage = torch.full((3, FRAME), float("nan"))
    garbage[1] = pcm[12]
    codes = codec.encode(garbage, only(1, 3))
    codec.decode(codes.clamp(0, 2047), only(1, 3))
    for row, kept in zip((0, 2), before, strict=True):
        assert all(torch.equal(new, old) for new, old in zip(memory(codec, row), kept, strict=True))


def test_nan_stays_in_its_row_and_is_gone_after_a_reset() -> None:
    codec = tiny_codec(2)
    pcm, want_codes, want_pcm = single_run(0, 14)
    for index, frame in enumerate(pcm):
        broken = torch.full((FRAME,), float("nan")) if index == 3 else frame
        codes = codec.encode(torch.stack([broken, frame]), everyone(2))
        out = codec.decode(codes, everyone(2))
        assert torch.equal(codes[1], want_codes[index])
        assert largest_error(out[1], want_pcm[index]) < PCM
    for transformer in (codec._encoder_transformer, codec._decoder_transformer):
        transformer.ring.store.load(0, 0, torch.full_like(transformer.ring.save(0, 1), float("nan")))
    codec.reset(0)
    assert all(not tensor.any() for tensor in memory(codec, 0))
    for index, frame in enumerate(pcm):
        codes = codec.encode(frame[None], everyone(1))
        assert torch.equal(codes[0], want_codes[index])
        assert largest_error(codec.decode(codes, everyone(1))[0], want_pcm[index]) < PCM


def test_a_single_row_anywhere_in_the_batch_can_run_alone() -> None:
    codec = tiny_codec(4)
    pcm, want_codes, want_pcm = single_run(0, 14)
    others = [memory(codec, row) for row in (0, 1, 3)]
    rows = slice(2, 3)
    for index, frame in enumerate(pcm):
        codes = codec.encode(frame[None], everyone(1), rows)
        assert torch.equal(codes[0], want_codes[index])
        assert largest_error(codec.decode(codes, everyone(1), rows)[0], want_pcm[index]) < PCM
    for row, kept in zip((0, 1, 3), others, strict=True):
        assert all(torch.equal(new, old) for new, old in zip(memory(codec, row), kept, strict=True))


@pytest.mark.parametrize("moved_at", [0, 1, 6, 13])
def test_a_copied_row_goes_on_as_the_other_would_have(moved_at: int) -> None:
    codec = tiny_codec(2)
    pcm, want_codes, want_pcm = single_run(0, 14)
    noise = torch.randn(1, FRAME, generator=torch.Generator().manual_seed(2))
    for index, frame in enumerate(pcm):
        if index == moved_at:
            codec.copy_row(1, 0)
        row = 0 if index >= moved_at else 1
        inputs = noise.repeat(2, 1)
        inputs[row] = frame
        codes = codec.encode(inputs, everyone(2))
        pcm_out = codec.decode(codes, everyone(2))
        assert torch.equal(codes[row], want_codes[index])
        assert largest_error(pcm_out[row], want_pcm[index]) < PCM


def test_encoding_and_decoding_are_streams_of_their_own() -> None:
    codec = tiny_codec(1)
    pcm, want_codes, want_pcm = single_run(0, 14)
    codes = torch.stack([codec.encode(frame[None], everyone(1))[0] for frame in pcm])
    assert torch.equal(codes, want_codes)
    decoded = torch.stack([codec.decode(code[None], everyone(1))[0] for code in codes])
    assert largest_error(decoded, want_pcm) < PCM


# ---- what a captured graph asks for ----------------------------------------------------------------------------------


HOST = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "repeat_interleave", "lift_fresh"}
"""Operations that read a value back, whose shape depends on values, or that carry numbers of the host to the device."""


def host_operations(call: Callable[[], object]) -> set[str]:
    with profile() as recorded:
        call()
    return HOST & {event.name.removeprefix("aten::") for event in recorded.function_events}


def test_a_call_exchanges_nothing_with_the_host() -> None:
    codec = tiny_codec(2)
    codes = codec.encode(frames_in()[:2], everyone(2))
    assert not host_operations(lambda: codec.encode(frames_in()[:2], everyone(2)))
    assert not host_operations(lambda: codec.decode(codes, everyone(2)))
    assert host_operations(lambda: codes[codes > 0].tolist()), "the test itself is blind"


def test_state_stays_where_it_was_allocated() -> None:
    codec = tiny_codec(2)

    def addresses() -> list[int]:
        rings = [transformer.ring for transformer in (codec._encoder_transformer, codec._decoder_transformer)]
        return [tensor.data_ptr() for tensor in (*codec._state._tensors, *(ring.length for ring in rings))]

    before = addresses()
    codec.decode(codec.encode(frames_in()[:2], everyone(2)), everyone(2))
    codec.copy_row(0, 1)
    codec.reset(0)
    assert addresses() == before


# ---- sizes -----------------------------------------------------------------------------------------------------------


def test_keys_grow_with_the_oldest_row_up_to_the_whole_ring() -> None:
    codec = tiny_codec(1)
    assert [codec.keys_for(frames) for frames in ([], [0], [3, 1], [8], [9], [1000])] == [2, 2, 8, 18, 19, 19]


def test_bytes_per_row_is_what_a_row_adds() -> None:
    def state_bytes(codec: Mimi) -> int:
        rings = [transformer.ring for transformer in (codec._encoder_transformer, codec._decoder_transformer)]
        return sum(t.nbytes for t in codec._state._tensors) + sum(ring.bytes_per_row * ring.rows for ring in rings)

    one, four = tiny_codec(1), tiny_codec(4)
    assert one.bytes_per_row == pytest.approx((state_bytes(four) - state_bytes(one)) / 3, abs=16)
    assert one.nbytes == four.nbytes > 0


def test_only_the_eight_codebooks_that_are_used_are_read() -> None:
    used = {
        name: tensor
        for name, tensor in golden("mimi_tiny").items()
        if not any(f"rvq_rest.vq.layers.{index}." in name for index in range(7, 99))
    }
    assert len(used) < len(golden("mimi_tiny"))
    Mimi(StateDict(used), tiny_config(), rows=1, device="cpu")
