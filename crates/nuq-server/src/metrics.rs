//! Counters in the text format of Prometheus.
