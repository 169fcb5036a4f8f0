"""The durable log and everything that deals with it: the logger, its clients, and senders."""
