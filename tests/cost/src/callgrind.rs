//! Counts instructions: callgrind runs this program once for each piece.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs, thread};

use crate::piece::{MEASURED, Piece};
use crate::table::{BYTES, Table, figure};
use crate::{Outcome, SCALES};

/// All figures: pieces in units, and the size of `binary`.
pub(crate) fn measure(binary: &str) -> Outcome<Table> {
    let mut table = Table::default();
    let bytes = fs::metadata(binary).map_err(|error| format!("{binary}: {error}"))?.len();
    table.set(BYTES.to_owned(), bytes as f64);
    let unit = instructions(Piece::Unit, 1)?;
    // The longest first, so that no processor waits long for another one.
    let scales = SCALES.into_iter().rev();
    let all = scales.flat_map(|scale| Piece::COMPARED.map(|piece| (piece, scale)));
    for (piece, scale, counted) in in_parallel(all.collect())? {
        table.set(figure(piece.name(), scale), counted as f64 / unit as f64);
    }
    Ok(table)
}

/// The pieces and scales with their instructions.
fn in_parallel(pieces: VecDeque<(Piece, usize)>) -> Result<Vec<(Piece, usize, u64)>, String> {
    let (left, counted) = (Mutex::new(pieces), Mutex::new(Vec::new()));
    let next = || left.lock().expect("no thread panics with it").pop_front();
    let work = || {
        while let Some((piece, scale)) = next() {
            let count = instructions(piece, scale).map(|count| (piece, scale, count));
            counted.lock().expect("no thread panics with it").push(count);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    counted.into_inner().expect("no thread panicked with it").into_iter().collect()
}

/// The instructions of one piece, without its preparation.
fn instructions(piece: Piece, scale: usize) -> Result<u64, String> {
    let name = piece.name();
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(program)
        .args(["piece", name, &scale.to_string()])
        .output()
        .map_err(|error| format!("valgrind does not run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{name} at scale {scale}: {}: {said}", output.status));
    }
    match collected(&said) {
        // The measured function has another name, or was inlined.
        None | Some(0) => Err(format!("callgrind found nothing to count of {name}: {said}")),
        Some(count) => {
            eprintln!("{count:>16} instructions: {name} at scale {scale}");
            Ok(count)
        }
    }
}

/// Reads the line `==1== Collected : 123`.
fn collected(said: &str) -> Option<u64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}
