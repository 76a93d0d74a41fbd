"""The page of scaling has each published row; its errors are those it says."""

import statistics

from benchmarks import networks, predictions, scaling
from tests.docs import guides

from absl.testing import absltest


def _errors(lines):
  """Returns the errors of the rows of a table."""
  return [
    float(line.split(" | ")[-1].rstrip(" |%")) / 100
    for line in lines
    if line.endswith("% |")
  ]


class PageTest(absltest.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.block = scaling.read_block(guides.read("docs/scaling.md"))
    cls.tables = predictions.load()
    head, _, rest = cls.block.partition("\n## All rows\n")
    cls.overview = head.split("\n## ")[0].splitlines()
    cls.sections = dict(x.split("\n", 1) for x in rest.split("\n### ")[1:])

  def test_each_published_row_is_there(self):
    self.assertEqual([*self.sections], [x.title for x in self.tables])
    for table in self.tables:
      lines = self.sections[table.title].splitlines()
      rows = [x for x in lines if x.startswith("| ")][2:]
      self.assertLen(rows, len(table.rows))
      for row, cells in zip(rows, scaling.cells(table), strict=True):
        self.assertStartsWith(row, f"| {cells} | ")
      self.assertLen(_errors(rows), len(rows) - table.has_basis)

  def test_errors_are_ours_over_theirs(self):
    for title, text in self.sections.items():
      for line in text.splitlines():
        if line.endswith("% |"):
          *_, theirs, ours, error = line.strip("| ").split(" | ")
          found = float(ours) / float(theirs) - 1
          self.assertAlmostEqual(
            found, float(error[:-1]) / 100, delta=2e-3 * (1 + found), msg=title
          )

  def test_medians_are_those_of_the_rows(self):
    sizes = {
      title: [abs(x) for x in _errors(text.splitlines())]
      for title, text in self.sections.items()
    }
    sizes["all rows"] = [x for errors in sizes.values() for x in errors]
    said = {
      cells[0]: cells[1:]
      for cells in (x.strip("| ").split(" | ") for x in self.overview)
      if cells[0] in sizes
    }
    self.assertEqual({*said}, {*sizes})
    for title, (rows, median, _) in said.items():
      self.assertEqual(int(rows), len(sizes[title]))
      found = statistics.median(sizes[title])
      self.assertAlmostEqual(float(median[:-1]) / 100, found, delta=2e-3)
    self.assertLessEqual(statistics.median(sizes["all rows"]), scaling.BOUND)

  def test_rows_that_are_simulated_at_once_are_as_on_the_page(self):
    for table in self.tables:
      if table.kind in ("data_parallel", "dlrm", "pipelined_layers"):
        text = scaling.markdown(table, table.simulated())
        self.assertIn(text.strip(), self.block)


class NetworksTest(absltest.TestCase):
  def test_networks_are_those_of_their_publications(self):
    """torchgpipe's layers, and operations as torchvision counts them."""
    networks_and_layers = (
      (networks.resnet101(), 370, 15.6e9),
      (networks.unet(), 241, 98e9),
      (networks.amoebanet(256), 24, 30e9),
    )
    for layers, count, flops in networks_and_layers:
      self.assertLen(layers, count)
      found = sum(op.flops for layer in layers for op in layer.ops)
      self.assertAlmostEqual(found / flops, 1.0, delta=0.02)


if __name__ == "__main__":
  absltest.main()
