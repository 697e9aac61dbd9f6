//! An answer while it is created: its text is written as it arrives, its questions are asked, and the user is
//! shown how to resume a paused run.

use valvehouse_agent::in_words;
use valvehouse_core::chat::{message, response};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{TurnAnswer, TurnEvent, TurnStream};
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_terminal::questions::{self, OpenQuestions};
use valvehouse_terminal::{CommandError, Console, StdinLines, clean};

/// Runs a turn, writes its answer, and asks its questions. `complete` adds fields to the answer before it is
/// printed as JSON.
pub(super) async fn print(
    answer: TurnStream<'_>,
    complete: impl FnOnce(&Json),
    open_questions: OpenQuestions,
    app: &App,
    lines: &mut StdinLines,
    out: &Console,
) -> Result<Json, CommandError> {
    let mut was_written = false;
    let run = write(answer, &mut was_written, out);
    let answer = match questions::answer_during(run, open_questions, &app.questions, lines, out).await? {
        Ok(answer) => answer.reply,
        Err(failure) => {
            if was_written {
                out.line("")?;
            }
            return Err(failure);
        }
    };
    complete(&answer);
    if out.is_json() {
        out.json(&answer)?;
    } else if was_written {
        out.text(&response::message_of(&answer).text_or_empty("refusal"))?;
        out.line("")?;
    } else {
        out.text(&message::text_with_refusal(&response::message_of(&answer)))?;
        out.line("")?;
    }
    Ok(answer)
}

/// Writes the text as it arrives, and returns the answer.
async fn write(
    mut answer: TurnStream<'_>,
    was_written: &mut bool,
    out: &Console,
) -> Result<TurnAnswer, CommandError> {
    while let Some(event) = answer.next().await {
        let event = event?;
        let text = event.text();
        if !text.is_empty() && !out.is_json() {
            out.text(&text)?;
            *was_written = true;
        }
        if let TurnEvent::Answer(answer) = event {
            return Ok(answer);
        }
    }
    Err(Error::Host("the turn ended without a response".into()).into())
}

/// Shows how to resume the run of an answer that is paused.
pub(super) fn note_how_to_resume(answer: &Json, out: &Console) {
    let pending = answer.field("pending_action");
    if !pending.is_null() {
        out.note(&ways_on(&answer.text_or_empty("run_id"), &pending));
    }
}

/// Returns the commands that resume a run with this pending action.
pub(super) fn ways_on(run: &str, pending: &Json) -> String {
    let ways: &[&str] = match pending.text("type").as_deref() {
        Some("approval") => &["--approve", "--approve --arguments JSON", "--reject [REASON]"],
        Some("confirmation") => &["--approve", "--reject [REASON]"],
        Some("unfinished_tool") => &["--retry", "--answer RESULT", "--reject [REASON]"],
        Some(_) => &["--answer TEXT", "--reject [REASON]"],
        None => &["", "--retry"],
    };
    let ways = ways.iter().map(|way| format!("\n  valvehouse resume {run} {way}").trim_end().to_owned());
    format!("resume it with:{}", ways.collect::<String>())
}

/// Describes the pending action of a run; "" if there is none.
pub(super) fn waits_in_words(pending: &Json) -> String {
    if pending.is_null() { String::new() } else { clean(&in_words(pending)) }
}
