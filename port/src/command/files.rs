//! Text files at paths that a person names: bounded when read, replaced whole when written.

use super::output::Failure;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

/// Reads a text file of at most `most` bytes. A link is followed.
pub(super) fn read_text(path: &Path, most: usize) -> Result<String, Failure> {
    let cannot = |why: String| Failure::data(format!("cannot read {}: {why}", near(path).display()));
    let kind = fs::metadata(path).map_err(|error| cannot(error.to_string()))?.file_type();
    // A pipe would hold up whoever opens it, a device may have no end.
    if !kind.is_file() {
        return Err(cannot(format!("it is a {}; name a text file", name_of(kind))));
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|error| cannot(error.to_string()))?;
    if bytes.len() > most {
        return Err(cannot(format!("it exceeded its limit of {} KB; shorten the file", most >> 10)));
    }
    String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8 text; convert it to UTF-8".to_owned()))
}

/// Writes new text files; existing ones are replaced only with `force`. Writes none if one of the paths cannot be
/// written.
pub(super) fn write(drafts: &[(PathBuf, &String)], force: bool) -> Result<(), Failure> {
    let exists = |path: &Path| {
        Failure::usage(format!(
            "{} already exists; choose another name with --id, or replace it with --force",
            near(path).display()
        ))
    };
    if force {
        drafts.iter().try_for_each(|(path, _)| check_target(path))?;
    } else if let Some((path, _)) = drafts.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        return Err(exists(path));
    }
    for (path, text) in drafts {
        let written = if force { replace(path, text) } else { create(path, text) };
        written.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => cannot_write(path, &error.to_string()),
        })?;
    }
    Ok(())
}

/// Checks that a path is unused or a regular file.
fn check_target(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata().map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_symlink() => Err(cannot_write(
            path,
            "it is a symbolic link; name the file that it points to, or delete the link",
        )),
        Ok(kind) if !kind.is_file() => {
            Err(cannot_write(path, &format!("it is a {}; name a text file", name_of(kind))))
        }
        _ => Ok(()),
    }
}

fn cannot_write(path: &Path, why: &str) -> Failure {
    Failure::data(format!("cannot write {}: {why}", near(path).display()))
}

/// Writes a file that is not there: an existing one is an error, and a link is not followed.
fn create(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("")))?;
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

/// Writes a file: readers see the old text or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension(format!("{}~", std::process::id()));
    let written = create(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is not there need not go.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Finds the Python files below a folder, to a depth of `depth` folders; links are not followed.
pub(super) fn find(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if kind.is_dir() && !is_hidden && depth > 0 {
            find(&path, depth - 1, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
    Ok(())
}

/// The path relative to the current folder.
pub(super) fn near(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let inside = here.and_then(|here| path.strip_prefix(&here).ok().map(Path::to_owned));
    // A path with `./` in it means the same without.
    let path = inside.unwrap_or_else(|| path.to_owned());
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// Returns the name of what is not a regular file.
fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() { "folder" } else { "pipe, socket or device" }
}
