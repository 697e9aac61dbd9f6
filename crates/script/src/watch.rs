//! From folders to ticks: something may have changed, have a look.
//!
//! Knows nothing of scripts. Ticks come from the file system where it tells, and every two seconds
//! where it does not (network mounts, missed events); several at once become one.

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecursiveMode, Watcher};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The pause after an event in which further ones are waited for: an editor's save is several.
const QUIET: Duration = super::loader::REST;
/// A folder that never comes to rest is looked at all the same.
const AT_MOST: Duration = Duration::from_millis(100);
/// A file that is held open for writing is waited for, and no longer than this.
const OPEN_AT_MOST: Duration = Duration::from_millis(500);
/// Until it is looked again whether it is closed.
const CLOSING: Duration = Duration::from_millis(10);
/// The look that needs no event.
const POLL: Duration = Duration::from_secs(2);

/// Watches folders, also ones that are not there yet.
pub struct Watch {
    folders: Vec<PathBuf>,
    events: mpsc::Receiver<()>,
    watcher: Option<notify::RecommendedWatcher>,
    /// The depth of the watch: the folders alone, or nested ones as well.
    depth: RecursiveMode,
    watched: Vec<PathBuf>,
    /// Folders in which one that is not there yet will appear.
    parents: Vec<PathBuf>,
    /// The first and the latest event of those that wait for a tick.
    stirred: Option<(Instant, Instant)>,
    next_poll: Instant,
    /// Files that are open for writing, if the file system reports that.
    written: Arc<Mutex<HashSet<PathBuf>>>,
}

/// Notes which files are being written; answers whether an event may change what a look finds.
fn note(event: &notify::Result<notify::Event>, written: &Mutex<HashSet<PathBuf>>) -> bool {
    let Ok(event) = event else { return true };
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
            let mut written = written.lock();
            event.paths.iter().filter(|path| written.remove(*path)).count() > 0
        }
        // Reading a file does not change it.
        EventKind::Access(_) => false,
        // Only inotify tells when a file is closed.
        EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => {
            written.lock().extend(event.paths.iter().cloned());
            true
        }
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => {
            let mut written = written.lock();
            event.paths.iter().for_each(|path| {
                written.remove(path);
            });
            true
        }
        _ => true,
    }
}

impl Watch {
    /// Begins to watch folders and all that lies in them.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::within(folders.into_iter().collect(), RecursiveMode::Recursive)
    }

    /// Begins to watch the files of one folder, without those of its folders.
    pub fn files_of(folder: PathBuf) -> Self {
        Self::within(vec![folder], RecursiveMode::NonRecursive)
    }

    fn within(folders: Vec<PathBuf>, depth: RecursiveMode) -> Self {
        let (sender, events) = mpsc::channel(1);
        let written = Arc::<Mutex<HashSet<PathBuf>>>::default();
        let noted = written.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if note(&event, &noted) {
                // A full channel already holds the tick this would be.
                let _ = sender.try_send(());
            }
        });
        let watcher = watcher
            .map_err(|error| {
                tracing::warn!("cannot watch the file system: {error}; polling every 2 s instead")
            })
            .ok();
        let mut watch = Self {
            folders,
            events,
            watcher,
            depth,
            watched: Vec::new(),
            parents: Vec::new(),
            stirred: None,
            next_poll: Instant::now() + POLL,
            written,
        };
        // A change since its owner looked last is found by the first tick.
        watch.watch_folders();
        watch
    }

    /// Waits until there may be a change. Cancel safe.
    pub async fn tick(&mut self) {
        self.watch_folders();
        loop {
            let due = match self.stirred {
                Some((first, latest)) => (latest + QUIET).min(first + AT_MOST),
                None => self.next_poll,
            };
            tokio::select! {
                biased;
                () = sleep_until(due) => match self.stirred {
                    Some((first, _)) if first.elapsed() < OPEN_AT_MOST && !self.written.lock().is_empty() => {
                        tokio::time::sleep(CLOSING).await;
                    }
                    _ => break,
                },
                Some(()) = self.events.recv() => {
                    let now = Instant::now();
                    self.stirred = Some((self.stirred.map_or(now, |(first, _)| first), now));
                }
            }
        }
        // A writer that never closes a file is not waited for again.
        self.written.lock().clear();
        self.stirred = None;
        self.next_poll = Instant::now() + POLL;
    }

    /// Folders may come, go and be replaced while we watch. What was saved into a new one before it was watched is
    /// found by a tick of its own.
    fn watch_folders(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        self.watched.retain(|folder| folder.is_dir());
        for folder in &self.folders {
            if !self.watched.contains(folder) && folder.is_dir() && watch(watcher, folder, self.depth) {
                self.watched.push(folder.clone());
                let now = Instant::now();
                self.stirred = Some((self.stirred.map_or(now, |(first, _)| first), now));
            }
        }
        let missing = self.folders.iter().filter(|folder| !self.watched.contains(folder));
        let mut parents: Vec<PathBuf> = missing
            .filter_map(|folder| folder.ancestors().skip(1).find(|above| above.is_dir()))
            .map(Path::to_owned)
            .collect();
        parents.sort();
        parents.dedup();
        // Folders that are watched for their own sake report as much.
        parents.retain(|parent| !self.watched.contains(parent));
        for left in self.parents.iter().filter(|parent| !parents.contains(parent)) {
            // It may be gone, or be watched for its own sake from now on.
            if !self.watched.contains(left) {
                let _ = watcher.unwatch(left);
            }
        }
        parents.retain(|parent| {
            self.parents.contains(parent) || watch(watcher, parent, RecursiveMode::NonRecursive)
        });
        let are_new = parents != self.parents;
        self.parents = parents;
        if are_new {
            // Folders that appeared in them before they were watched are watched now.
            self.watch_folders();
        }
    }
}

fn watch(watcher: &mut notify::RecommendedWatcher, folder: &Path, depth: RecursiveMode) -> bool {
    match watcher.watch(folder, depth) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(folder = %folder.display(), "cannot watch the file system: {error}; polling \
                                                        every 2 s instead");
            false
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Returns what a look finds at ticks, until it finds a file; the clock stands still meanwhile, so that a tick
    /// that only comes of the poll never comes.
    async fn ticks_until(watch: &mut Watch, file: &Path) {
        watch.next_poll = Instant::now() + Duration::from_secs(3600);
        while !file.exists() {
            watch.tick().await;
            watch.next_poll = Instant::now() + Duration::from_secs(3600);
        }
    }

    #[tokio::test]
    async fn the_first_file_of_a_folder_made_later_is_told_by_an_event() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/filters");
        let mut watch = Watch::new([folder.clone()]);
        let file = folder.join("deep/first.rhai");
        let saving = file.clone();
        let saved = tokio::task::spawn_blocking(move || {
            for part in [saving.ancestors().nth(2), saving.parent()].into_iter().flatten() {
                std::fs::create_dir_all(part).unwrap();
            }
            std::fs::write(saving, "fn inlet(body) {}").unwrap();
        });
        // A test that waits for the poll alone ends with this.
        tokio::time::timeout(Duration::from_secs(60), ticks_until(&mut watch, &file)).await.unwrap();
        saved.await.unwrap();
    }

    #[tokio::test]
    async fn a_folder_that_is_made_again_is_watched_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("filters");
        std::fs::create_dir(&folder).unwrap();
        let mut watch = Watch::new([folder.clone()]);
        std::fs::remove_dir(&folder).unwrap();
        watch.next_poll = Instant::now() + Duration::from_secs(3600);
        tokio::time::timeout(Duration::from_secs(60), watch.tick()).await.unwrap();
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("again.rhai");
        std::fs::write(&file, "").unwrap();
        tokio::time::timeout(Duration::from_secs(60), ticks_until(&mut watch, &file)).await.unwrap();
    }
}
