"""The site of the documents: it is whole, and asks no other server.

Bazel builds it for this test. Without Bazel the test reads what
`./bazelw build //docs:site` has left behind.
"""

import dataclasses
import html.parser
import pathlib
import re
from urllib import parse

import compat
import estimator_mp
import model_fns
from estimator_mp import toolbox
from estimator_mp.config import sharding_options

from absl.testing import absltest, parameterized

_ROOT = pathlib.Path(__file__).parents[2]
_PLACES = (_ROOT / "docs/site", _ROOT / ".bazel/bin/docs/site")
_BUILT = next((path for path in _PLACES if path.exists()), None)


class _Page(html.parser.HTMLParser):
  """What a page of a site has.

  Attributes:
    anchors: The ids of its elements.
    links: The addresses that people follow.
    parts: The addresses that a browser loads with it.
  """

  def __init__(self, path):
    super().__init__()
    self.anchors, self.links, self.parts = set(), [], []
    self.feed(path.read_text(encoding="utf-8"))

  def handle_starttag(self, tag, attrs):
    found = dict(attrs)
    self.anchors.update(found[x] for x in ("id", "name") if found.get(x))
    to = self.links if tag == "a" else self.parts
    to += [found[x] for x in ("href", "src") if found.get(x)]


def _pages(site):
  return {path: _Page(path) for path in site.rglob("*.html")}


def _dead_links(site):
  """Returns the links of a site to files and anchors that it does not have."""
  pages = _pages(site)
  return [
    f"{path.relative_to(site)}: {link}"
    for path, page in pages.items()
    for link in page.links + page.parts
    if not parse.urlsplit(link).scheme and not _is_live(path, link, pages)
  ]


def _is_live(path, link, pages):
  parts = parse.urlsplit(link)
  # The page of errors is served in any folder; it names the site's own.
  relative = parts.path.lstrip("/") if path.name == "404.html" else parts.path
  target = path.parent.joinpath(parse.unquote(relative)) if relative else path
  target = pathlib.Path(target.parent.resolve(), target.name)
  if target.is_dir():
    target /= "index.html"
  if target not in pages:
    return target.is_file()
  return not parts.fragment or parse.unquote(parts.fragment) in (
    pages[target].anchors
  )


def _asked_servers(site):
  """Returns the addresses of other servers that a browser asks for parts."""
  found = [
    f"{path.relative_to(site)}: {link}"
    for path, page in _pages(site).items()
    for link in page.parts
    if parse.urlsplit(link).netloc
  ]
  loaded = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"'\s]+)")
  return found + [
    f"{path.relative_to(site)}: {address}"
    for path in site.rglob("*.css")
    for address in loaded.findall(path.read_text(encoding="utf-8"))
  ]


@absltest.skipIf(_BUILT is None, "./bazelw build //docs:site makes the site")
class SiteTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.site = _BUILT.resolve()

  def test_no_link_is_dead(self):
    self.assertEmpty(_dead_links(self.site))

  def test_a_browser_asks_no_other_server(self):
    self.assertEmpty(_asked_servers(self.site))

  def test_home_is_readme(self):
    text = (self.site / "index.html").read_text(encoding="utf-8")
    title = (_ROOT / "README.md").read_text(encoding="utf-8").partition("\n")[0]
    self.assertIn(f">{title.removeprefix('# ')}<", text)

  @parameterized.parameters(
    (estimator_mp, "estimator_mp sharding_config"),
    (toolbox, "toolbox"),
    (model_fns, "model_fns"),
    (compat, "compat"),
  )
  def test_public_names_are_those_of_the_package(self, package, pages):
    name = re.compile(re.escape(package.__name__) + r"\.(\w+)")
    found = {
      match[1]
      for page in pages.split()
      for anchor in _Page(self.site / f"docs/api/{page}.html").anchors
      if (match := name.fullmatch(anchor))
    }
    self.assertEqual(found, {*package.__all__})

  def test_options_are_those_of_the_configuration(self):
    page = self.site / "docs/api/sharding_config.html"
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r">(\w+)</span></code></b>", text))
    fields = dataclasses.fields(sharding_options.ShardingOptions)
    self.assertContainsSubset({field.name for field in fields}, named)


class CheckTest(absltest.TestCase):
  def test_what_is_dead_is_found(self):
    live = '<a href="b.html#here">', '<p id="here"><a href="a.html">'
    self.assertEmpty(_dead_links(self._site(*live, "")))
    dead = '<a href="b.html#there"><img src="c.png">', '<a href="#x">'
    site = self._site(*dead, "")
    self.assertCountEqual(
      _dead_links(site),
      ["a.html: b.html#there", "a.html: c.png", "b.html: #x"],
    )

  def test_what_asks_another_server_is_found(self):
    script, style = "https://cdn.example/x.js", "//cdn.example/x.woff"
    site = self._site(
      f'<a href="{script}">', f'<script src="{script}">', f"p {{a: url({style})"
    )
    self.assertEqual(
      _asked_servers(site), [f"b.html: {script}", f"x.css: {style}"]
    )

  def _site(self, first, second, style):
    site = pathlib.Path(self.create_tempdir().full_path).resolve()
    (site / "a.html").write_text(first)
    (site / "b.html").write_text(second)
    (site / "x.css").write_text(style)
    return site


if __name__ == "__main__":
  absltest.main()
