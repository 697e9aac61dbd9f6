//! The changes of a reload: files that were saved, added, renamed or deleted, and changed valves.

use super::view::{View, in_short};
use std::sync::Arc;
use valvehouse_core::text::optional;
use valvehouse_host::{Change, Plugin, Report, Snapshot, State};
use valvehouse_json::Json;
use valvehouse_script::Diagnostic;
use valvehouse_terminal::{Paint, report};

/// Compares the reports of reloads with the previous snapshot.
pub(super) struct Reloads {
    before: Arc<Snapshot>,
}

impl Reloads {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self { before: snapshot }
    }

    /// Shows a reload. Returns `true` if the running scripts changed.
    pub(super) fn show(&mut self, report: &Report, now: Arc<Snapshot>, view: &View) -> bool {
        let mut is_new = false;
        for change in &report.changes {
            let Some(news) = News::of(change, report, &self.before, &now) else { continue };
            is_new |= news.is_new;
            let ms = report.took.as_secs_f64() * 1_000.0;
            view.event(|paint| news.in_lines(ms, paint), || news.as_json(ms, report.generation));
        }
        self.before = now;
        is_new
    }
}

/// One change as text.
struct News {
    /// One of `updated loaded renamed removed valves settings listed stale broken missing problem`.
    word: &'static str,
    id: Option<Arc<str>>,
    /// The rest of the report.
    rest: String,
    is_bad: bool,
    /// `true` if another version runs than before.
    is_new: bool,
    problems: Vec<Diagnostic>,
}

impl News {
    fn new(word: &'static str, id: &Arc<str>, rest: impl Into<String>) -> Self {
        let id = Some(id.clone());
        Self { word, id, rest: rest.into(), is_bad: false, is_new: true, problems: Vec::new() }
    }

    /// Returns the text of a change; `None` if another change of the report includes it.
    fn of(change: &Change, report: &Report, before: &Snapshot, now: &Snapshot) -> Option<Self> {
        let bad = |word, id: &Arc<str>, rest: &str, problems: &[Diagnostic]| Self {
            is_bad: true,
            is_new: false,
            problems: problems.to_vec(),
            ..Self::new(word, id, rest)
        };
        let warned = |news: Self, id: &Arc<str>| Self { problems: warnings(now, id), ..news };
        Some(match change {
            Change::Loaded(id) => match renamed_from(id, report, before, now) {
                // The text is unchanged.
                Some(old) => Self { is_new: false, ..Self::new("renamed", id, format!("was {old}")) },
                None => warned(Self::new("loaded", id, ""), id),
            },
            Change::Removed(id) if renamed_to(id, report, before, now) => return None,
            Change::Removed(id) => Self::new("removed", id, ""),
            Change::Updated(id) => match before.plugins.get(id).map(|plugin| &plugin.state) {
                Some(State::Stale(_) | State::Broken(_)) => {
                    warned(Self::new("updated", id, "the saved version is running"), id)
                }
                _ => warned(Self::new("updated", id, ""), id),
            },
            Change::Settings(id) => match valves(before.plugins.get(id), now.plugins.get(id)) {
                changes if changes.is_empty() => warned(Self::new("settings", id, "changed"), id),
                changes => warned(Self::new("valves", id, changes), id),
            },
            Change::Listed(id) => {
                warned(Self::new("listed", id, "its models or tools were listed again"), id)
            }
            Change::Stale(id, problems) => bad("stale", id, "its last good version keeps running", problems),
            Change::Broken(id, problems) => {
                bad("broken", id, "it does not load and has never loaded", problems)
            }
            Change::Missing(id) => {
                let what_now = now.plugins.get(id).map_or("", |plugin| plugin.consequence());
                let help = format!("{what_now}; restore its file, or run: valvehouse confirm {id}");
                Self { is_new: true, ..bad("missing", id, &help, &[]) }
            }
            Change::Diagnostic(problem) => {
                Self { id: None, ..bad("problem", &"".into(), "", std::slice::from_ref(problem)) }
            }
        })
    }

    fn in_lines(&self, ms: f64, paint: Paint) -> String {
        let word = if self.is_bad { paint.red(self.word) } else { paint.green(self.word) };
        let id = optional(self.id.as_ref(), |id| format!(" {}", paint.bold(id)));
        let rest = if self.rest.is_empty() { String::new() } else { format!(": {}", self.rest) };
        let mut text = format!("{word}{id}{rest} {}", paint.dim(&format!("({ms:.1} ms)")));
        for problem in &self.problems {
            text.push_str(&format!("\n{}", report::shown(problem, paint)));
        }
        text
    }

    fn as_json(&self, ms: f64, generation: u64) -> Json {
        Json::from([
            ("event", "reload".into()),
            ("change", self.word.into()),
            ("id", self.id.as_deref().into()),
            ("note", self.rest.as_str().into()),
            ("ms", ms.into()),
            ("generation", generation.into()),
            ("problems", report::all_as_json(&self.problems)),
        ])
    }
}

/// Returns the warnings of a script that loads.
fn warnings(now: &Snapshot, id: &str) -> Vec<Diagnostic> {
    let script = now.plugins.get(id).and_then(|plugin| plugin.script.as_ref());
    script.map_or_else(Vec::new, |script| script.findings())
}

/// Returns the previous id of a new file: that of a removed file with the same text.
fn renamed_from<'a>(id: &str, report: &'a Report, before: &Snapshot, now: &Snapshot) -> Option<&'a Arc<str>> {
    let own = text(now, id)?;
    report.changes.iter().find_map(|change| match change {
        Change::Removed(gone) if text(before, gone).as_ref() == Some(&own) => Some(gone),
        _ => None,
    })
}

fn renamed_to(id: &str, report: &Report, before: &Snapshot, now: &Snapshot) -> bool {
    report.changes.iter().any(|change| match change {
        Change::Loaded(new) => renamed_from(new, report, before, now).is_some_and(|renamed| **renamed == *id),
        _ => false,
    })
}

fn text(snapshot: &Snapshot, id: &str) -> Option<Arc<str>> {
    Some(snapshot.plugins.get(id)?.script.as_ref()?.file.text.clone())
}

/// Returns the changed valves, with secrets masked: `max_turns 4 → 8`.
fn valves(before: Option<&Arc<Plugin>>, now: Option<&Arc<Plugin>>) -> String {
    let values = |plugin: Option<&Arc<Plugin>>| {
        let script = plugin.and_then(|plugin| plugin.script.as_ref());
        Json::from(script.map(|script| script.manifest.valves.mask(&script.valves)))
    };
    let (old, new) = (values(before), values(now));
    let names = new.keys();
    let changed = names.iter().filter_map(|name| {
        let (was, is) = (old.field(name), new.field(name));
        (was != is).then(|| format!("{name} {} → {}", in_short(&was), in_short(&is)))
    });
    changed.collect::<Vec<_>>().join(", ")
}
