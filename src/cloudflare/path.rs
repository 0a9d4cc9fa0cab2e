//! Builds paths of the API.

use crate::model::text::percent_encoded;

/// A path below the API's base address. Each segment is escaped, so an id cannot change the other segments.
pub(super) fn path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", percent_encoded(segment, b"-_"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_its_path_segment() {
        for (id, expected) in [
            ("023e105f4ecef8ad9ca31a8372d0c353", "/zones/023e105f4ecef8ad9ca31a8372d0c353/dns_records"),
            ("../accounts", "/zones/%2E%2E%2Faccounts/dns_records"),
            ("a?b#c d", "/zones/a%3Fb%23c%20d/dns_records"),
            ("ü", "/zones/%C3%BC/dns_records"),
        ] {
            assert_eq!(path(&["zones", id, "dns_records"]), expected, "{id:?}");
        }
    }
}
