"""What every protocol shares and no rung owns: rounds of gossip, echoes, the choice of peers."""
