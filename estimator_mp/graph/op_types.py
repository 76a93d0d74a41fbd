"""Types of ops: the traits of TensorFlow's ops, in one table.

Each set names the types that have a trait in common, and the functions at the
end ask an op for its own. The consequences of a trait are no part of the table.

A tuple holds beginnings, for `str.startswith`, of families that grow with every
TensorFlow: "ResourceApply" is any optimizer's update.

A state outlives a step. An op that makes one gives others a handle of
it: a resource, or a v1 reference. Micro-batches and replicas may share the
state, as they do variables and lookup tables; each may need its own, as with a
v1 loop's stack; or neither would be the plain model: a queue that is read once
per step must not be read once per micro-batch. A kind of op that makes a state
and is not in the table is refused.
"""

import enum
from collections.abc import Iterable

import tensorflow as tf


def _types(text: str) -> frozenset[str]:
  """Returns the types that a text names, one after the other."""
  return frozenset(text.split())


# --- States: variables, tables and others that outlive a step.

# Ops that make a variable: a resource's handle, or a v1 reference.
VARIABLES = frozenset(["VarHandleOp", "Variable", "VariableV2"])


class StateScope(enum.Enum):
  """Who has a state."""

  SHARED = "one for all micro-batches and replicas"
  LOCAL = "each micro-batch has its own"
  REFUSED = "neither is the plain model"


# Draws from a generator's variable, which no key tells apart.
GENERATOR_DRAWS = _types(
  """
  StatefulRandomBinomial StatefulStandardNormal StatefulStandardNormalV2
  StatefulTruncatedNormal StatefulUniform StatefulUniformFullInt
  StatefulUniformInt
  """
)
_SHARED = (
  # Variables.
  *VARIABLES,
  "_VarHandlesOp",
  "_XlaAotOnlyVarHandleOp",
  # Lookup tables, in the host's memory.
  *_types(
    """
    AnonymousHashTable AnonymousMutableDenseHashTable
    AnonymousMutableHashTable AnonymousMutableHashTableOfTensors HashTable
    HashTableV2 MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable
    MutableHashTableOfTensors MutableHashTableOfTensorsV2 MutableHashTableV2
    """
  ),
  # Data sets: a step draws one element for all.
  *_types(
    """
    AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3
    AnonymousMemoryCache AnonymousMultiDeviceIterator
    AnonymousMultiDeviceIteratorV3 AnonymousRandomSeedGenerator
    AnonymousSeedGenerator DummyIterationCounter DummyMemoryCache
    DummySeedGenerator ExperimentalStatsAggregatorHandle
    ExperimentalThreadPoolHandle Iterator IteratorFromStringHandle
    IteratorFromStringHandleV2 IteratorV2 MultiDeviceIterator
    MultiDeviceIteratorFromStringHandle OneShotIterator StatsAggregatorHandle
    StatsAggregatorHandleV2 ThreadPoolHandle
    """
  ),
)
_LOCAL = (
  "Stack",
  "StackV2",
  "TemporaryVariable",
  "TensorArray",
  "TensorArrayGrad",
  "TensorArrayV3",
)
_REFUSED = (
  # An element that a step takes from these, the next one does not see.
  *_types(
    """
    Barrier ConditionalAccumulator FIFOQueue FIFOQueueV2
    FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader
    IdentityReaderV2 LMDBReader PaddingFIFOQueue PaddingFIFOQueueV2
    PriorityQueue PriorityQueueV2 RandomShuffleQueue RandomShuffleQueueV2
    ResourceConditionalAccumulator SparseConditionalAccumulator TFRecordReader
    TFRecordReaderV2 TextLineReader TextLineReaderV2 WholeFileReader
    WholeFileReaderV2
    """
  ),
  # The same, by a name instead of a handle.
  *_types(
    """
    AddManySparseToTensorsMap AddSparseToTensorsMap MapStage MapUnstage
    MapUnstageNoKey OrderedMapStage OrderedMapUnstage OrderedMapUnstageNoKey
    RecordInput Stage TakeManySparseFromTensorsMap Unstage
    """
  ),
  # Trees are no variables: each step changes them from the whole batch.
  *_types(
    """
    BoostedTreesEnsembleResourceHandleOp
    BoostedTreesQuantileStreamResourceHandleOp
    """
  ),
  # Others would write, wait or talk once per micro-batch.
  *_types(
    """
    CollectiveInitializeCommunicator GetSessionHandleV2 MutexV2 RpcClient
    RpcServer SummaryWriter
    """
  ),
  *GENERATOR_DRAWS,
)
# Who has the state that an op of a type makes, or keeps by a name.
STATE_SCOPES = {
  **dict.fromkeys(_SHARED, StateScope.SHARED),
  **dict.fromkeys(_LOCAL, StateScope.LOCAL),
  **dict.fromkeys(_REFUSED, StateScope.REFUSED),
}
# These get a handle, and are stateful, but read only: their outputs are the
# same for all micro-batches unless another input differs.
STATE_READS = _types(
  """
  IsVariableInitialized IteratorGetNext IteratorGetNextAsOptional
  IteratorGetNextSync LookupTableExport LookupTableExportV2 LookupTableFind
  LookupTableFindV2 LookupTableSize LookupTableSizeV2
  MultiDeviceIteratorGetNextFromShard ReadVariableOp ResourceGather
  ResourceGatherNd Restore RestoreSlice RestoreV2 VarIsInitializedOp
  VariableShape
  """
)
# A `tf.random.Generator` moves on once per batch; the numbers of further
# micro-batches come from keys of their own.
MOVES_GENERATOR = frozenset(["RngReadAndSkip", "RngSkip"])
# They give the value of a variable, of all its rows or of some.
VARIABLE_READS = frozenset(
  ["ReadVariableOp", "ResourceGather", "ResourceGatherNd"]
)
# They give a whole variable another value, whatever it was.
ASSIGNS = frozenset(["Assign", "AssignVariableOp"])
_TABLE_WRITES = (
  "InitializeTable",
  "LookupTableImport",
  "LookupTableInsert",
  "LookupTableRemove",
)
# Ops that change the variable, or the table, of a handle.
RESOURCE_WRITES = (
  "Assign",
  "ResourceApply",
  "ResourceCountUpTo",
  "ResourceScatter",
  "ResourceSparseApply",
  "ResourceStridedSliceAssign",
  *_TABLE_WRITES,
)
# Ops that change the variable, or the table, of a v1 reference.
REFERENCE_WRITES = (
  "Apply",
  "Assign",
  "CountUpTo",
  "Scatter",
  "SparseApply",
  "StridedSliceAssign",
  *_TABLE_WRITES,
)
# Those of these that change some rows of a variable, by indices.
ROW_WRITES = ("ResourceScatter", "ResourceSparseApply")
# They look up rows, of a tensor or of a variable.
GATHERS = ("Gather", "ResourceGather")
# The value of a whole variable, by its handle or its reference.
WHOLE_READS = frozenset(["Identity", "ReadVariableOp"])
# A session may be given their values.
PLACEHOLDERS = _types("Placeholder PlaceholderV2 PlaceholderWithDefault")
# Ops that draw the elements of a data set, by a name or handle of their own.
ITERATORS = frozenset(["Iterator", "IteratorV2", "OneShotIterator"])
# They take an element from an iterator.
ITERATOR_READS = _types(
  """
  IteratorGetNext IteratorGetNextSync MultiDeviceIteratorGetNextFromShard
  """
)
# Lookup tables each of whose keys is a scalar.
TABLES_OF_SCALARS = _types(
  """
  AnonymousHashTable AnonymousMutableHashTable
  AnonymousMutableHashTableOfTensors HashTableV2 MutableHashTableOfTensorsV2
  MutableHashTableV2
  """
)
# Lookup tables that no op writes to once they are initialized.
FIXED_TABLES = _types(
  """
  HashTable HashTableV2 LookupTableFind LookupTableFindV2 LookupTableSize
  LookupTableSizeV2
  """
)

# --- Random numbers.

# By the input that is the seed, or the key that was made of one.
SEED_INPUTS = {
  "StatelessMultinomial": 2,
  "StatelessParameterizedTruncatedNormal": 1,
  "StatelessRandomBinomial": 1,
  "StatelessRandomGammaV2": 1,
  "StatelessRandomGammaV3": 1,
  "StatelessRandomNormal": 1,
  "StatelessRandomNormalV2": 1,
  "StatelessRandomPoisson": 1,
  "StatelessRandomUniform": 1,
  "StatelessRandomUniformFullInt": 1,
  "StatelessRandomUniformFullIntV2": 1,
  "StatelessRandomUniformInt": 1,
  "StatelessRandomUniformIntV2": 1,
  "StatelessRandomUniformV2": 1,
  "StatelessSampleDistortedBoundingBox": 3,
  "StatelessShuffle": 1,
  "StatelessTruncatedNormal": 1,
  "StatelessTruncatedNormalV2": 1,
}
# They draw from a state of their own, which seeds in attributes start.
OWN_SEED_DRAWS = _types(
  """
  Multinomial ParameterizedTruncatedNormal RandomGamma RandomPoissonV2
  RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt
  TruncatedNormal
  """
)
# Whatever draws random numbers.
RANDOM = frozenset([*OWN_SEED_DRAWS, *SEED_INPUTS, *GENERATOR_DRAWS])

# --- Control flow and functions.

# The v1 conds and loops: each of their ops is one of the graph.
SWITCHES = frozenset(["RefSwitch", "Switch"])
MERGES = frozenset(["Merge", "RefMerge"])
ENTERS = frozenset(["Enter", "RefEnter"])
EXITS = frozenset(["Exit", "RefExit"])
NEXT_ITERATIONS = frozenset(["NextIteration", "RefNextIteration"])
V1_CONTROL_FLOW = SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS
# They give on the handle, or the reference, that they get.
PASSES_HANDLE = frozenset([*ENTERS, *SWITCHES, "Identity", "RefIdentity"])
# Their outputs may be in the memory of their inputs.
SHARES_MEMORY = PASSES_HANDLE | _types(
  """
  Bitcast CheckNumerics EnsureShape Exit ExpandDims Merge NextIteration
  PreventGradient RefExit RefMerge RefNextIteration Reshape Squeeze StopGradient
  """
)
# They take a reference, and give it on or look at it.
REFERENCE_READS = _types(
  """
  IsVariableInitialized RefEnter RefExit RefIdentity RefMerge RefNextIteration
  RefSelect RefSwitch
  """
)
# The functional ones, which run functions of the graph. The inputs of a round
# of a loop are the outputs of the one before.
FUNCTIONAL_LOOPS = frozenset(["StatelessWhile", "While"])
# The first input of these, before their functions' arguments, is the choice.
FUNCTIONAL_BRANCHES = frozenset(["Case", "If", "StatelessCase", "StatelessIf"])
FUNCTION_CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])
# Whatever runs functions with the handles that it gets.
FUNCTIONAL = FUNCTIONAL_LOOPS | FUNCTIONAL_BRANCHES | FUNCTION_CALLS

# --- Checkpoints.

# They take values, even where a Saver gives them references.
SAVES = frozenset(["Save", "SaveSlices", "SaveV2"])
RESTORES = frozenset(["Restore", "RestoreSlice", "RestoreV2"])
SAVER_OPS = frozenset(
  [*SAVES, *RESTORES, "MergeV2Checkpoints", "ShardedFilename"]
)

# --- Devices, and sends between them.

# Words in the types of ops that live in a host's memory.
HOST_WORDS = (
  "Dataset",
  "Iterator",
  "HashTable",
  "LookupTable",
  "Queue",
  "Reader",
  "Summary",
)
# Python functions run in host memory, but on any CPU device.
PYTHON_FUNCTIONS = frozenset(["PyFunc", "PyFuncStateless"])
# Ops that need the Python of the process that made them.
CALLS_PYTHON = PYTHON_FUNCTIONS | frozenset(["EagerPyFunc"])
# A session makes these where a tensor goes to another device.
SENDS = frozenset(["_HostSend", "_Send"])
RECEIVES = frozenset(["_HostRecv", "_Recv"])
# They work together with ops of other devices.
COLLECTIVES = frozenset(["CollectiveReduceV2", "NcclAllReduce"])
# Ops that no device of a mesh has a kernel for.
TPU_ONLY = frozenset(["CrossReplicaSum"])
# What `tf.xla.experimental.compile` makes of each output of a computation.
XLA_OUTPUT = "XlaClusterOutput"
# Grappler makes a `HostConst` of a constant that is to stay in host memory.
CONSTANTS = frozenset(["Const", "HostConst"])
# Their outputs share memory that outlives a step.
LASTING = frozenset([*CONSTANTS, *VARIABLES, "ReadVariableOp"])
# They run as soon as a step begins, and do nothing of note.
NO_WORK = frozenset(
  [*CONSTANTS, "NoOp", "ReadVariableOp", "VarHandleOp", "_Arg"]
)
# They tell a person something, and leave nothing behind.
REPORTS = frozenset(["Assert", "Print", "PrintV2"])

# --- Arithmetic.

# They look at a tensor in another way.
VIEWS = frozenset(
  ["ExpandDims", "Identity", "Reshape", "Squeeze", "StopGradient"]
)
# They measure the shapes of their inputs.
MEASURES = frozenset(["Rank", "Shape", "ShapeN", "Size"])
# They change the order of rows.
REORDERS = frozenset(["RandomShuffle", "Reverse", "ReverseV2", "Roll"])
ACTIVATIONS = frozenset(
  ["Elu", "Erf", "LeakyRelu", "Relu", "Relu6", "Selu", "Sigmoid", "Tanh"]
)
FUSED_BATCH_NORMS = frozenset(
  ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"]
)
# Most of a model's work is in these.
LARGE_WORK = (
  "BatchMatMul",
  "Conv",
  "CudnnRNN",
  "DepthwiseConv",
  "Einsum",
  "MatMul",
  "SparseTensorDenseMatMul",
)


def is_variable(op: tf.Operation) -> bool:
  """Whether an op is a variable: a resource handle, or a v1 reference."""
  return op.type in VARIABLES


def variables_of(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
  """Returns those ops that are variables."""
  return [op for op in ops if is_variable(op)]


def is_call(op: tf.Operation) -> bool:
  """Whether an op runs functions of its graph on its inputs."""
  return op.type in FUNCTIONAL


# Numbers of dtypes: that of a reference is 100 more than that of its value.
_RESOURCE, _TEXT = tf.resource.as_datatype_enum, tf.string.as_datatype_enum
_REFERENCES = 100


def is_reference(tensor: tf.Tensor) -> bool:
  """Whether a tensor is a reference of TensorFlow 1."""
  return int(tensor.dtype.as_datatype_enum) > _REFERENCES


def is_resource(tensor: tf.Tensor) -> bool:
  """Whether a tensor is a handle of a resource."""
  return bool(tensor.dtype.as_datatype_enum == _RESOURCE)


def is_handle(tensor: tf.Tensor) -> bool:
  """Whether a tensor is a handle of a state: a resource, or a reference."""
  number = tensor.dtype.as_datatype_enum
  return bool(number == _RESOURCE or number > _REFERENCES)


def is_text(tensor: tf.Tensor) -> bool:
  """Whether a tensor is of strings, or a reference to some."""
  return bool(tensor.dtype.as_datatype_enum % _REFERENCES == _TEXT)


def is_write(op: tf.Operation) -> bool:
  """Whether an op changes a variable or a table."""
  if op.type.startswith(RESOURCE_WRITES) and any(
    t.dtype == tf.resource for t in op.inputs
  ):
    return True
  return op.type.startswith(REFERENCE_WRITES) and any(
    map(is_reference, op.inputs)
  )


def is_row_write(op: tf.Operation) -> bool:
  """Whether an op changes some rows of a variable, by their indices."""
  return op.type.startswith(ROW_WRITES) and "Nd" not in op.type


def looks_up_rows(op: tf.Operation) -> bool:
  """Whether an op looks up rows of a variable.

  Args:
    op: The op.
  """
  return op.type == "ResourceGather" and not op.get_attr("batch_dims")
