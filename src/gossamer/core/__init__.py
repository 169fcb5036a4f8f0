"""The alphabet: ids, packets, messages, inputs, effects, range sets, and the contract of an automaton.

Nothing in here knows a socket, a clock, a file or a thread. Every other package speaks in these words.
"""
