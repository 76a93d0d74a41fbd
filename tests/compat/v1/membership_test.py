"""Which modules belong to the TensorFlow 1 program."""

import importlib.machinery
import json
import os

from compat.v1 import membership

from absl.testing import absltest, parameterized


def _module(name, *path):
  return {"__name__": name, "__file__": os.path.join("/anywhere", *path)}


class MembershipTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.program = membership.Membership()
    self.program.add(["bert", "nets.resnet"])

  @parameterized.parameters(
    ("__main__", "code/train.py"),
    ("model", "code/model.py"),
    ("models.deep.cnn", "code/models/deep/cnn.py"),
    ("models.deep", "code/models/deep/__init__.py"),
    ("shared", "elsewhere/on/the/path/shared.py"),
    ("bert", "env/site-packages/bert/__init__.py"),
    ("bert.modeling", "env/site-packages/bert/modeling.py"),
    ("nets.resnet.blocks", "env/site-packages/nets/resnet/blocks.py"),
  )
  def test_the_programs_own(self, name, path):
    self.assertTrue(self.program.includes(_module(name, path)))

  @parameterized.parameters(
    ("tensorflow", "code/venv/lib/python3.11/site-packages/tensorflow.py"),
    ("numpy", "code/env/dist-packages/numpy/__init__.py"),
    ("estimator_mp.sharding", "code/estimator_mp/sharding.py"),
    ("compat.contrib.layers", "code/compat/contrib/layers.py"),
    ("bertha", "env/site-packages/bertha.py"),
    ("nets.vgg", "env/site-packages/nets/vgg.py"),
  )
  def test_all_others(self, name, path):
    self.assertFalse(self.program.includes(_module(name, path)))

  def test_pythons_own(self):
    self.assertFalse(self.program.includes(vars(json)))
    self.assertFalse(self.program.includes(vars(json.decoder)))

  def test_what_pip_put_somewhere_else(self):
    folder = self.create_tempdir().full_path
    deep = {
      "__name__": "put.there.part",
      "__file__": os.path.join(folder, "put", "there", "part.py"),
    }
    self.assertTrue(membership.Membership().includes(deep))
    os.mkdir(os.path.join(folder, "put-1.0.dist-info"))
    membership._is_installed.cache_clear()
    self.assertFalse(membership.Membership().includes(deep))

  def test_modules_without_a_file(self):
    self.assertTrue(self.program.includes({"__name__": "__main__"}))
    self.assertFalse(self.program.includes({"__name__": "made.up"}))
    self.assertFalse(self.program.includes({}))

  def test_what_works_for_another(self):
    """Python's own code, and code in no file, is whose that calls it."""
    run = "import sys\nrunning = sys._getframe()"
    for caller, is_its_own in (
      (_module("model", "code/model.py"), True),
      (_module("modern", "env/site-packages/modern.py"), False),
    ):
      exec("def call(run, names): exec(run, names)", caller)
      for module in ({}, {"__name__": "made.up"}, vars(json).copy()):
        caller["call"](run, module)
        self.assertFalse(self.program.includes(module))
        self.assertEqual(self.program.runs(module["running"]), is_its_own)
      caller["call"](run, given := {})
      self.assertEqual(
        self.program.runs(given["running"], namespace=caller), is_its_own
      )

  def test_main_of_a_spawned_process(self):
    installed = "env/site-packages/package/train.py"
    self.assertTrue(self.program.includes(_module("__mp_main__", installed)))

  def test_python_minus_m_says_what_main_is(self):
    main = _module("__main__", "env/site-packages/nets/run.py")
    main["__spec__"] = importlib.machinery.ModuleSpec("nets.run", None)
    self.assertFalse(self.program.includes(main))
    self.program.add(["nets"])
    self.assertTrue(self.program.includes(main))


if __name__ == "__main__":
  absltest.main()
