"""The first loss of a run from initial weights is known before it: nothing has been learned, so a
model gives every token nearly the same probability."""
import math

# Of initial weights (docs/engine.md).
STD = 0.02
# What short runs and the tied embedding may add. A model with tied embeddings favours the token
# that it has just read; in deep models little is left of that.
BELOW, ABOVE = 0.1, 0.5


def expected(description):
    """Returns the least and the most that the first loss of a model may be.

    The final norm gives rows of unit mean square, so logits are normal with the variance hidden *
    STD^2. The mean of -log softmax over such logits is log(vocab) + variance / 2."""
    mean = math.log(description["vocab"]) + description["hidden"] * STD ** 2 / 2
    return math.log(description["vocab"]) - BELOW, mean + ABOVE


def why_wrong(description, loss):
    """Returns an empty string if the loss is as expected, else what is wrong."""
    least, most = expected(description)
    if loss is None or not math.isfinite(loss):
        return "the first loss is not finite"
    if least <= loss <= most:
        return ""
    return f"the first loss is {loss:.3f}; initial weights give {least:.3f} to {most:.3f}"
