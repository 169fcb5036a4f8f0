"""How a member learns of packets that it has not received: one module per way."""
