//! State that survives the process: an SQLite data base.
