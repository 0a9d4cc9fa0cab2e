//! What happened in a world, line by line: two runs of one seed have the same one.

use std::hash::{DefaultHasher, Hash, Hasher};

use cloudflare_emulator::Call;

#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn note(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(crate) fn note_calls(&mut self, calls: &[Call]) {
        self.lines.extend(calls.iter().map(|call| {
            let Call { status, body, .. } = call;
            let answer = status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
            format!("  {} -> {answer} {body}", call.line())
        }));
    }

    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.lines.hash(&mut hasher);
        hasher.finish()
    }
}
