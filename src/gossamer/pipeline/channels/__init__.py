"""From a log and the members' subscriptions to a channel map that wastes little."""
