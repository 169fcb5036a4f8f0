"""The durable log: packets as they travelled, by sender and number, kept until everyone who counts has them."""
