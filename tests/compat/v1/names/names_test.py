"""1.15's names are there, and docs/tensorflow1.md says which are not.

`python -m tests.compat.v1.names.write` writes its tables again.
"""

import inspect
import pathlib

import compat

compat.install(v1=True, v1_packages=["tests.compat.v1"])

from compat import contrib  # noqa: E402
from compat.private import kept_names  # noqa: E402
from tests.compat.v1.names import comparison, page, uses, write  # noqa: E402

import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402

_OUT_OF_PLACE = ("`x` not in place 0", "`y` not in place 1")
_OF_THE_PAGE = "2.21."
# Of what TensorFlow has kept in private modules: what has other arguments now,
# and what was no public name of 1.15's, but is imported from deeper modules.
_KEPT_WITH_OTHER_ARGUMENTS = {
  "distribute.UpdateContext": ("no `device`",),
  "eager.run_test_in_graph_and_eager_modes": (
    "no `reset_test`",
    "`assert_no_eager_garbage` not in place 4",
  ),
  "tpu.InfeedQueue": ("`name` not in place 4",),
}
_KEPT_FROM_DEEPER_MODULES = (
  "tpu.TpuContext",
  "tpu.get_tpu_context",
  "tpu.tpu_replicated_input",
  "tpu.tpu_replicated_output",
  "tpu.tpu_shard_context",
)


def _is_module(parent, name):
  return inspect.ismodule(getattr(parent, name))


class NamesTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.names = comparison.outside_contrib(tf)
    cls.contrib = comparison.contrib(tf)
    cls.uses = uses.most_used(tf)

  def test_names_outside_contrib_work_or_name_a_replacement(self):
    lost = [one.recorded.path for one in self.names if one.is_lost]
    self.assertLess(len(lost), 0.01 * len(self.names), lost)
    there = sum(one.is_there for one in self.names)
    self.assertGreater(there, 0.97 * len(self.names))

  def test_the_error_names_the_replacement(self):
    kinds = {one.recorded.path: one.recorded.kind for one in self.names}
    for one in self.names:
      path = one.recorded.path
      if one.is_there or path.rpartition(".")[0] in kinds:
        continue  # Or in a class, whose errors are TensorFlow's.
      with self.subTest(path), self.assertRaises(AttributeError) as caught:
        comparison.resolve(tf, path)
      self.assertIn(one.replacement, str(caught.exception))

  def test_names_of_promised_modules_work_or_name_a_replacement(self):
    promised = [
      one
      for one in self.contrib
      if one.recorded.path.partition(".")[0] in comparison.PROMISED
    ]
    lost = [one.recorded.path for one in promised if one.is_lost]
    self.assertLess(len(lost), 0.1 * len(promised), lost)

  @parameterized.named_parameters(
    (name, name) for name in ("framework", "layers", "slim", "summary")
  )
  def test_a_module_of_contrib_lists_what_is_there_of_1_15(self, name):
    module = getattr(contrib, name)
    paths = [x.recorded.path.split(".") for x in self.contrib if x.is_there]
    there = {path[1] for path in paths if path[0] == name}
    modules = {x for x in module.__all__ if _is_module(module, x)}
    self.assertEqual({*module.__all__} - modules, there - modules)

  def test_kept_names_have_the_arguments_of_1_15(self):
    recorded = {one.recorded.path: one for one in self.contrib}
    kept = {f"{x}.{y}" for x, names in kept_names.PLACES.items() for y in names}
    self.assertCountEqual(kept - recorded.keys(), _KEPT_FROM_DEEPER_MODULES)
    for path in _KEPT_FROM_DEEPER_MODULES:
      self.assertTrue(callable(comparison.resolve(tf, f"contrib.{path}")), path)
    found = {path: recorded[path] for path in kept & recorded.keys()}
    self.assertEmpty([path for path, one in found.items() if not one.is_there])
    others = {x: one.differences for x, one in found.items() if one.differences}
    self.assertEqual(others, _KEPT_WITH_OTHER_ARGUMENTS)

  def test_of_what_programs_use_most_the_first_thirty_are_there(self):
    self.assertLen(self.uses, uses.MOST)
    refused = [one.path for one in self.uses[:30] if one.replacement]
    self.assertEmpty(refused)

  def test_the_page_has_the_state_of_what_programs_use_most(self):
    if not write.real_version().startswith(_OF_THE_PAGE):
      self.skipTest(f"The page is of TensorFlow {_OF_THE_PAGE}")
    written = pathlib.Path(write.PAGE).read_text(encoding="utf-8")
    self.assertIn(page.table_of_uses(self.uses), written)
    searches = uses.sample()
    hits = sum(sum(names.values()) for names in searches.values())
    self.assertIn(f"in a sample of {hits} uses", written)
    self.assertIn(f"for each of {len(searches)} texts", written)

  def test_no_name_of_the_page_is_lost(self):
    if not write.real_version().startswith(_OF_THE_PAGE):
      self.skipTest(f"The page is of TensorFlow {_OF_THE_PAGE}")
    written = pathlib.Path(write.PAGE).read_text(encoding="utf-8")
    now = page.with_tables(written, self.names, self.contrib, self.uses)
    self.assertEmpty(page.losses(written, now))


class PageTest(absltest.TestCase):
  def test_a_lost_name_is_seen(self):
    before = "| `tf.nn` | 3 of 3 | | |\n**`tf.contrib.rnn`**, 4 of 5.\n"
    after = "| `tf.nn` | 3 of 3 | | |\n**`tf.contrib.rnn`**, 3 of 5.\n"
    self.assertEqual(
      page.losses(before, after),
      ["tf.contrib.rnn: 4 names before, 3 now"],
    )
    self.assertEmpty(page.losses(after, before))


class DifferencesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("nothing", "(x, axis=None)", lambda x, axis=None, more=1: x, []),
    ("order", "(x, y)", lambda z, x, y: x, list(_OUT_OF_PLACE)),
    ("name", "(x, dim=0)", lambda x, axis=0: x, ["no `dim`"]),
    ("default", "(y='a, b')", lambda y="c": y, ["`y` is 'c', not 'a, b'"]),
    ("required", "(x)", lambda x, y: x, ["`y` is required"]),
    ("anything", "(x, y=None)", lambda *args, **kwargs: args, []),
  )
  def test_arguments(self, signature, function, expected):
    recorded = comparison.Recorded("f", "def", signature)
    found = list(comparison.differences(recorded, function))
    self.assertEqual(found, expected)


if __name__ == "__main__":
  absltest.main()
