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
        f"stage 0 is in {folder!r}, which is not a folder beside pipeline.json",
      )
      for folder in ("../../x", "/etc", "a/b", "..", "")
    ),
    (
      ("stages", 0, "devices"),
      10**9,
      "stage 0 has 1000000000 devices, which should be 1 to 1024",
    ),
    (("stages",), 3, "it.stages is 3, which is not of type list"),
    (
      ("stages", 0, "variables"),
      [None],
      "it.stages[0].variables[0] is None, which is not of type str",
    ),
    (
      (*_FIRST, "stage"),
      1,
      "step 0 of 'f' is on stage 1, which it does not have",
    ),
    (
      (*_FIRST, "inputs", "x", "step"),
      0,
      "step 0 of 'f' reads 'x' of step 0, which no step before it makes",
    ),
    (
      ("signatures", "f", "outputs", "z", "name"),
      "q",
      "'f' reads 'q' of step 0, which no step before it makes",
    ),
    (
      (*_FIRST, "outputs", "y", "dtype"),
      "float33",
      "'float33' in 'f' is not a dtype",
    ),
  )
  def test_a_chain_that_is_not_as_it_is_written(self, path, value, text):
    file = self._write(pipeline_file.FILE, _changed(path, value))
    with self.assertRaises(ValueError) as raised:
      pipeline_file.read(self.folder)
    self.assertEqual(
      str(raised.exception),
      f"{file} is not as estimator_mp.export_stages writes it ({text}); export "
      "the stages again",
    )

  @parameterized.parameters(
    ({"devices": "2"}, "it.devices is '2', which is not of type int"),
    ({"devices": 0}, "it has 0 devices, which should be 1 to 1024"),
    ({"pipeline": None}, "it.pipeline is None, which is not of type str"),
  )
  def test_a_stage_that_is_not_as_it_is_written(self, changes, text):
    file = self._write(pipeline_file.STAGE_FILE, _STAGE | changes)
    with self.assertRaises(ValueError) as raised:
      pipeline_file.read_stage(self.folder)
    self.assertEqual(
      str(raised.exception),
      f"{file} is not as estimator_mp.export_stages writes it ({text}); export "
      "the stages again",
    )

  def test_what_is_nested_too_deeply(self):
    for name, read in (
      (pipeline_file.FILE, pipeline_file.read),
      (pipeline_file.STAGE_FILE, pipeline_file.read_stage),
    ):
      file = self._write(name, "[" * 100_000)
      with self.assertRaises(ValueError) as raised:
        read(self.folder)
      self.assertEqual(
        str(raised.exception),
        f"{file} cannot be read: its brackets are nested too deeply: line 1 "
        "column 1 (char 0); export the stages again",
      )


if __name__ == "__main__":
  absltest.main()
