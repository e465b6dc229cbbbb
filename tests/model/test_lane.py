"""Lane notices survive storing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_sessions.errors import InvalidInput
from hermes_sessions.model.lane import NOTICE_KINDS, LaneNotice


@given(
    st.builds(
        LaneNotice,
        st.sampled_from(NOTICE_KINDS),
        st.none() | st.text(),
        st.booleans(),
        st.none() | st.text(),
        st.none() | st.floats(allow_nan=False),
    )
)
def test_a_notice_survives_being_kept(notice: LaneNotice) -> None:
    assert LaneNotice.from_json(notice.to_json()) == notice


def test_notices_of_later_versions() -> None:
    assert LaneNotice.from_json('{"kind": "new", "colour": "red"}') == LaneNotice("new")


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"kind": "gossip"}', "{"])
def test_what_is_no_notice(text: str) -> None:
    with pytest.raises(InvalidInput):
        LaneNotice.from_json(text)
