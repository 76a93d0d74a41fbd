"""The log has what a task prints; the terminal has it line by line."""

import os
import pathlib

from estimator_mp.cli.launching import task_output

from absl.testing import absltest, parameterized


class TaskOutputTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.reading, self.writing = os.pipe()
    self.addCleanup(os.close, self.writing)
    self.terminal = task_output.Terminal(self.writing)
    self.log = self.create_tempfile().full_path
    self.output = self.enter_context(
      task_output.TaskOutput("ps 0", self.log, self.terminal)
    )

  def _shown(self):
    os.set_blocking(self.reading, False)
    try:
      return os.read(self.reading, 1 << 20)
    except BlockingIOError:
      return b""

  @parameterized.parameters(
    ([b"one\ntwo\n"], b"[ps 0] one\n[ps 0] two\n"),
    ([b"on", b"e\nt", b"wo\n"], b"[ps 0] one\n[ps 0] two\n"),
    ([b"\n"], b"[ps 0] \n"),
    ([b"no end"], b"[ps 0] no end\n"),
    ([b"\r 10%", b"\r 20%", b"\n"], b"[ps 0]  10%\n[ps 0]  20%\n"),
    ([b"one\r", b"\ntwo\n"], b"[ps 0] one\n[ps 0] two\n"),
    ([b"\xff\xfe\n"], b"[ps 0] \xff\xfe\n"),
    ([], b""),
  )
  def test_lines(self, parts, expected):
    for part in parts:
      self.output.write(part)
    self.output.end()
    self.assertEqual(self._shown(), expected)
    self.assertEqual(pathlib.Path(self.log).read_bytes(), b"".join(parts))

  def test_half_a_line_waits_for_the_other_half(self):
    self.output.write(b"half")
    self.assertEqual(self._shown(), b"")
    self.output.write(b" and half\n")
    self.assertEqual(self._shown(), b"[ps 0] half and half\n")

  def test_a_line_without_an_end_does_not_fill_the_memory(self):
    for _ in range(9):
      self.output.write(b"x" * 2000)
    self.assertStartsWith(self._shown(), b"[ps 0] xxx")

  def test_a_note_is_in_the_log_only(self):
    self.output.note("ps 0 ended")
    self.assertEqual(self._shown(), b"")
    self.assertEqual(pathlib.Path(self.log).read_text(), "ps 0 ended\n")

  def test_a_reader_who_has_left_is_noticed(self):
    os.close(self.reading)
    self.output.write(b"line\n")
    self.assertTrue(self.terminal.is_closed)
    self.output.write(b"another\n")


if __name__ == "__main__":
  absltest.main()
