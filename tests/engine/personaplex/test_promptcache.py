from __future__ import annotations

import torch

from rtc_server.engine.personaplex.promptcache import CachedPrompt, PromptCache


def prompt(kilobytes: int) -> CachedPrompt:
    return CachedPrompt(kilobytes, torch.zeros(kilobytes * 1024, dtype=torch.uint8), torch.zeros(0))


def test_the_prompt_that_nobody_asked_for_longest_goes_first() -> None:
    cache = PromptCache(3 * 1024)
    for name in "abc":
        cache.put(name, prompt(1))
    cache.get("a")
    cache.put("d", prompt(1))
    assert [name for name in "abcd" if cache.get(name)] == ["a", "c", "d"]
    assert cache.nbytes == 3 * 1024


def test_a_prompt_larger_than_the_cache_is_not_kept_and_drives_nobody_out() -> None:
    cache = PromptCache(2 * 1024)
    cache.put("a", prompt(1))
    cache.put("b", prompt(5))
    assert cache.get("b") is None
    assert cache.get("a") is not None


def test_the_same_prompt_twice_counts_once() -> None:
    cache = PromptCache(2 * 1024)
    cache.put("a", prompt(1))
    cache.put("a", prompt(2))
    assert (len(cache), cache.nbytes) == (1, 2 * 1024)
