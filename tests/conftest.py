"""One hypothesis profile for all: the machine is shared, so no example has a deadline, and fewer are drawn."""

from hypothesis import settings

settings.register_profile("shared-machine", deadline=None, max_examples=50)
settings.load_profile("shared-machine")
