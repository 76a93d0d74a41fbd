"""Silence: log lines about a task that does not answer.

    seconds  0 ......... patience ........ each minute ........ lost_after
    the log              "waits for it"    "waits for it"       "is lost"

The patience is `heartbeat_timeout`, for a task may be slow. If its machine
refuses connections, it is a few seconds, as the process is gone then, or 10
before the first answer, when it may not be there yet. After `lost_after` nobody
waits for it any more.
"""

# The pause between two lines about the same task.
REMIND_SECONDS = 60.0
# Longer than it takes to connect again, to a task that is well.
_REFUSED_SECONDS = 3.0
# Tasks that are started together answer sooner than that.
START_SECONDS = 10.0


class Silence:
  """How long one task has not answered.

  Attributes:
    name: The task in messages: its name, and its address.
    is_lost: Whether it was silent for too long; for good.
  """

  def __init__(
    self, name: str, heartbeat_timeout: float, lost_after: float, now: float
  ):
    """Begins with a task that has not answered yet.

    Args:
      name: The task in messages.
      heartbeat_timeout: After how many seconds it is named.
      lost_after: After how many seconds it is lost.
      now: The time in seconds, as in all other calls.
    """
    self.name = name
    self.is_lost = False
    self._patience = heartbeat_timeout
    self._lost_after = lost_after
    self._heard = now
    self._refused_patience = START_SECONDS
    self._said: float | None = None

  def hear(self, now: float) -> str | None:
    """Notes an answer; returns a line for the log, if it is worth one.

    Args:
      now: The time.
    """
    seconds, was_named = now - self._heard, self._said is not None
    self.forgive(now)
    self._refused_patience = _REFUSED_SECONDS
    if was_named and not self.is_lost:
      return f"{self.name} answers again, after {seconds:.0f} s"
    return None

  def forgive(self, now: float) -> None:
    """Notes a sign of life that is no answer; the log says nothing of it.

    Args:
      now: The time.
    """
    self._heard, self._said = now, None

  def miss(self, now: float, is_refused: bool) -> str | None:
    """Notes that there was no answer; returns a line for the log, or None.

    Args:
      now: The time.
      is_refused: Whether no server listens at its address.
    """
    seconds = now - self._heard
    if self.is_lost:
      return None
    self.is_lost = seconds > self._lost_after
    if self.is_lost:
      return (
        f"{self.name} has not answered for {seconds:.0f} s, longer than "
        f"lost_after={self._lost_after:g}, and is lost; start the run again "
        "when it is back, or without it, and it goes on from the last "
        "checkpoint"
      )
    patience = self._patience
    if is_refused:
      patience = min(patience, self._refused_patience)
    is_due = self._said is None or now - self._said >= REMIND_SECONDS
    if seconds <= patience or not is_due:
      return None
    self._said = now
    return (
      f"{self.name} has not answered for {seconds:.0f} s; the run waits for it"
    )
