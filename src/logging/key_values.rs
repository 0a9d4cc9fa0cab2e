//! Converts lines to records of the crate `log` and back: the key-values of a record are the pairs of a line.

use log::kv::{Error, Key, Source, Value, VisitSource};
use log::{Level, Record};

use crate::model::LogLine;
use crate::model::log_line::Pair;

/// Logs a line that another module has made. `target` is the caller's `module_path!()`.
pub fn log(level: Level, target: &str, line: &LogLine) {
    if level <= log::max_level() {
        let mut record = Record::builder();
        let record = record.level(level).target(target).key_values(line);
        log::logger().log(&record.args(format_args!("{}", line.text)).build());
    }
}

/// Logs a line at debug level. The macro `log::debug!` is compiled out of releases, together with the debug lines of
/// libraries, which are never shown.
pub fn debug(target: &str, line: impl FnOnce() -> LogLine) {
    if log::max_level() >= Level::Debug {
        log(Level::Debug, target, &line());
    }
}

/// The log line of a record. A key-value given as a string is quoted; a key-value given as `key:% = value` is a word.
pub fn line_of(record: &Record<'_>) -> LogLine {
    let mut line = LogLine::default();
    // Only a visitor can fail, and a line never does.
    let _ = record.key_values().visit(&mut line);
    line.text(record.args().to_string())
}

/// Adds each key-value to the line.
impl<'kvs> VisitSource<'kvs> for LogLine {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), Error> {
        let line = std::mem::take(self);
        *self = match value.to_borrowed_str() {
            Some(text) => line.quoted(key.as_str(), text),
            None => line.word(key.as_str(), &value),
        };
        Ok(())
    }
}

impl Source for LogLine {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), Error> {
        for Pair { key, value, is_quoted } in &self.pairs {
            let value = if *is_quoted { Value::from(value) } else { Value::from_display(value) };
            visitor.visit_pair(Key::from(&**key), value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_and_words_and_numbers_are_not_on_both_ways() {
        let pairs = [
            ("zone", Value::from("example.com")),
            ("id", Value::from_display(&"z1")),
            ("calls", Value::from(3)),
            ("name", Value::from_display(&"two words")),
        ];
        let said = "is seen zone=\"example.com\" id=z1 calls=3 name=\"two words\"";
        let line = line_of(&Record::builder().key_values(&pairs).args(format_args!("is seen")).build());
        assert_eq!(line.to_string(), said);
        assert_eq!(line_of(&Record::builder().key_values(&line).args(format_args!("is seen")).build()), line);
    }
}
