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

    /// The approximate size of its allocations.
    pub(crate) fn memory_bytes(&self) -> usize {
        let pairs = self.pairs.iter().map(|pair| size_of::<Pair>() + pair.key.len() + pair.value.len());
        self.text.len() + pairs.sum::<usize>()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_large_as_its_texts_and_the_places_of_its_pairs() {
        let line = LogLine::default().text("0123456789");
        assert_eq!(line.memory_bytes(), 10);
        let line = line.word("zone", &"abc").quoted("hostname", "a.example.com");
        assert_eq!(line.memory_bytes(), 10 + 4 + 3 + 8 + 13 + 2 * size_of::<Pair>());
    }
}
