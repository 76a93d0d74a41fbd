"""Old names of `models` and `programs`, for tests that have not changed."""

from tests.estimator_mp import programs
from tests.estimator_mp.models import data, registry
from tests.estimator_mp.models.shapes import two_lookups

__all__ = ("BATCH", "assert_equals_the_full_batch", "two_lookups")
BATCH = (
  {name: data.ROWS[name] for name in ("x", "ids", "item")},
  data.ROWS["real_label"],
)


def assert_equals_the_full_batch(test, model_fn, batch, config):
  """Asserts that each step of a sharded model is the plain model's.

  That is of batches whose sizes the graph does not know, and does.
  """
  model = registry.Model.of_batch(model_fn, *batch)
  programs.assert_as_plain(test, model, config, (24, 25, 3))
  programs.assert_as_plain(test, model, config, (24, 24), is_static=True)
