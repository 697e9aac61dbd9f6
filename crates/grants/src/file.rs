//! Files that are named by people and settings: regular ones of a bounded size.

use std::fs::{self, File, FileType};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// The most bytes of a file of settings.
pub const MAX_SETTINGS: u64 = 8 << 20;
/// The most bytes of a file with a secret.
pub(crate) const MAX_SECRET: u64 = 64 << 10;

/// An error of reading a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The system cannot read the file, or it is not UTF-8 text.
    #[error(transparent)]
    Unread(#[from] io::Error),
    /// The path names a folder, a pipe or a device.
    #[error("it is a folder, a pipe or a device; a regular file is needed")]
    Irregular(FileType),
    /// The file has more than this number of bytes.
    #[error("it exceeded its limit of {} KB", .0 >> 10)]
    TooLong(u64),
}

/// Reads a regular file of at most `most` bytes. A link is followed.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a regular one, or is longer.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let metadata = fs::metadata(path).map_err(|error| match path.is_symlink() {
        // Else it would be taken for a file that nobody wrote.
        true => io::Error::other(format!("it is a symbolic link to a file that cannot be read: {error}")),
        false => error,
    })?;
    // A pipe would hold up whoever opens it, a device may have no end.
    if !metadata.is_file() {
        return Err(FileError::Irregular(metadata.file_type()));
    }
    let mut bytes = Vec::new();
    // Files that the system makes as they are read have no length before.
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(FileError::TooLong(most));
    }
    Ok(bytes)
}

/// Reads text, as [`read_regular`] does.
///
/// # Errors
/// Returns an error if the file cannot be read or is not UTF-8 text.
pub fn read_text(path: &Path, most: u64) -> Result<String, FileError> {
    let invalid = |_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text; convert it to UTF-8");
    Ok(String::from_utf8(read_regular(path, most)?).map_err(invalid)?)
}
