from hermes_sessions_testing.clock import NOON, FrozenClock


def test_it_stands_still() -> None:
    clock = FrozenClock()
    assert clock() == clock() == NOON


def test_it_moves_when_told() -> None:
    clock = FrozenClock(1_000)
    assert clock.advance(1.5, minutes=1, days=2) == 1_000 + 1.5 + 60 + 172_800
    assert clock.advance(-0.5) == clock()
    assert clock.set(5) == clock() == 5.0
