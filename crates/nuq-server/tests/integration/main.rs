//! The server on a loopback port: agreement with the library, protocols, access, limits and hostile requests.

#![allow(clippy::unwrap_used)]

mod access;
mod browser;
mod changes;
mod common;
mod hostile;
mod kill;
mod lifecycle;
mod limits;
mod memory;
mod openapi;
mod page;
mod page_data;
mod process;
mod protocol;
mod score;
mod tls;
