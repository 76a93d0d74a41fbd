"""States: what outlives a step, and whether micro-batches share it.

An op that makes a state gives others a handle of it: a resource, or a v1
reference. Micro-batches and replicas may share the state, as they do variables
and lookup tables; each may need its own, as with a v1 loop's stack; or neither
would be the plain model: a queue that is read once per step must not be read
once per micro-batch. One table says which, and a kind of op that is not in it
is refused.
"""

import enum

import tensorflow as tf


class Scope(enum.Enum):
  """Who has a state."""

  SHARED = "one for all micro-batches and replicas"
  OWN = "each micro-batch has its own"
  REFUSED = "neither is the plain model"


_SHARED = (
  # Variables.
  "VarHandleOp",
  "Variable",
  "VariableV2",
  "_VarHandlesOp",
  "_XlaAotOnlyVarHandleOp",
  # Lookup tables, in the host's memory.
  "AnonymousHashTable",
  "AnonymousMutableDenseHashTable",
  "AnonymousMutableHashTable",
  "AnonymousMutableHashTableOfTensors",
  "HashTable",
  "HashTableV2",
  "MutableDenseHashTable",
  "MutableDenseHashTableV2",
  "MutableHashTable",
  "MutableHashTableOfTensors",
  "MutableHashTableOfTensorsV2",
  "MutableHashTableV2",
  # Data sets: a step draws one element for all.
  "AnonymousIterator",
  "AnonymousIteratorV2",
  "AnonymousIteratorV3",
  "AnonymousMemoryCache",
  "AnonymousMultiDeviceIterator",
  "AnonymousMultiDeviceIteratorV3",
  "AnonymousRandomSeedGenerator",
  "AnonymousSeedGenerator",
  "DummyIterationCounter",
  "DummyMemoryCache",
  "DummySeedGenerator",
  "ExperimentalStatsAggregatorHandle",
  "ExperimentalThreadPoolHandle",
  "Iterator",
  "IteratorFromStringHandle",
  "IteratorFromStringHandleV2",
  "IteratorV2",
  "MultiDeviceIterator",
  "MultiDeviceIteratorFromStringHandle",
  "OneShotIterator",
  "StatsAggregatorHandle",
  "StatsAggregatorHandleV2",
  "ThreadPoolHandle",
)
_OWN = (
  "Stack",
  "StackV2",
  "TemporaryVariable",
  "TensorArray",
  "TensorArrayGrad",
  "TensorArrayV3",
)
_REFUSED = (
  # What a step takes from these, the next one does not see.
  "Barrier",
  "ConditionalAccumulator",
  "FIFOQueue",
  "FIFOQueueV2",
  "FixedLengthRecordReader",
  "FixedLengthRecordReaderV2",
  "IdentityReader",
  "IdentityReaderV2",
  "LMDBReader",
  "PaddingFIFOQueue",
  "PaddingFIFOQueueV2",
  "PriorityQueue",
  "PriorityQueueV2",
  "RandomShuffleQueue",
  "RandomShuffleQueueV2",
  "ResourceConditionalAccumulator",
  "SparseConditionalAccumulator",
  "TFRecordReader",
  "TFRecordReaderV2",
  "TextLineReader",
  "TextLineReaderV2",
  "WholeFileReader",
  "WholeFileReaderV2",
  # The same, by a name instead of a handle.
  "AddManySparseToTensorsMap",
  "AddSparseToTensorsMap",
  "MapStage",
  "MapUnstage",
  "MapUnstageNoKey",
  "OrderedMapStage",
  "OrderedMapUnstage",
  "OrderedMapUnstageNoKey",
  "RecordInput",
  "Stage",
  "TakeManySparseFromTensorsMap",
  "Unstage",
  # Trees are no variables: each step changes them from the whole batch.
  "BoostedTreesEnsembleResourceHandleOp",
  "BoostedTreesQuantileStreamResourceHandleOp",
  # Others would write, wait or talk once per micro-batch.
  "CollectiveInitializeCommunicator",
  "GetSessionHandleV2",
  "MutexV2",
  "RpcClient",
  "RpcServer",
  "SummaryWriter",
  # Draws from a generator's variable that cannot be told apart by a key.
  "StatefulRandomBinomial",
  "StatefulStandardNormal",
  "StatefulStandardNormalV2",
  "StatefulTruncatedNormal",
  "StatefulUniform",
  "StatefulUniformFullInt",
  "StatefulUniformInt",
)
SCOPES = {
  **dict.fromkeys(_SHARED, Scope.SHARED),
  **dict.fromkeys(_OWN, Scope.OWN),
  **dict.fromkeys(_REFUSED, Scope.REFUSED),
}
# These get a handle, and are stateful, but read only: what they give is the
# same for all micro-batches unless something else that they read differs.
READS = frozenset(
  [
    "IsVariableInitialized",
    "IteratorGetNext",
    "IteratorGetNextAsOptional",
    "IteratorGetNextSync",
    "LookupTableExport",
    "LookupTableExportV2",
    "LookupTableFind",
    "LookupTableFindV2",
    "LookupTableSize",
    "LookupTableSizeV2",
    "MultiDeviceIteratorGetNextFromShard",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "Restore",
    "RestoreSlice",
    "RestoreV2",
    "VarIsInitializedOp",
    "VariableShape",
  ]
)
# A `tf.random.Generator` moves on once per batch; the numbers of further
# micro-batches come from keys of their own.
MOVES_GENERATOR = frozenset(["RngReadAndSkip", "RngSkip"])


def is_handle(tensor: tf.Tensor) -> bool:
  """Whether a tensor is a handle of a state: a resource, or a reference."""
  return tensor.dtype == tf.resource or tensor.dtype != tensor.dtype.base_dtype


def has_own(op: tf.Operation) -> bool:
  """Whether an op has, or makes, a state for each micro-batch.

  Args:
    op: An op that writes no variable or table.
  """
  is_shared = (
    op.type in READS
    or op.type in MOVES_GENERATOR
    or SCOPES.get(op.type) is Scope.SHARED
  )
  return op.op_def.is_stateful and not is_shared


def check(op: tf.Operation) -> None:
  """Raises if an op makes a state that cannot be shared or cloned.

  Args:
    op: An op that micro-batches or replicas need.

  Raises:
    ValueError: With the op.
  """
  scope = SCOPES.get(op.type)
  is_maker = any(map(is_handle, op.outputs)) and not any(
    map(is_handle, op.inputs)
  )
  if scope is Scope.REFUSED or (is_maker and scope is None):
    raise ValueError(refusal(op.name, op.type))


def refusal(name: str, op_type: str) -> str:
  """Returns the text of the error for an op that cannot be had.

  Args:
    name: The name of the op.
    op_type: Its type.
  """
  return (
    f"{name} ({op_type}) has a state that micro-batches and replicas would "
    "not use as one step of the whole batch does; make it in input_fn, or use "
    "num_micro_batches=1 and no data axis"
  )
