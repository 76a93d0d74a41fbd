"""compat's stand-ins for modules that TensorFlow 2.16 removed."""
