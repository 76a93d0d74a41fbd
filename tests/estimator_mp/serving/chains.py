"""Chains of stages in this process, and whole models to compare them with."""

import os

import estimator_mp
from estimator_mp.serving import chain, export_stages, pipeline_file
from estimator_mp.serving.stage_server import StageRunner
from tests.estimator_mp.serving import served_models

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def made(model, folder, seed=4):
  """Returns a sharded Estimator in a folder with the vocabularies."""
  params = {"folder": folder}
  config = estimator_mp.ShardingConfig(
    **{"mesh": "stage:3", "placement": model.placement, **model.config}
  )
  return tf.estimator.Estimator(
    estimator_mp.shard_model_fn(model.model_fn, config),
    config=estimator_mp.run_config(
      config,
      os.path.join(folder, "model"),
      tf_random_seed=seed,
      # As text, it takes as long as some steps of training.
      checkpoint_save_graph_def=False,
    ),
    params=params if model.model_fn is served_models.tables else None,
  )


def trained(model, folder, seed=4):
  """Returns a sharded Estimator that has trained."""
  served_models.write_vocabularies(folder)
  estimator = made(model, folder, seed)
  estimator.train(served_models.input_fn, steps=2)
  return estimator


class Chain:
  """A chain whose stages are in this process."""

  def __init__(self, folder):
    self.pipeline = pipeline_file.read(folder)
    self.runners = {
      x.stage: StageRunner(os.path.join(folder, x.folder))
      for x in self.pipeline.stages
    }

  def run(self, name, inputs):
    signature = chain.signature_of(self.pipeline, name)
    return chain.run(
      signature,
      chain.checked_inputs(signature.inputs, inputs),
      lambda stage, *call: self.runners[stage].run(*call),
    )


def whole_outputs(folder, requests):
  """Returns what each signature of a whole SavedModel gives."""
  found = {}
  config = v1.ConfigProto(device_count={"CPU": 4})
  with tf.Graph().as_default(), v1.Session(config=config) as session:
    loaded = v1.saved_model.load(session, ["serve"], folder)
    for name, signature in loaded.signature_def.items():
      if name.startswith("__"):
        continue
      fetches = {key: x.name for key, x in signature.outputs.items()}
      for number, request in enumerate(requests):
        feeds = {x.name: request[key] for key, x in signature.inputs.items()}
        found[name, number] = session.run(fetches, feeds)
  return found


def assert_same(test, found, expected):
  test.assertCountEqual(found, expected)
  for name, value in expected.items():
    value = np.asarray(value)
    test.assertEqual(np.shape(found[name]), value.shape, name)
    if value.dtype.kind in "fc":
      np.testing.assert_allclose(
        found[name], value, rtol=1e-6, atol=1e-6, err_msg=name
      )
    else:
      np.testing.assert_array_equal(found[name], value, err_msg=name)


def check(test, estimator, receiver_fn, folder, requests):
  """Compares a chain with the whole; returns the chain."""
  path = export_stages.export_stages(estimator, folder, receiver_fn)
  whole = estimator_mp.export_saved_model(
    estimator, f"{folder}/whole", receiver_fn
  )
  stages = Chain(path)
  expected = whole_outputs(whole, requests)
  test.assertCountEqual(stages.pipeline.signatures, {x for x, _ in expected})
  for (name, number), outputs in expected.items():
    with test.subTest(name, request=number):
      known = stages.pipeline.signatures[name].inputs
      request = {x: y for x, y in requests[number].items() if x in known}
      assert_same(test, stages.run(name, request), outputs)
  return stages
