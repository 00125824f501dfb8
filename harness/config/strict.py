"""What every part of a config is made of: frozen models that know all their keys, and quantities with units."""

from fractions import Fraction
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from harness.config.units import Bandwidth, parse_bandwidth, parse_bytes, parse_ratio, parse_seconds

Bytes = Annotated[int, BeforeValidator(parse_bytes)]
Seconds = Annotated[float, BeforeValidator(parse_seconds)]
Rate = Annotated[Bandwidth, BeforeValidator(parse_bandwidth)]
Ratio = Annotated[Fraction, BeforeValidator(parse_ratio)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]


class Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True)
