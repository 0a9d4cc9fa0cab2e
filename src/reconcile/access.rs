//! Cloudflare Access: the applications that ask visitors for a login, and the tokens that a rule requires.
//!
//! A place is a hostname or a path of it. An endpoint without Access properties gets the login of
//! `DEFAULT_ACCESS_POLICY`; without that setting, the protection of its place stays. Only `webhook-access-policy: none`
//! opens a place.
//!
//! | question | file |
//! |---|---|
//! | What was read of Access? | `reading.rs` |
//! | Which applications are near a hostname, and which are ours? | `applications.rs` |
//! | Which place was an application made for? | `place.rs` |
//! | Which requests does a destination of an application take? | `destination.rs` |
//! | How is a hostname protected now? | `host_protection.rs`; for the guard `guard.rs`, as properties `shown.rs` |
//! | Which login does an endpoint ask for? | `wanted.rs` |
//! | May an endpoint be published, and with which Access check? | `gate.rs` |
//! | May a place be opened? | `opening.rs`; what else would be open: `relying.rs` |
//! | May a record point to another tunnel? | `open_rule.rs` |
//! | Which applications does nothing need, and which refuse visitors? | `unneeded.rs`, `refused_visitors.rs` |

pub mod applications;
pub mod destination;
pub mod gate;
pub mod guard;
pub mod host_protection;
pub mod open_rule;
pub mod opening;
pub mod place;
pub mod reading;
pub mod refused_visitors;
pub mod relying;
pub mod shown;
pub mod unneeded;
pub mod wanted;
