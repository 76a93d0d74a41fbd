"""Which modules belong to the TensorFlow 1 program."""

import importlib.machinery
import os

from compat.v1 import membership

from absl.testing import absltest, parameterized


def _module(name, *path):
  return {"__name__": name, "__file__": os.path.join("/home/me", *path)}


class MembershipTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.program = membership.Membership()
    self.program.add(packages=["bert", "nets.resnet"], folder="/home/me/code")

  @parameterized.parameters(
    ("__main__", "code/train.py"),
    ("model", "code/model.py"),
    ("models.deep.cnn", "code/models/deep/cnn.py"),
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
    ("__main__", "env/bin/pytest"),
    ("bertha", "env/site-packages/bertha.py"),
    ("nets.vgg", "env/site-packages/nets/vgg.py"),
    ("coder", "code2/coder.py"),
  )
  def test_all_others(self, name, path):
    self.assertFalse(self.program.includes(_module(name, path)))

  def test_a_program_without_a_file(self):
    self.assertTrue(self.program.includes({"__name__": "__main__"}))
    self.assertFalse(self.program.includes({"__name__": "made.up"}))
    self.assertFalse(self.program.includes({}))

  def test_python_minus_m_says_what_main_is(self):
    main = _module("__main__", "env/site-packages/bert/run.py")
    self.assertFalse(self.program.includes(main))
    main["__spec__"] = importlib.machinery.ModuleSpec("bert.run", None)
    self.assertTrue(self.program.includes(main))

  def test_what_is_added_later_counts(self):
    late = _module("late.part", "env/site-packages/late/part.py")
    self.assertFalse(self.program.includes(late))
    self.program.add(packages=["late"])
    self.assertTrue(self.program.includes(late))


if __name__ == "__main__":
  absltest.main()
