"""Draws reviews of two kinds, a line each: 1 or 0, a tab, and its words."""

import os
import random

GOOD = ["good", "great", "fine", "lovely", "superb"]
BAD = ["bad", "awful", "poor", "dull", "weak"]
NAMES = ["plot", "cast", "score", "film", "scene", "ending"]


def review(draw):
  """Returns a line; "not" turns what a word says around."""
  likes = draw.random() < 0.5
  words = []
  for name in draw.sample(NAMES, 3):
    negated = draw.random() < 0.4
    word = draw.choice(GOOD if likes != negated else BAD)
    words += ["the", name, "was", *["not"] * negated, word]
  return "%d\t%s\n" % (likes, " ".join(words))


os.makedirs("data", exist_ok=True)
for name, lines in ("train", 4000), ("dev", 500):
  with open("data/%s.tsv" % name, "w") as file:
    file.writelines(review(random.Random(name + str(i))) for i in range(lines))
with open("data/vocab.txt", "w") as file:
  words = ["[PAD]", "[CLS]", "[SEP]", "the", "was", "not", *GOOD, *BAD, *NAMES]
  file.write("\n".join(words) + "\n")
