"""Small TensorFlow 1 programs; ../recording.py says what a case is."""
