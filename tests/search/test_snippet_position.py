"""Which part of a long text a snippet shows."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.storage.search.hit_builder import _densest

places = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), min_size=1, max_size=40)


@given(places.map(sorted), st.integers(1, 30))
def test_the_part_with_the_most_different_terms(found: list[tuple[int, int]], width: int) -> None:
    def terms_from(start: int) -> int:
        return len({number for place, number in found if start <= place < start + width})

    starts = [place for place, _ in found]
    assert _densest(found, width) == max(starts, key=lambda start: (terms_from(start), -start))
