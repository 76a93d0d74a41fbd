"""Rules: how the dimensions of an op's inputs and outputs go together.

In: an op, and the shapes of its inputs. Out: a `rule.Rule`, which labels the
dimensions of its inputs and outputs as an einsum does. Most are a line of text
(`notation`), in files by families of ops; `all_rules` is the table of them all.
"""
