"""ShardingConfig: everything a user says about how a model is sharded."""

import dataclasses

from estimator_mp import mesh as mesh_lib
from estimator_mp import placement as placement_lib
from estimator_mp import rules


@dataclasses.dataclass(frozen=True)
class ShardingConfig:
  """How a model is sharded. Checked when it is made, before any graph.

  Attributes:
    mesh: The mesh as text, such as "stage:3".
    devices: Device names for the mesh, as many as it has positions; empty for
      this machine's GPUs, or virtual CPU devices if it has none.
    placement: Where `shard_model_fn` puts the parts of a model: "auto"; rules
      (pairs of a regular expression and a stage, in order); or a `Placement`.
      What model_fn itself places by `estimator_mp.stage` or `tf.device` stays
      there.
    memory_limit: The bytes that the automatic placement may put on a device:
      weights with gradients and two slots, and activations. None for no limit.
    verify_placement: Whether the first step of a session compares where ops
      really ran with where they were placed.

  Raises:
    ValueError: If the mesh cannot be made (see `Mesh.create`), a rule is
      malformed, or the memory limit is not positive.
  """

  mesh: str = "stage:1"
  devices: tuple[str, ...] = ()
  placement: str | tuple[rules.Rule, ...] | placement_lib.Placement = "auto"
  memory_limit: int | None = None
  verify_placement: bool = True

  def __post_init__(self):
    object.__setattr__(self, "devices", tuple(self.devices))
    mesh = self.create_mesh()
    if isinstance(self.placement, str):
      if self.placement != "auto":
        raise ValueError(
          f'placement={self.placement!r} is unknown; use "auto", rules such as '
          '[("layer_[0-5]/", 0), (".*", 1)], or a Placement'
        )
    elif not isinstance(self.placement, placement_lib.Placement):
      placement = tuple(self.placement)
      object.__setattr__(self, "placement", placement)
      rules.check_rules(placement, mesh.axis_size("stage"))
    if self.memory_limit is not None and self.memory_limit <= 0:
      raise ValueError(
        f"memory_limit={self.memory_limit} is not positive; give the bytes of "
        "a device, or None for no limit"
      )

  def create_mesh(self) -> mesh_lib.Mesh:
    """Returns the mesh that this configuration describes."""
    return mesh_lib.Mesh.create(self.mesh, self.devices)
