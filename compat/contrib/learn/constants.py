"""The constants of tf.contrib.learn: modes, tasks, kinds of problems."""


class ModeKeys:
  """The purposes of a model_fn; the values of tf.estimator.ModeKeys."""

  TRAIN = "train"
  EVAL = "eval"
  INFER = "infer"

  @classmethod
  def validate(cls, key: str) -> None:
    """Raises a ValueError if `key` is none of the modes."""
    modes = (cls.TRAIN, cls.EVAL, cls.INFER)
    if key not in modes:
      raise ValueError(f"mode={key!r} is none of {', '.join(modes)}.")


class PredictionKey:
  """Keys of the dictionary that the predictions of a canned model are."""

  CLASSES = "classes"
  PROBABILITIES = "probabilities"
  LOGITS = "logits"
  LOGISTIC = "logistic"
  SCORES = "scores"
  TOP_K = "top_k"
  GENERIC = "output"


class ProblemType:
  """The kinds of output alternatives; they decide the serving signature."""

  UNSPECIFIED = 0
  CLASSIFICATION = 1
  LINEAR_REGRESSION = 2
  LOGISTIC_REGRESSION = 3


class TaskType:
  """The types of tasks in TF_CONFIG that tf.contrib.learn knew."""

  MASTER = "master"
  PS = "ps"
  WORKER = "worker"


class Environment:
  """Where TF_CONFIG says that a cluster runs."""

  LOCAL = "local"
  CLOUD = "cloud"
  GOOGLE = "google"
