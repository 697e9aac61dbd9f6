//! Watches folders and reports when they may have changed.
//!
//! Ticks come from the file system's events, and every two seconds for changes without events (network mounts,
//! missed events); several events result in one tick.

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecursiveMode, Watcher};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The time after an event in which further events are awaited: saving in an editor causes several.
const QUIET: Duration = Duration::from_millis(25);
/// The maximum delay of a tick if events continue.
const AT_MOST: Duration = Duration::from_millis(100);
/// The maximum delay of a tick if a file is still open for writing.
const OPEN_AT_MOST: Duration = Duration::from_millis(500);
/// The interval of checks whether the file is closed.
const CLOSING: Duration = Duration::from_millis(10);
/// The interval of ticks without events.
const POLL: Duration = Duration::from_secs(2);

/// Watches folders, including ones that do not exist yet.
pub struct Watch {
    folders: Vec<PathBuf>,
    events: mpsc::Receiver<()>,
    watcher: Option<notify::RecommendedWatcher>,
    /// Determines whether subfolders are watched too.
    depth: RecursiveMode,
    watched: Vec<PathBuf>,
    /// The folders in which missing folders may be created.
    parents: Vec<PathBuf>,
    /// The times of the first and the latest event since the last tick.
    stirred: Option<(Instant, Instant)>,
    next_poll: Instant,
    /// The files that are open for writing, if the file system reports this.
    written: Arc<Mutex<HashSet<PathBuf>>>,
}

/// Records which files are being written. Returns `true` if an event may change the result of a scan.
fn note(event: &notify::Result<notify::Event>, written: &Mutex<HashSet<PathBuf>>) -> bool {
    let Ok(event) = event else { return true };
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
            let mut written = written.lock();
            event.paths.iter().filter(|path| written.remove(*path)).count() > 0
        }
        // Reading a file does not change it.
        EventKind::Access(_) => false,
        // Only inotify reports that a file is closed.
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
    /// Watches folders with all their content.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::within(folders.into_iter().collect(), RecursiveMode::Recursive)
    }

    /// Watches the files of one folder, without its subfolders.
    pub fn files_of(folder: PathBuf) -> Self {
        Self::within(vec![folder], RecursiveMode::NonRecursive)
    }

    fn within(folders: Vec<PathBuf>, depth: RecursiveMode) -> Self {
        let (sender, events) = mpsc::channel(1);
        let written = Arc::<Mutex<HashSet<PathBuf>>>::default();
        let noted = written.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if note(&event, &noted) {
                // A full channel already contains a tick.
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
        // The first tick covers changes since the owner's latest scan.
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
        // A writer that never closes its file is not waited for again.
        self.written.lock().clear();
        self.stirred = None;
        self.next_poll = Instant::now() + POLL;
    }

    /// Updates the watched folders, which may be created, deleted or replaced meanwhile. Files that were saved into
    /// a new folder before it was watched cause a tick.
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
        // A watched folder needs no additional watch as a parent.
        parents.retain(|parent| !self.watched.contains(parent));
        for left in self.parents.iter().filter(|parent| !parents.contains(parent)) {
            // The folder may have been deleted, or is now watched itself.
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
            // Watches folders that were created in the meantime.
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

    /// Waits for ticks until a file exists. The interval without events is disabled, so that only events cause
    /// ticks.
    async fn ticks_until(watch: &mut Watch, file: &Path) {
        watch.next_poll = Instant::now() + Duration::from_secs(3600);
        while !file.exists() {
            watch.tick().await;
            watch.next_poll = Instant::now() + Duration::from_secs(3600);
        }
    }

    #[tokio::test]
    async fn the_first_file_of_a_folder_made_later_is_reported_by_an_event() {
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
        // A watch that reports no events fails here.
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
