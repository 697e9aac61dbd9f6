//! The expected memory of an agent, computed independently.

use super::{Answer, Choice, Kind};
use std::collections::HashSet;

/// One message of the expected memory.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The beginning of the line.
    begins: String,
    /// The text that the line contains.
    holds: String,
    calls: Vec<(Kind, usize)>,
    answers: Option<usize>,
}

impl Entry {
    fn new(begins: impl Into<String>, holds: impl Into<String>) -> Self {
        Self { begins: begins.into(), holds: holds.into(), calls: Vec::new(), answers: None }
    }

    pub(super) fn is(&self, line: &str) -> bool {
        line.starts_with(&self.begins) && line.contains(&self.holds)
    }
}

/// The status of the latest run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Paused,
    /// The model did not respond.
    Failed,
    /// A tool ended the turn.
    Broken,
}

#[derive(Debug, Clone)]
pub(super) struct Oracle {
    pub(super) entries: Vec<Entry>,
    pub(super) phase: Phase,
    /// The calls of tools that have failed once.
    broken: HashSet<usize>,
}

/// The number of the next call or text, as the model counts them.
pub(super) type Number = usize;

impl Oracle {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), phase: Phase::Idle, broken: HashSet::new() }
    }

    /// Replaces the messages and the phase.
    pub(super) fn becomes(&mut self, entries: Vec<Entry>, phase: Phase) {
        (self.entries, self.phase) = (entries, phase);
    }

    pub(super) fn user_message(&mut self, text: &str, answers: &[Answer], next: Number) {
        for (_, number) in self.open() {
            self.answered(number, "cancelled");
        }
        self.entries.push(Entry::new(format!("user: {text}"), ""));
        self.advance(answers, next);
    }

    /// Returns `true` if the decision is possible.
    pub(super) fn decides(&mut self, choice: Choice, answers: &[Answer], next: Number) -> bool {
        let first = self.open().first().copied();
        let result = match (self.phase, choice) {
            (Phase::Idle, _) => return false,
            (Phase::Paused, Choice::GoOn | Choice::Retry) => return true,
            (Phase::Failed, Choice::GoOn | Choice::Retry) => None,
            (Phase::Failed, _) | (Phase::Broken, Choice::GoOn | Choice::Change) => return false,
            // It runs again and succeeds.
            (Phase::Broken, Choice::Retry | Choice::Approve) => None,
            (Phase::Broken, Choice::Answer(answer)) => Some(answer.to_string()),
            (Phase::Paused, Choice::Change) => Some("did other".to_owned()),
            (_, Choice::Reject) => Some("not today".to_owned()),
            (Phase::Paused, Choice::Answer(false)) => Some("rejected the call".to_owned()),
            (Phase::Paused, Choice::Approve | Choice::Answer(true)) => {
                first.map(|(_, number)| format!("did {number}"))
            }
        };
        if let (Some(result), Some((_, number))) = (result, first) {
            self.answered(number, &result);
        }
        self.advance(answers, next);
        true
    }

    /// Returns the calls without a result.
    pub(super) fn open(&self) -> Vec<(Kind, usize)> {
        let Some(last) = self.entries.iter().rposition(|entry| !entry.calls.is_empty()) else {
            return Vec::new();
        };
        let answered: Vec<usize> = self.entries[last..].iter().filter_map(|entry| entry.answers).collect();
        self.entries[last].calls.iter().filter(|(_, number)| !answered.contains(number)).copied().collect()
    }

    fn answered(&mut self, number: usize, result: &str) {
        self.entries.push(Entry { answers: Some(number), ..Entry::new("tool: ", result) });
    }

    fn advance(&mut self, answers: &[Answer], mut next: Number) {
        let mut answers = answers.iter();
        loop {
            for (kind, number) in self.open() {
                match kind {
                    Kind::Guarded => return self.phase = Phase::Paused,
                    Kind::Breaks if self.broken.insert(number) => return self.phase = Phase::Broken,
                    Kind::Fails => self.answered(number, &format!("cannot {number}")),
                    Kind::Works | Kind::Breaks => self.answered(number, &format!("did {number}")),
                }
            }
            match answers.next() {
                Some(Answer::Fails) => return self.phase = Phase::Failed,
                Some(Answer::Calls(kinds)) => {
                    let calls: Vec<(Kind, usize)> =
                        kinds.iter().enumerate().map(|(place, kind)| (*kind, next + place)).collect();
                    next += kinds.len();
                    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
                    let line = format!("assistant: calls {}", names.join(", "));
                    self.entries.push(Entry { calls, ..Entry::new(line, "") });
                }
                Some(Answer::Text) | None => {
                    self.entries.push(Entry::new(format!("assistant: text {next}"), ""));
                    return self.phase = Phase::Idle;
                }
            }
        }
    }
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Works, Self::Fails, Self::Breaks, Self::Guarded];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Fails => "fails",
            Self::Breaks => "breaks",
            Self::Guarded => "guarded",
        }
    }
}
