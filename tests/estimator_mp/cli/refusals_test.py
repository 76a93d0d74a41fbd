"""What commands refuse, in one line and with exit code 2."""

import re
import shlex

from estimator_mp.cli import main
from model_fns.recipes import catalogue
from tests.estimator_mp.cli import command_runs, user_programs

from absl.testing import absltest, parameterized

_WORDS = {
  "DATA": "--input_fn=their_program:input_fn",
  "EIGHT": '--params={"batch_size": 8}',
  "MODEL": "--model_fn=their_program:model_fn",
  "X": "--features=x:float32[?,10]",
}
_MODELS = ", ".join(catalogue.ENTRIES)
_NO_LABELS = "model_fn takes no labels, but labels were given; leave them out"
_NO_FEATURE = "{} raised KeyError: 'x' ... check --params, and what --input_fn"
_THEIR_ERROR = "{} raised ZeroDivisionError: ...their_program.py, line ...; fix"
_NO_PROGRAM = "there is no program to run; write it after --, such as launch "
# Commands, and how the line begins: "{}" is the last argument, "..." any text.
_REFUSED = (
  ("train --batchsize=3", "--batchsize is not a flag; did you mean --batch_si"),
  ("train --xyzzy", "{} is not a flag; --help lists the flags"),
  ("train --batch_size=abc", "{} is not an integer; use 1 or more"),
  ("train --log_every=0", "{} is too small; use 1 or more"),
  ("train --trace_steps=1,x", "{} is not a list of integers; use such as 10,2"),
  ("train --trace_steps=10,0", "{} is too small at 0; use such as 10,20"),
  ("train --seed=2147483648", "{} is too large; use 0 to 2147483647"),
  ("train --learning_rate=fast", "{} is not a number; use one such as 0.001"),
  ("train --learning_rate=-1", "{} is not positive and finite; use one such"),
  ("train --learning_rate=nan", "{} is not positive and finite; use one such"),
  ("train --schedule=interleaved", "{} does not fit --model=cifar10_cnn; use"),
  ("train --placement=auto", "--placement does not fit --model=cifar10_cnn: "),
  ("train --model=x", f"{{}} is not known; use one of {_MODELS}"),
  ("train --verify_placement=maybe", "{} is not true or false; use one"),
  ("train --devices=", "{} is empty; give a value, or leave the flag out"),
  ("train --model_dir=", "{} is empty; give a value, or leave the flag out"),
  ("train --model_dir", "Missing value for flag --model_dir; --help explains"),
  ("train stage:3", "unexpected argument 'stage:3'; flags are written --name="),
  ("train --mesh=stage:4", "mesh stage:4 ... 3 layer(s); use at most stage:3"),
  ("train --batch_size=1440", "batch_size=1440 ... 1438 ...; use 1 to 1438"),
  ("train --num_micro_batches=6", "num_micro_batches=6 ...=64; use 1, 2, 4, "),
  ("train --mesh=data:3", "data:3 ... use --batch_size=63 or 66, or as many"),
  ("train --mesh=data:32,stage:3", "num_micro_batches=4 ... 2 of ... 1 or 2"),
  ("train --aggregation=horovod", "{} is for ...; use a data axis, such as"),
  (
    "train --mesh=data:2,stage:2 --variables=shared --aggregation=ring",
    "aggregation='ring', ... variables='shared' ...; use variables=\"mirrored",
  ),
  ("plan --mesh=stage:9", "the model has 4 layer(s) ... the 9 stages ... 4"),
  ("plan --v1_packages=bert", "--v1_packages is for programs of TensorFlow"),
  ("plan --v1", "--v1 is given without --model_fn; give the"),
  ("plan --labels=int32[?]", "--labels is given without --model_fn; give "),
  ("plan MODEL", "{} needs --features: its features, such as --features="),
  ("plan MODEL --features=x", "{}: 'x' is not name:dtype[dimensions]; writ"),
  ("plan MODEL X --params=[1]", "{} is not a JSON object; write it like"),
  ("plan X --model_fn=theirs", "{} is not module:function; write it like"),
  ("plan X --model_fn=absent:f", "{}: there is no module absent in "),
  ("plan X --model_fn=their_program:f", "{}: ... no function f; it has bro"),
  ("plan X --model_fn=their_program:number", "{}: ... something else than"),
  ("plan X --model_fn=broken_program:f", "importing broken_program raised"),
  ("plan --features=y:bool[] MODEL", "{} raised KeyError: 'x' ("),
  ("plan X --labels=int32[?] --model_fn=their_program:no_spec", _NO_LABELS),
  ("plan X --model_fn=their_program:no_spec", "{} returned 5; a model_fn r"),
  ("plan --params={} -- train.py", "--params is given beside ... train.py,"),
  ("plan -- none.py", "there is no file none.py in FOLDER; give the path"),
  ("compare MODEL -- train.py", "--model_fn is given beside the program train"),
  ("compare -- -m", "-m is given without a module; write one after it"),
  ("compare train.py", "unexpected argument 'train.py'; ... -- [-m] PROGRAM"),
  ("compare --input_fn=a:b", "--input_fn is given without --model_fn; give th"),
  ("compare --model_fn=a:b", "{} needs --input_fn: its training data, such as"),
  ("compare MODEL DATA --model=mlp", "--model is for ...=their_program:model_"),
  ("compare MODEL --input_fn=f", "{} is not module:function; write it like"),
  ("compare --tolerance=1", "tolerance=1.0 is out of range; ... from 0 up to"),
  ("compare MODEL --input_fn=their_program:no_input", _THEIR_ERROR),
  ("compare MODEL --params={} DATA", "{} raised KeyError: 'batch_size' "),
  ("compare EIGHT --input_fn=their_program:no_feature MODEL", _NO_FEATURE),
  ("measure --seconds=0", "{} is not positive and finite; use one such as 0."),
  ("measure --out=.", "out=FOLDER is a directory; give a file's path"),
  (
    "measure --out=train.py/x",
    "out=FOLDER/train.py cannot be written (...); c",
  ),
  ("launch", _NO_PROGRAM),
  ("launch --tasks=2 --", _NO_PROGRAM),
  ("launch -- -m", _NO_PROGRAM),
  ("launch train.py --steps=3", "--steps is not a flag; --help lists the flag"),
  ("launch train.py", "unexpected argument 'train.py'; flags are written --na"),
  ("launch -- theirs.py", "there is no file theirs.py in "),
  ("launch -- no-such", "there is no program no-such that can be run; give a"),
  ("launch -- ./nothing", "there is no program ./nothing that can be run; giv"),
  ("launch --tasks=0 -- true", "--tasks=0 is too small; use 1 or more"),
  ("launch --max_restarts=-1 -- true", "--max_restarts=-1 is too small; use 0"),
  ("launch --restart_delay=0 -- true", "--restart_delay=0 is not positive and"),
  ("launch --network=none -- true", "--network=none is not known; use one of"),
  ("launch --mem_limit=12XB -- true", "--mem_limit=12XB is not an amount of "),
  ("launch --mem_limit=0 -- true", "--mem_limit=0 is too small; use 1 or more"),
  ("launch --task=3 -- true", "--task is not a flag; did you mean --tasks?"),
  ("predict --examples=a.npz", "--stages is missing; give the folder th"),
  ("predict --stages=a", "--examples is missing; give a file of JSON lines "),
  ("predict --stages=a --examples=a.csv", "--examples=FOLDER/a.csv is neither"),
  ("predict --stages=a --examples=a.npz", "FOLDER/a holds no pipeline.json; g"),
  ("predict --stage=a", "--stage is not a flag; did you mean --stages?"),
  ("predict --deadline=0", "{} is not positive and finite; use one such"),
  ("serve", "--stage_dir is missing; give "),
  ("serve --stage_dir=.", "there is no FOLDER/stage.json; give "),
)


class RefusalsTest(parameterized.TestCase):
  @parameterized.parameters(*_REFUSED)
  def test_is_one_line(self, words, said):
    folder = user_programs.working_directory(self)
    for name, text in (
      ("their_program", user_programs.MODULE),
      ("broken_program", "\n1 / 0\n"),
      ("train", user_programs.SCRIPT),
    ):
      (folder / f"{name}.py").write_text(text)
    words = [_WORDS.get(word, word) for word in shlex.split(words)]
    code, output, errors = command_runs.run(main.main, *words)
    self.assertEqual(code, 2, errors)
    if words[0] != "train":  # It says what it checks.
      self.assertEqual(output, "")
    self.assertLen(errors.splitlines(), 1)
    expected = re.escape(f"{words[0]}: {said}").replace(r"\.\.\.", ".*")
    expected = expected.replace(r"\{\}", re.escape(words[-1]))
    self.assertRegex(errors.replace(str(folder), "FOLDER"), f"^{expected}")


if __name__ == "__main__":
  absltest.main()
