//! The tools `human_input` and `human_confirm`, with which a model asks the user.
//!
//! The questions are sent as Open WebUI's event calls, so clients that know those show a dialog.

use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use valvehouse_core::context::Turn;
use valvehouse_core::error::BoxError;
use valvehouse_core::text::yes_or_no;
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;

/// The time limit of a question.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The time by which a question ends before its tool does, so that the model receives the reason.
const MARGIN: Duration = Duration::from_secs(5);

/// Asks the person a question and waits for the answer. Use it when something needed for the task is missing and only the person can know it. Returns {answer}.
#[derive(Deserialize, JsonSchema)]
struct Question {
    /// The question, as the person reads it
    question: String,
    /// Answers to choose from, if there are only a few
    #[serde(default)]
    choices: Vec<String>,
}

/// Asks the person to confirm something and waits for yes or no. Use it before anything that cannot be undone. Returns {confirmed}, and {reason} when the person said why not.
#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    /// The thing to confirm, as the person reads it
    question: String,
}

/// Returns the tools. They work if the client receives events and can answer them.
pub(super) fn tools() -> Vec<Tool> {
    let input = Tool::from_fn_with_turn("human_input", |args: Question, turn| async move {
        let answer = Ask::Input.ask(&args.question, &args.choices, &turn).await?;
        input(&answer, &args.choices)
    });
    let confirm = Tool::from_fn_with_turn("human_confirm", |args: Confirmation, turn| async move {
        Ok(confirmation(&Ask::Confirm.ask(&args.question, &[], &turn).await?))
    });
    [input, confirm].map(|tool| tool.tag("human").timeout(TIMEOUT)).into()
}

/// The kind of question to the user.
#[derive(Clone, Copy)]
enum Ask {
    Input,
    Confirm,
}

impl Ask {
    fn name(self) -> &'static str {
        match self {
            Self::Input => "human_input",
            Self::Confirm => "human_confirm",
        }
    }

    /// Asks the user and returns the answer as the client sent it.
    async fn ask(self, question: &str, choices: &[String], turn: &Turn) -> Result<Json, BoxError> {
        let question = question.trim();
        if question.is_empty() {
            return Err("missing `question`: write the question for the person".into());
        }
        let answer = turn.ask(self.name(), self.event(question, choices), TIMEOUT - MARGIN).await;
        let answer = answer.map_err(|nobody| nobody.to_string())?;
        // Open WebUI answers with an error if the user has left.
        match answer.text("error") {
            Some(error) => Err(format!("no answer: {error}").into()),
            None => Ok(answer),
        }
    }

    fn event(self, question: &str, choices: &[String]) -> Json {
        let (kind, title) = match self {
            Self::Input => ("input", "A question"),
            Self::Confirm => ("confirmation", "Please confirm"),
        };
        let data = Json::from([("title", title.into()), ("message", question.into())]);
        if !choices.is_empty() {
            // A new value contains no other, so the assignment cannot fail. A dialog that cannot show choices
            // shows the placeholder.
            data.edit("placeholder", choices.join(" / "));
            data.edit(
                "choices",
                choices.iter().map(|choice| Json::from(choice.as_str())).collect::<Vec<_>>(),
            );
        }
        Json::from([("type", kind.into()), ("data", data)])
    }
}

/// Returns a text unchanged, and any other value as JSON.
fn text_of(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn input(answer: &Json, choices: &[String]) -> Result<Json, BoxError> {
    let answer = match answer {
        Json::Object(object) => object.get("answer").unwrap_or_else(|| object.field("value")),
        plain => plain.clone(),
    };
    // A dialog that was closed answers with false.
    if matches!(answer, Json::Null | Json::Bool(false)) {
        return Err("the user closed the question without an answer".into());
    }
    let reply = text_of(&answer);
    let answer = chosen(reply.trim(), choices).unwrap_or(&reply);
    Ok(Json::from([("answer", answer.into())]))
}

/// Returns the chosen option: by its text, or by its number from 1. `None` if the answer is a text of the
/// user's own.
fn chosen<'a>(reply: &str, choices: &'a [String]) -> Option<&'a str> {
    let by_text = choices.iter().find(|choice| choice.to_lowercase() == reply.to_lowercase());
    let by_place = || choices.get(reply.parse::<usize>().ok()?.checked_sub(1)?);
    by_text.or_else(by_place).map(String::as_str)
}

/// Returns the result of a confirmation. Only a clear yes confirms; another text is passed on as the reason.
fn confirmation(answer: &Json) -> Json {
    let (value, reason) = match answer {
        Json::Object(object) => (object.field("confirmed"), object.get("reason")),
        plain => (plain.clone(), None),
    };
    let meant = match &value {
        Json::Bool(value) => Some(*value),
        Json::Text(text) => yes_or_no(text),
        _ => None,
    };
    let words = || value.as_str().filter(|text| meant.is_none() && !text.trim().is_empty()).map(Json::from);
    let result = Json::from([("confirmed", (meant == Some(true)).into())]);
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()).or_else(words) {
        result.edit("reason", reason);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;
    use valvehouse_core::context::{Context, EmittedEvent, Events, Questions, TurnFacts};
    use valvehouse_core::tool::Toolbox;

    fn json(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    /// Calls a tool and answers its question; returns the question and the result.
    async fn talk(name: &str, args: &str, answer: &str) -> (Json, Result<Json, String>) {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let questions = Questions::default();
        let send = move |event: &EmittedEvent| drop(sender.send(event.0.clone()));
        let events = Events::listening(send, Some(questions.clone()));
        let turn = Turn::new(TurnFacts::default(), Context::default(), events);
        let tool = Toolbox::new(tools()).find(name).unwrap().clone();
        let answered = async {
            let event: Json = receiver.recv().await.unwrap();
            assert!(questions.answer(&event.text("id").unwrap(), json(answer)));
            event
        };
        let (result, event) = tokio::join!(tool.invoke(json(args), &turn), answered);
        (event, result.map(|result| result.value).map_err(|error| error.message))
    }

    #[tokio::test]
    async fn a_question_has_the_shape_of_open_webui() {
        let args = r#"{"question": "Which city?", "choices": ["Oslo", "Bergen"]}"#;
        let (event, result) = talk("human_input", args, r#""oslo ""#).await;
        event.remove("id").unwrap();
        assert_eq!(
            event.to_string(),
            r#"{"type":"input","data":{"title":"A question","message":"Which city?","placeholder":"Oslo / Bergen","choices":["Oslo","Bergen"]}}"#
        );
        assert_eq!(result.unwrap(), json(r#"{"answer": "Oslo"}"#));
    }

    #[tokio::test]
    async fn an_answer_may_be_a_choice_a_number_or_free_text() {
        let args = r#"{"question": "Which city?", "choices": ["Oslo", "Bergen"]}"#;
        for (answer, expected) in [
            ("2", "\"Bergen\""),
            (r#""2""#, "\"Bergen\""),
            (r#""3""#, "\"3\""),
            (r#""neither""#, "\"neither\""),
            (r#"{"answer": "BERGEN"}"#, "\"Bergen\""),
        ] {
            let (_, result) = talk("human_input", args, answer).await;
            assert_eq!(result.unwrap().get("answer").unwrap(), json(expected), "{answer}");
        }
    }

    #[tokio::test]
    async fn only_an_explicit_yes_confirms() {
        for yes in ["true", r#""Ja!""#, r#""yes""#, r#"{"confirmed": true}"#, r#"{"confirmed": "y"}"#] {
            let (event, result) = talk("human_confirm", r#"{"question": "Delete it?"}"#, yes).await;
            assert_eq!(event.text("type").unwrap(), "confirmation");
            assert_eq!(result.unwrap(), json(r#"{"confirmed": true}"#), "{yes}");
        }
        for (no, expected) in [
            ("false", r#"{"confirmed": false}"#),
            (r#""no""#, r#"{"confirmed": false}"#),
            ("null", r#"{"confirmed": false}"#),
            ("1", r#"{"confirmed": false}"#),
            (r#"{"confirmed": "perhaps"}"#, r#"{"confirmed": false, "reason": "perhaps"}"#),
            (r#""after the backup""#, r#"{"confirmed": false, "reason": "after the backup"}"#),
            (
                r#"{"confirmed": false, "reason": "too early"}"#,
                r#"{"confirmed": false, "reason": "too early"}"#,
            ),
        ] {
            let (_, result) = talk("human_confirm", r#"{"question": "Delete it?"}"#, no).await;
            assert_eq!(result.unwrap(), json(expected), "{no}");
        }
    }

    #[tokio::test]
    async fn a_model_receives_a_note_that_nobody_answered() {
        let (_, left) = talk("human_input", r#"{"question": "?"}"#, r#"{"error": "disconnected"}"#).await;
        assert_eq!(left.unwrap_err(), "no answer: disconnected");
        let (_, closed) = talk("human_input", r#"{"question": "?"}"#, "false").await;
        assert!(closed.unwrap_err().contains("without an answer"));
        for tool in tools() {
            let alone = tool.invoke(json(r#"{"question": "?"}"#), &Turn::default()).await;
            assert!(alone.unwrap_err().message.contains("nobody can answer"));
            let empty = tool.invoke(json(r#"{"question": " "}"#), &Turn::default()).await;
            assert!(empty.unwrap_err().message.contains("missing `question`"));
            assert!(tool.spec.timeout > TIMEOUT - MARGIN);
        }
    }
}
