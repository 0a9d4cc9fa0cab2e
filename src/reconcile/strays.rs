//! Finds rules of ours whose record was deleted at Cloudflare while their object went: no stamp names them any more, and
//! no request of ExternalDNS withdraws them.

use crate::reconcile::snapshot::{OwnRules, Snapshot};
use crate::reconcile::stamp::Digest;
use crate::reconcile::{Note, Settings};

/// The rules that stood without a record of ours at the last look.
#[derive(Debug, Default)]
pub struct Strays(OwnRules);

impl Strays {
    /// Looks for rules that were ours `before` and stand though their hostnames have no record of ours any more. The
    /// notes are on those that were found by the last look already, because ExternalDNS may have asked for the others
    /// once more, which takes them back.
    pub fn look(&mut self, before: &OwnRules, now: &Snapshot, settings: &Settings) -> Vec<Note> {
        let (known, mut notes) = (std::mem::take(&mut self.0), Vec::new());
        for (tunnel, rule) in now.own_rules_standing(before).chain(now.own_rules_standing(&known)) {
            let name = rule.folded_hostname();
            if now.zone_of(name).is_none() || !now.own_records_of(name, settings).is_empty() {
                continue;
            }
            self.0.add(name, [Digest::of(tunnel, rule.path())]);
            if known.has(tunnel, rule) {
                let (path, tunnel) = (rule.path().unwrap_or_default(), settings.name_of(tunnel));
                let text = format!(
                    "the rule for path {path:?} in tunnel {tunnel} was ours and stays, but no record of ours names it any \
                     more: delete it at Cloudflare, or set ADOPT=all while ExternalDNS asks for the hostname"
                );
                notes.push(Note::about(name, text));
            }
        }
        notes
    }
}
