//! Text files at paths that a person names: bounded when read, replaced whole when written.

use crate::exit::CommandError;
use crate::report;
use std::fs::{self, FileType};
use std::io::Read;
use std::path::Path;
use valvehouse_config::{FileError, read_regular};
use valvehouse_os::{Folders, WriteMode};

/// The maximum length of an input of a command, such as a body or arguments, in bytes.
pub const MAX_INPUT: usize = 256 << 20;

/// Reads stdin to its end, at most `most` bytes.
///
/// # Errors
/// Returns an error if stdin cannot be read, is longer, or is not UTF-8 text.
pub fn read_stdin(most: usize) -> Result<String, CommandError> {
    text_within(std::io::stdin().lock(), most)
}

fn text_within(input: impl Read, most: usize) -> Result<String, CommandError> {
    let cannot = |why: String| CommandError::data(format!("cannot read stdin: {why}"));
    let mut bytes = Vec::new();
    input.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|error| cannot(error.to_string()))?;
    if bytes.len() > most {
        return Err(cannot(format!("it exceeded its limit of {} KB; send less", most >> 10)));
    }
    String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8 text; convert it to UTF-8".to_owned()))
}

/// Reads a text file of at most `most` bytes. A link is followed.
///
/// # Errors
/// Returns an error that names the path and the reason: it does not exist, is a folder, a pipe or a device, is longer,
/// or is not UTF-8 text.
pub fn read_text(path: &Path, most: usize) -> Result<String, CommandError> {
    let cannot = |why: String| CommandError::data(format!("cannot read {}: {why}", near(path)));
    let bytes = read_regular(path, most as u64).map_err(|error| match error {
        FileError::Irregular(kind) => cannot(format!("it is a {}; name a text file", name_of(kind))),
        FileError::TooLong(_) => cannot(format!("{error}; shorten the file")),
        error => cannot(error.to_string()),
    })?;
    String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8 text; convert it to UTF-8".to_owned()))
}

/// Writes text files and replaces existing ones. Writes none if one of the paths cannot be written.
///
/// # Errors
/// Returns the errors of [`write_text`].
pub fn write_texts<'f>(files: impl IntoIterator<Item = (&'f Path, &'f str)>) -> Result<(), CommandError> {
    let files: Vec<(&Path, &str)> = files.into_iter().collect();
    files.iter().try_for_each(|(path, _)| check_target(path))?;
    files.iter().try_for_each(|(path, text)| write_text(path, text))
}

/// Checks that a path is unused or a regular file, and that its parents are folders.
fn check_target(path: &Path) -> Result<(), CommandError> {
    let cannot = |why: String| Err(cannot_write(path, &why));
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => {
            cannot("it is a symbolic link; name the file that it points to, or delete the link".to_owned())
        }
        Ok(metadata) if !metadata.is_file() => {
            cannot(format!("it is a {}; name a text file", name_of(metadata.file_type())))
        }
        Ok(_) => Ok(()),
        Err(_) => match path.ancestors().skip(1).find(|folder| folder.exists()) {
            Some(folder) if !folder.is_dir() => cannot(format!("{} is not a folder", near(folder))),
            _ => Ok(()),
        },
    }
}

fn cannot_write(path: &Path, why: &str) -> CommandError {
    CommandError::data(format!("cannot write {}: {why}", near(path)))
}

/// Writes a text file and replaces an existing one: readers see the old text or the new one. A link is not
/// followed.
///
/// # Errors
/// Returns an error that names the path and the reason, such as a symbolic link.
pub fn write_text(path: &Path, text: &str) -> Result<(), CommandError> {
    check_target(path)?;
    let written = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let name = path.file_name().ok_or("it has no file name")?;
        let file = folder.join(name).display().to_string();
        let written = Folders::new(&[folder]).write(&file, text, WriteMode::default());
        written.map(drop).map_err(|failure| failure.message)
    };
    written().map_err(|why| cannot_write(path, &why))
}

/// Returns the name of what is not a regular file.
fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() { "folder" } else { "pipe, socket or device" }
}

fn near(path: &Path) -> String {
    report::near(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A folder that is deleted with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("valvehouse-files-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{error}"));
            Self(folder.canonicalize().unwrap_or_else(|error| panic!("{error}")))
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap_or_else(|error| panic!("{error}"));
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn why<T>(result: Result<T, CommandError>) -> String {
        result.err().map_or_else(String::new, |error| error.message)
    }

    #[test]
    fn only_regular_files_of_a_bounded_length_are_read() {
        let folder = Folder::new("read");
        let path = folder.file("a.py", "text");
        assert_eq!(read_text(&path, 4).ok().as_deref(), Some("text"));
        assert!(why(read_text(&path, 3)).ends_with("exceeded its limit of 0 KB; shorten the file"));
        assert!(why(read_text(&folder.0, 10)).ends_with("it is a folder; name a text file"));
        assert!(why(read_text(&folder.0.join("none"), 10)).contains("cannot read "));
        fs::write(&path, b"\xff").unwrap_or_else(|error| panic!("{error}"));
        assert!(why(read_text(&path, 10)).contains("it is not UTF-8 text"));
    }

    #[test]
    fn an_endless_input_is_not_read() {
        assert_eq!(text_within(&b"text"[..], 4).ok().as_deref(), Some("text"));
        assert!(why(text_within(std::io::repeat(b'x'), 4)).contains("exceeded its limit"));
        assert!(why(text_within(&b"\xff"[..], 4)).contains("not UTF-8"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_and_endless_files_are_not_read() {
        assert!(why(read_text(Path::new("/dev/zero"), 10)).contains("it is a pipe, socket or device"));
        // It says that it has no bytes.
        assert!(why(read_text(Path::new("/proc/self/maps"), 10)).contains("exceeded its limit"));
    }

    #[cfg(unix)]
    #[test]
    fn several_files_are_written_atomically() {
        let folder = Folder::new("together");
        let (first, link) = (folder.file("a", "before"), folder.0.join("link"));
        std::os::unix::fs::symlink(&first, &link).unwrap_or_else(|error| panic!("{error}"));
        let within = first.join("b");
        for bad in [&link, &folder.0, &within] {
            let refused = why(write_texts([(first.as_path(), "after"), (bad, "after")]));
            assert!(refused.starts_with("cannot write "), "{refused}");
            assert_eq!(fs::read_to_string(&first).ok().as_deref(), Some("before"), "{}", bad.display());
        }
        let new = folder.0.join("new/c");
        assert!(write_texts([(first.as_path(), "after"), (&new, "after")]).is_ok());
        assert_eq!(fs::read_to_string(&new).ok().as_deref(), Some("after"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_neither_followed_nor_replaced() {
        let folder = Folder::new("write");
        let target = folder.file("target", "before");
        let link = folder.0.join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap_or_else(|error| panic!("{error}"));
        assert!(why(write_text(&link, "after")).contains("it is a symbolic link"));
        assert_eq!(fs::read_to_string(&target).ok().as_deref(), Some("before"));
        assert!(write_text(&target, "after").is_ok() && write_text(&folder.0.join("new/a"), "x").is_ok());
        assert_eq!(fs::read_to_string(&link).ok().as_deref(), Some("after"));
    }
}
