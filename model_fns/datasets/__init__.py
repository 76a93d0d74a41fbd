"""Labelled image data sets by name: `load("digits")`, `load("cifar10")`."""

from model_fns.datasets.dataset import Dataset
from model_fns.datasets.dataset import DatasetError
from model_fns.datasets.registry import NAMES
from model_fns.datasets.registry import load

__all__ = ["Dataset", "DatasetError", "NAMES", "load"]
