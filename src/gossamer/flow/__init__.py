"""The sender's pace: how much may be sent now, and what has to wait. Rungs and their pure parts."""
