"""The largest size that fits, found by trying few."""

from collections.abc import Callable


def largest(fits: Callable[[int], bool], guess: int = 1) -> int:
  """Returns the largest number that fits.

  From the guess it goes up, or down, in steps that double, and halves what is
  left between what fits and what does not: so a good guess takes two trials.

  Args:
    fits: Whether a number, at least 1, fits; if it does, all below fit, too.
    guess: Where to begin, at least 1.

  Returns:
    The number; 0 if not even 1 fits.
  """
  step = 1
  if fits(guess):
    low = guess
    while fits(low + step):
      low, step = low + step, 2 * step
    high = low + step
  else:
    high = guess
    while (trial := max(high - step, 0)) and not fits(trial):
      high, step = trial, 2 * step
    low = trial
  while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if fits(middle) else (low, middle)
  return low
