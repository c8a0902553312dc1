"""The outcomes of a section of the check."""

PASSED, FAILED, NOT_POSSIBLE, NOT_RUN = "passed", "failed", "not possible", "not run"


class Failure(Exception):
    """A section found an error; the text is one line."""


class NotPossible(Exception):
    """A section proves nothing on this machine; the text is one line."""


class OutOfTime(Exception):
    """A section's time has run out; its results so far are kept. `out` and `err` are what the
    program that was running wrote."""

    def __init__(self, text, out="", err=""):
        super().__init__(text)
        self.out, self.err = out, err
