"""harness.store.meta_shape: what a run.json may not hold."""

from pathlib import Path
from typing import Any

import pytest

from harness.errors import RunFolderError
from harness.store.meta_shape import require_shape

PROOF = {"arm": "a", "workload": "w", "repeat": 0, "kind": "cold", "proved": True, "detail": ""}


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        ({"spec": [1]}, "spec is no mapping"),
        ({"spec": {"arms": {"a": 1}}}, "spec.arms is no list"),
        ({"spec": {"arms": [{"lmcache": None}]}}, "spec.arms[0] has no 'name'"),
        ({"spec": {"arms": [{"name": "a", "valkey": {"instances": "two"}}]}}, "spec.arms[0].valkey.instances is 'two'"),
        ({"arms": {"a": 3}}, "arms.a is no mapping"),
        ({"plans": {"trace/0": "hash"}}, "plans.trace/0 is no mapping"),
        ({"probe": {"prefill_tokens_per_s": True}}, "probe.prefill_tokens_per_s is True"),
        ({"caveats": [{"kind": "late"}]}, "caveats[0] has no 'text'"),
        ({"state_proofs": [PROOF | {"proved": None}]}, "state_proofs[0] has no 'proved'"),
        ({"selftest": {"http": "httptools"}}, "selftest has no"),
        ({"capacity_curves": {"lru": [[1, "x"]]}}, "capacity_curves.lru[0][1] is 'x'"),
    ],
)
def test_the_wrong_key_is_named(meta: dict[str, Any], says: str) -> None:
    """Whatever is not as kvreplay writes it is an error that names the key and the file."""
    with pytest.raises(RunFolderError) as caught:
        require_shape(meta, Path("run.json"))
    assert says in caught.value.what
    assert caught.value.where == "run.json"


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"spec": None, "probe": None, "selftest": None, "arms": {"a": {"rho": None, "instances": None}}},
        {"spec": {"arms": [{"name": "a", "lmcache": None, "valkey": None}]}, "state_proofs": [PROOF]},
        {"a key of a later version": [1]},
    ],
)
def test_what_is_absent_is_no_trouble(meta: dict[str, Any]) -> None:
    """A run that ended early lacks keys, and a null is as good as absent."""
    require_shape(meta, Path("run.json"))
