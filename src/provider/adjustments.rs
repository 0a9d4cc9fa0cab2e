//! Adjusts endpoints while their request is read, and says the notes about them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use log::{Level, info};

use crate::clock::{Clock, Deadline};
use crate::limits;
use crate::locks::lock;
use crate::logging;
use crate::model::LogLine;
use crate::model::endpoint::Endpoint;
use crate::provider::failure;
use crate::provider::memory::Said;
use crate::reconcile::adjust::{self, Adjusted, Adjuster};
use crate::reconcile::canonical::resource_of;
use crate::reconcile::snapshot::Snapshot;
use crate::reconcile::{Note, Settings};
use crate::webhook::Failure;
use crate::webhook::body::{Arrived, Body};

/// What was said of earlier adjustments, so that it is not said again. No adjustment goes by it.
#[derive(Debug, Default)]
pub struct Adjustments {
    /// The number of endpoints that named no service.
    unnamed: AtomicUsize,
    said_notes: Mutex<Said<LogLine>>,
}

impl Adjustments {
    /// The canonical form of `wanted`.
    ///
    /// # Errors
    /// When the body is malformed, or there is no room for what is kept of it.
    pub fn adjust(
        &self,
        wanted: &Body,
        settings: &Settings,
        snapshot: Option<&Snapshot>,
        clock: &dyn Clock,
        deadline: Deadline,
    ) -> Result<Adjusted, Failure> {
        let is_late = || deadline.remaining(clock) < limits::ADJUST_RESERVE;
        let mut adjuster = Adjuster::new(settings, snapshot);
        let mut unnamed = 0;
        let mut kept = 0;
        wanted.wanted(&mut |Arrived { list: _, endpoint, is_whole }| {
            if !wanted.has_room(kept, 0) {
                return;
            }
            let added = match is_whole {
                true if is_late() && endpoint.is_address() => adjuster.add_late(&endpoint),
                true => adjuster.add(&endpoint),
                false => adjuster.add_too_long(&endpoint),
            };
            kept += added.iter().map(Endpoint::memory_bytes).sum::<usize>();
            if added.is_empty() && !adjust::opts_out(&endpoint) {
                unnamed += 1;
                debug_unnamed(&endpoint);
            }
        })?;
        if !wanted.has_room(kept, 0) {
            return Err(failure::too_much());
        }
        self.report_unnamed(unnamed);
        let adjusted = adjuster.finish();
        let more = (adjusted.notes.len() > limits::NOTES_MAX).then(|| {
            LogLine::default().text(format!(
                "there are more notes about endpoints than these {}: fix what these name",
                limits::NOTES_MAX
            ))
        });
        let notes = adjusted.notes.iter().map(Note::line);
        let news = lock(&self.said_notes).news(notes.chain(more), clock.unix_seconds());
        for line in news {
            logging::log(Level::Warn, module_path!(), &line);
        }
        Ok(adjusted)
    }

    /// Logs how many endpoints were left out because they name no service; each one is logged at debug level.
    fn report_unnamed(&self, unnamed: usize) {
        if self.unnamed.swap(unnamed, Ordering::Relaxed) != unnamed {
            info!("{unnamed} endpoints name no service and are not published; LOG_LEVEL=debug names them");
        }
    }
}

fn debug_unnamed(endpoint: &Endpoint) {
    let Endpoint { dns_name, record_type, .. } = endpoint;
    logging::debug(module_path!(), || {
        LogLine::default()
            .quoted("hostname", dns_name.as_str())
            .quoted("resource", resource_of(endpoint))
            .word("type", record_type)
            .text("an endpoint names no service and is not published")
    });
}
