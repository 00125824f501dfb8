"""One request on its way through the engine."""

from dataclasses import dataclass, field
from enum import Enum, auto

from harness.schedule import PlannedRequest
from harness.sim.block_pool import Held
from harness.sim.caches import Hit, Prompt
from harness.sim.links import Load
from harness.sim.lmcache import NOTHING, Found


class Stage(Enum):
    """What a request that is not running waits for."""

    NEW = auto()  # to be looked up
    ASKED = auto()  # for the lookup's answer, and for what comes from the remote tier meanwhile
    FOUND = auto()  # for room
    COPYING = auto()  # for what comes from host memory; it has its blocks
    READY = auto()  # to be scheduled; it has its blocks and what was loaded


@dataclass(slots=True, eq=False)
class Job:
    """A request, how far it is, and when what happened to it (seconds since the simulation began).

    `known` tokens are those of the prompt and of the answer so far; `computed` of them have their KV. With no token
    left to compute the next one of the answer is there. `slowness` is how much longer than usual its tokens take, and
    `hit_fixed_s` its own T0. `looks` counts how often a busy engine has looked for the lookup's
    answer; `answered` is what it would be told at the next.
    """

    request: PlannedRequest
    prompt: Prompt
    due_s: float
    slowness: float = 1.0
    hit_fixed_s: float = 0.0
    stage: Stage = Stage.NEW
    found: Found = NOTHING
    fetched: tuple[int, ...] = ()
    load: Load | None = None
    looks: int = 0
    answered: bool = False
    hit: Hit | None = None
    held: Held | None = None
    known: int = 0
    computed: int = 0
    ready_s: float | None = None
    load_s: float = 0.0
    scheduled_s: float | None = None
    token_s: list[float] = field(default_factory=list)
    stored: bool = False
    remote_keys: int = 0
    remote_bytes: float = 0.0

    def __post_init__(self) -> None:
        self.known = self.prompt.tokens

    @property
    def done(self) -> bool:
        """Whether the whole answer is there."""
        return len(self.token_s) == self.request.max_tokens
