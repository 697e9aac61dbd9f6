//! `valvehouse chat`: a turn, or a conversation, through the filters of the project.

use super::answering;
use super::args;
use super::exit::{Exit, Failure};
use super::lines::Lines;
use super::output::Output;
use super::{list, report};
use crate::app::App;
use crate::chat::{event, message, response};
use crate::config::Config;
use crate::context::{Context, Turn, TurnFacts};
use crate::fault::Fault;
use crate::host::Ready;
use crate::json::Json;
use crate::kernel::{Reply, Wish};
use std::io::{self, IsTerminal, Read};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Pieces that may wait for a slow terminal.
const AHEAD: usize = 32;

pub(super) async fn run(asked: args::Chat, config: Config, out: &Output) -> Result<Exit, Failure> {
    let said = said(&asked.text)?;
    let app = App::open(config).await?;
    for problem in list::problems(&app.host.snapshot()) {
        out.say(&report::shown(&problem, out.talk()));
    }
    let lines = match &said {
        Said::Piped(_) => Lines::none(),
        Said::Once(_) | Said::AtTerminal => Lines::of_stdin(),
    };
    let mut conversation = Conversation::new(app.clone(), asked, lines, out)?;
    let done = match said {
        Said::Once(text) | Said::Piped(text) => conversation.say(&text).await,
        Said::AtTerminal => conversation.at_terminal().await,
    };
    app.close().await;
    done.map(|()| Exit::Done)
}

/// Where the words come from.
enum Said {
    /// From the command line; stdin is left for answers.
    Once(String),
    /// From stdin, which is at its end then.
    Piped(String),
    /// Line by line.
    AtTerminal,
}

fn said(words: &[String]) -> Result<Said, Failure> {
    let mut text = words.join(" ");
    if words.is_empty() {
        if io::stdin().is_terminal() {
            return Ok(Said::AtTerminal);
        }
        io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::data(format!("failed to read stdin as text: {error}")))?;
    }
    match text.trim() {
        "" => Err(Failure::usage("there is nothing to say: valvehouse chat \"hello\"")),
        text if words.is_empty() => Ok(Said::Piped(text.to_owned())),
        text => Ok(Said::Once(text.to_owned())),
    }
}

struct Conversation<'a> {
    app: Arc<App>,
    out: &'a Output,
    model: String,
    user: Option<String>,
    stream: bool,
    chat_id: String,
    messages: Vec<Json>,
    /// What the person types.
    lines: Lines,
}

impl<'a> Conversation<'a> {
    fn new(app: Arc<App>, asked: args::Chat, lines: Lines, out: &'a Output) -> Result<Self, Failure> {
        let first = || app.host.snapshot().model_names().into_iter().next();
        let model = asked.model.or_else(first).ok_or_else(|| {
            Failure::usage("no model has a name of its own here; name one: --model PROVIDER/MODEL")
        })?;
        Ok(Self {
            app,
            out,
            model,
            user: asked.user,
            stream: !asked.no_stream,
            chat_id: uuid::Uuid::new_v4().to_string(),
            messages: Vec::new(),
            lines,
        })
    }

    /// Line by line, until the input ends. Saved scripts are live from the next line on.
    async fn at_terminal(&mut self) -> Result<(), Failure> {
        self.app.follow();
        self.out.say(&format!("talking to {}; Ctrl-D ends", self.model));
        loop {
            self.out.ask("> ");
            let Some(line) = self.lines.next().await? else { return Ok(()) };
            if line.trim().is_empty() {
                continue;
            }
            if let Err(failure) = self.say(line.trim()).await {
                self.out.fail(&failure);
                // As if it never was said.
                self.messages.pop();
            }
        }
    }

    /// One turn; what was said stays in the conversation.
    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.messages.push(message::user(text));
        let ready = self.app.host.snapshot().ready(&self.model, &[])?;
        let (events, asked) = answering::listening(&self.app.questions, self.out);
        let turn = Turn::new(self.facts(&ready), Context::default(), events);
        let (sender, pieces) = mpsc::channel(AHEAD);
        let wish = Wish { stream: self.stream.then_some(sender), raw: false };
        let work = ready.kernel.turn(self.body(), &turn, wish);
        let turn = async { tokio::join!(work, write(pieces, self.out)) };
        let (reply, written) = tokio::select! {
            done = turn => done,
            failure = answering::answer(asked, &self.app.questions, &mut self.lines, self.out) => return Err(failure),
        };
        let was_written = written?;
        let answer = match reply {
            Ok(Reply::Answer(answer)) => answer,
            Ok(Reply::Raw(_)) => {
                return Err(Fault::Host("the answer came unread, which was not asked for".into()).into());
            }
            Err(fault) => {
                if was_written {
                    self.out.line("")?;
                }
                return Err(fault.into());
            }
        };
        let said = response::message_of(&answer);
        if self.out.is_json() {
            self.out.json(&answer)?;
        } else if was_written {
            self.out.line("")?;
        } else {
            self.out.text(&message::text_of(&said))?;
            self.out.line("")?;
        }
        self.messages.push(said.copy());
        Ok(())
    }

    fn body(&self) -> Json {
        let messages: Vec<Json> = self.messages.iter().map(Json::copy).collect();
        let body = Json::from([
            ("model", self.model.as_str().into()),
            ("messages", messages.into()),
            ("stream", self.stream.into()),
            ("chat_id", self.chat_id.as_str().into()),
        ]);
        if let Some(user) = &self.user {
            let _ = body.set("user", user.as_str());
        }
        body
    }

    fn facts(&self, ready: &Ready) -> TurnFacts {
        let user = self.user.as_deref().map(|id| Json::from([("id", id.into())]));
        let request = Json::from([
            ("method", "CHAT".into()),
            ("path", "valvehouse chat".into()),
            ("headers", Json::object()),
            ("client", Json::Null),
        ]);
        TurnFacts {
            user: user.unwrap_or_else(Json::object),
            model: ready.facts.clone(),
            models: ready.models.clone(),
            request: request.freeze(),
            chat_id: self.chat_id.clone(),
            message_id: uuid::Uuid::new_v4().to_string(),
            ..TurnFacts::default()
        }
    }
}

/// Writes pieces as they come; whether there were any.
async fn write(mut pieces: mpsc::Receiver<crate::llm::Piece>, out: &Output) -> io::Result<bool> {
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
