//! The model beside the real controller, as `tests/externaldns` writes down what that one did.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;

/// A turn of the real controller, which `tests/externaldns` plays and writes down.
#[derive(Debug, Deserialize)]
struct Loop {
    registry: String,
    prefix: String,
    policy: String,
    current: Option<Vec<Endpoint>>,
    desired: Option<Vec<Endpoint>>,
    changes: Asked,
}

/// Loops of the real controller with the registry `crd`, each of which stands on those before.
#[derive(Debug, Deserialize)]
struct History {
    policy: String,
    turns: Vec<Turn>,
}

#[derive(Debug, Deserialize)]
struct Turn {
    desired: Option<Vec<Endpoint>>,
    /// The call that fails: `apply`, or the `records` after it.
    fault: String,
    shown: Option<Vec<Endpoint>>,
    current: Vec<Endpoint>,
    changes: Asked,
    /// The controller heard of the fault.
    failed: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Asked {
    create: Vec<Endpoint>,
    update_old: Vec<Endpoint>,
    update_new: Vec<Endpoint>,
    delete: Vec<Endpoint>,
}

impl Asked {
    fn of(changes: Changes) -> Self {
        let Changes { create, update_old, update_new, delete } = changes;
        Self { create, update_old, update_new, delete }
    }

    fn lists(&self) -> [&[Endpoint]; 4] {
        let Self { create, update_old, update_new, delete } = self;
        [create, update_old, update_new, delete].map(Vec::as_slice)
    }

    /// As sets: the real one has an order only within pairs.
    fn canonical(self) -> [Vec<Value>; 4] {
        [self.create, self.update_old, self.update_new, self.delete].map(canonical)
    }
}

fn canonical(mut list: Vec<Endpoint>) -> Vec<Value> {
    let key = |one: &Endpoint| format!("{} {} {}", one.dns_name, one.record_type, one.set_identifier);
    list.sort_by_key(key);
    let values = list.into_iter().map(|mut endpoint| {
        endpoint.provider_specific.sort();
        serde_json::to_value(endpoint).expect("plain data")
    });
    values.collect()
}

/// An answer of a webhook, and what the real controller did.
#[derive(Debug, Deserialize)]
struct Answered {
    call: String,
    answer: String,
    reaction: String,
}

/// The lines of a recording, numbered. One without lines would hold the model to nothing.
fn recorded<T: DeserializeOwned>(text: &str) -> Vec<(usize, T)> {
    let lines: Vec<(usize, T)> = (1..)
        .zip(text.lines().map(|line| serde_json::from_str(line).expect("a line of a recording")))
        .collect();
    assert!(!lines.is_empty(), "nothing is recorded");
    lines
}

/// Each kind of change was asked for, or else the recording would not say what the model has to ask for.
fn asked_for_each_kind<'a>(all: impl Iterator<Item = &'a Asked>) {
    let counts = all.map(|asked| asked.lists().map(<[Endpoint]>::len));
    let sums = counts.fold([0; 4], |sums, count| std::array::from_fn(|kind| sums[kind] + count[kind]));
    assert!(!sums.contains(&0), "of create, update_old, update_new and delete: {sums:?}");
}

fn policy(name: &str) -> SyncPolicy {
    match name {
        "sync" => SyncPolicy::Sync,
        "upsert-only" => SyncPolicy::UpsertOnly,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_loop_of_the_model_asks_for_what_the_real_controller_asked_for() {
    let loops: Vec<(usize, Loop)> = recorded(include_str!("../../../externaldns/loops.json"));
    asked_for_each_kind(loops.iter().map(|(_, one)| &one.changes));
    for (number, one) in loops {
        let registry = match (&*one.registry, &*one.prefix) {
            ("noop", _) => Registry::Noop,
            ("txt", "") => TXT,
            ("txt", "%{record_type}-x.") => TXT_BELOW,
            other => panic!("{other:?}"),
        };
        let planned = registry.plan(&one.current.unwrap_or_default(), &one.desired.unwrap_or_default());
        let changes = Asked::of(policy(&one.policy).allowed(planned));
        assert_eq!(changes.canonical(), one.changes.canonical(), "line {number}");
    }
}

#[test]
fn a_history_of_the_registry_crd_asks_for_what_the_real_controller_asked_for() {
    let histories: Vec<(usize, History)> = recorded(include_str!("../../../externaldns/crd_histories.json"));
    let turns = histories.iter().flat_map(|(_, history)| &history.turns);
    asked_for_each_kind(turns.map(|turn| &turn.changes));
    for (number, history) in histories {
        let mut applied = AppliedRecords::default();
        for (turn, nth) in history.turns.into_iter().zip(1..) {
            let current = applied.current();
            assert_eq!(canonical(current.clone()), canonical(turn.current), "history {number}, turn {nth}");
            let planned = Registry::Crd.plan(&current, &turn.desired.unwrap_or_default());
            let changes = policy(&history.policy).allowed(planned);
            let mut outcome = Ok(());
            if changes != Changes::default() {
                let answer = |call: &str| if turn.fault == call { Err(()) } else { Ok(()) };
                let shown = turn.shown.unwrap_or_default();
                let read = || answer("records").map(|()| shown);
                outcome = applied.apply(&changes, || answer("apply"), read);
            }
            assert_eq!(outcome.is_err(), turn.failed, "history {number}, turn {nth}");
            let asked = turn.changes.canonical();
            assert_eq!(Asked::of(changes).canonical(), asked, "history {number}, turn {nth}");
        }
    }
}

#[test]
fn an_answer_does_to_the_model_what_it_does_to_the_real_controller() {
    let answers: Vec<(usize, Answered)> = recorded(include_str!("../../../externaldns/answers.json"));
    for (number, answered) in answers {
        let heard = match &*answered.answer {
            "garbage" => Heard::Garbage,
            "nothing" => Heard::Nothing,
            status => Heard::Status(status.parse().expect("a status")),
        };
        let expected = if answered.call == "apply" { 204 } else { 200 };
        let reaction = match &*answered.reaction {
            "done" => Reaction::Done,
            "soft" => Reaction::Soft,
            "ends" => Reaction::Ends,
            other => panic!("{other:?}"),
        };
        assert_eq!(heard.reaction(expected), reaction, "line {number}");
    }
}
