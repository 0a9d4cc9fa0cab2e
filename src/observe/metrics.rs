//! Counts what `/metrics` shows: a table of families and their values.
//!
//! Every module may count here, because this module imports only `locks`. Values are whole numbers, and durations are
//! whole microseconds, because writing floating point would cost more than the rest of this module.

use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::locks::lock;

/// The upper bounds of a histogram's buckets: in microseconds, and in seconds as text.
const BUCKETS: [(u128, &str); 6] = [
    (50_000, "0.05"),
    (250_000, "0.25"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];

/// The values of the label `ownership`.
pub const RULE_OWNERSHIPS: [&str; 2] = ["own", "foreign"];

/// The description of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The name, with the prefix that all families share.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    pub labels: &'static [&'static str],
    /// The meaning, on one line and without a backslash.
    pub help: &'static str,
}

macro_rules! families {
    ($($family:ident: $kind:literal $name:literal [$($label:literal),*] $help:literal,)+) => {
        /// A family of metrics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Family {
            $(#[doc = $help] $family,)+
        }

        impl Family {
            /// Every family, in the order of the output.
            pub const ALL: &[Self] = &[$(Self::$family),+];

            pub const fn definition(self) -> &'static Definition {
                match self {
                    $(Self::$family => &Definition {
                        name: concat!("cloudflare_tunnel_webhook_", $name),
                        kind: $kind,
                        labels: &[$($label),*],
                        help: $help,
                    },)+
                }
            }
        }
    };
}

families! {
    BuildInfo: "gauge" "build_info" ["version"] "Always 1; the label is the webhook's version.",
    Ready: "gauge" "ready" [] "1 if the webhook is ready, else 0.",
    DryRun: "gauge" "dry_run" [] "1 if DRY_RUN is set, else 0.",
    Requests: "counter" "requests_total" ["route", "status"] "Requests answered on the API port.",
    RequestDuration: "histogram" "request_duration_seconds" ["route"]
        "Time from receiving a request to having its answer.",
    Calls: "counter" "calls_total" ["resource", "method", "status"]
        "Calls to Cloudflare's API; the status is none if no answer came.",
    CallDuration: "histogram" "call_duration_seconds" ["resource"] "Time a call to Cloudflare's API took.",
    CallsLeft: "gauge" "calls_left" []
        "Calls that may be sent now, of those that Cloudflare's rate limit grants for five minutes.",
    LastRead: "gauge" "last_read_timestamp_seconds" []
        "When everything was last read from Cloudflare, in unix time; 0 before the first time.",
    LastWrite: "gauge" "last_write_timestamp_seconds" []
        "When something was last written to Cloudflare, in unix time; 0 before the first time.",
    Rules: "gauge" "rules" ["tunnel", "ownership"]
        "Ingress rules at the last read, own and foreign; the catch-all is foreign.",
    Records: "gauge" "records" ["zone", "type"] "DNS records of ours at the last read.",
    ZoneRecords: "gauge" "zone_records" ["zone"] "All DNS records at the last read, which count against the zone's quota.",
    ConfigurationVersion: "gauge" "configuration_version" ["tunnel"]
        "Version of the tunnel's configuration that was last read or written.",
    Unprotected: "gauge" "unprotected" []
        "Published endpoints at the last read whose required protection by Access or by their rule is missing.",
    UnneededApplications: "gauge" "unneeded_access_applications" []
        "Access applications of ours at the last read that no rule or record of ours needs.",
    UnaskedProtections: "gauge" "unasked_protections" []
        "Endpoints of the last adjustment that are protected without naming an Access policy.",
    Changes: "counter" "changes_total" ["kind"] "Changes made at Cloudflare.",
    Refusals: "gauge" "refusals" ["reason"]
        "Refusals of the last request, and earlier ones of the hostnames that it left to the next.",
    Adoptions: "counter" "adoptions_total" [] "Foreign rules, records and Access applications that were taken over by ADOPT.",
    LostUpdates: "counter" "lost_updates_total" []
        "Writes of a configuration that another writer changed between our read and our write.",
    Connectors: "gauge" "connectors" ["tunnel"]
        "Connectors (replicas of cloudflared) at the last check, which is skipped while few calls are left; absent if it failed, and in the first two minutes.",
    ConnectorVersion: "gauge" "connector_configuration_version" ["tunnel"]
        "Lowest version of the configuration that a connector of the tunnel has applied.",
}

/// The counted values, shared by everything that counts.
#[derive(Debug, Default)]
pub struct Metrics {
    values: Mutex<Values>,
}

/// The counted values. A caller holds their lock only while it counts, because the metrics port waits for the lock.
#[derive(Debug, Default)]
pub struct Values(Vec<Series>);

#[derive(Debug)]
struct Series {
    family: Family,
    /// The labels as shown, without braces.
    labels: Box<str>,
    /// For a histogram, the sum in microseconds.
    value: i64,
    /// For a histogram, the number of observations up to each bound, then of all; otherwise empty.
    buckets: Vec<u64>,
}

impl Metrics {
    /// Locks the values for counting.
    pub fn update(&self) -> MutexGuard<'_, Values> {
        lock(&self.values)
    }

    /// All values, in Prometheus' text format.
    pub fn text(&self) -> String {
        self.update().to_string()
    }
}

impl Values {
    /// Adds to a counter or a gauge. `labels` are the label values, in the order of the family's definition.
    pub fn add(&mut self, family: Family, labels: &[&str], by: i64) {
        self.series(family, labels).value += by;
    }

    /// Sets a gauge.
    pub fn set(&mut self, family: Family, labels: &[&str], value: i64) {
        self.series(family, labels).value = value;
    }

    /// Adds one observation to a histogram.
    pub fn observe(&mut self, family: Family, labels: &[&str], duration: Duration) {
        let microseconds = duration.as_micros();
        let series = self.series(family, labels);
        series.value += i64::try_from(microseconds).unwrap_or_default();
        series.buckets.resize(BUCKETS.len() + 1, 0);
        let reached = BUCKETS.iter().map(|(bound, _)| microseconds <= *bound).chain([true]);
        for (count, reached) in series.buckets.iter_mut().zip(reached) {
            *count += u64::from(reached);
        }
    }

    /// Sets every value of a family to 0, so that it can be counted anew.
    pub fn reset(&mut self, family: Family) {
        self.0.iter_mut().filter(|series| series.family == family).for_each(|series| series.value = 0);
    }

    /// Removes the values of a family, because their subjects may be gone.
    pub fn clear(&mut self, family: Family) {
        self.0.retain(|series| series.family != family);
    }

    fn of(&self, family: Family) -> impl Iterator<Item = &Series> {
        self.0.iter().filter(move |series| series.family == family)
    }

    fn series(&mut self, family: Family, labels: &[&str]) -> &mut Series {
        let labels = label_text(family, labels);
        let known = self.0.iter().position(|series| series.family == family && *series.labels == *labels);
        let index = known.unwrap_or_else(|| {
            let labels = labels.into_boxed_str();
            self.0.push(Series { family, labels, value: 0, buckets: Vec::new() });
            self.0.len() - 1
        });
        self.0.get_mut(index).expect("it was found, or pushed")
    }
}

impl fmt::Display for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &family in Family::ALL {
            let Definition { name, kind, labels, help } = family.definition();
            writeln!(formatter, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
            // A family without labels is shown from the start.
            if labels.is_empty() && self.of(family).next().is_none() {
                writeln!(formatter, "{name} 0")?;
            }
            for Series { family: _, labels, value, buckets } in self.of(family) {
                let Some(count) = buckets.last() else {
                    let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
                    writeln!(formatter, "{name}{open}{labels}{close} {value}")?;
                    continue;
                };
                let bounds = BUCKETS.iter().map(|(_, bound)| *bound).chain(["+Inf"]);
                for (bound, count) in bounds.zip(buckets) {
                    writeln!(formatter, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}")?;
                }
                let (seconds, rest) = (value / 1_000_000, value % 1_000_000);
                writeln!(formatter, "{name}_sum{{{labels}}} {seconds}.{rest:06}")?;
                writeln!(formatter, "{name}_count{{{labels}}} {count}")?;
            }
        }
        Ok(())
    }
}

fn label_text(family: Family, values: &[&str]) -> String {
    let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let labels = family.definition().labels.iter().zip(values);
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    labels.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(metrics: &Metrics) -> Vec<String> {
        metrics.text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn a_value_of_a_label_cannot_end_its_line_or_its_quotes() {
        let metrics = Metrics::default();
        metrics.update().set(Family::Connectors, &["a\"} 1\nb\\"], 2);
        let expected = r#"cloudflare_tunnel_webhook_connectors{tunnel="a\"} 1\nb\\"} 2"#;
        assert!(samples(&metrics).contains(&expected.to_owned()), "{:?}", samples(&metrics));
    }

    #[test]
    fn what_has_no_labels_is_0_from_the_start() {
        for family in Family::ALL {
            let Definition { name, labels, .. } = family.definition();
            let shown = samples(&Metrics::default()).contains(&format!("{name} 0"));
            assert_eq!(shown, labels.is_empty(), "{name}");
        }
    }

    #[test]
    fn observations_fill_the_buckets_from_their_bound_on() {
        let metrics = Metrics::default();
        for microseconds in [50_000, 50_001, 10_000_002] {
            metrics.update().observe(Family::CallDuration, &["zones"], Duration::from_micros(microseconds));
        }
        let counts: Vec<String> = samples(&metrics)
            .iter()
            .filter_map(|line| line.strip_prefix("cloudflare_tunnel_webhook_call_duration_seconds_"))
            .map(|line| line.replace("resource=\"zones\"", ""))
            .collect();
        let expected = [
            r#"bucket{,le="0.05"} 1"#,
            r#"bucket{,le="0.25"} 2"#,
            r#"bucket{,le="1"} 2"#,
            r#"bucket{,le="2.5"} 2"#,
            r#"bucket{,le="5"} 2"#,
            r#"bucket{,le="10"} 2"#,
            r#"bucket{,le="+Inf"} 3"#,
            "sum{} 10.100003",
            "count{} 3",
        ];
        assert_eq!(counts, expected);
    }

    #[test]
    fn counting_anew_keeps_what_is_0_and_forgets_what_is_gone() {
        let metrics = Metrics::default();
        let mut values = metrics.update();
        for (family, labels) in
            [(Family::Refusals, &["x"][..]), (Family::Rules, &["x", "own"]), (Family::Connectors, &["x"])]
        {
            values.set(family, labels, 3);
        }
        values.reset(Family::Refusals);
        values.clear(Family::Rules);
        drop(values);
        let text = metrics.text();
        let counts = |label: &str| text.lines().filter(|line| line.contains(label)).collect::<Vec<_>>();
        let expected = [
            r#"cloudflare_tunnel_webhook_refusals{reason="x"} 0"#,
            r#"cloudflare_tunnel_webhook_connectors{tunnel="x"} 3"#,
        ];
        assert_eq!(counts("\"x\""), expected);
    }
}
