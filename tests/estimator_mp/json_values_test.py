"""JSON that others wrote: read, or refused in one line that says where."""

import dataclasses
import json
from collections.abc import Mapping

from estimator_mp import json_values

from absl.testing import absltest, parameterized


@dataclasses.dataclass(frozen=True)
class _Part:
  name: str
  size: int | None
  seconds: float


@dataclasses.dataclass(frozen=True)
class _Whole:
  parts: tuple[_Part, ...]
  by_name: Mapping[str, tuple[int, ...]]


_PART = {"name": "a", "size": None, "seconds": 1}
_WHOLE = {"parts": [_PART], "by_name": {"x": [1, 2]}, "more": 3}


class JsonValuesTest(parameterized.TestCase):
  def test_a_dataclass_is_the_schema(self):
    found = json_values.load(_Whole, _WHOLE)
    self.assertEqual(found, _Whole((_Part("a", None, 1.0),), {"x": (1, 2)}))
    self.assertIs(type(found.parts[0].seconds), float)

  @parameterized.parameters(
    ([], "it is [], which is not of type object"),
    ({"parts": []}, "it has no 'by_name'"),
    (_WHOLE | {"parts": "ab"}, "it.parts is 'ab', which is not of type list"),
    (
      _WHOLE | {"parts": [[]]},
      "it.parts[0] is [], which is not of type object",
    ),
    (
      _WHOLE | {"parts": [_PART | {"size": True}]},
      "it.parts[0].size is True, which is not of type int",
    ),
    (
      _WHOLE | {"parts": [_PART | {"seconds": "1"}]},
      "it.parts[0].seconds is '1', which is not of type float",
    ),
    (
      _WHOLE | {"by_name": {"x": [1, None]}},
      "it.by_name.x[1] is None, which is not of type int",
    ),
    (
      _WHOLE | {"by_name": "x" * 100},
      f"it.by_name is '{'x' * 36}..., which is not of type object",
    ),
  )
  def test_what_has_another_type_is_named(self, value, text):
    with self.assertRaises(ValueError) as raised:
      json_values.load(_Whole, value)
    self.assertEqual(str(raised.exception), text)

  @parameterized.parameters(
    ("[" * 100_000, "its brackets are nested too deeply: line 1 column 1"),
    ('{"a":' * 100_000, "its brackets are nested too deeply: line 1 column 1"),
    ("9" * 10_000, "Exceeds the limit"),
    ("{", "Expecting property name"),
  )
  def test_what_cannot_be_read_is_no_json(self, text, reason):
    with self.assertRaisesRegex(json.JSONDecodeError, f"^{reason}"):
      json_values.parse(text)

  def test_what_can_be_read(self):
    self.assertEqual(json_values.parse(b'{"a": [1, null]}'), {"a": [1, None]})


if __name__ == "__main__":
  absltest.main()
