//! How much of a request is read, and what becomes of the rest.

use super::*;

/// One line for each would fill the log, and the memory.
#[test]
fn of_thousands_of_notes_the_first_by_name_are_kept() {
    let said = [("webhook/tunnel-service", "http://web:80"), ("webhook/x", "y")];
    let endpoints = |numbers: &mut dyn Iterator<Item = usize>| -> Vec<Endpoint> {
        numbers.map(|number| endpoint(&format!("h{number:0>4}.test"), "A", "192.0.2.1", &said)).collect()
    };
    let forward = adjust(&endpoints(&mut (0..2_000)), &settings(), None);
    assert_eq!((forward.notes.len(), forward.has_more_notes), (limits::NOTES_MAX, true));
    assert_eq!(forward.notes.last().map(|note| &*note.hostname), Some("h0199.test"));
    let backward = adjust(&endpoints(&mut (0..2_000).rev()), &settings(), None);
    assert_eq!(forward.notes, backward.notes);
    assert!(!adjust(&endpoints(&mut (0..limits::NOTES_MAX)), &settings(), None).has_more_notes);
}

/// If they were left out, they would count as not wanted.
#[test]
fn what_there_is_no_time_for_is_answered_unread() {
    let service = ("webhook/tunnel-service", "http://web:80");
    let names = ["a.example.com", "b.example.com", "c.example.com"];
    let endpoints = names.map(|name| endpoint(name, "A", "192.0.2.1", &[service]));
    let settings = settings();
    let mut adjuster = Adjuster::new(&settings);
    let [first, others @ ..] = &endpoints;
    adjuster.add(first);
    others.iter().for_each(|endpoint| drop(adjuster.add_late(endpoint).to_vec()));
    let adjusted = adjuster.finish(None).endpoints;
    let found: Vec<(&str, bool)> =
        adjusted.iter().map(|endpoint| (&*endpoint.dns_name, endpoint.property(INVALID).is_some())).collect();
    assert_eq!(found, [("a.example.com", false), ("b.example.com", true), ("c.example.com", true)]);
    assert_eq!(adjust(&adjusted, &settings, None).endpoints, adjusted);
}

#[test]
fn more_unknown_properties_than_are_looked_at_make_an_endpoint_invalid() {
    let with_unknown = |target: &str, count: usize| {
        let mut endpoint = endpoint("a.example.com", "CNAME", target, &[]);
        let unknown = (0..count).map(|number| Property::new(format!("webhook/x{number}"), "x"));
        endpoint.provider_specific.extend(unknown);
        endpoint
    };
    let limit = limits::UNKNOWN_PROPERTIES_MAX;
    for (count, is_valid) in [(limit, true), (limit + 1, false), (limit + 2, false), (100, false)] {
        let endpoint = with_unknown("http://web:80", count);
        assert_eq!(read_one(&endpoint, &settings()).publication.is_ok(), is_valid, "{count}");
        let notes = adjust(&[endpoint], &settings(), None).notes;
        let named: usize = notes.iter().map(|note| note.text.matches("is left out").count()).sum();
        assert!(named <= limit, "{count}: {named}");
        // One that names no service is perhaps another provider's, unless there is too much to tell.
        let count_of_elsewhere =
            adjust(&[with_unknown("lb.example.net", count)], &settings(), None).endpoints.len();
        assert_eq!(count_of_elsewhere, usize::from(!is_valid), "{count}");
    }
}

/// Cut to the length of a hostname, a longer name would be another one, which somebody may have.
#[test]
fn the_name_of_an_unread_endpoint_never_becomes_another_hostname() {
    let large = [("webhook/x", &*"x".repeat(limits::ENDPOINT_MAX_BYTES))];
    for (length, kept) in [(253, 253), (254, 254), (300, 254)] {
        let name = "abcdefg.".repeat(40);
        let name = name.get(..length).expect("long enough");
        let (settings, endpoint) = (settings(), endpoint(name, "A", "192.0.2.1", &large));
        let read = read_one(&endpoint, &settings).endpoint;
        assert_eq!(Some(&*read.dns_name), name.get(..kept), "{length}");
    }
}

#[test]
fn an_endpoint_of_exactly_the_most_bytes_groups_or_properties_is_read() {
    let service = ("webhook/tunnel-service", "http://web:80");
    let bare = endpoint("a.example.com", "A", "192.0.2.1", &[service, ("aws/x", "")]);
    let room = limits::ENDPOINT_MAX_BYTES - bare.text_bytes();
    for (more, is_read) in [(0, true), (1, false), (2, false)] {
        let text = "x".repeat(room + more);
        let full = endpoint("a.example.com", "A", "192.0.2.1", &[service, ("aws/x", &text)]);
        assert_eq!(read_one(&full, &settings()).publication.is_ok(), is_read, "{more}");

        let mut many = endpoint("a.example.com", "A", "192.0.2.1", &[service]);
        let others = (1..limits::ENDPOINT_PROPERTIES_MAX + more).map(|number| format!("aws/{number}"));
        many.provider_specific.extend(others.map(|name| Property::new(name, "x")));
        assert_eq!(read_one(&many, &settings()).publication.is_ok(), is_read, "{more}");

        let mut groups = endpoint("a.example.com", "A", "192.0.2.1", &[]);
        for number in 0..limits::ENDPOINT_GROUPS_MAX + more {
            let property =
                |name: &str, value: &str| Property::new(format!("webhook/{name}.g{number}"), value);
            groups.provider_specific.push(property("tunnel-service", "http://web:80"));
            groups.provider_specific.push(property("tunnel-path-prefix", &format!("/g{number}")));
        }
        let read = EndpointReader::new(&settings(), Notes::with_room(0)).read(&groups);
        assert_eq!(read.iter().all(|one| one.publication.is_ok()), is_read, "{more}");
    }
}
