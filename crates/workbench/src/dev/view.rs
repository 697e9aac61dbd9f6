//! The output of events: lines of text, or one JSON value each.

use jiff::Zoned;
use std::sync::Arc;
use tokio::sync::Notify;
use valvehouse_core::text::shortened;
use valvehouse_json::Json;
use valvehouse_terminal::{Console, Paint, clean};

/// The maximum number of characters of a value in a line.
const SHORT: usize = 90;
/// The number of characters shown around a change in a text.
const AROUND: usize = 16;

/// The output of a session; clones share it.
#[derive(Clone)]
pub(super) struct View {
    out: Console,
    stop: Arc<Notify>,
}

impl View {
    /// Creates an output to stdout. `stop` is notified when stdout is closed.
    pub(super) fn new(out: Console, stop: Arc<Notify>) -> Self {
        Self { out, stop }
    }

    /// Returns `true` if the output is JSON.
    pub(super) fn is_json(&self) -> bool {
        self.out.is_json()
    }

    /// Returns the colors of the output.
    pub(super) fn paint(&self) -> Paint {
        self.out.results()
    }

    /// Shows an event with the current time.
    pub(super) fn event(&self, human: impl FnOnce(Paint) -> String, json: impl FnOnce() -> Json) {
        if self.is_json() {
            return self.written(self.out.json(&json()));
        }
        let now = self.paint().dim(&Zoned::now().strftime("%H:%M:%S").to_string());
        self.note(&format!("{now} {}", human(self.paint())));
    }

    /// Shows a text; JSON output omits it.
    pub(super) fn note(&self, text: &str) {
        if !self.is_json() {
            self.written(self.out.line(text));
        }
    }

    fn written(&self, result: std::io::Result<()>) {
        if result.is_err() {
            self.stop.notify_one();
        }
    }
}

/// Returns a changed value in one line: its path, its old and its new value.
pub(super) fn change_in_short(change: &Json, paint: Paint) -> String {
    let (before, after) = (change.get("before"), change.get("after"));
    let difference = match (before, after) {
        (Some(Json::Text(before)), Some(Json::Text(after))) => {
            let (before, after) = apart(&before, &after);
            format!("{} → {}", paint.red(&before), paint.green(&after))
        }
        (Some(before), Some(after)) => {
            format!("{} → {}", paint.red(&in_short(&before)), paint.green(&in_short(&after)))
        }
        (None, Some(after)) => paint.green(&format!("+ {}", in_short(&after))),
        (Some(before), None) => paint.red(&format!("- {}", in_short(&before))),
        (None, None) => String::new(),
    };
    format!("{} {difference}", paint.dim(&clean(&change.text_or_empty("path"))))
}

/// Returns a value shortened to fit in a line.
pub(super) fn in_short(value: &Json) -> String {
    clean(&shortened(value.to_string(), SHORT)).replace('\n', " ")
}

/// Returns the parts of two texts around their difference, quoted.
fn apart(before: &str, after: &str) -> (String, String) {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(a, b)| a == b).count()
    };
    let (old, new): (Vec<char>, Vec<char>) = (before.chars().collect(), after.chars().collect());
    let head = same(&mut old.iter().copied().zip(new.iter().copied()));
    let most = old.len().min(new.len()) - head;
    let tail = same(&mut old.iter().rev().copied().zip(new.iter().rev().copied()).take(most));
    let shown = |text: &[char]| {
        let (from, to) = (head.saturating_sub(AROUND), (text.len() - tail + AROUND).min(text.len()));
        let piece: String = text[from..to].iter().collect();
        let (begin, end) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        in_short(&format!("{begin}{piece}{end}").as_str().into())
    };
    (shown(&old), shown(&new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_terminal::PLAIN;

    fn short(change: &str) -> String {
        change_in_short(&Json::parse(change.as_bytes()).unwrap(), PLAIN)
    }

    #[test]
    fn a_change_is_shown_as_one_line_around_the_difference() {
        let long = "the quick brown fox jumps over the lazy dog";
        assert_eq!(
            short(&format!(
                r#"{{"path": "/a", "before": "{long}, again {long}", "after": "{long}, AGAIN {long}"}}"#
            )),
            "/a \"…r the lazy dog, again the quick brown…\" → \"…r the lazy dog, AGAIN the quick brown…\""
        );
        assert_eq!(short(r#"{"path": "/a", "before": "hi", "after": "hi!"}"#), r#"/a "hi" → "hi!""#);
        assert_eq!(short(r#"{"path": "/a", "before": "aa", "after": "aaa"}"#), r#"/a "aa" → "aaa""#);
        assert_eq!(short(r#"{"path": "/b", "after": {"c": 1}}"#), r#"/b + {"c":1}"#);
        assert_eq!(short(r#"{"path": "/b", "before": [1]}"#), "/b - [1]");
        assert_eq!(short(r#"{"path": "/b", "before": 1, "after": "x\u001b"}"#), "/b 1 → \"x\\u001b\"");
    }
}
