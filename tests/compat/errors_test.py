"""What compat.install() says where it cannot work.

The programs run on made-up TensorFlows, so no test here needs seconds.
"""

from importlib import metadata
from unittest import mock

from compat import errors, versions
from tests.compat import processes

from absl.testing import absltest, parameterized

_INSTALL = "import compat; compat.install()"
_KERAS_3 = "__version__ = '2.21.0'\n_tf_uses_legacy_keras = False\n"
_KERAS_2 = (
  "import os\n__version__ = '2.21.0'\n"
  "_tf_uses_legacy_keras = os.environ.get('TF_USE_LEGACY_KERAS') == '1'\n"
)


class ErrorsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "old_tensorflow",
      _INSTALL,
      {"tensorflow": "__version__ = '2.14.1'\n"},
      "TensorFlow 2.14.1 is too old: .*'tensorflow>=2.15'",
    ),
    (
      "no_tf_keras",
      _INSTALL,
      {"tensorflow": _KERAS_3},
      r"tf-keras is not installed; .*'tf-keras==2.21.\*'",
    ),
    (
      "no_tf_keras_of_this_release",
      _INSTALL,
      {"tensorflow": _KERAS_3.replace("2.21", "2.22")},
      r"tf-keras is not installed; .*--no-deps 'tf-keras==2.21.\*'",
    ),
    (
      "too_late",
      f"import tensorflow; {_INSTALL}",
      {"tensorflow": _KERAS_3, "tf_keras": ""},
      "came too late: .*before the first import.*TF_USE_LEGACY_KERAS=1",
    ),
    (
      "keras_3_chosen",
      f"import os; os.environ['TF_USE_LEGACY_KERAS'] = '0'; {_INSTALL}",
      {"tensorflow": _KERAS_3, "tf_keras": ""},
      "TF_USE_LEGACY_KERAS='0' chooses Keras 3.*set it to 1",
    ),
    (
      "no_estimator_wheel",
      _INSTALL,
      {"tensorflow": _KERAS_2, "tf_keras": ""},
      "tensorflow-estimator is not installed; .*tensorflow-estimator==2.15.0",
    ),
  )
  def test_message(self, program, modules, message):
    directory = self.create_tempdir().full_path
    result = processes.run_with_fakes(program, directory, modules)
    self.assertEqual(result.returncode, 1, result.stderr)
    self.assertRegex(
      result.stderr.splitlines()[-1], f"^compat.errors.CompatError: .*{message}"
    )

  def test_nothing_is_done_on_2_15(self):
    """TensorFlow 2.15 has tf.estimator, and its Keras is Keras 2 anyway."""
    program = (
      "import tensorflow; before = set(dir(tensorflow))\n"
      "import compat; compat.install(); compat.install()\n"
      "import sys; assert set(dir(tensorflow)) == before\n"
      "assert 'AliasFinder' not in str(sys.meta_path), sys.meta_path\n"
    )
    result = processes.run_with_fakes(
      program,
      self.create_tempdir().full_path,
      {"tensorflow": "__version__ = '2.15.1'\n"},
    )
    self.assertEqual(result.returncode, 0, result.stderr)

  @parameterized.parameters(("2.22.0rc0", 0), ("2.23.0rc1", 1))
  def test_one_line_says_that_it_was_not_tested(self, version, lines):
    tensorflow = _KERAS_2.replace("2.21.0", version)
    directory = self.create_tempdir().full_path
    program = "import compat\nfor _ in 'ab':\n  try: compat.install()\n"
    program += "  except compat.CompatError: pass\n"
    result = processes.run_with_fakes(
      program, directory, {"tensorflow": tensorflow, "tf_keras": ""}
    )
    self.assertEqual(result.returncode, 0, result.stderr)
    said = [x for x in result.stderr.splitlines() if "newer than" in x]
    self.assertLen(said, lines, result.stderr)
    for line in said:
      self.assertRegex(
        line, r"2\.23\.0rc1 .* 2\.22, .*compat\.private\.probe.*flow<2\.23'"
      )

  def test_import_compat_does_not_import_tensorflow(self):
    result = processes.run_with_fakes(
      "import compat",
      self.create_tempdir().full_path,
      {"tensorflow": "raise ImportError('imported')\n"},
    )
    self.assertEqual(result.returncode, 0, result.stderr)

  @parameterized.named_parameters(
    ("release", "2.16.2", (2, 16)),
    ("candidate", "2.21.0-rc1", (2, 21)),
    ("nightly", "2.22.0-dev20260101", (2, 22)),
  )
  def test_parse_version(self, version, expected):
    self.assertEqual(versions.parse(version), expected)

  def test_parse_version_refuses_other_text(self):
    with self.assertRaisesRegex(errors.CompatError, "'unknown' .*2.15 or"):
      versions.parse("unknown")

  @parameterized.parameters(
    ("2.20.0", "6.33.1"), ("2.21.0", "7.36.2"), ("2.19.1", "7.36.2")
  )
  def test_protobuf_that_serves(self, tensorflow, protobuf):
    with mock.patch.object(metadata, "version", lambda _: protobuf):
      versions.check_protobuf(tensorflow)

  def test_protobuf_that_tensorflow_cannot_use(self):
    with (
      mock.patch.object(metadata, "version", lambda _: "7.36.2"),
      self.assertRaisesRegex(
        errors.CompatError, "2.20.0 .*7.36.2.*'protobuf<7'; or TensorFlow 2.21"
      ),
    ):
      versions.check_protobuf("2.20.0")


if __name__ == "__main__":
  absltest.main()
