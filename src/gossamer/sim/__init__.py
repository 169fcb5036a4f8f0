"""The simulator: virtual time, a modelled network, injected faults, and the same run again from the same seed."""
