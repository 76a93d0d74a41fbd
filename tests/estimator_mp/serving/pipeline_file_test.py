"""Files of a chain that are damaged, or name what is not theirs."""

import copy
import json
import os

from estimator_mp.serving import pipeline_file

from absl.testing import absltest, parameterized

_SPEC = {"dtype": "float32", "shape": [None, 2]}
_VALUES = {
  "format": 1,
  "checkpoint_step": 3,
  "stages": [
    {
      "stage": 0,
      "folder": "stage_0",
      "devices": 1,
      "variables": ["w"],
      "values": "12ab",
    }
  ],
  "signatures": {
    "f": {
      "inputs": {"x": _SPEC},
      "steps": [
        {
          "stage": 0,
          "signature": "f",
          "inputs": {"x": {"step": None, "name": "x"}},
          "outputs": {"y": _SPEC},
        }
      ],
      "outputs": {"z": {"step": 0, "name": "y"}},
    }
  },
}
_STAGE = {"format": 1, "pipeline": "abc", "stage": 0, "devices": 1}
_FIRST = ("signatures", "f", "steps", 0)
_LAST = ("signatures", "f", "outputs", "z", "name")


def _changed(path, value):
  values = copy.deepcopy(_VALUES)
  part = values
  for key in path[:-1]:
    part = part[key]
  part[path[-1]] = value
  return values


class PipelineFileTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def _write(self, name, values):
    path = os.path.join(self.folder, name)
    with open(path, "w", encoding="utf-8") as file:
      file.write(values if isinstance(values, str) else json.dumps(values))
    return path

  def test_what_is_right(self):
    self._write(pipeline_file.FILE, _VALUES)
    self._write(pipeline_file.STAGE_FILE, _STAGE)
    found = pipeline_file.read(self.folder)
    self.assertEqual(found.stages[0].variables, ("w",))
    self.assertEqual(found.signatures["f"].output_spec("z").shape, (None, 2))
    described = pipeline_file.read_stage(self.folder)
    self.assertEqual(described, pipeline_file.StageDescription("abc", 0, 1))

  @parameterized.parameters(
    *(
      (
        ("stages", 0, "folder"),
        folder,
        f"is in {folder!r}, which is no",
      )
      for folder in ("../../x", "/etc", "a/b", "..", "")
    ),
    (("stages", 0, "devices"), 10**9, "1000000000 devices, .* 1 to 1024"),
    (("format",), 2, "format 2, but this estimator_mp reads formats up to 1"),
    (("stages",), 3, "it.stages is 3, which is not of type list"),
    (
      ("stages", 0, "variables"),
      [None],
      r"variables\[0\] is None, .* str",
    ),
    ((*_FIRST, "stage"), 1, "step 0 of 'f' is on stage 1, which it does not"),
    (
      (*_FIRST, "inputs", "x", "step"),
      0,
      "step 0 of 'f' reads 'x' of step 0",
    ),
    (_LAST, "q", "'f' reads 'q' of step 0, which no step before it makes"),
    (
      (*_FIRST, "outputs", "y", "dtype"),
      "float33",
      "'float33' in 'f' is not",
    ),
  )
  def test_a_chain_that_is_not_as_it_is_written(self, path, value, text):
    self._check(pipeline_file.FILE, _changed(path, value), text)

  @parameterized.parameters(
    ({"devices": "2"}, "it.devices is '2', which is not of type int"),
    ({"devices": 0}, "it has 0 devices, which should be 1 to 1024"),
    ({"pipeline": None}, "it.pipeline is None, which is not of type str"),
  )
  def test_a_stage_that_is_not_as_it_is_written(self, changes, text):
    self._check(pipeline_file.STAGE_FILE, _STAGE | changes, text)

  @parameterized.parameters(pipeline_file.FILE, pipeline_file.STAGE_FILE)
  def test_what_is_nested_too_deeply(self, name):
    self._check(name, "[" * 100_000, "brackets are nested too deeply: line 1")

  def _check(self, name, values, text):
    """Asserts that a file is refused by an error of one line."""
    file = self._write(name, values)
    is_stage = name == pipeline_file.STAGE_FILE
    read = pipeline_file.read_stage if is_stage else pipeline_file.read
    with self.assertRaisesRegex(
      ValueError, f"^{file} .*{text}.* export the stages again$"
    ):
      read(self.folder)


if __name__ == "__main__":
  absltest.main()
