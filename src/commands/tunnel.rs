//! `tunnel`: finds the first tunnel of `CF_TUNNEL_ID`, or creates a tunnel of that name if the account has none, and
//! writes the tunnel token into a file for cloudflared.
//!
//! The command may run repeatedly and in parallel, because an account has only one tunnel of a name. In doubt, it ends
//! with an error, so that cloudflared is not started.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use miniserde::Serialize;

use super::Report;
use super::table;
use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, Error, Tunnel};
use crate::model::AccountId;
use crate::observe::readiness::SetupProblem;
use crate::provider::ProviderSettings;
use crate::provider::setup::{check_may_be_created, find_tunnel, shared_account, unverified};
use crate::regular_file;
use crate::secret::Secret;

/// The time to wait for Cloudflare to show a tunnel that was just made, or may have been just made.
const NEW_TUNNEL_TIMEOUT: Duration = Duration::from_secs(30);

/// The first pause before looking again for such a tunnel. The pause doubles up to `NEW_TUNNEL_PAUSE_MAX`.
const NEW_TUNNEL_PAUSE: Duration = Duration::from_millis(500);

const NEW_TUNNEL_PAUSE_MAX: Duration = Duration::from_secs(4);

/// The largest size of a file with a tunnel token. A tunnel token has some 200 bytes.
const TUNNEL_TOKEN_MAX_BYTES: u64 = 4 * 1024;

/// The beginning of each tunnel token, which is base64 of a JSON object.
const TUNNEL_TOKEN_PREFIX: &str = "eyJ";

/// The mode of the token's file: only its owner may read it.
const TOKEN_FILE_MODE: u32 = 0o400;

pub(super) enum Outcome {
    Ready(Ready),
    /// The tunnel is missing, and a dry run does not create it. The text says so.
    NotCreated(String),
}

/// The tunnel, and what was done.
#[derive(Debug, Serialize)]
pub(super) struct Ready {
    id: String,
    name: String,
    /// True if this run created the tunnel.
    new: bool,
    token_file: Option<String>,
}

pub(super) fn report(ready: &Ready, json: bool) -> Report {
    if json {
        return Report::json(ready, true);
    }
    let Ready { id, name, new, token_file } = ready;
    let how = if *new { "created" } else { "found" };
    let token_file = token_file.as_deref().unwrap_or_default();
    let rows = [("tunnel", &**name), ("id", id), ("state", how), ("token file", token_file)];
    let rows = rows.map(|(what, value)| vec![what.to_owned(), value.to_owned()]);
    Report { text: table::render(&rows), is_success: true }
}

/// Finds or creates the tunnel, and writes its tunnel token if `token_file` is given.
///
/// # Errors
/// The reason and the remedy. No file was written then.
pub(super) fn tunnel(
    client: &Client,
    clock: &dyn Clock,
    settings: &ProviderSettings,
    token_file: Option<&Path>,
    deadline: Deadline,
) -> Result<Outcome, String> {
    if let Some(path) = token_file {
        check_replaceable(path)?;
    }
    client
        .verify_token(settings.account.as_ref(), deadline)
        .map_err(|error| unverified(error).to_string())?;
    let account = match &settings.account {
        Some(account) => account.clone(),
        None => shared_account(&client.zones(deadline).map_err(failed)?, settings)
            .map_err(|problem| problem.to_string())?,
    };
    let wanted = settings.tunnels.first().expect("the configuration names a tunnel");
    let search = Search { client, clock, account, wanted, deadline };
    let (tunnel, new) = match search.look()? {
        Some(tunnel) => (tunnel, false),
        None if settings.dry_run => {
            let text = format!("DRY_RUN is set, so the tunnel {wanted:?} is not created");
            return Ok(Outcome::NotCreated(text));
        }
        None => search.create()?,
    };
    if let Some(path) = token_file {
        let token = search.tunnel_token(&tunnel)?;
        regular_file::replace(path, token.expose().as_bytes(), TOKEN_FILE_MODE)
            .map_err(|error| unwritable(path, &error))?;
    }
    let token_file = token_file.map(|path| path.display().to_string());
    Ok(Outcome::Ready(Ready { id: tunnel.id.to_string(), name: tunnel.name.into(), new, token_file }))
}

fn failed(error: Error) -> String {
    SetupProblem::from(error).to_string()
}

/// Refuses to replace a file that holds anything but blanks or a tunnel token, such as the file of the API token.
fn check_replaceable(path: &Path) -> Result<(), String> {
    let contents = match regular_file::read(path, TUNNEL_TOKEN_MAX_BYTES) {
        Ok(contents) => contents,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unwritable(path, &error)),
    };
    let text = contents.trim_ascii();
    // A token of another program may begin so too, with a dot behind its first part.
    let is_tunnel_token = text.starts_with(TUNNEL_TOKEN_PREFIX.as_bytes()) && !text.contains(&b'.');
    if text.is_empty() || is_tunnel_token {
        return Ok(());
    }
    Err(format!(
        "--token-file {}: the file holds something other than a tunnel token; name another file",
        path.display()
    ))
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::NotFound => "; create its folder first",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; the webhook's user has to read the file and write to its folder"
        }
        _ => "",
    };
    format!("--token-file {}: {error}{remedy}", path.display())
}

/// Finds the tunnel with the name or id `wanted`; `None` if the tunnel is missing and may be made.
///
/// # Errors
/// The reason why the tunnel can neither be used nor made.
fn existing(present: &[Tunnel], wanted: &str) -> Result<Option<Tunnel>, String> {
    match find_tunnel(present, wanted)? {
        // A cloudflared with the tunnel token would take its rules from Cloudflare, where such a tunnel has none, and
        // would get a share of the visitors.
        Some(Tunnel { id, name, is_locally_managed: true, .. }) => Err(format!(
            "tunnel {name:?} ({id}) is configured by a file beside its cloudflared: migrate it in the dashboard, or \
             choose another name"
        )),
        found @ Some(_) => Ok(found.cloned()),
        None => check_may_be_created(present, wanted).map(|()| None),
    }
}

struct Search<'a> {
    client: &'a Client,
    clock: &'a dyn Clock,
    account: AccountId,
    /// The name or id.
    wanted: &'a str,
    deadline: Deadline,
}

impl Search<'_> {
    /// Creates the missing tunnel. The flag is true if Cloudflare confirmed that this call created it.
    fn create(&self) -> Result<(Tunnel, bool), String> {
        let answer = self.client.create_tunnel(&self.account, self.wanted, self.deadline);
        if let Ok(tunnel) = &answer
            && *tunnel.name == *self.wanted
            && !tunnel.deleted
            && !tunnel.is_locally_managed
        {
            return Ok((tunnel.clone(), true));
        }
        // Another process may have made the tunnel first, or the answer was lost.
        let is_taken = matches!(&answer, Err(Error::Rejected(answer)) if answer.is_name_taken());
        let problem = match answer {
            Ok(tunnel) => {
                format!("Cloudflare answered with another tunnel, {:?} ({})", tunnel.name, tunnel.id)
            }
            Err(error @ Error::Rejected(_)) if !is_taken => {
                return Err(format!("{error}; choose another name, or delete a tunnel that is not needed"));
            }
            Err(error) if is_taken => format!(
                "{error}; but account {} lists no tunnel called {:?}: a WARP Connector may have the name, \
                 or another process may be deleting it; try again, or choose another name",
                self.account, self.wanted
            ),
            Err(error) if error.may_have_been_done() => failed(error),
            Err(error) => return Err(failed(error)),
        };
        let found = self.until_there(|| self.look())?;
        found.map(|tunnel| (tunnel, false)).ok_or(problem)
    }

    fn look(&self) -> Result<Option<Tunnel>, String> {
        let present = self.client.tunnels(&self.account, self.deadline).map_err(failed)?;
        existing(&present, self.wanted)
            .map_err(|problem| format!("CF_TUNNEL_ID: {problem} (account {})", self.account))
    }

    /// Reads the tunnel token. If the tunnel is unknown, it looks again, because the tunnel may have been made just
    /// now.
    fn tunnel_token(&self, tunnel: &Tunnel) -> Result<Secret, String> {
        let Tunnel { id, name, .. } = tunnel;
        let mut last = None;
        let token = self.until_there(|| match self.client.tunnel_token(&self.account, id, self.deadline) {
            Err(error @ Error::NotFound(_)) => {
                last = Some(error);
                Ok(None)
            }
            outcome => outcome.map(Some),
        });
        let error = match token {
            Ok(Some(token)) => return Ok(token),
            Ok(None) => last.unwrap_or(Error::OutOfTime),
            Err(error) => error,
        };
        let problem = match error {
            Error::Unreadable(_) | Error::NotFound(_) => format!("{error}; try again"),
            error => failed(error),
        };
        Err(format!("the tunnel token of tunnel {name:?}: {problem}"))
    }

    /// Calls `look` at growing intervals until it finds something, or `NEW_TUNNEL_TIMEOUT` or the deadline is over.
    fn until_there<T, E>(&self, mut look: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
        let search_deadline = Deadline::after(self.clock, NEW_TUNNEL_TIMEOUT);
        let mut pause = NEW_TUNNEL_PAUSE;
        loop {
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            let left = search_deadline.remaining(self.clock).min(self.deadline.remaining(self.clock));
            if pause > left {
                return Ok(None);
            }
            self.clock.sleep(pause);
            pause = (pause * 2).min(NEW_TUNNEL_PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TunnelId;

    const ID: &str = "6ff42ae2-765d-4adf-8112-31c55c1551ef";

    fn tunnel(name: &str, is_locally_managed: bool) -> Tunnel {
        Tunnel { id: TunnelId::parse(ID).unwrap(), name: name.into(), is_locally_managed, deleted: false }
    }

    #[test]
    fn a_tunnel_is_used_made_or_refused() {
        let urn = format!("urn:uuid:{ID}");
        let other = ID.replace('6', "7");
        for (label, present, wanted, expected) in [
            ("its name", tunnel("home", false), "home", Ok(true)),
            ("its id", tunnel("home", false), ID, Ok(true)),
            ("its id in capitals", tunnel("home", false), &ID.to_uppercase(), Ok(true)),
            ("another name", tunnel("home", false), "office", Ok(false)),
            ("a near name", tunnel("home", false), "home2", Ok(false)),
            ("a file's", tunnel("home", true), "home", Err("migrate it")),
            ("a file's, by its id", tunnel("home", true), ID, Err("migrate it")),
            ("other capitals", tunnel("Home", false), "hOme", Err("\"Home\"")),
            ("a blank more", tunnel("home ", false), "home", Err("\"home \"")),
            ("no id", tunnel("home", false), &other, Err("looks like an id")),
            ("a URN", tunnel("home", false), &urn, Err("none is created")),
            ("two lines", tunnel("home", false), "a\nb", Err("none is created")),
        ] {
            match (existing(&[present], wanted), expected) {
                (Ok(found), Ok(is_there)) => assert_eq!(found.is_some(), is_there, "{label}"),
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{label}: {problem}"),
                (outcome, _) => panic!("{label}: {outcome:?}"),
            }
        }
        let twins = ["home", ID].map(|name| tunnel(name, false));
        assert!(existing(&twins, ID).unwrap_err().contains("several"));
    }
}
