//! What the program's decisions cost, in instructions, as a ratio to a fixed piece of work: `just cost`.
//!
//! ```text
//! cost piece <name> <scale>      does one piece of work, for callgrind to count
//! cost measure <binary>          counts all pieces and weighs the binary; prints the table
//! cost compare <before> <after>  prints two tables side by side; fails where the second one costs too much
//! ```
//!
//! Instructions are the same in every run and nearly so on every machine, where times are not. They leave out what the
//! kernel, the network and the caches do.

mod callgrind;
mod comparison;
mod piece;
mod program;
mod table;
mod unit;
mod wishes;
mod world;

use std::error::Error;
use std::process::ExitCode;
use std::{env, fs};

use crate::comparison::Comparison;
use crate::piece::Piece;
use crate::table::Table;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The sizes at which each piece is measured: 5,000 records with 1,000 rules, and ten times that.
const SCALES: [usize; 2] = [1, 10];

#[allow(clippy::disallowed_methods, reason = "the edge of a command reads its arguments")]
fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Outcome<ExitCode> {
    match arguments {
        ["piece", name, scale] => {
            let piece = Piece::called(name).ok_or_else(|| format!("there is no piece {name:?}"))?;
            piece.run(scale.parse()?)?;
            Ok(ExitCode::SUCCESS)
        }
        ["measure", binary] => {
            print!("{}", callgrind::measure(binary)?);
            Ok(ExitCode::SUCCESS)
        }
        ["compare", before, after] => {
            let [before, after] = [before, after].map(|file| -> Outcome<Table> {
                let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
                Ok(Table::parse(&text).map_err(|error| format!("{file}: {error}"))?)
            });
            let comparison = Comparison::of(&before?, &after?);
            print!("{comparison}");
            Ok(if comparison.is_within_limits() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        _ => Err("piece <name> <scale> | measure <binary> | compare <before> <after>".into()),
    }
}
