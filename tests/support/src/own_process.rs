//! A process of its own for a test that changes what all threads of a process share, or takes it from them:
//! descriptors, the environment, the standard error. It is the same test, started once more, which knows by a variable
//! what it is.

use std::io::BufRead;
use std::process::Command;

const MARK: &str = "TEST_IN_A_PROCESS_OF_ITS_OWN";

/// Whether this process is one that [`own_process`] started.
pub fn is_own_process() -> bool {
    std::env::var_os(MARK).is_some()
}

/// The test of this name alone, after `preparation` in the shell.
pub fn own_process(test: &str, preparation: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{preparation}\nexec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().expect("a test has a file"))
        .args(["--exact", "--nocapture", test])
        .env(MARK, "1");
    command
}

/// What stands behind `beginning` in the first line of a process that has it.
pub fn line_after(output: &mut impl BufRead, beginning: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).expect("text"), 0, "no line with {beginning:?}");
        if let Some((_, rest)) = line.split_once(beginning) {
            return rest.trim_end().to_owned();
        }
    }
}
