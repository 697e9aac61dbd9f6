//! Temporary files that killed processes left in the folders of plugins.

use std::path::Path;
use std::time::Duration;

/// The age of an abandoned file; a write in progress takes only moments.
pub(super) const ABANDONED: Duration = Duration::from_secs(60);
/// The maximum depth of folders that are searched.
const MAX_DEPTH: usize = 8;

/// Removes the temporary files below a folder that are older than this.
pub(super) fn clear(folder: &Path, older_than: Duration) {
    clear_below(folder, older_than, MAX_DEPTH);
}

fn clear_below(folder: &Path, older_than: Duration, depth: usize) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            clear_below(&entry.path(), older_than, depth - 1);
        }
        if !kind.is_file() || !is_temporary(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_abandoned =
            modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > older_than));
        if is_abandoned && std::fs::remove_file(entry.path()).is_ok() {
            tracing::info!("removed {}, left behind by an interrupted write", entry.path().display());
        }
    }
}

/// Returns `true` for the names of files that are being written: `.valvehouse-`, 32 hexadecimal digits, and
/// `.tmp`.
fn is_temporary(name: &str) -> bool {
    let digits = name.strip_prefix(".valvehouse-").and_then(|rest| rest.strip_suffix(".tmp"));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_temporary_files_of_the_host_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("sub");
        std::fs::create_dir(&inner).unwrap();
        let ours = format!(".valvehouse-{}.tmp", "0123456789abcdef".repeat(2));
        let young = format!(".valvehouse-{}.tmp", "fedcba9876543210".repeat(2));
        let old = std::time::SystemTime::now() - 2 * ABANDONED;
        for (path, is_old) in [
            (folder.path().join(&ours), true),
            (inner.join(&ours), true),
            (folder.path().join(&young), false),
            (folder.path().join(".valvehouse-notes.tmp"), true),
            (folder.path().join("guard.rhai"), true),
        ] {
            std::fs::write(&path, "x").unwrap();
            if is_old {
                std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
            }
        }
        clear(folder.path(), ABANDONED);
        let mut left: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [young.as_str(), ".valvehouse-notes.tmp", "guard.rhai", "sub"]);
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 0);
    }
}
