"""Where the chunks of prompts lie: how an arm places them on its Valkeys, and what that makes of each prompt."""

from collections import Counter
from collections.abc import Iterable

from harness.config import Arm, Client
from harness.experiment.simulation import hashing_of
from harness.model.placement import Placement
from harness.schedule import PlannedRequest
from harness.sim.keys import CHUNK_KEYS


def placement_of(arm: Arm) -> Placement:
    """How the model sees it: equal parts where each rank has an instance of its own, else chunks by their hash."""
    remote, lmcache = arm.valkey, arm.lmcache
    if remote is None or lmcache is None:
        return Placement()
    return Placement(remote.instances, None if remote.placement == "rank" else lmcache.chunk_size)


def slowdowns(arm: Arm, client: Client, requests: Iterable[PlannedRequest], *, started: bool) -> dict[int, float]:
    """By seq: what a prompt's own chunks have it wait for, in multiples of an equal share of the instances.

    Known before anything is sent, since LMCache's keys follow from the tokens. None of a prompt without a whole chunk,
    and none at all where the instance of a key is not known: on servers that were not `started` here, in a cluster or
    with rendezvous hashing, and of chats, whose tokens the server makes.
    """
    placement, remote, lmcache = placement_of(arm), arm.valkey, arm.lmcache
    if remote is None or lmcache is None:
        return {}
    if placement.is_even:
        return {request.seq: 1.0 for request in requests if len(request.tokens) > lmcache.chunk_size}
    if not started or remote.cluster or remote.placement != "chunk" or client.endpoint == "chat":
        return {}
    found, keys_of = {}, CHUNK_KEYS[hashing_of(lmcache)]
    for request in requests:
        hittable = request.tokens[: len(request.tokens) - 1]  # the last token is computed in any case
        homes = Counter(int.from_bytes(key, "big") % remote.instances for key in keys_of(hittable, lmcache.chunk_size))
        if homes:
            found[request.seq] = max(homes.values()) * remote.instances / homes.total()
    return found
