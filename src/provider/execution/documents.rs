//! Reads, edits and writes a tunnel's configuration: GET, then PUT. Probes whether a tunnel can be written.

use log::warn;

use super::{Execution, Outcome, Stop, write_failed};
use crate::cloudflare::Error;
use crate::ingress::{Document, Edited, RuleEdit};
use crate::model::TunnelId;
use crate::observe::metrics::Family;
use crate::provider::CallContext;
use crate::provider::backend::Answer;
use crate::provider::report::describe_edit;
use crate::provider::setup::Setup;
use crate::reconcile::plan::{HostPlan, Piece, WriteTarget};
use crate::reconcile::reason::Reason;

impl<'a> Execution<'a> {
    /// Reads, edits and writes a document. A hostname whose edit the document does not allow is left out.
    pub(super) fn send_edits(&mut self, tunnel: &'a TunnelId, pieces: &[Piece<'a>]) -> Result<Outcome, Stop> {
        // Other writers may have changed the document since the snapshot.
        let (document, version_before) = read_document(self.context, tunnel)?;
        let (sent, edited) = self.edit_document(tunnel, &document, pieces);
        if edited.changed.is_empty() {
            self.ledger.mark_edited(tunnel, &sent);
            return Ok(Outcome::NotSent);
        }
        self.context.check_time().map_err(Stop::Run)?;
        if let Err(error) = put_document(self.context, tunnel, &edited.document, version_before) {
            return self.handle_failed_write(WriteTarget::Tunnel(tunnel), &sent, error);
        }
        self.ledger.mark_edited(tunnel, &sent);
        let changed = edited.changed.iter().filter_map(|index| sent.get(*index));
        for (piece, edit) in changed.filter_map(|piece| Some((piece, &piece.edit?.edit))) {
            let line = describe_edit(piece.hostname(), tunnel, edit);
            self.context.provider.log_change(edit.label_value(), &line);
        }
        Ok(Outcome::Written)
    }

    /// Edits the document, and returns the edits that are in it. Another writer may have changed the document after the
    /// plan: if a foreign rule is in the way of an edit, no edit of that hostname is in the document.
    fn edit_document(
        &mut self,
        tunnel: &TunnelId,
        document: &Document,
        pieces: &[Piece<'a>],
    ) -> (Vec<Piece<'a>>, Edited) {
        let mut sent = pieces.to_vec();
        loop {
            let edits: Vec<RuleEdit> =
                sent.iter().filter_map(|piece| Some(piece.edit?.edit.clone())).collect();
            let edited = document.edit(&edits, &|rule| self.ledger.own_digests.has(tunnel, rule));
            if edited.refused.is_empty() {
                return (sent, edited);
            }
            let refused = edited.refused.iter().filter_map(|(index, refusal)| {
                Some((*sent.get(*index)?, Reason::RuleConflict(refusal.clone())))
            });
            let refused: Vec<(Piece<'a>, Reason)> = refused.collect();
            self.ledger.give_up_refused(&refused);
            sent.retain(|piece| !self.ledger.is_given_up(piece.host));
        }
    }

    /// Gives up the hostnames whose comment would lose a dangling digest, if a tunnel has a missed rule or cannot be
    /// read.
    pub(super) fn give_up_missed(&mut self, hosts: &[&'a HostPlan]) {
        let mut hosts = hosts.to_vec();
        hosts.retain(|host| {
            !host.removed_dangling.is_empty()
                && !host.operations_after.is_empty()
                && !self.ledger.is_given_up(host)
        });
        if hosts.is_empty() {
            return;
        }
        for tunnel in self.snapshot.tunnels.keys() {
            let (reason, missed) = match read_document(self.context, tunnel) {
                Ok((document, _)) => (missed_rule(tunnel), Some(self.plan.missed_in(tunnel, &document))),
                // A tunnel that cannot be read may have a missed rule of any hostname.
                Err(Stop::Target(reason)) => (reason, None),
                Err(Stop::Run(error)) => (unreadable(tunnel, &error), None),
            };
            for host in &hosts {
                if missed.as_ref().is_none_or(|names| names.contains(&host.hostname)) {
                    self.ledger.give_up(host, reason.clone());
                }
            }
        }
    }
}

/// Writes the document of a tunnel back unchanged. `Ok` if the tunnel has no rules, or accepted or rejected the
/// document; otherwise the reason why the write failed. `None` if nothing was learned about the tunnel: the document
/// could not be read, or no time or no calls were left.
pub(crate) fn probe_tunnel(context: CallContext<'_>, tunnel: &TunnelId) -> Option<Result<(), Reason>> {
    let (document, version) = read_document(context, tunnel).ok()?;
    // If a file configures the tunnel, an empty list would replace its whole configuration.
    if document.rules().is_empty() {
        return Some(Ok(()));
    }
    context.check_time().ok()?;
    match put_document(context, tunnel, &document, version) {
        // A refusal of the content is handled when the edits are sent.
        Ok(()) | Err(Error::Rejected(_)) => Some(Ok(())),
        Err(error) if error.ends_run() => None,
        Err(error) => {
            Some(Err(write_failed(WriteTarget::Tunnel(tunnel), ("tunnel", tunnel.as_str()), &error)))
        }
    }
}

/// Reads a tunnel's document with its version. Only a lack of time or calls ends the run; other failures concern this
/// tunnel only.
fn read_document(context: CallContext<'_>, tunnel: &TunnelId) -> Result<(Document, i64), Stop> {
    let (backend, account) = (&context.provider.backend, &context.setup.account);
    match backend.configuration(account, tunnel, context.deadline) {
        Ok(Answer { content: (document, read), old: None }) => Ok((document, read.version)),
        Ok(Answer { content: _, old: Some(text) }) => Err(Stop::Target(Reason::Waiting(text))),
        Err(error) if error.ends_run() => Err(Stop::Run(error)),
        Err(error) => Err(Stop::Target(unreadable(tunnel, &error))),
    }
}

/// Writes a document in place of the version that was read.
fn put_document(
    context: CallContext<'_>,
    tunnel: &TunnelId,
    document: &Document,
    version_before: i64,
) -> Result<(), Error> {
    let CallContext { provider, setup: Setup { account, settings }, deadline } = context;
    let written = context.client().put_configuration(account, tunnel, &document.to_raw(), deadline)?;
    let name = settings.name_of(tunnel);
    provider.metrics.update().set(Family::ConfigurationVersion, &[name], written.version);
    if version_before >= 0 && written.version > version_before + 1 {
        warn!(
            tunnel:%;
            "another writer changed the configuration between our read (version {version_before}) and our \
             write (version {}); the other writer's change may be lost: look at the tunnel's rules, and let \
             one program write them",
            written.version
        );
        provider.metrics.update().add(Family::LostUpdates, &[], 1);
    }
    provider.backend.newest().remember_configuration(tunnel, &written, context.now());
    Ok(())
}

fn unreadable(tunnel: &TunnelId, cause: &Error) -> Reason {
    Reason::Waiting(format!("the configuration of tunnel {tunnel} cannot be read: {cause}"))
}

fn missed_rule(tunnel: &TunnelId) -> Reason {
    Reason::Waiting(format!(
        "tunnel {tunnel} has a rule of this hostname that the plan did not know: the record and its comment \
         stay, and the next loop plans anew"
    ))
}
