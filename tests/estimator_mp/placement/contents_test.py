"""Which devices of a mesh hold what, where stages have several of them."""

import estimator_mp
from estimator_mp.placement import contents

from absl.testing import absltest, parameterized


class DevicesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("model_last", "data:2,stage:2,model:2", [0, 1, 2, 3, 4, 5, 6, 7]),
    ("model_first", "model:2,data:2,stage:2", [0, 4, 1, 5, 2, 6, 3, 7]),
  )
  def test_are_in_the_order_of_replicas_stages_parts(self, spec, order):
    mesh = estimator_mp.Mesh.create(spec)
    found = contents.contents_of_devices(mesh, 2, {})
    self.assertEqual(
      [(x.device, x.replica, x.stages, x.part) for x in found],
      [
        (f"/device:CPU:{place}", i // 4, (i // 2 % 2,), i % 2)
        for i, place in enumerate(order)
      ],
    )
    one = contents.contents_of_devices(mesh, 1, {})
    self.assertEqual(one, found[:4])

  def test_virtual_stages(self):
    mesh = estimator_mp.Mesh.create("stage:2,model:2")
    mesh = mesh.with_virtual_stages([0, 1, 0, 1])
    found = contents.contents_of_devices(mesh, 1, {})
    self.assertEqual(
      [(x.stages, x.part) for x in found],
      [((0, 2), 0), ((0, 2), 1), ((1, 3), 0), ((1, 3), 1)],
    )


if __name__ == "__main__":
  absltest.main()
