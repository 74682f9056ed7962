"""How much a router carries: binary search with loss verification, ETSI GS NFV-TST 009."""

from . import quiet
from .lab import Failure

SECONDS = 1.5
# Part of the packets that may be lost at a rate that counts as carried.
LOSS_MAX = 1e-3
# How often a rate may fail before the search goes below it: a virtual machine stands still now and then, and
# what that costs is not the router's.
VERIFIED = 3
# Packets a second where nothing is to be measured.
QUICK_RATE = 20e3


def capacity(context, lab, quick_rate=QUICK_RATE):
    """The highest rate, both directions together, at which less than one packet in 1,000 is lost; all trials; and
    what was seen at that rate."""
    trial = lambda seconds, **load: quiet.measured(context, lab, lambda: lab.load(seconds=seconds, **load), paced=False)
    if context.quick:
        return quick_rate, [], trial(0.4, rate=int(quick_rate))
    trials = []

    def carried(rate):
        for _ in range(VERIFIED):
            seen = trial(SECONDS, rate=int(rate))
            lost = seen["lost"] / max(seen["sent"], 1)
            trials.append((int(rate), seen["received_mpps"] * 1e6, lost))
            if lost < LOSS_MAX and seen["sent_mpps"] * 1e6 >= 0.98 * rate:
                return seen
        return None

    most = trial(SECONDS)["received_mpps"] * 1e6
    trials.append(("unlimited", most, None))
    low, high, best = 0.0, 1.3 * most, None
    for _ in range(7):
        rate = (low + high) / 2
        seen = carried(rate)
        if seen:
            low, best = rate, seen
        else:
            high = rate
    if not best:
        raise Failure("no rate was low enough")
    context.say(f"  capacity: {low / 1e6:.3f} Mpps, {most / 1e6:.3f} when more is offered")
    return low, trials, best
