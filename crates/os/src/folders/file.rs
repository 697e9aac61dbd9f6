//! Opening of regular files, without files that could block the reader.

use super::resolve::Place;
use crate::failure::Failure;
use cap_std::fs::{Dir, File, FileType, FileTypeExt as _, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// The maximum size of a file that is read, in bytes. The file is always read completely, because its lines
/// are counted.
pub(super) const LARGEST: u64 = 16 << 20;

/// Opens a file inside an open folder. Pipes, sockets and devices are rejected without opening them; if one
/// replaces the file meanwhile, opening it does not block.
pub(super) fn open(dir: &Dir, path: &Path, options: &mut OpenOptions) -> Result<File, NoFile> {
    match dir.metadata(path) {
        Ok(metadata) => check(&metadata)?,
        // A missing file may be created.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let file = dir.open_with(path, without_waiting(options))?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Checks that this is a regular file; the error names its kind.
pub(super) fn check(metadata: &Metadata) -> Result<(), NoFile> {
    if metadata.is_file() { Ok(()) } else { Err(NoFile::Kind(kind(metadata.file_type()))) }
}

/// Reads the text of an open file.
pub(super) fn text(file: File) -> Result<String, NoFile> {
    let bytes = bytes(file)?;
    let size = bytes.len() as u64;
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(NoFile::Binary(size)),
    }
}

/// Reads the bytes of an open file.
pub(super) fn bytes(file: File) -> Result<Vec<u8>, NoFile> {
    let size = file.metadata()?.len();
    if size > LARGEST {
        return Err(NoFile::Large(size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow meanwhile, and some files report a size of 0.
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    let size = bytes.len() as u64;
    if size > LARGEST {
        return Err(NoFile::Large(size));
    }
    Ok(bytes)
}

/// The reason why a file cannot be read or written.
#[derive(Debug)]
pub(super) enum NoFile {
    /// It is not a regular file, but of this kind.
    Kind(&'static str),
    /// Its size in bytes exceeds the limit.
    Large(u64),
    /// It is not text; this is its size in bytes.
    Binary(u64),
    /// The operating system returned an error.
    Io(io::Error),
}

impl From<io::Error> for NoFile {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl NoFile {
    /// Returns the failure of an operation at this place.
    pub(super) fn at(&self, place: &Place<'_>, doing: &str) -> Failure {
        let why = match self {
            Self::Io(error) => return place.failure(doing, error),
            Self::Kind(kind) => format!("it is {kind}, not a file"),
            Self::Large(size) => {
                format!("its {size} bytes exceeded the limit of {} MiB", LARGEST >> 20)
            }
            Self::Binary(size) => format!("its {size} bytes are not UTF-8 text"),
        };
        Failure::new(format!("cannot {doing} `{}`: {why}", place.shown()))
    }
}

fn kind(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_block_device() || kind.is_char_device() {
        "a device"
    } else {
        "something else"
    }
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn without_waiting(options: &mut OpenOptions) -> &OpenOptions {
    use cap_std::fs::OpenOptionsExt as _;
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) fn without_waiting(options: &mut OpenOptions) -> &OpenOptions {
    options
}
