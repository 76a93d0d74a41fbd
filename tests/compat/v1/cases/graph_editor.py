"""tf.contrib.graph_editor: what is chosen, copied and rerouted."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import graph_editor as ge

_X = np.random.RandomState(1).normal(size=(4, 3)).astype(np.float32)


def _names(found):
  return np.array(sorted(one.name for one in found))


def _in_order(found):
  return np.array([one.name for one in found])


def _chain():
  """x -> a -> b -> c, and d of a and c, which also waits for e."""
  x = tf.placeholder_with_default(_X, [4, 3], name="x")
  with tf.name_scope("s"):
    a = tf.tanh(x, name="a")
    b = tf.square(a, name="b")
  with tf.name_scope("t"):
    c = tf.subtract(b, x, name="c")
    e = tf.no_op(name="e")
    with tf.control_dependencies([e]):
      d = tf.multiply(a, c, name="d")
  return x, a, b, c, d, e


def selections():
  x, a, b, c, d, e = _chain()
  graph = tf.get_default_graph()
  ops, tensors = ge.select_ops_and_ts("^s/", "(?#ts)c:0$", graph=graph)
  read, made, inside = ge.compute_boundary_ts([b.op, c.op])
  outputs = ge.ControlOutputs(graph)
  return {
    "tensors": _in_order(ge.get_tensors(graph)),
    "ops": _in_order(ops),
    "ts": _in_order(tensors),
    "filtered": _in_order(
      ge.select_ops("/", graph=graph, positive_filter=lambda op: op.inputs)
    ),
    "mixed": _in_order(ge.select_ops(d.op, [a.op, b], a.op)),
    "marked": _in_order(ge.select_ts("(?#ops)a", "(?#ts)b:", graph=graph)),
    "of_ops": _in_order(ge.filter_ts([c.op, d.op], True)),
    "by_name": _in_order(ge.filter_ts_from_regex(graph, "^t/|x")),
    "some": _in_order(ge.filter_ops(graph, lambda op: op.type == "Square")),
    "scope": _in_order(ge.get_name_scope_ops(graph, "t/")),
    "made_by": _in_order(ge.get_generating_ops([c, a])),
    "read_by": _names(ge.get_consuming_ops([x, a])),
    "boundary": np.concatenate([_names(one) for one in (read, made, inside)]),
    "waiting": _in_order(outputs.get(e)),
    "neighbors": _names(ge.get_ops_ios(d.op, control_inputs=True)),
    "regex": [ge.can_be_regex("a"), ge.can_be_regex(a)],
  }


def walks():
  x, a, b, c, d, e = _chain()
  graph = tf.get_default_graph()
  outputs = ge.ControlOutputs(graph)
  return {
    "backward": _names(ge.get_backward_walk_ops(c)),
    "backward_of_op": _names(ge.get_backward_walk_ops([d.op], False)),
    "with_control": _names(ge.get_backward_walk_ops(d.op, control_inputs=True)),
    "stopped": _names(ge.get_backward_walk_ops(d, stop_at_ts=[c])),
    "forward": _names(ge.get_forward_walk_ops(a)),
    "forward_of_op": _names(ge.get_forward_walk_ops(b.op, inclusive=False)),
    "forward_of_control": _names(
      ge.get_forward_walk_ops(e, control_outputs=outputs)
    ),
    "within": _names(ge.get_forward_walk_ops(x.op, within_ops=[x.op, a.op])),
    "within_fn": _names(
      ge.get_forward_walk_ops(x, within_ops_fn=lambda op: op.type != "Sub")
    ),
    "between": _names(ge.get_walks_intersection_ops(a, c)),
    "either": _names(ge.get_walks_union_ops([c.op], [b.op])),
    "boundary": _names(
      ge.get_within_boundary_ops(graph, [b.op], [x.op, d.op], inclusive=False)
    ),
    "with_boundary": _names(
      ge.get_within_boundary_ops(graph, [b.op], [x.op, d.op])
    ),
  }


def views():
  x, a, b, c, d, _ = _chain()
  view = ge.sgv([b.op, c.op])
  passing = ge.sgv(a, d.op.inputs[1])
  with ge.sgv_scope("s", tf.get_default_graph()) as scoped:
    scope = _in_order(list(scoped.inputs) + list(scoped.outputs))
  swapped = view.remap([1], [0, 0])
  return {
    "inputs": _in_order(view.inputs),
    "outputs": _in_order(view.outputs),
    "readers": _in_order(view.consumers()),
    "scope": scope,
    "passing": _in_order(passing.passthroughs),
    "places": [view.input_index(x), view.output_index(c)],
    "remapped": _in_order(list(swapped.inputs) + list(swapped.outputs)),
    "again": _in_order(swapped.remap_default().inputs),
    "one": view.find_op_by_name("t/c").name + view.op(0).name,
    "is_passing": [view.is_passthrough(a), passing.is_passthrough(a)],
    "is_empty": [bool(ge.sgv()), bool(view)],
  }


def replaced():
  """A tensor is replaced, a variable's value, and one that a loop reads."""
  x = tf.placeholder_with_default(_X, [4, 3])
  kernel = tf.get_variable("kernel", [3, 2])
  hidden = tf.matmul(x, kernel, name="hidden")
  loss = tf.reduce_mean(tf.square(hidden), name="loss")
  tf.add_to_collection(tf.GraphKeys.LOSSES, loss)
  tf.add_to_collection("mine", loss)
  other = tf.get_variable("other", [4, 2])
  new, kept = ge.graph_replace([loss, x], {hidden: other.value()})
  scoped = ge.graph_replace({"l": loss}, {kernel.value(): kernel * 2}, "again")
  return {
    "new": new,
    "is_kept": kept is x,
    "scoped": scoped["l"],
    "names": _in_order([new, scoped["l"]]),
    "losses": _in_order(tf.get_collection(tf.GraphKeys.LOSSES)),
    "mine": _in_order(tf.get_collection("mine")),
    "renamed": _in_order(tf.get_collection("again/mine")),
    "ops": _names(op for op in _ops() if "again" in op.name),
  }


def _ops():
  return tf.get_default_graph().get_operations()


def unrolled():
  """A loss after three updates of one of the variables by its gradient."""
  x = tf.placeholder_with_default(_X, [4, 3])
  player = tf.get_variable("player", [3, 1])
  critic = tf.get_variable("critic", [1])
  loss = tf.reduce_mean(tf.tanh(tf.matmul(x, player) * critic), name="loss")
  (slope,) = tf.gradients(loss, [critic.value()])
  updated = step = critic.value() + 0.5 * slope
  for _ in range(2):
    updated = ge.graph_replace(step, {critic.value(): updated})
  return {"loss": ge.graph_replace(loss, {critic.value(): updated})}


def copies():
  _, a, b, c, d, e = _chain()
  d.op._set_device("/device:CPU:0")
  view, info = ge.copy(ge.sgv([b.op, c.op, d.op, e]), dst_scope="copy")
  again, other = ge.copy_with_input_replacements(
    [b.op, c.op], {a: tf.identity(c, name="c2")}, dst_scope="copy"
  )
  graph = tf.Graph()
  elsewhere, _ = ge.copy_with_input_replacements(
    ge.sgv_scope("t", tf.get_default_graph()), {}, graph, "x/", "t/"
  )
  found = info.transformed([d, d.op])
  return {
    "ops": _names(_ops()),
    "elsewhere": _names(graph.get_operations()),
    "inputs": len(list(view.inputs)),
    "outputs": _in_order(list(view.outputs) + list(again.outputs)),
    "value": again.outputs[0],
    "found": _in_order(found),
    "device": found[1].device,
    "waits_for": _in_order(found[1].control_inputs),
    "original": _in_order(
      [info.original(found[0]), other.original(again.ops[0])]
    ),
    "missing": info.transformed(a, lambda t: t).name,
    "is_none": info.transformed(a) is None,
    "views": [len(elsewhere.ops), len(view.ops)],
  }


def rerouted():
  x, a, b, c, d, _ = _chain()
  two = tf.multiply(x, 2.0, name="two")
  first = tf.add(a, two, name="first")
  count = [
    ge.reroute_ts(two, a, can_modify=[d.op]),
    ge.swap_ts([b], [x], cannot_modify=[a.op]),
  ]
  added = tf.add(d, first, name="added")
  ge.swap_inputs(added.op, [tf.exp(two), tf.negative(x)])
  ge.reroute_inputs([a, c], first.op)
  return {"count": count, "d": d, "first": first, "added": added}


def rerouted_outputs():
  x, a, b, _, d, _ = _chain()
  plus = tf.add(x, 1.0, name="plus")
  minus = tf.subtract(x, 1.0, name="minus")
  sums = [tf.add(plus, a), tf.add(minus, b)]
  ge.swap_outputs(plus.op, minus.op)
  ge.reroute_outputs(b.op, a.op)
  five = tf.constant(5.0, name="five")
  six = tf.constant(6.0, name="six")
  ends = [tf.negative(tf.square(five)), tf.exp(-six)]
  ge.swap_ios(ends[0].op.inputs[0].op, ends[1].op.inputs[0].op)
  return {"0": sums[0], "1": sums[1], "2": ends[0], "3": ends[1], "d": d}


def edited():
  x, a, b, c, d, e = _chain()
  outputs = ge.ControlOutputs(tf.get_default_graph())
  _, inputs, ends = ge.detach(ge.sgv(b.op), control_ios=outputs)
  ge.connect(ge.sgv(x), ge.sgv(b.op))
  view, read = ge.bypass(ge.sgv(a.op))
  ge.remove_control_inputs(d.op, e)
  ge.add_control_inputs(d.op, [b.op])
  ge.connect(b.op, ge.sgv(c.op).remap_inputs([0]), disconnect_first=True)
  return {
    "inputs": _in_order(inputs),
    "ends": _in_order(ends),
    "read": _in_order(read),
    "waits_for": _in_order(d.op.control_inputs),
    "b": b,
    "c": c,
    "d": d,
    "view": _in_order(view.ops),
  }


def placeholders():
  _, a, _, _, _, _ = _chain()
  found = [
    ge.make_placeholder_from_tensor(a),
    ge.make_placeholder_from_tensor(a, scope="u", prefix="p"),
    ge.ph(tf.int32, [2], scope="v"),
  ]
  names = [ge.placeholder_name(found[0], ""), ge.placeholder_name()]
  return {
    "made": _in_order(found),
    "names": np.array(names),
    "shapes": np.array([str(one.shape) for one in found]),
  }


def recomputed():
  """Gradients that compute what is between two checkpoints once more."""
  value = tf.placeholder_with_default(_X, [4, 3])
  layers = []
  for layer in range(6):
    value = tf.layers.dense(value, 3, tf.tanh, name="layer%d" % layer)
    layers.append(value)
  loss = tf.reduce_mean(tf.square(value), name="loss")
  variables = tf.trainable_variables()
  plain = tf.gradients(loss, variables)

  def path(begin, end):
    return ge.get_walks_intersection_ops([begin], [end])

  slopes = {}
  (slope,) = tf.gradients(loss, layers[-1])
  for begin, end in ((3, 5), (1, 3)):
    start = tf.stop_gradient(layers[begin])
    ops = path(layers[begin], layers[end])
    _, info = ge.copy_with_input_replacements(ge.sgv(ops), {})
    copied = [info._transformed_ops[op] for op in ops]
    for op in copied:
      if not op.inputs:
        ge.add_control_inputs(op, [slope.op])
    ge.reroute_ts([start], [layers[begin]], can_modify=copied)
    inside = variables[2 * begin + 2 : 2 * end + 2]
    found = tf.gradients(
      info.transformed(layers[end]), [*inside, start], grad_ys=slope
    )
    slopes.update(zip([one.op.name for one in inside], found))
    slope = found[-1]
  return {
    **slopes,
    "are_plain": tf.add_n(
      [
        tf.norm(slopes[one.op.name] - known)
        for one, known in zip(variables, plain)
        if one.op.name in slopes
      ]
    ),
  }
