//! Signals: the end of the process and the reload of models.
