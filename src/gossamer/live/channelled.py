"""The group as an application gives it channels: the channel map, to install and to look at."""

from gossamer.live.channels import GroupChannels
from gossamer.live.home import at_home
from gossamer.live.misuse import check_is, check_timeout
from gossamer.pubsub.channel_map import ChannelMap


class Channelled:
    """What a `Group` knows of its channels."""

    _channels: GroupChannels

    @at_home
    def install_channels(self, channels: ChannelMap) -> None:
        """Give the group another channel map, of a higher version: all members take it over, and nothing is lost."""
        check_is(channels, ChannelMap, "install_channels takes a gossamer.ChannelMap")
        self._channels.install(channels)

    @at_home
    def channels(self) -> ChannelMap | None:
        """The channel map, which says which subjects go to which channel; None if all go to channel 0."""
        return self._channels.map

    @at_home
    async def channels_used(self, *, timeout: float | None = None) -> bool:
        """Wait until all members publish by the latest channel map; False if they do not after `timeout` seconds."""
        check_timeout(timeout)
        return await self._channels.used_by_all(timeout)
