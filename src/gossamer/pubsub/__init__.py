"""Who hears what: subjects and their wildcards, content filters, the table of subscriptions, and the channel map.

Patterns and filters are compiled once, when a subscription is made; an event then costs a lookup and a few calls.
"""

from gossamer.pubsub.channel_map import ChannelMap, ChannelMapError
from gossamer.pubsub.predicates import Filter
from gossamer.pubsub.subjects import SubjectError, check_pattern, check_subject, compile_pattern
from gossamer.pubsub.table import Subscriptions
from gossamer.pubsub.where import FilterError, compile_where

__all__ = [
    "ChannelMap",
    "ChannelMapError",
    "Filter",
    "FilterError",
    "SubjectError",
    "Subscriptions",
    "check_pattern",
    "check_subject",
    "compile_pattern",
    "compile_where",
]
