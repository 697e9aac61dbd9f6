//! An answer as it comes: written piece by piece, its questions put to the person, and how to go on where
//! it waits for somebody.

use std::io;
use tokio::sync::mpsc;
use valvehouse_agent::in_words;
use valvehouse_core::chat::{event, message, response};
use valvehouse_core::fault::Fault;
use valvehouse_core::provider::Piece;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_terminal::questions::{self, OpenQuestions};
use valvehouse_terminal::{CommandError, Console, StdinLines, clean};

/// Pieces that may wait for a slow terminal.
pub(super) const AHEAD: usize = 32;

/// Does the work of a turn while its pieces are written and its questions answered; then the answer is
/// written, too.
pub(super) async fn hear(
    work: impl Future<Output = Result<Json, Fault>>,
    pieces: mpsc::Receiver<Piece>,
    asked: OpenQuestions,
    app: &App,
    lines: &mut StdinLines,
    out: &Console,
) -> Result<Json, CommandError> {
    let turn = async { tokio::join!(work, write(pieces, out)) };
    let (answer, written) = tokio::select! {
        done = turn => done,
        failure = questions::answer(asked, &app.questions, lines, out) => return Err(failure),
    };
    let was_written = written?;
    let answer = match answer {
        Ok(answer) => answer,
        Err(fault) => {
            if was_written {
                out.line("")?;
            }
            return Err(fault.into());
        }
    };
    if out.is_json() {
        out.json(&answer)?;
    } else if was_written {
        out.line("")?;
    } else {
        out.text(&message::text_of(&response::message_of(&answer)))?;
        out.line("")?;
    }
    Ok(answer)
}

/// Writes pieces as they come; whether there were any.
async fn write(mut pieces: mpsc::Receiver<Piece>, out: &Console) -> io::Result<bool> {
    let mut any = false;
    while let Some(piece) = pieces.recv().await {
        let text = event::text(&piece.event);
        if !text.is_empty() && !out.is_json() {
            out.text(&text)?;
            any = true;
        }
    }
    Ok(any)
}

/// Says how to go on with a run whose answer is one that waits.
pub(super) fn say_how_to_go_on(answer: &Json, out: &Console) {
    let pending = answer.get("pending_action").unwrap_or_default();
    if !pending.is_null() {
        out.say(&ways_on(&answer.text("run_id").unwrap_or_default(), &pending));
    }
}

/// The commands that go on with a run which waits for this.
pub(super) fn ways_on(run: &str, pending: &Json) -> String {
    let ways: &[&str] = match pending.text("type").as_deref() {
        Some("approval") => &["--approve", "--approve --arguments JSON", "--reject [REASON]"],
        Some("confirmation") => &["--approve", "--reject [REASON]"],
        Some("unfinished_tool") => &["--retry", "--answer RESULT", "--reject [REASON]"],
        Some(_) => &["--answer TEXT", "--reject [REASON]"],
        None => &["", "--retry"],
    };
    let ways = ways.iter().map(|way| format!("\n  valvehouse resume {run} {way}").trim_end().to_owned());
    format!("go on with it:{}", ways.collect::<String>())
}

/// The action that a run waits for, in words; "" where it waits for nothing.
pub(super) fn waits_in_words(pending: &Json) -> String {
    if pending.is_null() { String::new() } else { clean(&in_words(pending)) }
}
