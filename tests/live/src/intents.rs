//! The file in which each create is written down before it is sent, so that a killed run can be cleaned up after. A
//! line is an event.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    // The order in which they are deleted: a hostname closes before its login goes.
    Record,
    Application,
    Tag,
    Tunnel,
}

/// A create, what came of it, or a deletion.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Event {
    /// The run's label, its account and its zone.
    pub run: [String; 3],
    pub kind: Kind,
    /// The whole name: a record's, a tunnel's, a tag's, or an application's destination.
    pub name: String,
    /// Known once the create was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Cloudflare's time, in seconds since 1970.
    pub at: u64,
    #[serde(default)]
    pub is_gone: bool,
}

/// # Errors
/// When the file cannot be written: then nothing may be created.
pub fn append(path: &Path, event: &Event) -> io::Result<()> {
    // A line that was cut off before ends here.
    let line = format!("\n{}", serde_json::to_string(event)?);
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

/// What may be left, with the id where that is known. A line that was cut off by the end of the machine is no event:
/// its create was not sent.
pub fn leftovers(path: &Path) -> Vec<Event> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut open: Vec<Event> = Vec::new();
    for event in text.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        let is_asked = |other: &Event| {
            (&other.run, other.kind, &other.name) == (&event.run, event.kind, &event.name)
                && (other.id.is_none() || other.id == event.id)
        };
        // The create without an answer before one with this id: an answer fills the id in.
        let position = open.iter().rposition(|other| is_asked(other) && other.id == event.id);
        let position = position.or_else(|| open.iter().rposition(is_asked));
        match (position, event.id.is_some() || event.is_gone) {
            (Some(position), true) if event.is_gone => drop(open.remove(position)),
            (Some(position), true) => open.splice(position..=position, [event]).for_each(drop),
            (None, _) if event.is_gone => {}
            _ => open.push(event),
        }
    }
    open.sort_by_key(|event| event.kind);
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_was_asked_for_and_is_not_known_to_be_gone() {
        let path = std::env::temp_dir().join(format!("live-intents-{}", std::process::id()));
        // As `name`, `name=id` and, once it is gone, `name=id!`.
        let event = |text: &str| {
            let bare = text.trim_end_matches('!');
            let (name, id) = bare.split_once('=').unwrap_or((bare, ""));
            let (run, id) = (["run", "account", "zone"].map(str::to_owned), Some(id.to_owned()));
            let (kind, name, id) = (Kind::Record, name.to_owned(), id.filter(|id| !id.is_empty()));
            Event { run, kind, name, id, at: 1, is_gone: text.ends_with('!') }
        };
        fs::write(&path, "{\"run\":[\"edctw").expect("it can be written");
        for text in "made made=1 unanswered refused refused! twice twice=2 twice twice=2!".split(' ') {
            append(&path, &event(text)).expect("it can be written");
        }
        assert_eq!(leftovers(&path), ["made=1", "unanswered", "twice"].map(event));
    }
}
