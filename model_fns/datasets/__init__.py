"""Labelled image data sets by name: `load("digits")`, `load("cifar10")`."""

from model_fns.datasets.dataset import Dataset, DatasetError
from model_fns.datasets.registry import NAMES, load

__all__ = ["NAMES", "Dataset", "DatasetError", "load"]
