from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.samplestore import SampleStore


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "forget", "cut", "restart"]), st.integers(0, 70), st.integers(0, 70)),
        max_size=60,
    )
)
def test_store_behaves_like_a_list_with_positions(steps: list[tuple[str, int, int]]) -> None:
    store = SampleStore(100)
    row: list[float] = []
    first, number = 0, 0.0
    for action, size, other in steps:
        if action == "append":
            samples = np.arange(number, number + size * 3, dtype=np.float32)
            number += size * 3
            lost = store.append(samples)
            row += samples.tolist()
            assert lost == max(0, len(row) - 100)
            first += lost
            row = row[lost:]
        elif action == "forget":
            store.forget_before(first + size)
            first += min(size, len(row))
            row = row[size:]
        elif action == "restart":
            first = store.end + size
            store.restart(first)
            row = []
        elif len(row) >= size + other + 3:
            store.cut(first + size, other, np.array([-1.0, -2.0, -3.0], np.float32))
            row = row[:size] + [-1.0, -2.0, -3.0] + row[size + other + 3 :]
            first += other
        assert (store.first, len(store), store.end) == (first, len(row), first + len(row))
        assert store.read(first, 1000).tolist() == row
        assert store.read(first + 5, 7).tolist() == row[5:12]
        assert store.read(first - 5, 7).tolist() == row[:2]
