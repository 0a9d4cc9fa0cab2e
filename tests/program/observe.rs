//! The observation port.

mod hostile;
mod responder;
