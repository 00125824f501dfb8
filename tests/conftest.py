"""One hypothesis profile for all: this machine is shared, so no example has a deadline."""

from hypothesis import settings

settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
