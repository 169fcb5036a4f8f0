"""Order: when a packet that arrived may be handed to the application. One module per order."""
