//! The result of an execution.

use std::collections::BTreeSet;
use std::fmt;

use crate::cloudflare::Error;
use crate::provider::writes::Write;
use crate::reconcile::plan::Refusal;

/// The reason why an execution ended before its plan did.
#[derive(Debug)]
pub(super) enum Stop {
    /// A write may or may not have been done; start again at the read.
    Uncertain(Error),
    /// Cloudflare cannot be written to now.
    Failed(Error),
    /// The rest does not fit into the deadline.
    OutOfTime,
}

impl Stop {
    /// True if nothing can be sent to any place before the next request.
    pub(super) fn ends_run(&self) -> bool {
        matches!(self, Self::OutOfTime | Self::Failed(Error::Limited { .. }))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uncertain(error) => write!(formatter, "a write may or may not have been done: {error}"),
            Self::Failed(error) => write!(formatter, "a write failed: {error}"),
            Self::OutOfTime => formatter.write_str("out of time"),
        }
    }
}

/// The results of an execution.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) refusals: Vec<Refusal>,
    /// Hostnames whose work was not done completely.
    pub(super) dropped: BTreeSet<Box<str>>,
    /// A write failed at a tunnel or a zone where the last one had not failed.
    pub(super) fails_anew: bool,
    /// Rules that Cloudflare accepted but stored differently.
    pub(super) altered: Vec<Write>,
    /// A full zone refused records before others of it were deleted.
    pub(super) makes_room: bool,
    /// A hostname lost one part to a refusal, and the next request will do its other parts.
    pub(super) is_unfinished: bool,
    /// Cloudflare accepted a write, or refused one for its content.
    pub(super) is_answered: bool,
    /// Cloudflare did not accept the credentials for a write.
    pub(super) is_forbidden: bool,
}

impl Done {
    /// True if everything that was tried failed because of the credentials.
    pub(super) fn is_all_forbidden(&self) -> bool {
        self.is_forbidden && !self.is_answered
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfTime => Self::OutOfTime,
            error if error.may_have_been_done() => Self::Uncertain(error),
            error => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_may_have_been_done_ends_a_run_otherwise_than_one_that_was_not() {
        let unreadable = Error::Unreadable { status: 200, reason: "x".into() };
        assert!(matches!(Stop::from(unreadable), Stop::Uncertain(_)));
        assert!(matches!(Stop::from(Error::Limited { retry_after: Default::default() }), Stop::Failed(_)));
        assert!(matches!(Stop::from(Error::OutOfTime), Stop::OutOfTime));
    }

    #[test]
    fn an_operator_is_told_whether_a_write_may_have_been_done() {
        let told = |error: Error| Stop::from(error).to_string();
        let unreadable = Error::Unreadable { status: 200, reason: "x".into() };
        assert!(told(unreadable).starts_with("a write may or may not have been done: "));
        assert!(told(Error::Limited { retry_after: Default::default() }).starts_with("a write failed: "));
        assert_eq!(told(Error::OutOfTime), "out of time");
    }

    #[test]
    fn a_run_ends_where_nobody_can_be_served_and_not_where_one_place_fails() {
        for (error, expected) in [
            (Error::OutOfTime, true),
            (Error::Limited { retry_after: Default::default() }, true),
            (Error::Unreadable { status: 200, reason: "x".into() }, false),
        ] {
            assert_eq!(Stop::from(error.clone()).ends_run(), expected, "{error}");
        }
    }
}
