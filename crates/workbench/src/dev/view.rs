//! The output of events: lines for people, one JSON value each for programs.

use jiff::Zoned;
use std::sync::Arc;
use tokio::sync::Notify;
use valvehouse_core::text::shortened;
use valvehouse_json::Json;
use valvehouse_terminal::{Console, Paint, clean};

/// The most characters of a value in a line.
const SHORT: usize = 90;
/// The characters of a text that are shown around the place where it changes.
const AROUND: usize = 16;

/// The view of a session; a clone is the same one.
#[derive(Clone)]
pub(super) struct View {
    out: Console,
    stop: Arc<Notify>,
}

impl View {
    /// Writes to stdout; when that is closed, `stop` is called.
    pub(super) fn new(out: Console, stop: Arc<Notify>) -> Self {
        Self { out, stop }
    }

    /// Returns `true` if programs read it.
    pub(super) fn is_json(&self) -> bool {
        self.out.is_json()
    }

    /// Its colours.
    pub(super) fn paint(&self) -> Paint {
        self.out.results()
    }

    /// Something happens now.
    pub(super) fn tell(&self, human: impl FnOnce(Paint) -> String, json: impl FnOnce() -> Json) {
        if self.is_json() {
            return self.written(self.out.json(&json()));
        }
        let now = self.paint().dim(&Zoned::now().strftime("%H:%M:%S").to_string());
        self.say(&format!("{now} {}", human(self.paint())));
    }

    /// Says something to people.
    pub(super) fn say(&self, text: &str) {
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

/// A change of a value in a line: where, and what came of what.
pub(super) fn change_in_short(change: &Json, paint: Paint) -> String {
    let (before, after) = (change.get("before"), change.get("after"));
    let told = match (before, after) {
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
    format!("{} {told}", paint.dim(&clean(&change.text_or_empty("path"))))
}

/// A value as far as it fits in a line.
pub(super) fn in_short(value: &Json) -> String {
    clean(&shortened(value.to_string(), SHORT)).replace('\n', " ")
}

/// Two texts, quoted, around the place where they differ.
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

    fn told(change: &str) -> String {
        change_in_short(&Json::parse(change.as_bytes()).unwrap(), PLAIN)
    }

    #[test]
    fn a_change_is_told_in_a_line_around_the_place_where_it_is() {
        let long = "the quick brown fox jumps over the lazy dog";
        assert_eq!(
            told(&format!(
                r#"{{"path": "/a", "before": "{long}, again {long}", "after": "{long}, AGAIN {long}"}}"#
            )),
            "/a \"…r the lazy dog, again the quick brown…\" → \"…r the lazy dog, AGAIN the quick brown…\""
        );
        assert_eq!(told(r#"{"path": "/a", "before": "hi", "after": "hi!"}"#), r#"/a "hi" → "hi!""#);
        assert_eq!(told(r#"{"path": "/a", "before": "aa", "after": "aaa"}"#), r#"/a "aa" → "aaa""#);
        assert_eq!(told(r#"{"path": "/b", "after": {"c": 1}}"#), r#"/b + {"c":1}"#);
        assert_eq!(told(r#"{"path": "/b", "before": [1]}"#), "/b - [1]");
        assert_eq!(told(r#"{"path": "/b", "before": 1, "after": "x\u001b"}"#), "/b 1 → \"x\\u001b\"");
    }
}
