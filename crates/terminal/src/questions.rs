//! Questions of plugins and tools, answered by the person at the keyboard.
//!
//! Lines of stdin, one reader for the whole process.

use crate::exit::CommandError;
use crate::output::{Console, Paint, clean};
use futures_util::FutureExt;
use std::io::{self, BufRead};
use tokio::sync::mpsc;
use valvehouse_core::context::{EmittedEvent, Events, Questions};
use valvehouse_core::text::yes_or_no;
use valvehouse_json::Json;

/// Questions as they are asked: events with an `id`.
pub type OpenQuestions = mpsc::UnboundedReceiver<Json>;

/// Events for a person at the keyboard: what plugins emit is talk, what they ask is to be answered.
///
/// Without `questions` no answer is possible, and a run that may wait pauses.
pub fn listening(questions: Option<&Questions>, out: &Console) -> (Events, OpenQuestions) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let out = out.clone();
    let listen = move |event: &EmittedEvent| match event.0.text("id") {
        Some(_) => drop(sender.send(event.0.clone())),
        None => print_event(event, &out),
    };
    (Events::listening(listen, questions.cloned()), receiver)
}

fn print_event(event: &EmittedEvent, out: &Console) {
    let kind = event.0.text_or_empty("type");
    let human = || {
        let description = event.0.at_path("data.description");
        let data = event.0.field("data");
        let text = description.as_str().map_or_else(|| data.to_string(), str::to_owned);
        out.talk().dim(&format!("[{kind}] {}", clean(&text)))
    };
    out.event(human, || Json::from([("event", event.0.clone())]));
}

/// Runs `work` and answers its questions until it ends.
///
/// # Errors
/// Returns an error if the lines with the answers cannot be read.
pub async fn answer_during<T>(
    work: impl Future<Output = T>,
    receiver: OpenQuestions,
    questions: &Questions,
    lines: &mut StdinLines,
    out: &Console,
) -> Result<T, CommandError> {
    let mut answers = std::pin::pin!(answer(receiver, questions, lines, out));
    let done = tokio::select! {
        failure = &mut answers => return Err(failure),
        done = work => done,
    };
    // A question that closed just before the end of the work is still reported as closed.
    let _ = answers.now_or_never();
    Ok(done)
}

/// Answers one question after the other and returns only if lines cannot be read. While a question is open,
/// nothing else is written.
async fn answer(
    mut receiver: OpenQuestions,
    questions: &Questions,
    lines: &mut StdinLines,
    out: &Console,
) -> CommandError {
    while let Some(event) = receiver.recv().await {
        let id = event.text_or_empty("id");
        if !questions.is_open(&id) {
            continue;
        }
        let quiet = out.hold();
        let question = Question(event);
        let answered = tokio::select! {
            answered = question.put(lines, out) => answered,
            () = questions.until_closed(&id) => {
                prompt(out, "\n  the question has been closed; no answer is needed\n");
                continue;
            }
        };
        match answered {
            Ok(Some(answer)) => questions.answer(&id, answer),
            Ok(None) => questions.dismiss(&id),
            Err(failure) => return failure,
        };
        drop(quiet);
    }
    // Everybody who could ask is gone; the turn is about to end.
    std::future::pending().await
}

/// An event that waits for an answer.
struct Question(Json);

impl Question {
    /// Shows it and reads the answer; None when there are no more lines.
    async fn put(&self, lines: &mut StdinLines, out: &Console) -> Result<Option<Json>, CommandError> {
        if out.is_json() {
            out.ask(&format!("{}\n", Json::from([("event", self.0.clone())])));
        } else {
            out.ask(&self.shown(out.talk()));
        }
        while let Some(line) = lines.next().await? {
            if let Some(answer) = self.meant(line.trim()) {
                return Ok(Some(answer));
            }
            prompt(out, "  y or n: ");
        }
        prompt(out, "\n");
        Ok(None)
    }

    /// Type, title, message and choices, a line each, and a prompt at the end.
    fn shown(&self, paint: Paint) -> String {
        let data = self.0.field("data");
        let part = |key: &str| data.text(key).map(|text| clean(&text).replace('\n', "\n  "));
        let mut shown = format!("\n{}", paint.dim(&format!("[{}]", clean(&self.kind()))));
        if let Some(title) = part("title") {
            shown.push_str(&format!(" {}", paint.bold(&title)));
        }
        match part("message") {
            Some(message) => shown.push_str(&format!("\n  {message}")),
            None if self.kind() == "approval" && data.text("tool").is_some() => shown.push_str(&call(&data)),
            None if data.text("title").is_some() || data.is_null() => {}
            // A type of the plugin's own: whatever it says.
            None => shown.push_str(&format!("\n  {}", clean(&data.to_string()))),
        }
        if self.kind() == "elicitation" {
            shown.push_str(&form(&data));
        }
        let choices = self.choices();
        for (place, choice) in choices.iter().enumerate() {
            let choice = choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
            shown.push_str(&format!("\n  {}) {}", place + 1, clean(&choice)));
        }
        shown.push_str(&match (self.kind().as_str(), part("placeholder")) {
            ("confirmation" | "approval", _) => "\n  [y/N] ".to_owned(),
            ("elicitation", _) => "\n  (y, n, or a JSON object with the fields) > ".to_owned(),
            (_, Some(hint)) if choices.is_empty() => format!("\n  ({hint}) > "),
            _ => "\n  > ".to_owned(),
        });
        shown
    }

    fn choices(&self) -> Vec<Json> {
        self.0.at_path("data.choices").items()
    }

    fn kind(&self) -> String {
        self.0.text_or_empty("type").into()
    }

    /// The answer a line means; None when a yes or no is needed and it is neither.
    fn meant(&self, line: &str) -> Option<Json> {
        match self.kind().as_str() {
            "approval" => {
                let approved = if line.is_empty() { Some(false) } else { yes_or_no(line) };
                approved.map(|approved| Json::from([("approved", approved.into())]))
            }
            "confirmation" if line.is_empty() => Some(false.into()),
            "confirmation" => yes_or_no(line).map(Json::from),
            "input" => Some(self.choice(line).unwrap_or_else(|| line.into())),
            // The answer to another question is between the plugin and the person: JSON where it is some.
            _ => Some(Json::parse(line.as_bytes()).unwrap_or_else(|_| line.into())),
        }
    }

    /// The choice whose number this is.
    fn choice(&self, line: &str) -> Option<Json> {
        let choices = self.choices();
        if choices.iter().any(|choice| choice.as_str() == Some(line)) {
            return None;
        }
        choices.get(line.parse::<usize>().ok()?.checked_sub(1)?).map(Json::deep_clone)
    }
}

/// The call to approve, with its exact arguments.
fn call(data: &Json) -> String {
    let why = data.text("description").map(|why| format!("\n  {}", clean(&why).replace('\n', "\n  ")));
    let arguments = data.field("arguments").pretty(2).replace('\n', "\n  ");
    let tool = data.text_or_empty("tool");
    format!("{}\n  may `{}` run with {}?", why.unwrap_or_default(), clean(&tool), clean(&arguments))
}

/// The address or the fields of a server's question, a line each.
fn form(data: &Json) -> String {
    let mut shown = data.text("url").map_or_else(String::new, |url| format!("\n  {}", clean(&url)));
    for (name, property) in data.at_path("requestedSchema.properties").entries() {
        let kind = property.text_or_empty("type");
        let about = property.text("description").map_or_else(String::new, |about| format!(": {about}"));
        let usual = property.get("default").map_or_else(String::new, |usual| format!(" [{usual}]"));
        shown.push_str(&format!("\n  {}", clean(&format!("{name} ({kind}){about}{usual}"))));
    }
    shown
}

/// A word to the person; programs need none.
fn prompt(out: &Console, text: &str) {
    if !out.is_json() {
        out.ask(text);
    }
}

/// Lines, in their order, each given once: whoever stops waiting for one leaves it to the next.
pub struct StdinLines {
    /// None before the first line is wanted; closed after the last.
    coming: Option<mpsc::Receiver<io::Result<String>>>,
}

impl StdinLines {
    /// The lines of stdin. Nothing is read before the first line is needed.
    pub fn of_stdin() -> Self {
        Self { coming: None }
    }

    /// No lines at all.
    pub fn none() -> Self {
        Self { coming: Some(mpsc::channel(1).1) }
    }

    /// Returns the next line without its end, `None` at the end of the input.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub async fn next(&mut self) -> Result<Option<String>, CommandError> {
        let line = self.coming.get_or_insert_with(read).recv().await.transpose();
        line.map_err(|error| CommandError::data(format!("cannot read a line: {error}")))
    }
}

/// A thread of its own, not the runtime's: it may wait for a person when everything else has ended.
fn read() -> mpsc::Receiver<io::Result<String>> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || io::stdin().lock().lines().try_for_each(|line| sender.blocking_send(line)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::PLAIN;

    fn question(text: &str) -> Question {
        Question(Json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_question_is_shown_with_choices_and_defaults() {
        let shown = |text: &str| question(text).shown(PLAIN);
        let input = r#"{"type": "input", "data": {"title": "City", "message": "Which\u001b one?", "choices": ["Oslo", 7]}}"#;
        assert_eq!(shown(input), "\n[input] City\n  Which\u{fffd} one?\n  1) Oslo\n  2) 7\n  > ");
        let hint = r#"{"type": "input", "data": {"message": "Which?", "placeholder": "a city"}}"#;
        assert_eq!(shown(hint), "\n[input]\n  Which?\n  (a city) > ");
        let confirm = r#"{"type": "confirmation", "data": {"title": "Sure"}}"#;
        assert_eq!(shown(confirm), "\n[confirmation] Sure\n  [y/N] ");
        let approval = r#"{"type": "approval", "data": {"tool": "pay", "arguments": {"amount": 10}, "description": "Pays"}}"#;
        assert_eq!(
            shown(approval),
            "\n[approval]\n  Pays\n  may `pay` run with {\n    \"amount\": 10\n  }?\n  [y/N] "
        );
        let form = r#"{"type": "elicitation", "data": {"message": "shop: Where to?", "requestedSchema": {"properties": {"city": {"type": "string", "description": "The city", "default": "Oslo"}}}}}"#;
        assert_eq!(
            shown(form),
            "\n[elicitation]\n  shop: Where to?\n  city (string): The city [\"Oslo\"]\n  (y, n, or a JSON object with the fields) > "
        );
        assert_eq!(shown(r#"{"type": "own", "data": [1]}"#), "\n[own]\n  [1]\n  > ");
    }

    #[test]
    fn an_answer_line_is_parsed_by_the_kind_of_question() {
        let confirm = question(r#"{"type": "confirmation"}"#);
        assert_eq!(confirm.meant("Yes"), Some(true.into()));
        assert_eq!(confirm.meant("n"), Some(false.into()));
        assert_eq!(confirm.meant(""), Some(false.into()));
        assert_eq!(confirm.meant("perhaps"), None);
        let approval = question(r#"{"type": "approval"}"#);
        assert_eq!(approval.meant("y").unwrap().to_string(), r#"{"approved":true}"#);
        assert_eq!(approval.meant("").unwrap().to_string(), r#"{"approved":false}"#);
        assert_eq!(approval.meant("why?"), None);
        let input = question(r#"{"type": "input", "data": {"choices": ["a", "3", "b"]}}"#);
        assert_eq!(input.meant("1"), Some("a".into()));
        assert_eq!(input.meant("3"), Some("3".into()));
        assert_eq!(input.meant("4"), Some("4".into()));
        assert_eq!(question(r#"{"type": "own"}"#).meant("[1]").unwrap().to_string(), "[1]");
    }
}
