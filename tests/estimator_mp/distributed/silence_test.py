"""What the log says of a task that does not answer, second by second."""

from estimator_mp.distributed import silence

from absl.testing import absltest

_NAME = "worker 0 at a:1"
_WAITS = "the run waits for it"
_LOST = (
  "worker 0 at a:1 has not answered for 151 s, longer than lost_after=150, and "
  "is lost; start the run again when it is back, or without it, and it goes on "
  "from the last checkpoint"
)


class SilenceTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.silent = silence.Silence(_NAME, 30.0, 150.0, 1000.0)

  def _said(self, is_refused, last=200):
    """Returns what is said in a silence, by second."""
    seconds = range(1, last)
    found = {x: self.silent.miss(1000.0 + x, is_refused) for x in seconds}
    return {x: text for x, text in found.items() if text is not None}

  def _waits(self, *seconds):
    return {x: f"{_NAME} has not answered for {x} s; {_WAITS}" for x in seconds}

  def test_one_that_is_silent_is_named_each_minute_until_it_is_lost(self):
    self.assertEqual(self._said(False), self._waits(31, 91) | {151: _LOST})
    self.assertTrue(self.silent.is_lost)

  def test_one_that_is_not_there_yet_is_named_after_10_seconds(self):
    expected = self._waits(11, 71, 131) | {151: _LOST}
    self.assertEqual(self._said(True), expected)

  def test_one_that_refuses_connections_is_named_at_once(self):
    self.silent.hear(1000.0)
    self.assertEqual(self._said(True), self._waits(4, 64, 124) | {151: _LOST})

  def test_one_that_is_lost_stays_lost(self):
    self._said(True)
    self.assertIsNone(self.silent.hear(1300.0))
    self.assertTrue(self.silent.is_lost)

  def test_another_sign_of_life_is_as_good_as_an_answer(self):
    self._said(False, 70)
    self.silent.forgive(1070.0)
    self.assertIsNone(self.silent.miss(1100.0, is_refused=False))
    self.assertIsNone(self.silent.hear(1101.0))

  def test_the_return_of_one_that_was_named(self):
    self.assertIsNone(self.silent.hear(1010.0))
    self._said(False, 70)
    self.assertEqual(
      self.silent.hear(1070.0), f"{_NAME} answers again, after 60 s"
    )
    self.assertIsNone(self.silent.hear(1071.0))
    self.assertIsNone(self.silent.miss(1100.0, is_refused=False))
    self.assertFalse(self.silent.is_lost)


if __name__ == "__main__":
  absltest.main()
