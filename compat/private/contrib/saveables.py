"""Several names in a checkpoint for one object that a Saver stores.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `saveable_object.SaveableObject` and `SaveSpec` are what a program subclasses
  and puts into the collection SAVEABLE_OBJECTS; no public module has them.
"""

from tensorflow.python.training.saving import saveable_object

SaveableObject = saveable_object.SaveableObject
SaveSpec = saveable_object.SaveSpec
