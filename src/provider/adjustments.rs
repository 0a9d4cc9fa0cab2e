//! Adjusts endpoints while the body of the request is parsed.

use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::provider::failure;
use crate::provider::memory::WithoutService;
use crate::reconcile::Settings;
use crate::reconcile::adjust::{self, Adjusted, Adjuster};
use crate::reconcile::endpoint_reader;
use crate::reconcile::snapshot::Snapshot;
use crate::webhook::Failure;
use crate::webhook::body::{Body, ReceivedEndpoint};

/// The canonical form of the `wanted` endpoints, and the endpoints without a service.
///
/// # Errors
/// When the body is malformed, or when the retained endpoints do not fit into memory.
pub fn adjust(
    wanted: &Body,
    settings: &Settings,
    snapshot: Option<&Snapshot>,
    clock: &dyn Clock,
    deadline: Deadline,
) -> Result<(Adjusted, WithoutService), Failure> {
    let is_late = || deadline.remaining(clock) < limits::ADJUST_RESERVE;
    let mut adjuster = Adjuster::new(settings, snapshot);
    let mut without_service = WithoutService::default();
    let mut kept = 0;
    wanted.for_each_wanted(&mut |ReceivedEndpoint { endpoint, is_whole }| {
        if !wanted.has_room(kept, 0) {
            return;
        }
        let added = if !is_whole {
            adjuster.add_unread(&endpoint, &endpoint_reader::too_long())
        } else if is_late() && endpoint.is_address_or_cname() {
            adjuster.add_unread(&endpoint, adjust::OUT_OF_TIME)
        } else {
            adjuster.add(&endpoint)
        };
        match added {
            Some(bytes) => kept += bytes,
            None => without_service.add(&endpoint),
        }
    })?;
    if !wanted.has_room(kept, 0) {
        return Err(failure::too_much());
    }
    Ok((adjuster.finish(), without_service))
}
