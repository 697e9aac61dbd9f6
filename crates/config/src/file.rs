//! Files of settings and secrets: regular ones of a bounded size.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// The most bytes of a file of settings.
pub(crate) const MAX_SETTINGS: u64 = 8 << 20;
/// The most bytes of a file with a secret.
pub(crate) const MAX_SECRET: u64 = 64 << 10;

/// Reads the file of settings of a project, or another file of at most 8 MiB. A link is followed.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a regular one, or is longer.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    read(path, MAX_SETTINGS)
}

/// Reads text of at most `most` bytes.
pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let invalid = |error| io::Error::new(ErrorKind::InvalidData, error);
    String::from_utf8(read(path, most)?).map_err(|_| invalid("it is not UTF-8 text; convert it to UTF-8"))
}

fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path).map_err(|error| match path.is_symlink() {
        // Else it would be taken for a file that nobody wrote.
        true => io::Error::other(format!("it is a symbolic link to a file that cannot be read: {error}")),
        false => error,
    })?;
    // A pipe would hold up whoever opens it, a device may have no end.
    if !metadata.is_file() {
        return Err(io::Error::other("it is a folder, a pipe or a device; a regular file is needed"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it exceeded its limit of {} KB", most >> 10)));
    }
    Ok(bytes)
}
