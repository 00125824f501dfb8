"""One small request of a run's own kind to each attached server: what none of them would answer is told at once."""

import asyncio
from pathlib import Path

import httpx

from harness.client.read_response import read_answer
from harness.config import Arm, Client, Experiment
from harness.errors import ConfigError
from harness.experiment.attached import Servers, attach_of
from harness.experiment.target import asking, target_of
from harness.records import Outcome
from harness.schedule import Prompting, encode_body, prompt_tokens

_ANSWER_S = 120.0
_REMEDIES = {
    ("completions", 400): "does it take prompts of token ids? `client: {endpoint: chat}` sends words",
    ("completions", 404): "is this the address before /v1? is only chat served there? (client: {endpoint: chat})",
    ("chat", 404): "is this the address before /v1, and is chat served there?",
}
"""By client.endpoint and status."""


def rehearse(experiment: Experiment, arms: tuple[Arm, ...], servers: Servers, prompting: Prompting, path: Path) -> None:
    """Raises ConfigError for the first server of `arms` that does not answer as the run needs it to."""
    asyncio.run(_rehearse(experiment, arms, servers, prompting, path))


async def _rehearse(
    experiment: Experiment, arms: tuple[Arm, ...], servers: Servers, prompting: Prompting, path: Path
) -> None:
    body = encode_body(prompting, prompt_tokens(prompting, [(0, 2)]), 1)
    for arm in arms:
        attach = attach_of(experiment, arm)
        for one in servers[arm.name] if attach is not None else ():
            url = one.url + target_of(experiment.client, (one.url,)).endpoint.value
            trouble = await _trouble(experiment.client, one.url, url, body)
            if trouble is not None:
                what, status = trouble
                raise ConfigError(
                    f"{url} does not answer a request of this run: {what}",
                    where=f"{path}: arm {arm.name}: attach",
                    remedy=_REMEDIES.get((experiment.client.endpoint, status or 0), "see the server's log"),
                )


async def _trouble(client: Client, server: str, url: str, body: bytes) -> tuple[str, int | None] | None:
    """What came instead of an answer, and its status; None if an answer came."""
    async with asking(client, [server], _ANSWER_S) as http:
        try:
            response = await http.post(url, content=body, headers={"Content-Type": "application/json"})
        except httpx.HTTPError as error:
            return f"{error or type(error).__name__}", None
    answer = read_answer(response.status_code, [(0, response.content)])
    return None if answer.outcome is Outcome.OK else (f"{response.status_code}: {answer.error}", response.status_code)
