//! Reads and replaces files that an operator names. A file is read or replaced as a whole, and never through a pipe or
//! a device. Reading has a size limit.

use std::fs::{self, File, Metadata, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The contents of a regular file. `path` may be a link to it.
///
/// # Errors
///
/// When it cannot be read, is a directory, a pipe or a device, or holds more than `max_bytes`.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    // Without the flag, opening a pipe waits for its writer. The opened file is checked and not the path, because the
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

/// Replaces `path` by a file with these contents and this mode. A program that opens `path` finds the whole old file or
/// the whole new file.
///
/// # Errors
///
/// When the file cannot be written, or when `path` exists and is not a regular file, but a link, for example. `path` is
/// unchanged then.
pub fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it names no file"))?;
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is a link, not a file"));
        }
        Ok(metadata) => refuse_other_kinds(&metadata)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Several processes may write at once, so each one writes a file of its own.
    let suffix = RandomState::new().hash_one(std::process::id());
    let beside = path.with_file_name(format!(".{}.{suffix:016x}", name.display()));
    replace_by(&beside, path, contents, mode)
}

/// Writes the file `beside`, which must not exist yet, and renames it to `path`.
fn replace_by(beside: &Path, path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(beside)?;
    let written = file
        .write_all(contents)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(beside, path));
    if written.is_err() {
        let _ = fs::remove_file(beside);
    }
    written
}

fn refuse_other_kinds(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a directory"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a pipe or a device, not a file"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound_and_nothing_else_is_read() {
        let path = std::env::temp_dir().join(format!("regular-file-{}", std::process::id()));
        fs::write(&path, "12345").expect("the folder for temporary files can be written");
        assert_eq!(read(&path, 5).expect("a file"), b"12345");
        for (path, max_bytes, expected) in [
            (&*path, 4, "it has more than 4 bytes"),
            (Path::new("/dev/zero"), 5, "it is a pipe or a device, not a file"),
            (Path::new("/dev"), 5, "it is a directory"),
            (Path::new("/nowhere"), 5, "No such file or directory (os error 2)"),
        ] {
            assert_eq!(read(path, max_bytes).expect_err(expected).to_string(), expected);
        }
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_nothing_else_is() {
        let folder = std::env::temp_dir().join(format!("replaced-{}", std::process::id()));
        // Of a run that was ended.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).expect("the folder for temporary files can be written");
        let path = folder.join("token");
        for (contents, mode) in [("first", 0o400), ("second", 0o640), ("third", 0o400)] {
            replace(&path, contents.as_bytes(), mode).expect("it can be written");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), contents);
            assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o7777, mode);
        }
        std::os::unix::fs::symlink(&path, folder.join("link")).expect("links can be made");
        // A machine's own device is nothing for a test that may run as root and fail.
        let _socket =
            std::os::unix::net::UnixListener::bind(folder.join("socket")).expect("sockets can be made");
        for (path, expected) in [
            (folder.join("link"), "it is a link, not a file"),
            (folder.clone(), "it is a directory"),
            (folder.join(".."), "it names no file"),
            (folder.join("none/token"), "No such file or directory (os error 2)"),
            (folder.join("socket"), "it is a pipe or a device, not a file"),
        ] {
            assert_eq!(replace(&path, b"x", 0o400).expect_err(expected).to_string(), expected);
        }
        let mut names: Vec<_> = fs::read_dir(&folder)
            .expect("it is there")
            .map(|entry| entry.expect("one").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["link", "socket", "token"], "nothing is left beside it");
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn what_stands_beside_a_file_is_not_written_and_nothing_stays_there_after_a_failure() {
        let folder = std::env::temp_dir().join(format!("beside-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("folder/full"))
            .expect("the folder for temporary files can be written");
        let [path, theirs, link, beside] =
            ["token", "theirs", "link", "beside"].map(|name| folder.join(name));
        fs::write(&theirs, "theirs").expect("it can be written");
        std::os::unix::fs::symlink(&theirs, &link).expect("links can be made");
        for taken in [&theirs, &link] {
            let error = replace_by(taken, &path, b"secret", 0o400).expect_err("it is taken");
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read_to_string(&theirs).expect("it is there"), "theirs");
        replace_by(&beside, &folder.join("folder"), b"secret", 0o400).expect_err("a folder is not replaced");
        assert!(!beside.exists() && !path.exists());
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
