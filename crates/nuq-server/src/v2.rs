//! The Open Inference Protocol, version 2, with the binary tensor extension.
