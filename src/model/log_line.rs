//! The content of a log line: a text, and pairs of a key and a value. Operators find a line by its pairs, so values and
//! foreign text must not look like a pair.

use std::fmt;

use crate::model::text::cut;

/// The content of a log line. Its text form is `text key=value key="any text"`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogLine {
    pub(crate) pairs: Vec<Pair>,
    pub(crate) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) key: Box<str>,
    pub(crate) value: String,
    /// The text form has quotation marks around the value.
    pub(crate) is_quoted: bool,
}

impl LogLine {
    /// Adds a pair whose value is one word, such as an id or a number; anything else is quoted.
    pub(crate) fn word(self, key: &str, value: &dyn fmt::Display) -> Self {
        let value = value.to_string();
        let is_quoted = value.contains(|character: char| character.is_whitespace() || character == '"');
        self.with(Pair { key: key.into(), value, is_quoted })
    }

    /// Adds a pair whose value may be any text; adds nothing for `None`.
    pub(crate) fn quoted<'v>(self, key: &str, value: impl Into<Option<&'v str>>) -> Self {
        match value.into() {
            Some(value) => self.with(Pair { key: key.into(), value: value.to_owned(), is_quoted: true }),
            None => self,
        }
    }

    /// Sets the text, which can be understood without the pairs.
    pub(crate) fn text(self, text: impl Into<String>) -> Self {
        Self { text: text.into(), ..self }
    }

    /// Redacts secrets, and cuts the values and the text if they have more than `max_chars` characters together.
    pub(crate) fn cut(mut self, max_chars: usize) -> Self {
        let mut room = max_chars;
        for part in self.pairs.iter_mut().map(|pair| &mut pair.value).chain([&mut self.text]) {
            *part = cut(part, room).into_owned();
            room = room.saturating_sub(part.chars().count());
        }
        self
    }

    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|pair| *pair.key == *key).map(|pair| &*pair.value)
    }

    fn with(mut self, pair: Pair) -> Self {
        self.pairs.push(pair);
        self
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)?;
        for Pair { key, value, is_quoted } in &self.pairs {
            if *is_quoted {
                write!(formatter, " {key}={value:?}")?;
            } else {
                write!(formatter, " {key}={value}")?;
            }
        }
        Ok(())
    }
}
