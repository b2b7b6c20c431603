"""Settings of every test run in the workspace."""

import os

from hypothesis import settings

# The first example of a test may compile a program, for which no limit per example allows.
# On CI, hypothesis itself chooses a profile without one, and with fixed examples.
settings.register_profile("teeny", deadline=None)
settings.register_profile("nightly", deadline=None)
if "CI" not in os.environ:
    settings.load_profile("teeny")
