"""The data sets by name."""

from model_fns.datasets import cifar10, dataset, digits

NAMES = ("digits", "cifar10")


def load(name: str, data_dir: str | None = None) -> dataset.Dataset:
  """Loads and validates a data set.

  Args:
    name: "digits" (embedded in scikit-learn) or "cifar10".
    data_dir: For cifar10, the directory with its binary files; None downloads
      them. The digits have none.

  Returns:
    The data set, every record of which has been checked.

  Raises:
    DatasetError: the name is not known, or the data cannot be used.
  """
  if name == "cifar10":
    return cifar10.load(data_dir)
  if name != "digits":
    raise dataset.DatasetError(
      f"dataset={name} is not known; use one of: {', '.join(NAMES)}"
    )
  if data_dir is not None:
    raise dataset.DatasetError(
      f"data_dir={data_dir} does not fit dataset=digits, which is embedded in"
      " scikit-learn; leave --data_dir out, or use --dataset=cifar10"
    )
  return digits.load()
