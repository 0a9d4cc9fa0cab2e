//! What a run says at its end: a table for the terminal, and a file that holds no text of the account.

use std::fs;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::run::{Outcome, Report, Row};

pub fn line(row: &Row) -> String {
    let (word, text) = words(row);
    format!("{:50} {word:9} {:6.1} s  {text}", row.name, row.took.as_secs_f64())
}

/// The outcome, and what else is to be said of it.
fn words(row: &Row) -> (&'static str, String) {
    match &row.outcome {
        Outcome::Passed(None) => ("passed", String::new()),
        Outcome::Passed(Some(measured)) => ("passed", format!("after {measured} ms")),
        Outcome::NotTried(why) => ("not tried", (*why).to_owned()),
        Outcome::Failed(why) => ("FAILED", why.clone()),
    }
}

pub fn summary(report: &Report, differences: &[String]) -> String {
    let Report { rows, shapes: _, calls, refused, left } = report;
    let count = |word: &str| rows.iter().filter(|row| words(row).0 == word).count();
    let [passed, failed, not_tried] = ["passed", "FAILED", "not tried"].map(count);
    let mut lines = vec![format!("{passed} passed, {failed} failed, {not_tried} not tried; {calls} calls")];
    for (title, of_title) in [
        ("calls that were not sent", &**refused),
        ("NOT DELETED", left),
        ("differences from the emulator", differences),
    ] {
        lines.push(format!("{title}: {}", of_title.len()));
        lines.extend(of_title.iter().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

/// Numbers, booleans, codes, and words of our own.
pub fn json(report: &Report, differences: &[String], root: &Path) -> Value {
    let Report { rows, shapes, calls, refused, left } = report;
    let row = |row: &Row| {
        let measured = if let Outcome::Passed(measured) = row.outcome { measured } else { None };
        json!({"name": row.name, "outcome": words(row).0, "seconds": row.took.as_secs(), "measured_ms": measured})
    };
    json!({
        "src": digest_of(&files(&root.join("src"))),
        "cargo_lock": digest_of(&[root.join("Cargo.lock")]),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "calls": calls,
        "not_sent": refused.len(),
        "not_deleted": left.len(),
        "differences": differences,
        "shapes": shapes,
    })
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut all: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

fn digest_of(files: &[PathBuf]) -> String {
    let bytes: Vec<u8> = files.iter().filter_map(|file| fs::read(file).ok()).flatten().collect();
    digest(&SHA256, &bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
