"""How a section of the check ends."""

PASSED, FAILED, NOT_POSSIBLE, NOT_RUN = "passed", "failed", "not possible", "not run"


class Failure(Exception):
    """What a section found wrong, in one line."""


class NotPossible(Exception):
    """Why a section proves nothing on this machine, in one line."""


class OutOfTime(Exception):
    """A section's time has run out; what it has so far is kept. `out` is what the program that took it had written on its standard output."""

    def __init__(self, text, out=""):
        super().__init__(text)
        self.out = out
