"""Options of replicas: their variables, and how their gradients are summed."""

import dataclasses

from estimator_mp.config import options
from estimator_mp.config.algorithms import ALGORITHMS
from estimator_mp.config.mesh_options import MeshOptions
from estimator_mp.config.pipeline_options import HALF_PRECISIONS

VARIABLES = ("mirrored", "shared")
OPTIMIZER_STATES = ("replicated", "sharded")
# Between processes; `replicas.horovod` does it, and not the replicas here.
HOROVOD = "horovod"
_option = options.Group("Sharding: replicas")


@dataclasses.dataclass(frozen=True)
class ReplicaOptions(MeshOptions):
  """The replicas of the model, of the `data` axis.

  Attributes:
    variables: "mirrored" gives each replica (`data` axis of the mesh) copies of
      the variables, which a training step keeps equal; "shared" lets all
      replicas read those of replica 0.
    optimizer_state: "replicated" lets each replica update all of its variables;
      with "sharded" each variable belongs to one replica, with its slots, which
      sends the others its new value (ZeRO-1).
    aggregation: Algorithm that sums gradients over replicas: one of
      `all_reduce`; "auto" for one that suits the devices; or "horovod" if each
      process holds one replica (see `replicas.horovod`).
    horovod_op: Reduction of the gradients and losses of processes by Horovod:
      their "mean", as is its default, or their "sum".
    bucket_bytes: Maximum bytes of dense gradients in one bucket, which is
      summed at once, as an integer or as text such as "1MB". A gradient of that
      size is summed alone. 0 sums each alone.
    compression: Compression of the gradients that replicas send: "none" sends
      all, "float16" and "bfloat16" all in half precision, "top_k" the largest
      entries. The residual of a step is added to the next step's gradient.
    top_k_fraction: Fraction of the entries that "top_k" sends.
  """

  variables: str = _option(
    "mirrored",
    "Whether each replica has mirrored variables, or all replicas read those of"
    " replica 0.",
    choices=VARIABLES,
  )
  optimizer_state: str = _option(
    "replicated",
    "Whether each replica updates all variables, or updates a share of them and"
    " sends it to the others.",
    choices=OPTIMIZER_STATES,
  )
  aggregation: str = _option(
    "auto",
    "Algorithm that sums gradients over replicas.",
    choices=("auto", *ALGORITHMS, HOROVOD),
  )
  horovod_op: str = _option(
    "mean",
    "Whether --aggregation=horovod averages or sums the gradients of"
    " processes.",
    choices=("mean", "sum"),
  )
  bucket_bytes: options.Bytes = _option(
    65536,
    "Maximum size of gradients in one bucket, which replicas sum at once; a"
    " larger gradient is summed alone.",
  )
  compression: str = _option(
    "none",
    "Compression of the gradients that replicas send: none, half precision, or"
    " the largest entries only. The residual is added to the next step's"
    " gradients.",
    choices=("none", *HALF_PRECISIONS, "top_k"),
  )
  top_k_fraction: float = _option(
    0.01, "Fraction of the entries that --compression=top_k sends."
  )

  def check_replicas(self) -> None:
    """Raises if what is said of replicas does not fit together."""
    num_replicas = self.axis_size("data")
    if self.aggregation == HOROVOD and num_replicas > 1:
      raise ValueError(
        'aggregation="horovod" has one replica in each process, but mesh '
        f"{self.mesh} has {num_replicas}; leave the data axis out and start as "
        "many processes"
      )
    if not 0 < self.top_k_fraction <= 1:
      raise ValueError(
        f"top_k_fraction={self.top_k_fraction} is not a fraction; use a number "
        "above 0 and up to 1, such as 0.01"
      )
    if self.variables == "mirrored" and self.optimizer_state == "replicated":
      return
    if self.variables == "shared" and self.optimizer_state == "sharded":
      raise ValueError(
        'optimizer_state="sharded" lets replicas update a share of their '
        'mirrors each, but with variables="shared" only the first one has '
        'variables; use variables="mirrored", or optimizer_state="replicated"'
      )
    is_plain = self.aggregation in ("auto", "copy", HOROVOD)
    if not is_plain or self.compression != "none":
      raise ValueError(
        f"aggregation={self.aggregation!r}, compression={self.compression!r} "
        "is for replicas that all get the sum of gradients, but with "
        f"variables={self.variables!r} and "
        f"optimizer_state={self.optimizer_state!r} one gets it; use "
        'variables="mirrored" and optimizer_state="replicated", or leave these '
        "out"
      )
