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


class MetricKey:
  """The names of the metrics of heads."""

  LOSS = "loss"
  AUC = "auc"
  AUC_PR = "auc_precision_recall"
  CLASS_AUC = "auc/class%d"
  CLASS_AUC_PR = "auc_precision_recall/class%d"
  PREDICTION_MEAN = "labels/prediction_mean"
  CLASS_PREDICTION_MEAN = "labels/prediction_mean/class%d"
  CLASS_LOGITS_MEAN = "labels/logits_mean/class%d"
  CLASS_PROBABILITY_MEAN = "labels/probability_mean/class%d"
  LABEL_MEAN = "labels/actual_label_mean"
  CLASS_LABEL_MEAN = "labels/actual_label_mean/class%d"
  ACCURACY = "accuracy"
  ACCURACY_BASELINE = "accuracy/baseline_label_mean"
  ACCURACY_MEAN = "accuracy/threshold_%f_mean"
  PRECISION_MEAN = "precision/positive_threshold_%f_mean"
  RECALL_MEAN = "recall/positive_threshold_%f_mean"
