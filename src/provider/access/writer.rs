//! Creates, replaces and deletes Access applications in parallel.

use serde_json::{Map, Value};

use crate::cloudflare::{Error, GIVE_ACCESS};
use crate::limits;
use crate::observe::metrics::Family;
use crate::provider::CallContext;
use crate::provider::memory::ApplicationWriteOutcome;
use crate::provider::report::describe_application;
use crate::reconcile::access::gate::{ApplicationOperation, ApplicationWrite};
use crate::reconcile::access::place;
use crate::reconcile::reason::Reason;

/// The reason why an application was not written.
pub(crate) enum NotWritten {
    /// No time or calls were left.
    NotTried,
    /// Cloudflare rejected the content.
    Rejected(Reason),
    /// The write failed for another reason than its content, and another attempt may succeed.
    Failed(Reason),
}

/// Writes applications while time and calls are left, and returns the result of each write.
pub(crate) fn write_applications(
    context: CallContext<'_>,
    writes: &[ApplicationWrite],
) -> Vec<Result<(), NotWritten>> {
    let needs_tag = !writes.iter().all(ApplicationWrite::is_deletion);
    let tagged = if needs_tag { ensure_application_tag(context) } else { Ok(()) };
    let tagged = tagged.map_err(|error| match &error {
        // Another instance may have created the tag, and lists may not show the tag yet.
        Error::Rejected(_) => Reason::Waiting(format!(
            "the webhook cannot confirm that the tag of its Access applications exists: {error}"
        )),
        error => reason_of(error),
    });
    // A write begins with `WRITE_TIME_MIN` left, or a quarter of the time if that is less: a short request sends some
    // too.
    let write_time_min = limits::WRITE_TIME_MIN.min(context.time_left() / 4);
    let (now, later) = writes.split_at(sendable_count(writes, context.client().calls_left()));
    let write_one = |write: &ApplicationWrite| match &tagged {
        Err(reason) if !write.is_deletion() => Err(NotWritten::Failed(reason.clone())),
        _ if context.time_left() < write_time_min => Err(NotWritten::NotTried),
        _ => write_application(context, write),
    };
    let results = context.provider.run_writes(|| context.in_parallel(now, write_one));
    results.into_iter().chain(later.iter().map(|_| Err(NotWritten::NotTried))).collect()
}

fn write_application(context: CallContext<'_>, write: &ApplicationWrite) -> Result<(), NotWritten> {
    let remember = |outcome| context.provider.backend.access.remember(&write.place, outcome, context.now());
    match send_application(context, write) {
        Ok(outcome) => {
            let was_missing = matches!(outcome, ApplicationWriteOutcome::Deleted(_)) && !write.is_deletion();
            remember(outcome);
            if was_missing {
                let text = "the Access application was deleted meanwhile";
                return Err(NotWritten::Failed(Reason::Waiting(text.to_owned())));
            }
            context.provider.log_change(write.operation.label_value(), &describe_application(write));
            if write.adopted.is_some() {
                context.provider.metrics.update().add(Family::Adoptions, &[], 1);
            }
            Ok(())
        }
        Err(error) => {
            if error.may_have_been_done() && matches!(write.operation, ApplicationOperation::Create(_)) {
                remember(ApplicationWriteOutcome::Unknown);
            }
            Err(match error {
                Error::Rejected(answer) if write.is_deletion() => {
                    let text = format!("the Access application stays: {answer}");
                    NotWritten::Rejected(Reason::Cloudflare(text))
                }
                Error::Rejected(answer) => {
                    let problem = "asks for an Access application that Cloudflare does not accept";
                    NotWritten::Rejected(Reason::AccessPolicy(format!("{problem}: {answer}")))
                }
                error => NotWritten::Failed(reason_of(&error)),
            })
        }
    }
}

fn send_application(
    context: CallContext<'_>,
    write: &ApplicationWrite,
) -> Result<ApplicationWriteOutcome, Error> {
    let (client, account) = (context.client(), &context.setup.account);
    let owner = &context.setup.settings.operator.owner;
    match &write.operation {
        ApplicationOperation::Create(wanted) => {
            let body = place::body(&write.place, wanted, owner, None);
            let created = client.create_access_application(account, &body, context.deadline);
            created.map(ApplicationWriteOutcome::Written)
        }
        ApplicationOperation::Replace(id, wanted) => {
            let Some(members) = client.access_application(account, id, context.deadline)? else {
                return Ok(ApplicationWriteOutcome::Deleted(id.clone()));
            };
            let inline = inline_policies(&members);
            let body = place::body(&write.place, wanted, owner, Some(members));
            let written = client.replace_access_application(account, id, &body, context.deadline);
            if written.as_ref().err().is_none_or(Error::was_probably_done) {
                for policy in &inline {
                    log::warn!(
                        hostname = write.place.hostname().as_str(), application = write.place.to_string(), policy;
                        "this inline policy of the Access application is deleted, because the endpoint \
                         does not name it"
                    );
                }
            }
            written.map(ApplicationWriteOutcome::Written)
        }
        ApplicationOperation::Delete(id) => {
            client.delete_access_application(account, id, context.deadline)?;
            Ok(ApplicationWriteOutcome::Deleted(id.clone()))
        }
    }
}

/// Creates the tag of our applications, unless the tag exists.
fn ensure_application_tag(context: CallContext<'_>) -> Result<(), Error> {
    let (client, account) = (context.client(), &context.setup.account);
    let tag = place::tag(&context.setup.settings.operator.owner);
    let tags = client.access_tags(account, context.deadline)?;
    if tags.iter().any(|one| **one == *tag) {
        return Ok(());
    }
    client.create_access_tag(account, &tag, context.deadline)
}

/// The number of writes that a request sends, from the first write on. A third of the calls above
/// `SHARED_CALLS_LEFT_MIN` is left to the next requests. At least one write is sent, so that each loop makes progress.
fn sendable_count(writes: &[ApplicationWrite], calls_left: u32) -> usize {
    let calls = calls_left.saturating_sub(limits::SHARED_CALLS_LEFT_MIN) / 3 * 2;
    let mut needed = 0;
    let fitting = writes.iter().take_while(|write| {
        // An application is read before it is replaced.
        needed += if matches!(write.operation, ApplicationOperation::Replace(..)) { 2 } else { 1 };
        needed <= calls
    });
    fitting.count().max(1).min(writes.len())
}

/// The policies that exist only in this application. Removing them from the application deletes them.
fn inline_policies(members: &Map<String, Value>) -> Vec<String> {
    let policies = members.get("policies").and_then(Value::as_array).into_iter().flatten();
    let inline = policies.filter(|policy| policy.get("reusable").and_then(Value::as_bool) != Some(true));
    inline.map(Value::to_string).collect()
}

/// The reason for a failed call. `Reason::Waiting` makes ExternalDNS ask again.
fn reason_of(error: &Error) -> Reason {
    let text = format!("the Access application cannot be written: {error}");
    match error {
        Error::Credentials(_) => Reason::AccessUnknown(format!("{text}; {GIVE_ACCESS}")),
        _ => Reason::Waiting(text),
    }
}
