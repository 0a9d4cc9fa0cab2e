//! Reads files that an operator names: whole, within a size limit, and only if reading cannot block.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The contents of a regular file. `path` may be a link to it.
///
/// # Errors
///
/// When it cannot be read, is a directory, a pipe or a device, or holds more than `max_bytes`.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    // Without the flag, opening a pipe already waits for its writer. The opened file itself is checked, because the
    // path may lead elsewhere by now.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    refuse_other_kinds(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {max_bytes} bytes")));
    }
    Ok(bytes)
}

fn refuse_other_kinds(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a directory"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a pipe or a device, and no file"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound_and_nothing_else_is_read() {
        let path = std::env::temp_dir().join(format!("regular-file-{}", std::process::id()));
        std::fs::write(&path, "12345").expect("the folder for temporary files can be written");
        assert_eq!(read(&path, 5).expect("a file"), b"12345");
        for (path, max_bytes, expected) in [
            (&*path, 4, "it has more than 4 bytes"),
            (Path::new("/dev/zero"), 5, "it is a pipe or a device, and no file"),
            (Path::new("/dev"), 5, "it is a directory"),
            (Path::new("/nowhere"), 5, "No such file or directory (os error 2)"),
        ] {
            assert_eq!(read(path, max_bytes).expect_err(expected).to_string(), expected);
        }
        std::fs::remove_file(&path).expect("it is ours");
    }
}
