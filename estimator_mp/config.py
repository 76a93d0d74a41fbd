"""ShardingConfig: everything a user says about how a model is sharded."""

import dataclasses

from estimator_mp import mesh as mesh_lib


@dataclasses.dataclass(frozen=True)
class ShardingConfig:
  """How a model is sharded. Checked when it is made, before any graph.

  Attributes:
    mesh: The mesh as text, such as "stage:3".
    devices: Device names for the mesh, as many as it has positions; empty for
      this machine's GPUs, or virtual CPU devices if it has none.
    verify_placement: Whether the first step of a session compares where ops
      really ran with where they were placed.

  Raises:
    ValueError: If the mesh cannot be made; see `Mesh.create`.
  """

  mesh: str = "stage:1"
  devices: tuple[str, ...] = ()
  verify_placement: bool = True

  def __post_init__(self):
    object.__setattr__(self, "devices", tuple(self.devices))
    self.create_mesh()

  def create_mesh(self) -> mesh_lib.Mesh:
    """Returns the mesh that this configuration describes."""
    return mesh_lib.Mesh.create(self.mesh, self.devices)
