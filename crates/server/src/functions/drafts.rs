//! Routes for editors: the problems of a text that is not saved, and suggestions for a position in it. Nothing is
//! stored.

use super::function::{FunctionAnswer, answer};
use super::scripts::{FunctionKind, kind_of};
use crate::api::Body;
use crate::problem::{self, ProblemReport};
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_authoring::editor::{Sketch, Suggestion};
use valvehouse_authoring::fix::fix;
use valvehouse_core::error::Error;
use valvehouse_host::admin::AdminError;
use valvehouse_host::app::{self, App};
use valvehouse_script::diagnostic::{Fix, FixEdit};
use valvehouse_script::{Kind, MAX_SOURCE};

/// The id whose settings apply to the text of a new plugin.
const NEW: &str = "draft";
/// The maximum number of returned suggestions.
const MAX_SUGGESTIONS: usize = 60;

/// A text to check.
#[derive(Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"content": "fn inlet(body) { body }"}))]
pub(super) struct DraftCheck {
    /// The text of the script.
    content: String,
    /// The plugin whose settings and grants apply; a new one has none.
    id: Option<String>,
    /// The kind of a new plugin; by default determined from the text.
    r#type: Option<FunctionKind>,
}

/// A problem of a text with its fix.
#[derive(Serialize, JsonSchema)]
pub(super) struct DraftProblem {
    #[serde(flatten)]
    problem: ProblemReport,
    /// The number of characters that the problem concerns.
    width: usize,
    /// The edits that solve it, or null.
    fix: Option<DraftFix>,
}

/// The edits that solve a problem.
#[derive(Serialize, JsonSchema)]
struct DraftFix {
    title: String,
    edits: Vec<DraftEdit>,
}

/// A replacement of characters, which are counted from 0.
#[derive(Serialize, JsonSchema)]
struct DraftEdit {
    from: usize,
    to: usize,
    text: String,
}

/// Handles `POST /api/v1/functions/check`.
pub(super) async fn check(
    State(app): State<Arc<App>>,
    Body(DraftCheck { content, id, r#type }): Body<DraftCheck>,
) -> FunctionAnswer<Vec<DraftProblem>> {
    let checked = async {
        let kind = match &id {
            Some(id) => app.admin.plugin(id)?.kind,
            None => kind_of(r#type, &content),
        };
        let problems = app.admin.check(kind, id.as_deref().unwrap_or(NEW), &content).await?;
        let with_fix = problems.iter().map(|found| DraftProblem {
            problem: problem::report(&app, found, id.as_deref(), "broken"),
            width: found.width(),
            fix: fix(found, &content).map(|fix| in_characters(fix, &content)),
        });
        Ok(with_fix.collect::<Vec<_>>())
    };
    answer(&app, checked.await)
}

fn in_characters(Fix { title, edits }: Fix, text: &str) -> DraftFix {
    let count = |byte: usize| text[..byte].chars().count();
    let edits = edits.into_iter();
    let edits =
        edits.map(|FixEdit { at, text }| DraftEdit { from: count(at.start), to: count(at.end), text });
    DraftFix { title, edits: edits.collect() }
}

/// A position in a text.
#[derive(Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"content": "fn inlet(body) { text::", "at": 23}))]
pub(super) struct DraftPosition {
    /// The text of the script, at most 256 KiB.
    content: String,
    /// The number of characters before the position.
    at: usize,
    /// The kind of script, which imports modules of its folder; by default determined from the text.
    r#type: Option<FunctionKind>,
}

/// A name that fits a position.
#[derive(Serialize, JsonSchema)]
pub(super) struct DraftSuggestion {
    label: String,
    /// The signature or the type.
    detail: String,
    /// The documentation in Markdown.
    doc: String,
    /// The text to insert, with the placeholders `$0` and `${1:name}`; `\$`, `\}` and `\\` are characters.
    insert: String,
}

/// Handles `POST /api/v1/functions/complete`: returns names that contain the word before the position, those that
/// begin with it first.
pub(super) async fn complete(
    State(app): State<Arc<App>>,
    Body(DraftPosition { content, at, r#type }): Body<DraftPosition>,
) -> FunctionAnswer<Vec<DraftSuggestion>> {
    let kind = kind_of(r#type, &content);
    let work = app.clone();
    let found = match content.len() <= MAX_SOURCE {
        true => tokio::task::spawn_blocking(move || suggestions(&work, kind, &content, at))
            .await
            .map_err(|error| Error::Host(format!("cannot complete the text: {error}")).into()),
        false => Err(AdminError::from(Error::invalid(
            format!("the text exceeded its limit of {} KiB", MAX_SOURCE / 1024),
            Some("content"),
        ))),
    };
    answer(&app, found)
}

fn suggestions(app: &App, kind: Kind, text: &str, at: usize) -> Vec<DraftSuggestion> {
    let at = text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    let start = text[..at].rfind(|letter: char| letter != '_' && !letter.is_alphanumeric());
    let start = start.map_or(0, |byte| text.ceil_char_boundary(byte + 1));
    let word = text[start..at].to_lowercase();
    let name = |suggestion: &Suggestion| suggestion.label.to_lowercase();
    let mut found = Sketch::of(text).suggestions(at, &|path| module(app, kind, path));
    found.retain(|suggestion| name(suggestion).contains(&word));
    found.sort_by_key(|suggestion| !name(suggestion).starts_with(&word));
    let found = found.into_iter().take(MAX_SUGGESTIONS);
    let shown =
        |Suggestion { label, detail, doc, insert, .. }| DraftSuggestion { label, detail, doc, insert };
    found.map(shown).collect()
}

/// Returns a module of the folder of scripts, if it is a small file within it.
fn module(app: &App, kind: Kind, path: &str) -> Option<Sketch> {
    let is_plain = path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
    let file = app::folder_of(&app.config, kind).join(format!("{path}.rhai"));
    let is_small = || file.metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_SOURCE as u64);
    let text = (is_plain && is_small()).then(|| std::fs::read_to_string(&file).ok())??;
    Some(Sketch::of(&text))
}
