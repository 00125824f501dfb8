"""What must be the same in two runs that are compared."""

from typing import Any

from harness.analysis.must_match import arm_identity, identity, mismatches


def _meta(engine: dict[str, Any], valkey: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"spec": {"engine": {"model": "m", "block_size": 128, **engine}, "arms": [{"name": "a", "valkey": valkey}]}}


def test_a_key_that_an_older_run_did_not_know_is_no_difference() -> None:
    """As long as the newer run leaves it as it ever was; what it says otherwise is one."""
    old = _meta({}, {"instances": 1, "link": {"latency": 0.0}})
    new = _meta(
        {"replicas": 1}, {"instances": 1, "urls": [], "flush": False, "on_loss": "stop", "link": {"latency": 0.0}}
    )
    assert mismatches(identity(old), identity(new)) == ()
    assert mismatches(arm_identity(old, "a"), arm_identity(new, "a")) == ()
    (two,) = mismatches(identity(old), identity(_meta({"replicas": 2})))
    assert (two.key, two.b) == ("engine.replicas", 2)


def test_what_is_different_is_named() -> None:
    """Down to the arm's Valkey, and a tier that only one of them has."""
    one, two, none = (_meta({}, valkey) for valkey in ({"instances": 1}, {"instances": 2}, None))
    assert [found.key for found in mismatches(arm_identity(one, "a"), arm_identity(two, "a"))] == ["arm.valkey"]
    assert [found.key for found in mismatches(arm_identity(one, "a"), arm_identity(none, "a"))] == ["arm.valkey"]
    assert [found.key for found in mismatches(identity(one), identity(_meta({"block_size": 16})))] == [
        "engine.block_size"
    ]
