"""The manifests of examples/cluster are what Kubernetes and its operator know.

Their types are those of the package kubeflow-training, which brings the client
of Kubernetes along.
"""

import copy
import json
import pathlib
import types

from absl.testing import absltest

try:
  import yaml
  from kubeflow.training import ApiClient, constants
except ImportError:
  ApiClient = None

_FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "cluster"
_TYPES = {
  "NetworkPolicy": "V1NetworkPolicy",
  "PersistentVolumeClaim": "V1PersistentVolumeClaim",
  "TFJob": "KubeflowOrgV1TFJob",
}
_JOB_NAME = "training.kubeflow.org/job-name"


def _documents():
  """Returns what the manifests declare, by kind."""
  found = {}
  for path in sorted(_FOLDER.glob("*.yaml")):
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
      assert document["kind"] not in found
      found[document["kind"]] = document
  return found


def _read(document):
  """Returns what the types make of a document, as a document again.

  They raise if a field is missing that has to be there, or has another type,
  and pass over what they do not know.
  """
  response = types.SimpleNamespace(data=json.dumps(document))
  client = ApiClient()
  read = client.deserialize(response, _TYPES[document["kind"]])
  return client.sanitize_for_serialization(read)


@absltest.skipIf(ApiClient is None, "kubeflow-training is not installed")
class ManifestsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.documents = _documents()
    self.job = self.documents["TFJob"]
    self.replicas = self.job["spec"]["tfReplicaSpecs"]
    self.pods = [x["template"]["spec"] for x in self.replicas.values()]
    self.containers = [c for pod in self.pods for c in pod["containers"]]

  def test_types(self):
    self.assertEqual(set(self.documents), set(_TYPES))
    for document in self.documents.values():
      self.assertEqual(_read(document), document)

  def test_a_field_that_does_not_exist_or_is_missing_is_found(self):
    document = copy.deepcopy(self.job)
    pod = document["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["volume"] = "x"
    self.assertNotEqual(_read(document), document)
    del document["spec"]["tfReplicaSpecs"]
    with self.assertRaisesRegex(ValueError, "tf_replica_specs"):
      _read(document)

  def test_the_operator_knows_the_replicas_and_their_container(self):
    # The operator knows evaluators, too; the package does not list them.
    kinds = {*constants.TFJOB_REPLICA_TYPES, "evaluator"}
    self.assertLessEqual({kind.lower() for kind in self.replicas}, kinds)
    self.assertEqual(self.job["apiVersion"], constants.API_VERSION)
    names = {container["name"] for container in self.containers}
    self.assertEqual(names, {constants.TFJOB_CONTAINER})

  def test_each_stage_has_a_task(self):
    counts = {kind: x["replicas"] for kind, x in self.replicas.items()}
    self.assertEqual(counts, {"Chief": 1, "Worker": 2, "Evaluator": 1})
    for container in self.containers:
      self.assertIn("--mesh=stage:3", container["command"])

  def test_pods_share_the_folder_of_checkpoints(self):
    claim = self.documents["PersistentVolumeClaim"]
    self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteMany"])
    for pod in self.pods:
      (volume,) = pod["volumes"]
      source = volume["persistentVolumeClaim"]["claimName"]
      self.assertEqual(source, claim["metadata"]["name"])
      (container,) = pod["containers"]
      (mount,) = container["volumeMounts"]
      (folder,) = (
        flag.removeprefix("--model_dir=")
        for flag in container["command"]
        if flag.startswith("--model_dir=")
      )
      self.assertStartsWith(folder, mount["mountPath"] + "/")

  def test_only_pods_of_the_job_reach_its_port(self):
    spec = self.documents["NetworkPolicy"]["spec"]
    pods = {"matchLabels": {_JOB_NAME: self.job["metadata"]["name"]}}
    self.assertEqual(constants.JOB_NAME_LABEL, _JOB_NAME)
    self.assertEqual(spec["podSelector"], pods)
    ports = [p["containerPort"] for c in self.containers for p in c["ports"]]
    (rule,) = spec["ingress"]
    self.assertEqual(rule["from"], [{"podSelector": pods}])
    self.assertEqual({port["port"] for port in rule["ports"]}, set(ports))
    self.assertIn("Ingress", spec["policyTypes"])


if __name__ == "__main__":
  absltest.main()
