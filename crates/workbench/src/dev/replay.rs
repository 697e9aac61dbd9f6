//! The comparison of a replayed request with its previous run.

use super::view::{View, change_in_short};
use std::sync::Arc;
use valvehouse_core::text::optional;
use valvehouse_core::trace::{StepRecord, Trace};
use valvehouse_json::Json;
use valvehouse_json::diff::{DiffOperation, diff};
use valvehouse_terminal::{Paint, clean};

/// The maximum number of changed values that are shown.
const SHOWN: usize = 10;

/// The parts of a request's outcome that are compared.
pub(super) struct Outcome {
    status: u16,
    error: Option<String>,
    /// The requests to models, call by call.
    requests: Vec<Json>,
    /// The choices of the answer.
    answer: Json,
    /// The results of the hooks, in order.
    hooks: Vec<Ending>,
}

#[derive(PartialEq)]
struct Ending {
    name: Arc<str>,
    hook: &'static str,
    word: &'static str,
    cause: Option<String>,
}

impl Outcome {
    pub(super) fn of(trace: &Trace) -> Self {
        let records = trace.records();
        let is_model = |record: &&StepRecord| record.hook == "model";
        let requests = records.iter().filter(is_model).filter_map(|record| record.details().values.first());
        let hooks = records.iter().filter(|record| !is_model(record)).map(|record| Ending {
            name: record.name.clone(),
            hook: record.hook,
            word: record.word,
            cause: record.details().cause.clone(),
        });
        Self {
            status: trace.ended().map_or(0, |ended| ended.status),
            error: trace.error(),
            requests: requests.map(|(request, _)| request.clone()).collect(),
            answer: trace.answer().and_then(|answer| answer.get("choices")).into(),
            hooks: hooks.collect(),
        }
    }
}

/// The differences between two outcomes of a request.
pub(super) struct Difference {
    was: u16,
    is: u16,
    /// The error of the replay if it differs.
    error: Option<String>,
    requests: Vec<Json>,
    calls: Calls,
    answer: Vec<Json>,
    /// The hooks with different results, each as a line and as JSON.
    hooks: Vec<(String, Json)>,
}

/// A difference in the calls of models.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    AsBefore,
    NoMore,
}

impl Calls {
    fn in_words(self) -> &'static str {
        match self {
            Self::AsBefore => "the model is called",
            Self::NoMore => "the model is no longer called",
        }
    }
}

impl Difference {
    pub(super) fn between(was: &Outcome, is: &Outcome) -> Self {
        let changes = |was: &Json, is: &Json| -> Vec<Json> {
            diff(was, is).iter().map(DiffOperation::to_json).collect()
        };
        let requests_of = |outcome: &Outcome| match outcome.requests.as_slice() {
            [one] => one.clone(),
            more => more.to_vec().into(),
        };
        let calls =
            if is.requests.is_empty() && !was.requests.is_empty() { Calls::NoMore } else { Calls::AsBefore };
        // A missing value is reported in another way.
        let requests =
            if calls == Calls::NoMore { Vec::new() } else { changes(&requests_of(was), &requests_of(is)) };
        let answer = if is.answer.is_null() { Vec::new() } else { changes(&was.answer, &is.answer) };
        Self {
            was: was.status,
            is: is.status,
            error: is.error.clone().filter(|_| is.error != was.error),
            requests,
            calls,
            answer,
            hooks: endings(&was.hooks, &is.hooks),
        }
    }

    fn is_none(&self) -> bool {
        self.was == self.is
            && self.error.is_none()
            && [&self.requests, &self.answer].iter().all(|changes| changes.is_empty())
            && self.hooks.is_empty()
            && self.calls == Calls::AsBefore
    }

    /// Shows the differences of a replayed request.
    pub(super) fn show(&self, number: usize, took_ms: f64, view: &View) {
        view.event(|paint| self.in_lines(number, took_ms, paint), || self.as_json(number, took_ms));
    }

    fn in_lines(&self, number: usize, took_ms: f64, paint: Paint) -> String {
        let ms = paint.dim(&format!("({took_ms:.1} ms)"));
        let name = paint.bold(&format!("#{number}"));
        if self.is_none() {
            return format!("replay of {name}: unchanged {ms}");
        }
        let status = match (self.was, self.is) {
            (was, is) if was == is => is.to_string(),
            (was, is) => format!(
                "{was} → {}",
                if is < 400 { paint.green(&is.to_string()) } else { paint.red(&is.to_string()) }
            ),
        };
        let mut text = format!("replay of {name}: {status} {ms}");
        let is_shown = |error: &&String| {
            self.hooks.iter().any(|(_, hook)| hook.text("cause").is_some_and(|cause| error.contains(&*cause)))
        };
        if let Some(error) = self.error.as_ref().filter(|error| !is_shown(error)) {
            text.push_str(&format!("\n         {}", paint.red(&clean(error).replace('\n', " "))));
        }
        for (line, _) in &self.hooks {
            text.push_str(&format!("\n         {line}"));
        }
        for (what, changes) in [(self.calls.in_words(), &self.requests), ("the answer", &self.answer)] {
            if !changes.is_empty() {
                text.push_str(&format!("\n         {what}"));
            }
            for change in changes.iter().take(SHOWN) {
                text.push_str(&format!("\n           {}", change_in_short(change, paint)));
            }
            if changes.len() > SHOWN {
                text.push_str(&format!("\n           … and {} more", changes.len() - SHOWN));
            }
        }
        if self.calls == Calls::NoMore {
            text.push_str(&format!("\n         {}", self.calls.in_words()));
        }
        text
    }

    fn as_json(&self, number: usize, took_ms: f64) -> Json {
        let hooks: Vec<Json> = self.hooks.iter().map(|(_, hook)| hook.clone()).collect();
        Json::from([
            ("event", "replay".into()),
            ("number", number.into()),
            ("same", self.is_none().into()),
            ("was", u64::from(self.was).into()),
            ("status", u64::from(self.is).into()),
            ("error", self.error.as_deref().into()),
            ("hooks", hooks.into()),
            ("asked", self.requests.clone().into()),
            ("answer", self.answer.clone().into()),
            ("took_ms", took_ms.into()),
        ])
    }
}

/// Returns the hooks with different results, or that run on one side only.
fn endings(was: &[Ending], is: &[Ending]) -> Vec<(String, Json)> {
    let ending_change = |ending: &Ending, before: &str, after: &str, cause: Option<&str>| {
        let (name, hook) = (clean(&ending.name), ending.hook);
        let why = optional(cause, |cause| {
            format!(": {}", super::requests::near(cause).replace('\n', "\n           "))
        });
        let line = format!("{name} {hook}: {before} → {after}{why}");
        let json = Json::from([
            ("name", name.as_str().into()),
            ("hook", hook.into()),
            ("was", before.into()),
            ("is", after.into()),
            ("cause", cause.into()),
        ]);
        (line, json)
    };
    let same_place = |a: &Ending, b: &Ending| a.name == b.name && a.hook == b.hook;
    let mut left: Vec<&Ending> = is.iter().collect();
    let mut all = Vec::new();
    for old in was {
        match left.iter().position(|new| same_place(old, new)) {
            Some(place) => {
                let new = left.remove(place);
                if old != new {
                    all.push(ending_change(old, old.word, new.word, new.cause.as_deref()));
                }
            }
            None => all.push(ending_change(old, old.word, "did not run", None)),
        }
    }
    all.extend(left.iter().map(|new| ending_change(new, "did not run", new.word, new.cause.as_deref())));
    all
}
