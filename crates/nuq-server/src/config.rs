//! Options of the server.
