"""Variables, scopes, collections, control flow: names and values."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(10).normal(size=(3, 2)).astype(np.float32)


def _x():
  return tf.placeholder_with_default(_X, [3, 2])


def scopes():
  with tf.variable_scope("a") as scope:
    v = tf.get_variable("v", [2])
    with tf.name_scope("n"):
      w = tf.get_variable("w", [2])
      op = tf.identity(w)
  with tf.variable_scope(scope, reuse=True):
    again = tf.get_variable("v", [2])
    other = tf.add(v, 1)
  with tf.variable_scope(None, "unique"):
    one = tf.get_variable("v", [1])
  with tf.variable_scope(None, "unique"):
    two = tf.get_variable("v", [1])
  with tf.variable_scope("b", custom_getter=_double):
    doubled = tf.get_variable("v", [2], initializer=tf.ones_initializer())
  with tf.name_scope("scope", "default", [v]) as name:
    c = tf.constant(1.0)
  with tf.name_scope(None, "fallback", [v]) as fallback:
    d = tf.constant(1.0)
  return {
    "same": again is v,
    "doubled": doubled,
    "names": " ".join(
      x.name for x in (v, w, op, other, one, two, c, d, tf.constant(2))
    ),
    "scopes": name + " " + fallback + " " + scope.name,
    "string": str(scope.original_name_scope),
  }


def _double(getter, name, *args, **kwargs):
  return getter(name, *args, **kwargs) * 2


def initialized_values_of_resources():
  """One variable is initialized with another's value, before it has one."""
  options = {"use_resource": True, "dtype": tf.float32}
  first = tf.get_variable(
    "first", [3], initializer=tf.random_uniform_initializer(), **options
  )
  second = tf.get_variable(
    "second", initializer=2.0 * first.initialized_value(), **options
  )
  with tf.variable_scope("resources", use_resource=True):
    third = tf.Variable(
      first.initialized_value() + second.initialized_value(), name="third"
    )
  return {
    "differ": second.initialized_value() - 2.0 * first.initialized_value(),
    "third": third,
    "ops": "%s %s" % (first.op.type, first.initialized_value().dtype),
  }


def variables():
  v = tf.Variable(_X, name="v", dtype=tf.float32)
  w = tf.Variable(
    lambda: tf.ones([2]),
    trainable=False,
    collections=["mine", tf.GraphKeys.GLOBAL_VARIABLES],
  )
  u = tf.Variable(3, name="u", expected_shape=[])
  local = tf.get_variable(
    "local", [2], collections=[tf.GraphKeys.LOCAL_VARIABLES]
  )
  changed = tf.Variable(_X, name="changed")
  updated = tf.scatter_update(changed, [0], [[5.0, 6.0]])
  with tf.control_dependencies([updated]):
    read = changed.read_value()
  return {
    "read": read,
    "w": w,
    "u": u + 2,
    "local": tf.shape(local),
    "types": "%s %s %s" % (v.dtype, u.dtype, v.dtype.base_dtype),
    "is_tensor": str(isinstance(v, tf.Variable)),
    "ref": str(v.dtype._is_ref_dtype),
    "mine": len(tf.get_collection("mine")),
    "trainable": len(tf.trainable_variables()),
    "local_count": len(tf.local_variables()),
    "all": len(tf.all_variables()),
    "initial": v.initial_value,
    "initialized": v.initialized_value(),
    "names": " ".join(
      [v.name, w.name, u.op.name, v.initializer.name, v.value().name]
    ),
    "op": v.op.type,
    "sum": v + 1,
    "item": v[0, 1],
    "uninitialized": tf.report_uninitialized_variables(),
  }


def kinds_of_variables():
  kept = {
    "plain": tf.Variable(1.0),
    "gotten": tf.get_variable("gotten", []),
    "resource": tf.get_variable("resource", [], use_resource=True),
    "keras": tf.keras.backend.variable(1.0),
    "of_layer": tf.layers.Dense(2),
    "of_keras": tf.keras.layers.Dense(2),
    "tensor": tf.constant(1.0),
  }
  for name in ("of_layer", "of_keras"):
    kept[name](_x())
    kept[name] = kept[name].kernel
  return {
    "are": str([isinstance(one, tf.Variable) for one in kept.values()]),
    "tensors": str([tf.contrib.framework.is_tensor(x) for x in kept.values()]),
    "types": str([one.dtype for one in kept.values()]),
    "ops": str([one.op.type for one in kept.values()]),
    "subclass": str(issubclass(type(kept["resource"]), tf.Variable)),
  }


def partitions():
  with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(2)):
    v = tf.get_variable("v", [5, 2])
  w = tf.get_variable(
    "w", [6, 2], partitioner=tf.variable_axis_size_partitioner(24)
  )
  x = tf.get_variable(
    "x", [6], partitioner=tf.min_max_variable_partitioner(2, 0, 8)
  )
  return {
    "v": tf.convert_to_tensor(v),
    "w": w.as_tensor() if hasattr(w, "as_tensor") else w,
    "names": " ".join(one.name for one in tf.global_variables()),
    "x": tf.convert_to_tensor(x),
  }


def templates():
  def layer(x, size):
    return tf.layers.dense(x, size)

  shared = tf.make_template("shared", layer, size=3)
  return {"one": shared(_x()), "two": shared(_x() * 2)}


def loops():
  x = _x()
  _, total = tf.while_loop(
    lambda i, _: i < 3,
    lambda i, total: [i + 1, total * 1.5 + x],
    [0, x],
    shape_invariants=[tf.TensorShape([]), x.get_shape()],
    parallel_iterations=1,
    back_prop=True,
  )
  array = tf.TensorArray(tf.float32, 3, clear_after_read=False)
  _, array = tf.while_loop(
    lambda i, _: i < 3,
    lambda i, array: (i + 1, array.write(i, x[i] * 2)),
    (0, array),
  )
  w = tf.get_variable("w", [2])
  choice = tf.cond(
    tf.reduce_sum(x) > 0, true_fn=lambda: x * w, false_fn=lambda: x - w
  )
  old = tf.cond(tf.less(1, 2), lambda: w, lambda: -w, strict=True)
  return {
    "total": total,
    "array": array.stack(),
    "choice": choice,
    "old": old,
    "case": tf.case([(x[0, 0] > 0, lambda: w)], default=lambda: w * 2),
    "case_dict": tf.case({x[0, 0] > 9: lambda: w}, default=lambda: w * 3),
    "names": " ".join([total.op.type, choice.op.type]),
  }


def collections():
  tf.add_to_collection("mine", tf.constant(1.0, name="c"))
  tf.add_to_collections(["mine", "yours"], tf.constant(2.0))
  graph = tf.get_default_graph()
  with tf.device("/cpu:0"):
    placed = tf.constant(1.0)
  with tf.colocate_with(placed):
    beside = tf.constant(2.0)
  with tf.control_dependencies([placed]):
    after = tf.no_op(name="after")
  with graph.control_dependencies(None):
    free = tf.constant(3.0)
  return {
    "mine": len(tf.get_collection("mine")),
    "ref": len(tf.get_collection_ref("yours")),
    "keys": " ".join(sorted(graph.get_all_collection_keys())),
    "scope": len(tf.get_collection("mine", scope="c")),
    "device": placed.device,
    "colocated": str(beside.op.colocation_groups()),
    "inputs": str([op.name for op in after.control_inputs]),
    "free": str(free.op.control_inputs),
    "by_name": graph.get_tensor_by_name("c:0"),
    "element": graph.as_graph_element("c").name,
    "unique": graph.unique_name("c") + graph.unique_name("new"),
    "names": " ".join(str(op.name) for op in graph.get_operations()),
    "keys_of_all": " ".join(
      sorted(
        "%s=%s" % (name, getattr(tf.GraphKeys, name))
        for name in dir(tf.GraphKeys)
        if name.isupper()
      )
    ),
  }


def functions_of_python():
  x = _x()
  return {
    "py_func": tf.py_func(lambda v: v * 2, [x], tf.float32),
    "stateless": tf.py_func(np.sum, [x], tf.float32, stateful=False, name="s"),
    "numpy": tf.numpy_function(lambda v: v + 1, [x], tf.float32, "named"),
    "print": tf.Print(x, [x], message="", first_n=0),
    "assert": tf.identity(tf.Assert(True, [x]) is not None),
    "assert_equal": str(tf.assert_equal(1, 1) is not None),
    "tuple": tf.tuple([x, x])[1],
    "group": str(tf.group(x.op).name),
    "identity": tf.identity_n([x])[0] if hasattr(tf, "identity_n") else x,
  }
