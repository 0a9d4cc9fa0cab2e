//! Writes log lines to stderr, as text or as one JSON object per line. Neither has a time, because container runtimes
//! add one to each line.
//!
//! A line stays one line whatever it contains, and shows no secret. Libraries log warnings and errors only, because
//! ureq-proto's traces show the token.

mod key_values;

use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};

use log::{Level, LevelFilter, Log, Metadata, Record};
use miniserde::json;
use simple_logger::SimpleLogger;

pub use self::key_values::{debug, line_of, log};
use crate::limits::LOG_MESSAGE_MAX_CHARS;
use crate::model::log_line::{LogLine, Pair};
use crate::model::text::one_line;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `LEVEL [webhook] text key=value …`. A library's line names the library.
    #[default]
    Text,
    /// An object with `level`, `target`, `message` for the text, and a member for each pair.
    Json,
}

/// A line before it is formatted.
struct Entry<'a> {
    level: Level,
    target: &'a str,
    line: LogLine,
}

impl<'a> Entry<'a> {
    fn new(level: Level, target: &'a str, line: LogLine) -> Self {
        Self { level, target, line: line.cut(LOG_MESSAGE_MAX_CHARS) }
    }
}

/// Starts to log: this program's lines up to `level`, and warnings and errors of everything else. Panics become lines,
/// too.
pub fn start(level: LevelFilter, format: Format) {
    let text = SimpleLogger::new().with_level(LevelFilter::Trace);
    // A program that embeds the library may have set a logger already.
    if log::set_boxed_logger(Box::new(Logger { level, format, text })).is_ok() {
        panic::set_hook(Box::new(move |panicked| {
            // The logger itself may have panicked, so the line bypasses it.
            let line = LogLine::default().text(panicked.to_string());
            write_panic(format, &Entry::new(Level::Error, "panic", line));
        }));
    }
    log::set_max_level(level);
}

struct Logger {
    level: LevelFilter,
    format: Format,
    text: SimpleLogger,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = is_ours(metadata.target());
        metadata.level() <= if is_ours { self.level } else { self.level.min(LevelFilter::Warn) }
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let entry = Entry::new(record.level(), record.target(), line_of(record));
        match self.format {
            Format::Json => write(&json_line(&entry)),
            // simple_logger panics when stderr is gone. No line can be written then.
            Format::Text => {
                let _ = panic::catch_unwind(AssertUnwindSafe(|| write_text(&self.text, &entry)));
            }
        }
    }

    fn flush(&self) {}
}

fn is_ours(target: &str) -> bool {
    target.starts_with(env!("CARGO_CRATE_NAME"))
}

fn write_text(logger: &SimpleLogger, Entry { level, target, line }: &Entry<'_>) {
    let (target, line) = (short_target(target), text_line(line));
    logger.log(&Record::builder().level(*level).target(target).args(format_args!("{line}")).build());
}

fn write_panic(format: Format, entry: &Entry<'_>) {
    match format {
        Format::Json => write(&json_line(entry)),
        Format::Text => write(&format!("{} [{}] {}\n", entry.level, entry.target, text_line(&entry.line))),
    }
}

/// The target in a text line. The path of a module of ours would take sixty characters, so it is shortened.
fn short_target(target: &str) -> &str {
    if is_ours(target) { "webhook" } else { target }
}

/// Writes a line in one call, so that the line stays whole.
fn write(line: &str) {
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

fn text_line(line: &LogLine) -> String {
    one_line(&line.to_string(), usize::MAX).to_string()
}

fn json_line(Entry { level, target, line }: &Entry<'_>) -> String {
    let level = level.as_str().to_ascii_lowercase();
    let mut members = vec![("level", &*level), ("target", target), ("message", &line.text)];
    for Pair { key, value, is_quoted: _ } in &line.pairs {
        // JSON parsers differ in which of two members with the same name they keep.
        if members.iter().all(|(known, _)| **known != **key) {
            members.push((key, value));
        }
    }
    let members: Vec<String> = members
        .into_iter()
        .map(|(key, value)| {
            let value = one_line(value, usize::MAX).to_string();
            format!("{}:{}", json::to_string(key), json::to_string(&value))
        })
        .collect();
    format!("{{{}}}\n", members.join(","))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::secret::Secret;

    /// The members of a JSON line, in their order.
    fn json(line: LogLine) -> Vec<(String, String)> {
        let text = json_line(&Entry::new(Level::Warn, "here", line));
        assert!(text.is_ascii() && text.matches('\n').count() == 1, "{text}");
        let sorted: BTreeMap<String, String> = serde_json::from_str(&text).expect("an object of strings");
        let mut members: Vec<(String, String)> = sorted.into_iter().collect();
        members.sort_by_key(|(key, _)| text.find(&format!("\"{key}\":")));
        members
    }

    #[test]
    fn a_line_in_text_names_this_program_in_one_word_and_a_library_by_its_target() {
        let ours = concat!(env!("CARGO_CRATE_NAME"), "::provider::report");
        assert_eq!((short_target(ours), short_target("rustls::msgs")), ("webhook", "rustls::msgs"));
    }

    #[test]
    fn a_line_in_json_has_level_target_message_and_a_member_for_each_pair() {
        let line = LogLine::default;
        for (line, message, pairs) in [
            (line().text("all is well"), "all is well", &[][..]),
            (
                line().quoted("hostname", "web.example.com").quoted("path", "^/a\"b").text("by hand"),
                "by hand",
                &[("hostname", "web.example.com"), ("path", "^/a\"b")],
            ),
            (
                line().word("method", &"GET").word("status", &200).text("answered"),
                "answered",
                &[("method", "GET"), ("status", "200")],
            ),
            (
                line().quoted("tunnels", "home (1),two words (2)"),
                "",
                &[("tunnels", "home (1),two words (2)")],
            ),
            (line().quoted("note", "tab\tend\u{2028}"), "", &[("note", r"tab\tend\u{2028}")]),
            (line().quoted("note", None).text("x"), "x", &[]),
        ] {
            let own = [("level", "warn"), ("target", "here"), ("message", message)];
            let expected: Vec<(String, String)> =
                own.iter().chain(pairs).map(|(key, value)| ((*key).into(), (*value).into())).collect();
            assert_eq!(json(line), expected);
        }
    }

    #[test]
    fn a_foreign_text_makes_no_pair() {
        let line = || LogLine::default().quoted("hostname", "a.test");
        for (label, line, text) in [
            ("in prose", line().text("web refused=no_zone"), r#"web refused=no_zone hostname="a.test""#),
            (
                "in quotation marks",
                LogLine::default().quoted("hostname", "a.test\" refused=no_zone \"").text("x"),
                r#"x hostname="a.test\" refused=no_zone \"""#,
            ),
            (
                "in a word",
                LogLine::default().word("hostname", &"a.test refused=no_zone").text("x"),
                r#"x hostname="a.test refused=no_zone""#,
            ),
            (
                "in a word that begins like a text",
                LogLine::default().word("hostname", &"\"a.test").text("x"),
                r#"x hostname="\"a.test""#,
            ),
            (
                "a key that every line has",
                line().word("target", &"elsewhere").word("level", &"info").text("x"),
                r#"x hostname="a.test" target=elsewhere level=info"#,
            ),
            ("a key twice", line().word("hostname", &"b").text("x"), r#"x hostname="a.test" hostname=b"#),
        ] {
            assert_eq!(line.to_string(), text, "{label}");
            let keys: Vec<String> = json(line).into_iter().map(|(key, _)| key).collect();
            assert_eq!(keys, ["level", "target", "message", "hostname"], "{label}");
        }
    }

    #[test]
    fn a_message_is_one_line_in_both_formats_and_is_cut() {
        let forged = "web\r\nERROR [x] all is lost\u{2028}\u{85}\u{1b}[31m\u{202e}";
        let line = LogLine::default().quoted("path", forged).word("tunnel", &forged).text(forged);
        let json = json_line(&Entry::new(Level::Info, "here", line.clone()));
        for inner in [json.strip_suffix('\n').expect("a line ends"), &text_line(&line)] {
            let is_plain = |character: char| character.is_ascii_graphic() || character == ' ';
            assert!(inner.chars().all(is_plain), "{inner}");
        }
        let long = "ä".repeat(LOG_MESSAGE_MAX_CHARS + 1);
        let line = LogLine::default().quoted("path", &*long).text(&*long);
        let cut = Entry::new(Level::Info, "here", line.clone()).line;
        let shown = format!("{}…", "ä".repeat(LOG_MESSAGE_MAX_CHARS));
        assert_eq!(cut.to_string(), format!("… path={shown:?}"), "both share the room");
        assert_eq!(line.cut(usize::MAX).text, long);
    }

    #[test]
    fn no_line_shows_a_secret() {
        Secret::parse("a-token-that-was-pasted").expect("a secret");
        let pasted = "x\"A-Token-That-Was-Pasted";
        let line = LogLine::default().quoted("path", pasted).word("owner", &pasted).text(pasted);
        let entry = Entry::new(Level::Info, "here", line);
        for said in [text_line(&entry.line), json_line(&entry)] {
            assert_eq!(said.matches("[redacted]").count(), 3, "{said}");
            assert!(!said.to_ascii_lowercase().contains("pasted"), "{said}");
        }
    }

    #[test]
    fn libraries_say_warnings_at_most() {
        let logger = |level| Logger { level, format: Format::Text, text: SimpleLogger::new() };
        let ours = concat!(env!("CARGO_CRATE_NAME"), "::provider");
        for (level, target, said, expected) in [
            (LevelFilter::Trace, ours, Level::Trace, true),
            (LevelFilter::Info, ours, Level::Debug, false),
            (LevelFilter::Trace, "ureq_proto::client", Level::Info, false),
            (LevelFilter::Trace, "anything", Level::Warn, true),
            (LevelFilter::Error, "anything", Level::Warn, false),
        ] {
            let metadata = Metadata::builder().target(target).level(said).build();
            assert_eq!(logger(level).enabled(&metadata), expected, "{level} {target} {said}");
        }
    }
}
