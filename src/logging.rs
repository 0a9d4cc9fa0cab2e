//! Writes log lines to stderr, as text or as one JSON object per line. Neither has a time, because container runtimes
//! stamp each line.
//!
//! A line stays one line whatever it contains. Libraries log warnings and errors only, because ureq-proto's traces show
//! the token.

mod queue;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use log::{Level, LevelFilter, Log, Metadata, Record};
use miniserde::ser::{Fragment, Map};
use miniserde::{Serialize, json};
use simple_logger::SimpleLogger;

use self::queue::{Line, Queue};
use crate::limits;

/// The name of the only thread that writes.
const WRITER: &str = "log";

/// There is one for the process, as there is one stderr.
static QUEUE: Queue = Queue::new();

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `LEVEL [target] message`.
    #[default]
    Text,
    /// An object with `level`, `target` and `message`, and the `key=value` pairs that the message begins with.
    Json,
}

/// Starts to log: this program's lines up to `level`, and warnings and errors of everything else. Panics become lines,
/// too.
///
/// Nobody who logs waits for stderr: a separate thread writes, and [`Log::flush`] waits for it within bounds.
pub fn start(level: LevelFilter, format: Format) -> io::Result<()> {
    // A program that embeds the library may have set a logger already.
    if log::set_boxed_logger(Box::new(Logger { level })).is_ok() {
        thread::Builder::new()
            .name(WRITER.to_owned())
            .stack_size(limits::LISTENER_STACK_BYTES)
            .spawn(move || write_lines(format))?;
        panic::set_hook(Box::new(move |panicked| {
            // If the writer itself panics, stderr is gone.
            if thread::current().name() != Some(WRITER) {
                // Bypasses the logger, which may be what panics.
                QUEUE.push(Line::new(Level::Error, "panic", &one_line(&panicked.to_string())));
            }
        }));
    }
    log::set_max_level(level);
    Ok(())
}

/// The number of lines dropped because nobody read stderr.
pub fn lost_lines() -> i64 {
    QUEUE.lost()
}

struct Logger {
    level: LevelFilter,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = metadata.target().starts_with(env!("CARGO_CRATE_NAME"));
        metadata.level() <= if is_ours { self.level } else { self.level.min(LevelFilter::Warn) }
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let message = record.args().to_string();
            QUEUE.push(Line::new(record.level(), record.target(), &one_line(&message)));
        }
    }

    fn flush(&self) {
        QUEUE.flush(limits::LOG_FLUSH_TIMEOUT);
    }
}

fn write_lines(format: Format) -> ! {
    let text = SimpleLogger::new().with_level(LevelFilter::Trace);
    QUEUE.drain(|line| {
        // simple_logger panics when stderr is gone. Nobody can be told.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| match format {
            Format::Text => write_text(&text, line),
            Format::Json => write_json(line),
        }));
    })
}

fn write_text(logger: &SimpleLogger, line: &Line) {
    let Line { level, target, message } = line;
    let mut builder = Record::builder();
    let builder = builder.level(*level).target(target);
    logger.log(&builder.args(format_args!("{message}")).build());
}

/// Writes the line in one call, so that it comes out whole.
fn write_json(line: &Line) {
    let _ = io::stderr().lock().write_all(json_line(line).as_bytes());
}

fn json_line(line: &Line) -> String {
    let Line { level, target, message } = line;
    let level = level.as_str().to_ascii_lowercase();
    let own = [("level", Cow::from(level)), ("target", (&**target).into()), ("message", (&**message).into())];
    let object = json::to_string(&Object(own.into_iter().chain(fields(message)).collect()));
    let mut text = String::with_capacity(object.len() + 1);
    for character in object.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            // Some readers take U+2028, among others, for the end of a line.
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text.push('\n');
    text
}

/// Escapes everything in `text` that could end a line or change how the rest is shown, and cuts it.
fn one_line(text: &str) -> Cow<'_, str> {
    let is_plain = |character: char| character == ' ' || character.is_ascii_graphic();
    if text.len() <= limits::LOG_MESSAGE_MAX_CHARS && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for (index, character) in text.chars().enumerate() {
        if index == limits::LOG_MESSAGE_MAX_CHARS {
            escaped.push('…');
            break;
        }
        if is_plain(character) {
            escaped.push(character);
        } else {
            let _ = write!(escaped, "{}", character.escape_debug());
        }
    }
    Cow::Owned(escaped)
}

/// A JSON object whose members keep their order.
struct Object<'a>(Vec<(&'a str, Cow<'a, str>)>);

struct Members<'a>(std::slice::Iter<'a, (&'a str, Cow<'a, str>)>);

impl Serialize for Object<'_> {
    fn begin(&self) -> Fragment<'_> {
        Fragment::Map(Box::new(Members(self.0.iter())))
    }
}

impl Map for Members<'_> {
    fn next(&mut self) -> Option<(Cow<'_, str>, &dyn Serialize)> {
        let (key, value) = self.0.next()?;
        Some((Cow::Borrowed(key), value))
    }
}

/// The pairs that a message begins with, perhaps behind a few words of ours: `call method=GET path=/zones status=200`.
/// Everything behind them is prose, in which text of others may look like a pair.
fn fields(message: &str) -> Vec<(&str, Cow<'_, str>)> {
    let mut fields: Vec<(&str, Cow<'_, str>)> = Vec::new();
    let mut rest = message;
    loop {
        match pair(rest) {
            // No key appears twice, and none that every line has.
            Some((key, ..)) if key == "target" || fields.iter().any(|(known, _)| *known == key) => {
                return fields;
            }
            Some((key, value, behind)) => {
                fields.push((key, value));
                rest = behind;
            }
            None => match rest.split_once(' ') {
                Some((word, behind)) if fields.is_empty() && is_word(word) => rest = behind,
                _ => return fields,
            },
        }
    }
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b',' | b':'))
}

/// The pair that a text begins with, and the text behind it.
fn pair(text: &str) -> Option<(&str, Cow<'_, str>, &str)> {
    let (key, value) = text.split_once('=')?;
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        return None;
    }
    if let Some(quoted) = value.strip_prefix('"') {
        let (value, behind) = unquoted(quoted)?;
        return Some((key, Cow::Owned(value), behind.strip_prefix(' ').unwrap_or(behind)));
    }
    let (value, behind) = value.split_once(' ').unwrap_or((value, ""));
    Some((key, Cow::Borrowed(value), behind))
}

/// Undoes the quoting of `{:?}`, and returns the text behind the closing quotation mark as well.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = quoted.chars();
    loop {
        value.push(match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => match characters.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                'u' => {
                    let (code, behind) = characters.as_str().strip_prefix('{')?.split_once('}')?;
                    characters = behind.chars();
                    u32::from_str_radix(code, 16).ok().and_then(char::from_u32)?
                }
                other => other,
            },
            other => other,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The members of a JSON line, in their order.
    fn json(message: &str) -> Vec<(String, String)> {
        let text = json_line(&Line::new(Level::Warn, "here", &one_line(message)));
        assert!(text.is_ascii() && text.matches('\n').count() == 1, "{text}");
        let sorted: BTreeMap<String, String> = serde_json::from_str(&text).expect("an object of strings");
        let mut members: Vec<(String, String)> = sorted.into_iter().collect();
        members.sort_by_key(|(key, _)| text.find(&format!("\"{key}\":")));
        members
    }

    #[test]
    fn a_line_in_json_has_level_target_message_and_what_the_message_begins_with() {
        for (message, expected) in [
            ("all is well", &[][..]),
            (
                "hostname=\"web.example.com\" path=\"^/a\\\"b\" refused=rule_held by somebody",
                &[("hostname", "web.example.com"), ("path", "^/a\"b"), ("refused", "rule_held")],
            ),
            ("dry run, not done: hostname=\"a.test\" withdrawn", &[("hostname", "a.test")]),
            (
                "call method=GET path=/zones status=200",
                &[("method", "GET"), ("path", "/zones"), ("status", "200")],
            ),
            ("tunnels=\"home (1),two words (2)\"", &[("tunnels", "home (1),two words (2)")]),
            ("note=\"tab\\tend\\u{2028}\"", &[("note", "tab\tend\u{2028}")]),
        ] {
            let own = [("level", "warn"), ("target", "here"), ("message", message)];
            let expected: Vec<(String, String)> =
                own.iter().chain(expected).map(|(key, value)| ((*key).into(), (*value).into())).collect();
            assert_eq!(json(message), expected);
        }
    }

    #[test]
    fn what_somebody_wrote_makes_no_pair() {
        for (label, message, keys) in [
            ("in prose", "hostname=\"a.test\" web refused=no_zone", &["hostname"][..]),
            ("in quotation marks", "hostname=\"a.test\\\" refused=no_zone \\\"\" x", &["hostname"]),
            ("not closed", "hostname=\"a.test", &[]),
            ("a key that every line has", "target=elsewhere level=info", &[]),
            ("a key twice", "hostname=a hostname=b", &["hostname"]),
            ("behind capitals", "ADOPT=all hostname=a", &[]),
            ("an escape that is none", "hostname=\"\\u{110000}\" zone=a", &[]),
        ] {
            let found: Vec<&str> = fields(message).into_iter().map(|(key, _)| key).collect();
            assert_eq!(found, keys, "{label}");
        }
    }

    #[test]
    fn a_message_is_one_line_in_both_formats_and_is_cut() {
        let forged = "web\r\nERROR [x] all is lost\u{2028}\u{85}\u{1b}[31m\u{202e}";
        let json = json_line(&Line::new(Level::Info, "here", &one_line(forged)));
        for inner in [json.strip_suffix('\n').expect("a line ends"), &one_line(forged)] {
            assert!(
                inner.chars().all(|character| character.is_ascii_graphic() || character == ' '),
                "{inner}"
            );
        }
        assert_eq!(one_line("Grüße"), "Grüße");
        let long = "ä".repeat(limits::LOG_MESSAGE_MAX_CHARS + 1);
        assert_eq!(one_line(&long).chars().count(), limits::LOG_MESSAGE_MAX_CHARS + 1);
        assert!(one_line(&long).ends_with('…'));
    }

    #[test]
    fn libraries_say_warnings_at_most() {
        let logger = |level| Logger { level };
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
