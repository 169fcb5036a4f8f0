"""What all channels of a sender have in flight together: peers keep packets of all of them in one buffer."""

from math import inf
from typing import Any, cast

from gossamer.core.settings import ProtocolSettings
from gossamer.flow.stream_pace import Flight
from gossamer.flow.window import Window

REACH, WINDOW = 120, 40  # receivers report each 5 packets


class Channel:
    """As much of a channel's pace as counts here."""

    def __init__(self, flying: int, held: bool = False) -> None:
        self.flying, self.held = flying, held
        self.window = Window(WINDOW, 1.0)

    def in_flight(self) -> int:
        return self.flying

    def holds(self, now: float) -> bool:
        return self.held


def flight(*channels: Channel) -> Flight:
    found = Flight(ProtocolSettings(window=WINDOW, reach=REACH))
    for channel in channels:
        found.add(cast(Any, channel))
    return found


def test_one_channel_has_its_window_only():
    assert flight(Channel(40)).room(40) == inf
    assert not flight(Channel(0, held=True)).is_held(0.0)


def test_all_channels_together_stay_within_the_reach_of_those_that_lose_something():
    assert flight(Channel(40), Channel(40), Channel(0)).room(0) == 40
    assert flight(Channel(40), Channel(40), Channel(40)).room(40) == 0


def test_a_channel_has_its_part_though_another_is_stuck():
    assert flight(Channel(110), Channel(10), Channel(0)).room(0) == 40


def test_however_many_channels_there_are_each_has_room_until_receivers_report():
    many = [Channel(10) for _ in range(100)]
    assert flight(*many).room(9) == 1
    assert flight(*many).room(10) == 0


def test_all_channels_wait_while_one_waits_for_a_receiver_that_is_about_to_lose_something():
    assert flight(Channel(1), Channel(1, held=True)).is_held(0.0)


def test_the_reach_is_shared_by_all_channels():
    channels = [Channel(0) for _ in range(3)]
    flight(*channels)
    assert [channel.window.reach for channel in channels] == [REACH // 2 // 3] * 3
