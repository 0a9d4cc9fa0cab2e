//! Asks a running instance on this machine: `status`, what is published, and what is not and why; `healthcheck`, if the
//! instance is alive, for images that hold no other program.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use miniserde::json;

use super::{Layout, Report, table};
use crate::clock::Clock;
use crate::listener::reached;
use crate::model::text::{percent_encoded, quoted};
use crate::observe::routes::STATUS;
use crate::observe::status::{HOST, Row, Status};

const HEADER: [&str; 6] = ["HOSTNAME", "PATH", "OBJECT", "STATE", "SINCE", "WHAT"];

/// Each wait of `status`: as long as the metrics port waits for a client to read its answer.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Each wait of `healthcheck`. Container runtimes give up after a few seconds, and loopback answers at once.
const HEALTHCHECK_TIMEOUT: Duration = Duration::from_millis(1500);

/// The most bytes of an answer that are read. No answer is this large.
const ANSWER_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Asks about `hostname`, or without one about everything that is neither published nor written.
///
/// # Errors
/// When no instance answers.
pub fn status(
    address: SocketAddr,
    clock: &dyn Clock,
    hostname: Option<&str>,
    layout: Layout,
) -> Result<Report, String> {
    let below =
        hostname.map(|hostname| format!("/{}", percent_encoded(hostname, b"-._~"))).unwrap_or_default();
    let answer = ask(address, &format!("{STATUS}{below}"), STATUS_TIMEOUT)?;
    let status = read(&answer).ok_or_else(|| format!("{address}: incomplete answer; try again"))?;
    Ok(report(&status, clock.unix_seconds(), layout))
}

/// Asks `/healthz`.
pub fn healthcheck(address: SocketAddr) -> Result<(), String> {
    ask(address, "/healthz", HEALTHCHECK_TIMEOUT).map(drop)
}

/// Requests `path` from the metrics port at `address`. Returns the whole answer if its status is 200.
fn ask(address: SocketAddr, path: &str, timeout: Duration) -> Result<String, String> {
    if address.port() == 0 {
        return Err("METRICS_PORT is 0, so the port is unknown".to_owned());
    }
    let address = reached(address);
    answer(address, path, timeout).map_err(|error| match error.kind() {
        // On Linux a socket's time-out is reported as `WouldBlock`.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("{address}: no answer within {} ms", timeout.as_millis())
        }
        _ => format!("{address}: {error}; METRICS_HOST and METRICS_PORT have to be those of the instance"),
    })
}

fn answer(address: SocketAddr, path: &str, timeout: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_read_timeout(Some(timeout))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if answer.starts_with("HTTP/1.1 200") {
        return Ok(answer);
    }
    let line = answer.lines().next().unwrap_or_default().trim_end();
    Err(io::Error::other(format!("answered {} to {path}", quoted(line))))
}

fn read(answer: &str) -> Option<Status> {
    let (_, document) = answer.split_once("\r\n\r\n")?;
    json::from_str(document).ok()
}

fn report(status: &Status, now: i64, layout: Layout) -> Report {
    if layout == Layout::Json {
        return Report::json(status, status.ok);
    }
    let Status { ok, loop_began, wanted, published, refused, waiting, without_service, rows, more } = status;
    let (mut text, mut links) = (String::new(), Vec::new());
    if let Some(began) = loop_began {
        let began = age(now - began);
        text = format!(
            "last loop {began} ago: {wanted} wanted, {published} published, {refused} refused, {waiting} waiting, \
             {without_service} without a service\n"
        );
    }
    if !rows.is_empty() {
        let cells = rows.iter().map(|row| cells(row, now));
        let mut table: Vec<_> = std::iter::once(HEADER.map(str::to_owned).to_vec()).chain(cells).collect();
        if layout == Layout::Lines {
            text += &table::render(&table);
        } else {
            let texts: Vec<String> = table.iter_mut().filter_map(Vec::pop).collect();
            let rows = table::aligned(&table).into_iter().zip(&texts);
            text.extend(rows.map(|(columns, what)| table::wrapped(&columns, &[what], &mut links)));
        }
    }
    if *more > 0 {
        text += &format!("and {more} more\n");
    }
    text += &table::footnotes(&links);
    Report { text, is_success: *ok }
}

fn cells(row: &Row, now: i64) -> Vec<String> {
    let Row { hostname, path, resource, state, refused, since, what } = row;
    let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let reason = refused.as_ref().map(|refused| format!(": {refused}")).unwrap_or_default();
    let since = since.map(|since| format!("{} ago", age(now - since)));
    vec![hostname.clone(), text(path), text(resource), format!("{state}{reason}"), text(&since), what.clone()]
}

/// The age in the largest unit of which at least two have passed.
fn age(seconds: i64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let (length, unit) = units.into_iter().find(|(length, _)| seconds >= 2 * length).unwrap_or((1, "s"));
    format!("{}{unit}", seconds.max(0) / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_its_group_and_word_and_says_since_when() {
        let row = Row {
            hostname: "held.example.com".to_owned(),
            path: Some("^/api".to_owned()),
            state: "held by others".to_owned(),
            refused: Some("record_held".to_owned()),
            since: Some(100),
            what: "the name has a record\u{1b}[2J".to_owned(),
            ..Row::default()
        };
        let published =
            Row { hostname: "web.example.com".to_owned(), state: "published".to_owned(), ..Row::default() };
        let status = Status {
            loop_began: Some(7_290),
            wanted: 2,
            published: 1,
            refused: 1,
            rows: vec![row, published],
            more: 3,
            ..Status::default()
        };
        let Report { text, is_success } = report(&status, 7_300, Layout::Lines);
        let expected = "last loop 10s ago: 2 wanted, 1 published, 1 refused, 0 waiting, 0 without a service\n\
            HOSTNAME          PATH   OBJECT  STATE                        SINCE   WHAT\n\
            held.example.com  ^/api  -       held by others: record_held  2h ago  the name has a record\\u{1b}[2J\n\
            web.example.com   -      -       published                    -       -\n\
            and 3 more\n";
        assert_eq!((&*text, is_success), (expected, false));
        let Report { text, is_success } = report(&status, 7_300, Layout::Json);
        assert_eq!(json::from_str::<Status>(&text).ok().as_ref(), Some(&status));
        assert!(!is_success);
    }

    #[test]
    fn an_age_has_the_largest_unit_of_which_it_has_two_and_is_never_negative() {
        for (seconds, expected) in
            [(-5, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (7_200, "2h"), (900_000, "10d")]
        {
            assert_eq!(age(seconds), expected);
        }
    }

    #[test]
    fn only_a_whole_document_is_an_answer() {
        let document = json::to_string(&Status::default());
        assert_eq!(read(&format!("HTTP/1.1 200 \r\n\r\n{document}")), Some(Status::default()));
        let (cut, _) = document.split_at(document.len() - 1);
        assert_eq!(read(&format!("HTTP/1.1 200 \r\n\r\n{cut}")), None);
    }
}
