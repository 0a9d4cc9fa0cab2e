//! `tunnel`: finds the first tunnel of `CF_TUNNEL_ID`, makes it if that is a name that no tunnel has, and writes its
//! run token into a file for cloudflared.
//!
//! It can run any number of times, also at once: an account has one tunnel of a name. It ends with an error wherever
//! there is a doubt, so that cloudflared is not started then.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use miniserde::{Serialize, json};

use super::{Report, table};
use crate::clock::{Clock, Deadline};
use crate::cloudflare::{Client, ConfigSource, Error, RunToken, Tunnel, is_name_taken};
use crate::model::AccountId;
use crate::provider::{
    FindTunnelError, ProviderSettings, Unresolved, check_token, find_tunnel, shared_account,
};
use crate::regular_file;

/// The time for a tunnel to show up that is known, or suspected, to have been made a moment ago.
const NEW_TUNNEL_TIMEOUT: Duration = Duration::from_secs(30);

/// The first pause before looking again for such a tunnel. It doubles up to `NEW_TUNNEL_PAUSE_MAX`.
const NEW_TUNNEL_PAUSE: Duration = Duration::from_millis(500);

const NEW_TUNNEL_PAUSE_MAX: Duration = Duration::from_secs(4);

/// The mode of the token's file if none is given: its owner may read it.
const TOKEN_FILE_MODE_DEFAULT: u32 = 0o400;

/// The bits that the mode may have: reading and writing by owner and group.
const TOKEN_FILE_MODE_MAX: u32 = 0o660;

/// The file for a tunnel's run token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
    mode: u32,
}

impl TokenFile {
    /// Reads `--token-file` and `--token-file-mode`; `None` if no file is asked for.
    ///
    /// # Errors
    /// When the path is none, when the mode is not octal or lets others than owner and group read the token, or when
    /// there is a mode without a file.
    pub fn parse(path: Option<&str>, mode: Option<&str>) -> Result<Option<Self>, String> {
        let Some(path) = path else {
            return match mode {
                Some(_) => Err("--token-file-mode goes with --token-file".to_owned()),
                None => Ok(None),
            };
        };
        if matches!(path, "" | "-") {
            return Err("--token-file takes the path of a file: the token is never printed".to_owned());
        }
        let mode = mode.map_or(Ok(TOKEN_FILE_MODE_DEFAULT), |mode| {
            let digits = !mode.is_empty() && mode.bytes().all(|byte| byte.is_ascii_digit());
            let bits = u32::from_str_radix(mode, 8).ok().filter(|_| digits);
            bits.filter(|bits| bits & 0o400 != 0 && bits & !TOKEN_FILE_MODE_MAX == 0).ok_or(
                "--token-file-mode takes an octal mode with which the owner, and nobody but owner and group, reads the \
                 file, such as 0400 or 0440",
            )
        })?;
        Ok(Some(Self { path: path.into(), mode }))
    }
}

/// The tunnel, and what was done.
#[derive(Debug)]
pub(super) struct Outcome {
    tunnel: Tunnel,
    /// This run has made it.
    is_new: bool,
    token_file: Option<PathBuf>,
}

#[derive(Serialize)]
struct WireOutcome<'a> {
    id: &'a str,
    name: &'a str,
    new: bool,
    token_file: Option<String>,
}

pub(super) fn report(outcome: &Outcome, json: bool) -> Report {
    let Outcome { tunnel: Tunnel { id, name, .. }, is_new, token_file } = outcome;
    let token_file = token_file.as_ref().map(|path| path.display().to_string());
    let text = if json {
        let mut text = json::to_string(&WireOutcome { id: id.as_str(), name, new: *is_new, token_file });
        text.push('\n');
        text
    } else {
        let how = if *is_new { "made now" } else { "found" };
        let token_file = token_file.unwrap_or_default();
        let rows = [("tunnel", &**name), ("id", id.as_str()), ("state", how), ("token file", &token_file)];
        table::render(&rows.map(|(what, value)| vec![what.to_owned(), value.to_owned()]))
    };
    Report { text, is_well: true }
}

/// Finds or makes the tunnel, and writes its token if `file` is given.
///
/// # Errors
/// The reason, with what to do. No file was written then.
pub(super) fn tunnel(
    client: &Client,
    clock: &dyn Clock,
    settings: &ProviderSettings,
    file: Option<&TokenFile>,
    deadline: Deadline,
) -> Result<Outcome, String> {
    check_token(client, settings, deadline).map_err(explained)?;
    let account = match &settings.account {
        Some(account) => account.clone(),
        None => shared_account(&client.zones(deadline).map_err(failed)?, settings)?,
    };
    let wanted = settings.tunnels.first().ok_or("CF_TUNNEL_ID is empty")?;
    let search = Search { client, clock, account, wanted, deadline };
    let (tunnel, is_new) = search.find_or_make(settings.dry_run)?;
    if let Some(TokenFile { path, mode }) = file {
        let token = search.run_token(&tunnel)?;
        regular_file::replace(path, token.expose().as_bytes(), *mode)
            .map_err(|error| unwritable(path, &error))?;
    }
    Ok(Outcome { tunnel, is_new, token_file: file.map(|file| file.path.clone()) })
}

fn explained(problem: Unresolved) -> String {
    format!("{problem}; {}", problem.remedy())
}

fn failed(error: Error) -> String {
    explained(Unresolved::Cloudflare(error))
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::NotFound => "; make its folder first",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; its folder has to be writable for the user that this runs as"
        }
        _ => "",
    };
    format!("--token-file {}: {error}{remedy}", path.display())
}

/// The tunnel of that name or id if the account has it, and `None` if it may be made.
///
/// # Errors
/// The reason why it can neither be used nor made.
fn existing(present: &[Tunnel], wanted: &str) -> Result<Option<Tunnel>, String> {
    match find_tunnel(present, wanted) {
        Ok(tunnel) => suitable(tunnel.clone()).map(Some),
        Err(problem @ FindTunnelError::Ambiguous { .. }) => Err(problem.to_string()),
        Err(FindTunnelError::Missing { .. }) if looks_like_id(wanted) => {
            Err(format!("no tunnel has the id {wanted:?}; to have one made, name it"))
        }
        Err(FindTunnelError::Missing { .. }) if wanted.chars().any(char::is_control) => {
            Err(format!("{wanted:?} has a control character, so no tunnel is made of that name"))
        }
        Err(FindTunnelError::Missing { .. }) => {
            // Whoever typed one meant the other.
            let folded = |name: &str| name.trim().to_lowercase();
            let mut present = present.iter().filter(|tunnel| !tunnel.deleted);
            match present.find(|tunnel| folded(&tunnel.name) == folded(wanted)) {
                Some(Tunnel { name, id, .. }) => Err(format!(
                    "there is no tunnel {wanted:?}, but {name:?}: use its id {id}, or choose a name that differs in \
                     more than capitals"
                )),
                None => Ok(None),
            }
        }
    }
}

/// The tunnel, unless a file beside its cloudflared configures it. A cloudflared that runs with the token takes its
/// rules from Cloudflare, where such a tunnel has none, and it gets a share of the visitors.
fn suitable(tunnel: Tunnel) -> Result<Tunnel, String> {
    match tunnel.config_src {
        ConfigSource::Cloudflare => Ok(tunnel),
        ConfigSource::Local => Err(format!(
            "tunnel {:?} ({}) is configured by a file beside its cloudflared: migrate it in the dashboard, or choose \
             another name",
            tunnel.name, tunnel.id
        )),
    }
}

/// True for what cloudflared takes for a UUID instead of a name: also without hyphens, in braces, or as a URN.
fn looks_like_id(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("urn:uuid:").unwrap_or(&name);
    let digits = name.trim_matches(|character: char| !character.is_ascii_hexdigit()).replace('-', "");
    digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The search for one tunnel.
struct Search<'a> {
    client: &'a Client,
    clock: &'a dyn Clock,
    account: AccountId,
    /// The name or id.
    wanted: &'a str,
    deadline: Deadline,
}

impl Search<'_> {
    /// The tunnel, and true if this has made it.
    fn find_or_make(&self, is_dry_run: bool) -> Result<(Tunnel, bool), String> {
        if let Some(tunnel) = self.look()? {
            return Ok((tunnel, false));
        }
        if is_dry_run {
            return Err(format!("DRY_RUN is set, so the tunnel {:?} is not made", self.wanted));
        }
        let error = match self.client.create_tunnel(&self.account, self.wanted, self.deadline) {
            Ok(tunnel) => return Ok((suitable(tunnel)?, true)),
            Err(error) => error,
        };
        let is_taken = is_name_taken(&error);
        if !is_taken && !error.may_have_been_done() {
            return Err(failed(error));
        }
        let found = self.until_there(|| self.look())?;
        found.map(|tunnel| (tunnel, false)).ok_or_else(|| {
            if is_taken {
                format!(
                    "{error}; but account {} lists none called {:?}: a WARP Connector may have the name, or somebody \
                     may be deleting it; try again, or choose another name",
                    self.account, self.wanted
                )
            } else {
                failed(error)
            }
        })
    }

    fn look(&self) -> Result<Option<Tunnel>, String> {
        let present = self.client.tunnels(&self.account, self.deadline).map_err(failed)?;
        existing(&present, self.wanted)
            .map_err(|problem| format!("CF_TUNNEL_ID: {problem} (account {})", self.account))
    }

    /// The token of a tunnel that may have been made a moment ago.
    fn run_token(&self, tunnel: &Tunnel) -> Result<RunToken, String> {
        let Tunnel { id, name, .. } = tunnel;
        let token = self
            .until_there(|| match self.client.run_token(&self.account, id, self.deadline) {
                Err(Error::NotFound(_)) => Ok(None),
                outcome => outcome.map(Some),
            })
            .map_err(|error| format!("the run token of tunnel {name:?}: {}", failed(error)))?;
        token.ok_or_else(|| format!("Cloudflare has no run token of tunnel {name:?} yet; try again"))
    }

    /// Looks again, at ever longer intervals, until something is there or `NEW_TUNNEL_TIMEOUT` is over.
    fn until_there<T, E>(&self, mut look: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
        let patience = Deadline::after(self.clock, NEW_TUNNEL_TIMEOUT);
        let mut pause = NEW_TUNNEL_PAUSE;
        loop {
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            let left = patience.remaining(self.clock).min(self.deadline.remaining(self.clock));
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

    fn tunnel(name: &str, config_src: ConfigSource, deleted: bool) -> Tunnel {
        Tunnel { id: TunnelId::parse(ID).unwrap(), name: name.into(), config_src, deleted }
    }

    #[test]
    fn a_tunnel_is_used_made_or_refused() {
        let urn = format!("urn:uuid:{ID}");
        let other = ID.replace('6', "7");
        for (label, present, wanted, expected) in [
            ("its name", tunnel("home", ConfigSource::Cloudflare, false), "home", Ok(true)),
            ("its id", tunnel("home", ConfigSource::Cloudflare, false), ID, Ok(true)),
            (
                "its id in capitals",
                tunnel("home", ConfigSource::Cloudflare, false),
                &ID.to_uppercase(),
                Ok(true),
            ),
            ("another name", tunnel("home", ConfigSource::Cloudflare, false), "office", Ok(false)),
            ("a near name", tunnel("home", ConfigSource::Cloudflare, false), "home2", Ok(false)),
            ("deleted", tunnel("home", ConfigSource::Cloudflare, true), "home", Ok(false)),
            ("a file's", tunnel("home", ConfigSource::Local, false), "home", Err("migrate it")),
            ("a file's, by its id", tunnel("home", ConfigSource::Local, false), ID, Err("migrate it")),
            ("other capitals", tunnel("Home", ConfigSource::Cloudflare, false), "hOme", Err("\"Home\"")),
            ("a blank more", tunnel("home ", ConfigSource::Cloudflare, false), "home", Err("\"home \"")),
            ("no id", tunnel("home", ConfigSource::Cloudflare, false), &other, Err("name it")),
            ("a URN", tunnel("home", ConfigSource::Cloudflare, false), &urn, Err("name it")),
            ("two lines", tunnel("home", ConfigSource::Cloudflare, false), "a\nb", Err("control")),
        ] {
            match (existing(&[present], wanted), expected) {
                (Ok(found), Ok(is_there)) => assert_eq!(found.is_some(), is_there, "{label}"),
                (Err(problem), Err(part)) => assert!(problem.contains(part), "{label}: {problem}"),
                (outcome, _) => panic!("{label}: {outcome:?}"),
            }
        }
        let twins = ["home", ID].map(|name| tunnel(name, ConfigSource::Cloudflare, false));
        assert!(existing(&twins, ID).unwrap_err().contains("several"));
    }

    #[test]
    fn what_cloudflared_takes_for_an_id_is_no_name() {
        let bare = ID.replace('-', "");
        for (name, expected) in [
            (ID, true),
            (&*ID.to_uppercase(), true),
            (&*bare, true),
            (&*format!("{{{ID}}}"), true),
            (&*format!("URN:UUID:{ID}"), true),
            (&*format!("{ID}0"), false),
            (&*format!("home-{bare}"), false),
            ("home", false),
            ("deadbeef", false),
            ("", false),
        ] {
            assert_eq!(looks_like_id(name), expected, "{name}");
        }
    }

    #[test]
    fn the_file_of_a_token_is_for_owner_and_group_alone() {
        for (mode, expected) in [
            (None, Some(0o400)),
            (Some("0400"), Some(0o400)),
            (Some("440"), Some(0o440)),
            (Some("0600"), Some(0o600)),
            (Some("0660"), Some(0o660)),
            (Some("0444"), None),
            (Some("0404"), None),
            (Some("0040"), None),
            (Some("0200"), None),
            (Some("0700"), None),
            (Some("04400"), None),
            (Some("0o400"), None),
            (Some("+400"), None),
            (Some("256"), None),
            (Some("0x100"), None),
            (Some("r--------"), None),
            (Some(""), None),
        ] {
            let read = TokenFile::parse(Some("/run/token"), mode).map(|file| file.unwrap().mode).ok();
            assert_eq!(read, expected, "{mode:?}");
        }
        assert_eq!(TokenFile::parse(None, None), Ok(None));
        for (path, mode) in [(Some(""), None), (Some("-"), None), (None, Some("0400"))] {
            assert!(TokenFile::parse(path, mode).is_err(), "{path:?} {mode:?}");
        }
    }
}
