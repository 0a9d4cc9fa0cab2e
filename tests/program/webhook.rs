//! The API port.

mod api;
mod hostile;
mod protocol;
mod shutdown;
