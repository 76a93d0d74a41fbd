"""docs/benchmarks.md has a block for the figures of each benchmark."""

from benchmarks import figures, page
from tests.docs import guides

from absl.testing import absltest


class BenchmarksTest(absltest.TestCase):
  def test_each_section_has_a_block_without_a_fault(self):
    """//benchmarks:all writes it, and finds what is beyond its bound."""
    text = guides.read("docs/benchmarks.md")
    sections = text.split("\n## ")[1:]
    self.assertNotEmpty(sections)
    for section in sections:
      name, _, rest = section.partition("\n")
      block = page.read_block(rest, name)
      self.assertNotIn(figures.FAULT, block, name)


if __name__ == "__main__":
  absltest.main()
