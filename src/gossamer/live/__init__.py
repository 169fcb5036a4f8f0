"""Live groups: the automata in real processes, over UDP multicast and asyncio. Executes effects, decides nothing."""
