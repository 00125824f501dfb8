"""How Valkeys are entered, from what their URLs name."""

import pytest

from harness.errors import ConfigError
from harness.experiment.raw_valkey import Credentials, entered


def test_a_query_names_the_way_in() -> None:
    """It is taken off the address, which LMCache's client would not understand with it."""
    query = "password_env=SECRET&ca_file=/ca.pem"
    endpoints, credentials = entered([f"valkeys://a:1?{query}", f"valkeys://b:2?{query}"])
    assert endpoints == ["valkeys://a:1", "valkeys://b:2"]
    assert credentials == Credentials(password_env="SECRET", ca_file="/ca.pem")
    assert entered(["valkey://a:1"]) == (["valkey://a:1"], Credentials())
    assert entered([]) == ([], Credentials())


def test_one_way_in_for_all() -> None:
    """The client takes one username and password for all instances."""
    with pytest.raises(ConfigError, match="not entered in the same way"):
        entered(["valkey://a:1?password_env=ONE", "valkey://b:2?password_env=TWO"])
