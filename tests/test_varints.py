"""Numbers in protobuf's encoding, decoded together: each is what was written."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.digits import PackedDigits, varint


@given(st.lists(st.one_of(st.integers(0, (1 << 64) - 1), st.integers(0, 9).map(lambda n: (1 << 7 * n) - 1))))
def test_every_number_comes_back_with_its_size(values: list[int]) -> None:
    data = [varint(value) for value in values]
    sizes = np.array([len(each) for each in data], np.int64)
    found, width = PackedDigits(b"".join(data)).numbers(np.cumsum(sizes) - sizes)
    assert found.tolist() == values
    assert width.tolist() == sizes.tolist()


@given(st.binary(max_size=40))
def test_any_bytes_give_what_following_them_gives(data: bytes) -> None:
    found, width = PackedDigits(data).numbers(np.arange(len(data)))
    words = PackedDigits(data).words(np.arange(len(data)))
    for at in range(len(data)):
        behind = data[at:] + bytes(16)
        assert int(words[at]) == int.from_bytes(behind[:8], "little")
        size = next((n for n in range(1, 11) if behind[n - 1] < 128), 0)
        assert width[at] == size
        if size:
            want = sum((behind[n] & 127) << 7 * n for n in range(size)) & (1 << 64) - 1
            assert int(found[at]) == want
