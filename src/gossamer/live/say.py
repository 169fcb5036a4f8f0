"""The application's say before each request, kept from doing harm."""

import logging
from collections import Counter

from gossamer.core.say import Gap, WorthRepairing

_log = logging.getLogger("gossamer")


def guarded(judge: WorthRepairing, stats: Counter[str]) -> WorthRepairing:
    """The application's `worth_repairing`, kept from raising: if it fails, the packets are worth repairing."""

    def worth(gap: Gap) -> bool:
        try:
            return bool(judge(gap))
        except Exception:  # the application's
            stats["errors in worth_repairing"] += 1
            _log.exception("worth_repairing(%r) failed; the packets are requested", gap)
            return True

    return worth
