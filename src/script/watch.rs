//! From folders to ticks: something may have changed, have a look.
//!
//! Knows nothing of scripts. Ticks come from the file system where it tells, and every two seconds
//! where it does not (network mounts, missed events); several at once become one.

use notify::{RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The pause after an event in which further ones are waited for: an editor's save is several.
const QUIET: Duration = super::loader::REST;
/// A folder that never comes to rest is looked at all the same.
const AT_MOST: Duration = Duration::from_millis(100);
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
}

impl Watch {
    /// Begins to watch.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let (sender, events) = mpsc::channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a file is no change of it.
            let is_change = !matches!(event, Ok(notify::Event { kind: notify::EventKind::Access(_), .. }));
            if is_change {
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
                () = sleep_until(due) => break,
                Some(()) = self.events.recv() => {
                    let now = Instant::now();
                    self.stirred = Some((self.stirred.map_or(now, |(first, _)| first), now));
                }
            }
        }
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
