"""A release's files agree: version, citation, changelog, image and forms."""

import json
import pathlib
import re
import shlex

import estimator_mp
from estimator_mp.cli import main

import yaml
from absl.testing import absltest, parameterized

# A test sees links to the files it declares; they lead to the source tree.
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_FORMS = _ROOT / ".github" / "ISSUE_TEMPLATE"
_TEXT = {"label", "description", "placeholder", "value"}
# What an element of a form may say besides its type, id and validations.
_ATTRIBUTES = {
  "markdown": {"value"},
  "input": _TEXT,
  "textarea": {*_TEXT, "render"},
  "dropdown": {"label", "description", "multiple", "options", "default"},
}


def _read(path):
  return (_ROOT / path).read_text(encoding="utf-8")


def _forms():
  """The form of each kind of issue, by its name."""
  paths = sorted(_FORMS.glob("*.yml"))
  forms = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in paths}
  forms.pop("config")
  return forms


class VersionTest(absltest.TestCase):
  def test_the_citation_is_of_this_release(self):
    cited = yaml.safe_load(_read("CITATION.cff"))
    released, date = re.search(
      r"^## (\S+) - (\S+)$", _read("CHANGELOG.md"), re.M
    ).groups()
    self.assertEqual(cited["version"], estimator_mp.__version__)
    self.assertEqual(released, estimator_mp.__version__)
    self.assertEqual(cited["date-released"], date)

  def test_the_citation_says_what_the_package_says(self):
    cited = yaml.safe_load(_read("CITATION.cff"))
    project = _read("pyproject.toml")
    self.assertEqual(cited["cff-version"], "1.2.0")
    (author,) = cited["authors"]
    self.assertIn(f'authors = [{{ name = "{author["name"]}" }}]', project)
    self.assertIn(f'license = "{cited["license"]}"', project)


class ImageTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    lines = _read("Dockerfile").splitlines()
    split = [line.partition(" ") for line in lines if line[:1] not in ("", "#")]
    self.instructions = [(name, rest) for name, _, rest in split]

  def _of(self, name):
    return [rest for found, rest in self.instructions if found == name]

  def test_its_commands_are_those_of_the_guide(self):
    """docs/building.md tells how to do without Bazel."""
    installs = [run for run in self._of("RUN") if run.startswith("pip ")]
    (entry,), (arguments,) = self._of("ENTRYPOINT"), self._of("CMD")
    command = shlex.join(json.loads(entry) + json.loads(arguments))
    self.assertLen(installs, 1)
    guide = _read("docs/building.md")
    self.assertIn(f"`{installs[0]}`, then `{command}`", guide)
    uses = re.findall(r"^#   (docker .+)$", _read("Dockerfile"), re.M)
    self.assertIn(f"`{uses[0]}`, then `{uses[1]}`", guide)

  def test_its_python_is_one_of_the_package(self):
    (image,) = self._of("FROM")
    version = re.fullmatch(r"python:(3\.\d+)-slim", image)[1]
    classifier = f'"Programming Language :: Python :: {version}"'
    self.assertIn(classifier, _read("pyproject.toml"))

  def test_its_context_is_what_the_wheel_is_built_of(self):
    rules = [x for x in _read(".dockerignore").splitlines() if x[:1] != "#"]
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    self.assertEqual(rules[0], "*")
    packages = {"compat", "estimator_mp", "model_fns"}
    self.assertEqual(
      kept, {"LICENSE", "README.md", "pyproject.toml", *packages}
    )

  def test_its_examples_are_commands(self):
    examples = re.findall(
      r"docker run --rm estimator-mp (\w+)", _read("Dockerfile")
    )
    self.assertNotEmpty(examples)
    self.assertContainsSubset(examples, main.COMMANDS)


class IssueFormsTest(parameterized.TestCase):
  def test_there_is_one_for_each_kind(self):
    self.assertSameElements(_forms(), ["bug", "feature", "model"])

  @parameterized.parameters("bug", "feature", "model")
  def test_it_is_a_form(self, name):
    form = _forms()[name]
    self.assertEqual(set(form), {"name", "description", "labels", "body"})
    asked = [x for x in form["body"] if x["type"] != "markdown"]
    self.assertNotEmpty(asked)
    for element in form["body"]:
      with self.subTest(element=element):
        known = {"type", "attributes", "id", "validations"}
        self.assertContainsSubset(element, known)
        attributes = element["attributes"]
        self.assertContainsSubset(attributes, _ATTRIBUTES[element["type"]])
        self.assertTrue(all(attributes.values()))
        validations = element.get("validations", {"required": True})
        self.assertEqual(validations, {"required": True})
    for element in asked:
      self.assertRegex(element["id"], r"^[a-z_-]+$")
      self.assertIn("label", element["attributes"])
    for key in (lambda x: x["id"], lambda x: x["attributes"]["label"]):
      self.assertLen({key(x) for x in asked}, len(asked))

  @parameterized.parameters("bug", "model")
  def test_it_asks_for_output_of_commands_that_exist(self, name):
    text = (_FORMS / f"{name}.yml").read_text(encoding="utf-8")
    commands = re.findall(r"estimator-mp (\S+?)[`\s]", text)
    self.assertContainsSubset(["inspect", "--version"], commands)
    self.assertContainsSubset(commands, [*main.COMMANDS, "--version"])


if __name__ == "__main__":
  absltest.main()
