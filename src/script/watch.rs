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
    watched: Vec<PathBuf>,
    /// The first and the latest event of those that wait for a tick.
    stirred: Option<(Instant, Instant)>,
    next_poll: Instant,
    /// Files that were written to and not closed since, where the file system tells of that.
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
    /// Begins to watch.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
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
            .map_err(|error| tracing::warn!("no file system events, looking every 2 s instead: {error}"))
            .ok();
        let mut watch = Self {
            folders: folders.into_iter().collect(),
            events,
            watcher,
            watched: Vec::new(),
            stirred: None,
            next_poll: Instant::now() + POLL,
            written,
        };
        watch.watch_folders();
        watch
    }

    /// Waits until there may be something new. Who stops waiting and comes back loses nothing.
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
        // Who never closes a file is not waited for again.
        self.written.lock().clear();
        self.stirred = None;
        self.next_poll = Instant::now() + POLL;
    }

    /// Folders may come, go and be replaced while we watch.
    fn watch_folders(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        self.watched.retain(|folder| folder.is_dir());
        for folder in &self.folders {
            if !self.watched.contains(folder) && folder.is_dir() && watch(watcher, folder) {
                self.watched.push(folder.clone());
            }
        }
    }
}

fn watch(watcher: &mut notify::RecommendedWatcher, folder: &Path) -> bool {
    match watcher.watch(folder, RecursiveMode::Recursive) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(folder = %folder.display(), "no file system events, looking every 2 s instead: {error}");
            false
        }
    }
}
