"""What programs of TensorFlow 1's time import from private places is there."""

import importlib
import os
import sys
import textwrap

import compat

from absl.testing import absltest, parameterized
from google.protobuf import descriptor_pb2

compat.install(contrib=True)
from compat.private.v1 import moved_names, old_protobuf  # noqa: E402

import tensorflow as tf  # noqa: E402


class MovedNamesTest(parameterized.TestCase):
  def test_all_are_there(self):
    for place in (
      *moved_names.PUBLIC,
      *moved_names.OTHER,
      *moved_names.ELSEWHERE,
    ):
      module, _, name = place.rpartition(".")
      with self.subTest(place):
        module = importlib.import_module(f"tensorflow.python.{module}")
        self.assertTrue(callable(getattr(module, name)))

  def test_moved_modules(self):
    for name in moved_names.MODULES:
      with self.subTest(name):
        importlib.import_module(name)
    from tensorflow.python.training.tracking import data_structures
    from tensorflow.python.training.tracking.base import Trackable

    self.assertTrue(issubclass(data_structures.List, Trackable))

  def test_old_shapes(self):
    from tensorflow.python.framework import tensor_shape

    self.assertEqual(tensor_shape.scalar(), tf.TensorShape([]))
    self.assertEqual(tensor_shape.vector(2), tf.TensorShape([2]))
    self.assertEqual(
      tensor_shape.matrix(None, 3).as_list(),
      tf.TensorShape([None, 3]).as_list(),
    )

  @parameterized.parameters(
    ("ops.control_flow_ops", "cond", tf.compat.v1.cond),
    ("framework.ops", "Tensor", tf.Tensor),
  )
  def test_is_the_public_one(self, module, name, public):
    module = importlib.import_module(f"tensorflow.python.{module}")
    self.assertIs(getattr(module, name), public)

  def test_what_is_there_stays(self):
    from tensorflow.python.ops import control_flow_ops

    own = control_flow_ops.group
    moved_names.supply()
    self.assertIs(control_flow_ops.group, own)

  @parameterized.parameters("rnn_cell", "rnn_cell_impl")
  def test_cells_are_those_of_tf_nn(self, name):
    module = importlib.import_module(f"tensorflow.python.ops.{name}")
    cells = tf.compat.v1.nn.rnn_cell
    for cell in moved_names.CELLS:
      self.assertIs(getattr(module, cell), getattr(cells, cell))
    self.assertTrue(issubclass(cells.LSTMCell, module.LayerRNNCell))

  def test_layers_of_normalization(self):
    """TensorFlow 2.21 asks tf-keras for them by a name that it has not."""
    from tensorflow.python.layers import normalization

    self.assertEqual(
      normalization.BatchNormalization.__name__, "BatchNormalization"
    )

  def test_registered_ops(self):
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get_registered_ops()["MatMul"]
    self.assertEqual(definition.input_arg[0].name, "a")


# As protoc 3.6 writes it, shortened.
_OLD_CODE = """
import sys
_b = sys.version_info[0] < 3 and (lambda x: x) or (lambda x: x.encode("latin1"))
from google.protobuf import descriptor as _descriptor
DESCRIPTOR = _descriptor.FileDescriptor(
  name="{name}", package="tales", syntax="proto3",
  serialized_pb=_b({serialized!r}))
_TALE = _descriptor.Descriptor(
  name="Tale", full_name="tales.Tale", filename=None, file=DESCRIPTOR,
  fields=[_descriptor.FieldDescriptor(name="title")])
_TALE.fields_by_name["title"].message_type = None
"""


class OldProtobufTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(_restored(sys.meta_path))
    self.folder = self.create_tempdir().full_path
    sys.path.insert(0, self.folder)
    self.addCleanup(sys.path.remove, self.folder)

  def write(self, module, code):
    path = os.path.join(self.folder, f"{module}.py")
    with open(path, "w") as file:
      file.write(textwrap.dedent(code))

  def write_old(self, module):
    file = descriptor_pb2.FileDescriptorProto(
      name=f"{module}.proto", package="tales", syntax="proto3"
    )
    message = file.message_type.add(name="Tale")
    kinds = descriptor_pb2.FieldDescriptorProto
    message.field.add(name="title", number=1, type=kinds.TYPE_STRING, label=1)
    inner = message.nested_type.add(name="Part")
    inner.field.add(name="lines", number=1, type=kinds.TYPE_INT32, label=1)
    serialized = file.SerializeToString().decode("latin1")
    self.write(module, _OLD_CODE.format(name=file.name, serialized=serialized))

  def test_messages_of_old_generated_code(self):
    self.write_old("tales_pb2")
    old_protobuf.accept()
    tales = importlib.import_module("tales_pb2")
    tale = tales.Tale(title="The Nightingale")
    self.assertEqual(tales.Tale.FromString(tale.SerializeToString()), tale)
    self.assertEqual(tales.Tale.Part(lines=3).lines, 3)
    self.assertEqual(tales.Tale.__module__, "tales_pb2")
    self.assertEqual(tales.DESCRIPTOR.package, "tales")

  def test_code_of_today_runs_as_it_is(self):
    self.write("today_pb2", "DESCRIPTOR = 5\nafter = DESCRIPTOR + 1\n")
    old_protobuf.accept()
    self.assertEqual(importlib.import_module("today_pb2").after, 6)


class _restored:
  """A list is as before afterwards."""

  def __init__(self, changed):
    self._changed, self._before = changed, list(changed)

  def __enter__(self):
    return self._changed

  def __exit__(self, *error):
    self._changed[:] = self._before


if __name__ == "__main__":
  absltest.main()
