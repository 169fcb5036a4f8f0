"""What all tests share: how hypothesis searches, and that nothing leaves this machine.

No deadlines, because machines are noisy. In CI the search is the same every time, so that a change is judged by the
change; at home it looks somewhere new at every run.
"""

import os

from hypothesis import HealthCheck, settings

# With a key, a group would choose the interface of the default route.
os.environ.setdefault("GOSSAMER_INTERFACE", "127.0.0.1")

settings.register_profile("home", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("home"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")
