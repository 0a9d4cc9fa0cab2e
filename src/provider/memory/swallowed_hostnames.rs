//! Finds hostnames that ExternalDNS does not ask for although `adjust` returned them: one of its flags swallows them
//! without telling anybody, or its registry `crd` counts what was refused as done.

use std::collections::HashMap;

use crate::model::endpoint::Endpoint;
use crate::reconcile::Note;
use crate::reconcile::canonical::RESOURCE_LABEL;

/// A hostname that `adjust` returned counts as swallowed if it is missing from this many further answers of `GET
/// /records` and was not asked for.
const SILENT_READINGS: u32 = 3;

const SWALLOWED: &str = "is wanted, and ExternalDNS does not ask for it: look at its --managed-record-types (CNAME has to \
     be among them), --exclude-record-types, --domain-filter and --exclude-domains; under --registry=crd what was refused \
     counts as done until its object changes";

/// Hostnames that were returned, and have neither been asked for nor been published since.
#[derive(Debug, Default)]
pub(crate) struct SwallowedHostnames(HashMap<Box<str>, Awaited>);

#[derive(Debug)]
struct Awaited {
    /// The object that the hostname came from.
    resource: Option<Box<str>>,
    readings: u32,
}

impl SwallowedHostnames {
    /// `adjust` returned `endpoints`, sorted by name; those that are `is_expected` are still to come.
    pub(crate) fn returned(&mut self, endpoints: &[Endpoint], is_expected: impl Fn(&str) -> bool) {
        self.0.retain(|hostname, _| contains(endpoints, hostname));
        for endpoint in endpoints.iter().filter(|endpoint| is_expected(&endpoint.dns_name)) {
            let resource = || endpoint.labels.value(RESOURCE_LABEL).map(Into::into);
            let new = || Awaited { resource: resource(), readings: 0 };
            self.0.entry(endpoint.dns_name.as_str().into()).or_insert_with(new);
        }
    }

    /// ExternalDNS asked for a change of `hostname`.
    pub(crate) fn asked_for(&mut self, hostname: &str) {
        self.0.remove(hostname);
    }

    /// A request was not read to its end, so it is not known what it asked for.
    pub(crate) fn asked_for_something(&mut self) {
        self.0.clear();
    }

    /// `records` returns `endpoints`, sorted by name. Returns a note for each hostname that has been missing for long
    /// enough, in no order.
    pub(crate) fn shown(&mut self, endpoints: &[Endpoint]) -> Vec<Note> {
        self.0.retain(|hostname, _| !contains(endpoints, hostname));
        self.0.values_mut().for_each(|awaited| awaited.readings = awaited.readings.saturating_add(1));
        let swallowed = self.0.iter().filter(|(_, awaited)| awaited.readings >= SILENT_READINGS);
        swallowed
            .map(|(hostname, Awaited { resource, readings: _ })| Note {
                hostname: hostname.clone(),
                resource: resource.clone(),
                text: SWALLOWED.to_owned(),
            })
            .collect()
    }
}

fn contains(endpoints: &[Endpoint], hostname: &str) -> bool {
    endpoints.binary_search_by(|endpoint| endpoint.dns_name.as_str().cmp(hostname)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::memory::year;

    fn endpoints() -> [Endpoint; 1] {
        [Endpoint { dns_name: "a.example.com".to_owned(), ..Endpoint::default() }]
    }

    /// Runs one loop in which `adjust` returned the hostname. Returns true if it counts as swallowed now.
    fn run(silence: &mut SwallowedHostnames, is_shown: bool, is_asked_for: bool) -> bool {
        let shown = if is_shown { &endpoints()[..] } else { &[] };
        let is_silent = !silence.shown(shown).is_empty();
        silence.returned(&endpoints(), |_| !is_shown);
        if is_asked_for {
            silence.asked_for("a.example.com");
        }
        is_silent
    }

    #[test]
    fn what_is_neither_shown_nor_asked_for_in_three_readings_is_silent() {
        let mut silence = SwallowedHostnames::default();
        let loops: Vec<bool> = (0..6).map(|_| run(&mut silence, false, false)).collect();
        assert_eq!(loops, [false, false, false, true, true, true]);
        assert!(!run(&mut silence, true, false), "it came");
        assert!(!run(&mut silence, false, false), "and is waited for anew");
    }

    #[test]
    fn what_is_asked_for_or_shown_is_never_silent() {
        let mut silence = SwallowedHostnames::default();
        for _ in 0..6 {
            assert!(!run(&mut silence, false, true), "refused in every loop");
        }
        for _ in 0..6 {
            assert!(!run(&mut silence, true, false), "published");
        }
    }

    #[test]
    fn what_a_request_that_was_not_read_may_have_asked_for_is_never_silent() {
        let mut silence = SwallowedHostnames::default();
        for _ in 0..6 {
            assert!(!run(&mut silence, false, false), "refused unread in every loop");
            silence.asked_for_something();
        }
    }

    #[test]
    fn what_is_not_wanted_any_more_is_not_waited_for() {
        let mut silence = SwallowedHostnames::default();
        run(&mut silence, false, false);
        silence.returned(&[], |_| true);
        assert!((0..6).all(|_| silence.shown(&[]).is_empty()));
    }

    #[test]
    fn a_year_of_other_hostnames_in_every_loop_leaves_those_of_the_last_one() {
        let mut swallowed = SwallowedHostnames::default();
        for (number, _) in year::loops() {
            swallowed.shown(&[]);
            let endpoint = Endpoint { dns_name: format!("h{number}.example.com"), ..Endpoint::default() };
            swallowed.returned(&[endpoint], |_| true);
            assert_eq!(swallowed.0.len(), 1);
        }
    }
}
