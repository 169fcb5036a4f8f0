"""Live: the automata between real processes, over UDP multicast and asyncio. Executes effects, decides nothing."""
