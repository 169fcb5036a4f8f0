"""The durable log and everybody who deals with it: the logger, its clients, and senders."""
