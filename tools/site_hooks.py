"""The files on the site of the documents; MkDocs calls this (mkdocs.yml).

A file's address is its path in the repository, so that links hold on both. The
site has the pages that are named below, each file that one of them links to
(pictures, programs, the licence), and the style sheet. A link to a folder is
plain text on it.
"""

import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from mkdocs.structure import files as files_lib

_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md")
_STYLE = "docs/site.css"
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s#:]+)(?:#[^()\s]*)?\)")


def on_config(config: Any) -> None:
  """Puts the pages of the navigation in the place of patterns."""
  config.nav = [*_entries(config.nav, _root(config))]


def on_files(files: Any, config: Any) -> Any:
  """Returns the files of the theme, and those of this repository."""
  root = _root(config)
  theme = [file for file in files if file.src_dir != config.docs_dir]
  pages = {path for pattern in _PAGES for path in _matches(pattern, root)}
  linked = (_links(path, root) for path in pages)
  paths = sorted(pages.union([_STYLE], *linked))
  made = (
    files_lib.File(path, str(root), config.site_dir, config.use_directory_urls)
    for path in paths
  )
  return files_lib.Files([*theme, *made])


def on_page_markdown(text: str, page: Any, config: Any, files: Any) -> str:
  """Returns a page's text, with the words alone of links to folders."""
  del files

  def words(link: re.Match[str]) -> str:
    target = _root(config) / _target(page.file.src_uri, link)
    return link[1] if target.is_dir() else link[0]

  return _LINK.sub(words, text)


def _root(config: Any) -> pathlib.Path:
  """Returns the folder of the repository."""
  return pathlib.Path(config.config_file_path).parent


def _matches(pattern: str, root: pathlib.Path) -> list[str]:
  """Returns the paths of a pattern, from the root."""
  found = root.glob(pattern)
  return sorted(path.relative_to(root).as_posix() for path in found)


def _links(page: str, root: pathlib.Path) -> Iterator[str]:
  """Yields the paths of the files that a page links to."""
  text = (root / page).read_text(encoding="utf-8")
  for link in _LINK.finditer(text):
    path = _target(page, link)
    if not path.startswith("..") and (root / path).is_file():
      yield path


def _target(page: str, link: re.Match[str]) -> str:
  """Returns the path, from the root, that a link of a page leads to."""
  return os.path.normpath(os.path.join(os.path.dirname(page), link[2]))


def _entries(entries: Iterable[Any], root: pathlib.Path) -> Iterator[Any]:
  """Yields entries of the navigation, of existing pages."""
  for entry in entries:
    titled = entry.items() if isinstance(entry, dict) else [(None, entry)]
    for title, inner in titled:
      if isinstance(inner, list):
        yield {title: [*_entries(inner, root)]}
      else:
        for path in _matches(inner, root):
          yield {title: path} if title else path
