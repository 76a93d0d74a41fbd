"""Traces of steps that went as a schedule says."""

from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.observe import step_trace
from estimator_mp.pipeline import simulation


def trace(
  made: schedule_lib.Schedule,
  num_replicas: int = 1,
  devices_per_stage: int = 1,
  *,
  late: int = 0,
  weight: int = 1,
) -> step_trace.StepTrace:
  """Returns a step in which all devices of a stage did the same.

  Args:
    made: The schedule of each replica.
    num_replicas: How many there are; each does the same.
    devices_per_stage: The size of the model axis.
    late: When the last replica began.
    weight: How long the gradients of weights took, where they are split.
  """
  of_weights = 100 * weight if made.splits_backward else 0
  timeline = simulation.simulate(made, 100, 200, of_weights)
  kernels = []
  for replica in range(num_replicas):
    delay = late if replica == num_replicas - 1 else 0
    for cell, start in timeline.starts.items():
      place = replica * made.num_devices + made.device_of(cell.stage)
      kernels += [
        step_trace.Kernel(
          "op",
          "MatMul",
          device,
          start + delay,
          timeline.ends[cell] + delay,
          cell,
        )
        for device in range(
          place * devices_per_stage, (place + 1) * devices_per_stage
        )
      ]
  count = num_replicas * made.num_devices * devices_per_stage
  devices = tuple(f"/device:CPU:{k}" for k in range(count))
  sent = {
    (devices[0], devices[1 % count]): 1000,
    (devices[1 % count], devices[2 % count]): 200,
    (devices[-1], devices[0]): 30,
  }
  live = tuple(1000 * (k + 1) for k in range(count))
  return step_trace.StepTrace(
    20, devices, tuple(kernels), made, sent, live, devices_per_stage
  )
