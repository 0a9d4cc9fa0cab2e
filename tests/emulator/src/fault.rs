//! What goes wrong, and when: faults and edits by others at chosen calls.

use std::fmt;
use std::time::Duration;

use crate::answer::{Answer, Refusal};
use crate::cloudflare::Cloudflare;

/// Which calls are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    kind: Kind,
    /// `None` for any path.
    segments: Option<Vec<String>>,
    /// `None` for any body.
    body: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Any,
    Reads,
    Writes,
    Method(String),
}

impl Matcher {
    /// Every call.
    pub fn any() -> Self {
        Self { kind: Kind::Any, segments: None, body: None }
    }

    /// Every GET.
    pub fn reads() -> Self {
        Self { kind: Kind::Reads, segments: None, body: None }
    }

    /// Every call that asks for a change.
    pub fn writes() -> Self {
        Self { kind: Kind::Writes, segments: None, body: None }
    }

    /// Calls with this method and a path below the base URL, in which `*` stands for one segment and a `**` at the
    /// end for any number: `Matcher::call("GET", "/zones/*/dns_records")`. The method `*` is any.
    pub fn call(method: &str, path: &str) -> Self {
        let kind = if method == "*" { Kind::Any } else { Kind::Method(method.to_owned()) };
        let segments = path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        Self { kind, segments: Some(segments), body: None }
    }

    /// `POST` of a tunnel.
    pub fn create_tunnel() -> Self {
        Self::call("POST", "/accounts/*/cfd_tunnel")
    }

    /// `GET` of a tunnel's tunnel token, any tunnel's.
    pub fn get_run_token() -> Self {
        Self::call("GET", "/accounts/*/cfd_tunnel/*/token")
    }

    /// `PUT` of a tunnel's configuration, any tunnel's; with a tunnel's id in the path of [`Matcher::call`], of that
    /// one.
    pub fn put_configuration() -> Self {
        Self::call("PUT", "/accounts/*/cfd_tunnel/*/configurations")
    }

    /// `GET` of a tunnel's configuration, any tunnel's.
    pub fn get_configuration() -> Self {
        Self::call("GET", "/accounts/*/cfd_tunnel/*/configurations")
    }

    /// `GET` of a page of a zone's records, any zone's.
    pub fn list_records() -> Self {
        Self::call("GET", "/zones/*/dns_records")
    }

    /// `POST` of a batch, any zone's.
    pub fn batch() -> Self {
        Self::call("POST", "/zones/*/dns_records/batch")
    }

    /// `GET` of an Access organization.
    pub fn get_organization() -> Self {
        Self::call("GET", "/*/*/access/organizations")
    }

    /// `GET` of a page of reusable policies.
    pub fn list_policies() -> Self {
        Self::call("GET", "/accounts/*/access/policies")
    }

    /// `POST` of a tag.
    pub fn create_tag() -> Self {
        Self::call("POST", "/accounts/*/access/tags")
    }

    /// `GET` of a page of applications, any account's.
    pub fn list_applications() -> Self {
        Self::call("GET", "/accounts/*/access/apps")
    }

    /// `GET` of a page of a zone's own applications, any zone's.
    pub fn list_zone_applications() -> Self {
        Self::call("GET", "/zones/*/access/apps")
    }

    /// `POST` of an application, any account's or zone's.
    pub fn create_application() -> Self {
        Self::call("POST", "/*/*/access/apps")
    }

    /// `PUT` of an application, any account's or zone's.
    pub fn put_application() -> Self {
        Self::call("PUT", "/*/*/access/apps/*")
    }

    /// `DELETE` of an application, any account's or zone's.
    pub fn delete_application() -> Self {
        Self::call("DELETE", "/*/*/access/apps/*")
    }

    /// Of these calls those whose body contains the text, as a proxy chooses that looks into them.
    pub fn with_body(self, text: &str) -> Self {
        Self { body: Some(text.to_owned()), ..self }
    }

    fn matches(&self, method: &str, path: &str, body: &str) -> bool {
        let is_read = matches!(method, "GET" | "HEAD");
        let kind = match &self.kind {
            Kind::Any => true,
            Kind::Reads => is_read,
            Kind::Writes => !is_read,
            Kind::Method(wanted) => wanted == method,
        };
        kind && self.segments.as_ref().is_none_or(|segments| path_matches(segments, path))
            && self.body.as_ref().is_none_or(|text| body.contains(text))
    }
}

fn path_matches(pattern: &[String], path: &str) -> bool {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    for wanted in pattern {
        match (wanted.as_str(), segments.next()) {
            ("**", _) => return true,
            (_, None) => return false,
            ("*", Some(_)) => {}
            (wanted, Some(segment)) if wanted == segment => {}
            _ => return false,
        }
    }
    segments.next().is_none()
}

/// What goes wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done; this is answered.
    Status {
        /// HTTP status.
        code: u16,
        /// Headers of the answer, `retry-after` for one.
        headers: Vec<(String, String)>,
        /// Body of the answer, to the byte.
        body: String,
    },
    /// The call is done, its answer comes so much later. With a stopped clock that time passes at once.
    Delay(Duration),
    /// Nothing is done and nothing answered, until [`Emulator::release`](crate::Emulator::release) or the end of the
    /// emulator closes the connection.
    Hang,
    /// Nothing is done, the connection is reset.
    Reset,
    /// The call is done; the first half of the answer's body comes, then the connection is closed.
    Truncated,
    /// Nothing is done; a page of HTML comes with status 200, as from a captive portal.
    Garbage,
    /// The call is done, the connection is closed without an answer.
    DoneButUnanswered,
    /// The call is done, then this goes wrong with its answer.
    DoneBut(Box<Self>),
    /// The answer to a read is old, and well-formed: it shows what it is about as that was so many of its own writes
    /// ago. That is a tunnel's configuration with its version, what a tunnel's connectors have applied, a page of a
    /// zone's records, or applications: the list, or one by its id, as the matcher chooses. Before the first write
    /// stands what was there when [`Cloudflare::keep_past`] began to keep it, which has to be called before; nothing is
    /// older. Any other call is answered as ever.
    Old {
        /// Counted back from now, whether clients or others made them; `usize::MAX` shows what was there at first.
        writes: usize,
    },
    /// The call is done; in its answer this member of the result has another value than the true one, as
    /// `Fault::says("config", "null")`.
    Says {
        /// A member that is there.
        member: String,
        /// JSON text.
        value: String,
    },
    /// This fault (an old answer, or one that contradicts itself) where its client can tell: an answer told it of
    /// something newer, or of what is left out. For a tunnel any answer counts, for a list only the answer to a write
    /// of its own in the last two minutes. Calls at which it cannot tell are not counted. See [`Cloudflare::call_as`].
    Known(Box<Self>),
    /// This old answer where there is something newer, and its client cannot tell. Other calls are not counted.
    Unknown(Box<Self>),
}

impl Fault {
    /// An answer of this status with an empty body, as from a proxy before the API.
    pub fn status(code: u16) -> Self {
        Self::Status { code, headers: Vec::new(), body: String::new() }
    }

    /// An answer of this status in the API's envelope.
    pub fn error(status: u16, code: u32, message: &str) -> Self {
        let Answer { status, headers, body } = Refusal::new(status, code, message).into_answer();
        Self::Status { code: status, headers, body }
    }

    /// 429 with `retry-after` and an empty body.
    pub fn limited(retry_after_seconds: u64) -> Self {
        let headers = vec![("retry-after".to_owned(), retry_after_seconds.to_string())];
        Self::Status { code: 429, headers, body: String::new() }
    }

    /// See [`Fault::Says`].
    pub fn says(member: &str, value: &str) -> Self {
        Self::Says { member: member.to_owned(), value: value.to_owned() }
    }

    /// [`Fault::Known`] of an old answer.
    pub fn known_old(writes: usize) -> Self {
        Self::Known(Box::new(Self::Old { writes }))
    }

    /// Whether it needs the past.
    pub(crate) fn needs_past(&self) -> bool {
        matches!(self, Self::Old { .. } | Self::Known(_) | Self::Unknown(_))
    }

    /// Whether the client gets the answer of the call itself.
    pub(crate) fn is_told(&self) -> bool {
        matches!(self, Self::Delay(_) | Self::Old { .. } | Self::Says { .. })
    }

    /// Whether the call is done all the same.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Status { .. } | Self::Hang | Self::Reset | Self::Garbage => false,
            Self::Known(fault) | Self::Unknown(fault) => fault.is_done(),
            Self::Delay(_)
            | Self::Truncated
            | Self::DoneButUnanswered
            | Self::DoneBut(_)
            | Self::Old { .. }
            | Self::Says { .. } => true,
        }
    }
}

/// An edit by another client or person.
pub(crate) type Edit = Box<dyn FnOnce(&mut Cloudflare) + Send>;

/// What another client does.
pub(crate) type Visit = Box<dyn FnOnce() + Send>;

/// What happens at a call that was waited for.
pub(crate) enum Effect {
    Fault(Fault),
    RunBefore(u64, Visit),
    EditBefore(Edit),
    EditAfter(Edit),
}

/// At which of the matching calls. Only faults can be due at more than one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// The n-th from now, from 1.
    Nth(usize),
    Always,
    /// The n-th from now, from 1, and all in so long a time after it.
    From {
        nth: usize,
        lasting: Duration,
    },
    /// All up to this time, without it.
    Until(Duration),
}

struct Armed {
    matcher: Matcher,
    when: When,
    effect: Effect,
}

/// Everything that waits for its call.
#[derive(Default)]
pub(crate) struct Faults {
    armed: Vec<Armed>,
}

/// What is due at one call.
#[derive(Default)]
pub(crate) struct Due {
    pub(crate) fault: Option<Fault>,
    /// Each with the number of its client.
    pub(crate) runs_before: Vec<(u64, Visit)>,
    pub(crate) edits_before: Vec<Edit>,
    pub(crate) edits_after: Vec<Edit>,
}

impl Faults {
    /// Waits for matching calls.
    pub(crate) fn arm(&mut self, matcher: Matcher, when: When, effect: Effect) {
        self.armed.push(Armed { matcher, when, effect });
    }

    /// Counts a call, and hands out what is due at it; `can_act` says at which calls a fault counts that depends on
    /// what its client knows. Of several faults the one armed first acts; the others are spent too.
    pub(crate) fn due(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
        now: Duration,
        can_act: impl Fn(&Fault) -> bool,
    ) -> Due {
        let mut due = Due::default();
        let mut waiting = Vec::new();
        for mut armed in std::mem::take(&mut self.armed) {
            let is_meant = armed.matcher.matches(method, path, body)
                && !matches!(&armed.effect, Effect::Fault(fault) if !can_act(fault));
            if !is_meant {
                waiting.push(armed);
                continue;
            }
            match &mut armed.when {
                When::Nth(nth) | When::From { nth, lasting: _ } if *nth > 1 => {
                    *nth -= 1;
                    waiting.push(armed);
                    continue;
                }
                When::Until(end) if *end <= now => continue,
                When::From { nth: _, lasting } => armed.when = When::Until(now + *lasting),
                When::Nth(_) | When::Always | When::Until(_) => {}
            }
            match armed.effect {
                Effect::Fault(fault) => {
                    due.fault.get_or_insert_with(|| match &fault {
                        Fault::Known(fault) | Fault::Unknown(fault) => (**fault).clone(),
                        _ => fault.clone(),
                    });
                    if !matches!(armed.when, When::Nth(_)) {
                        waiting.push(Armed { effect: Effect::Fault(fault), ..armed });
                    }
                }
                Effect::RunBefore(client, run) => due.runs_before.push((client, run)),
                Effect::EditBefore(edit) => due.edits_before.push(edit),
                Effect::EditAfter(edit) => due.edits_after.push(edit),
            }
        }
        self.armed = waiting;
        due
    }

    /// How many still wait for their call.
    pub(crate) fn waiting(&self) -> usize {
        self.armed.len()
    }

    pub(crate) fn clear(&mut self) {
        self.armed.clear();
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.armed.iter().map(|armed| (&armed.matcher, armed.when));
        formatter.debug_list().entries(waiting).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_segment_and_two_for_the_rest() {
        let matcher = Matcher::list_records();
        assert!(matcher.matches("GET", "/zones/z/dns_records", ""));
        assert!(!matcher.matches("POST", "/zones/z/dns_records", ""));
        assert!(!matcher.matches("GET", "/zones/z/dns_records/r", ""));
        assert!(Matcher::call("*", "/zones/**").matches("POST", "/zones/z/dns_records/batch", ""));
    }

    #[test]
    fn a_text_chooses_among_the_bodies() {
        let matcher = Matcher::batch().with_body("bad");
        assert!(matcher.matches("POST", "/zones/z/dns_records/batch", r#"{"name":"bad"}"#));
        assert!(!matcher.matches("POST", "/zones/z/dns_records/batch", r#"{"name":"good"}"#));
    }
}
