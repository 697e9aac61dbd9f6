//! `valvehouse chat`: a turn, or a conversation, with the filters of the project.

use super::runs::message_text;
use super::{args, reply};
use std::io::{self, IsTerminal};
use std::sync::{Arc, OnceLock};
use valvehouse_config::Config;
use valvehouse_core::chat::{ChatRequest, message, response};
use valvehouse_core::context::{Context, Turn, TurnFacts};
use valvehouse_core::kernel::RunOptions;
use valvehouse_core::text::optional;
use valvehouse_core::trace::{RequestFacts, TraceGuard};
use valvehouse_host::Ready;
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};
use valvehouse_store as store;
use valvehouse_terminal::{
    CommandError, Console, Exit, StdinLines, files, plugin_problems, questions, report, trace_view,
};

/// The number of messages shown of a continued conversation.
const SHOWN: u64 = 6;

pub(super) async fn run(args: args::Chat, config: Config, out: &Console) -> Result<Exit, CommandError> {
    let input = input(&args.text)?;
    let app = App::open(config).await?;
    app.fetch_lists().await;
    #[cfg(feature = "mcp")]
    let _mounts = super::mcp_servers::mounted(&app).await;
    for problem in plugin_problems(&app.host.snapshot()) {
        out.note(&report::shown(&problem, out.talk()));
    }
    let lines = match &input {
        Input::Piped(_) => StdinLines::none(),
        Input::Once(_) | Input::AtTerminal => StdinLines::of_stdin(),
    };
    let done = talk(&app, args, input, lines, out).await;
    app.close().await;
    done.map(|()| Exit::Done)
}

async fn talk(
    app: &Arc<App>,
    args: args::Chat,
    input: Input,
    lines: StdinLines,
    out: &Console,
) -> Result<(), CommandError> {
    let before = match &args.goes_on {
        Some(id) => Some(before(app, id, args.model.as_deref()).await?),
        None => None,
    };
    let mut conversation = Conversation::new(app.clone(), args, before.as_ref(), lines, out)?;
    if let Some(before) = &before {
        conversation.show_last(before).await?;
    }
    let done = match input {
        Input::Once(text) | Input::Piped(text) => conversation.send(&text).await,
        Input::AtTerminal => conversation.at_terminal().await,
    };
    conversation.note_how_to_continue();
    done
}

/// Returns the conversation to continue: the one with this id or, if it is empty, the newest, optionally of a
/// model.
async fn before(app: &App, id: &str, model: Option<&str>) -> Result<store::Conversation, CommandError> {
    if !id.is_empty() {
        return Ok(app.runs.conversation(id).await?);
    }
    let newest = app.runs.store().conversations(model, 1).await?;
    newest.into_iter().next().ok_or_else(|| {
        let whose = optional(model, |model| format!(" with {model}"));
        CommandError::usage(format!(
            "no conversation{whose} to continue: only models with `memory = true` store conversations"
        ))
    })
}

/// The source of the messages.
enum Input {
    /// A message from the command line; stdin is used for answers to questions.
    Once(String),
    /// A message from stdin, which has been read completely.
    Piped(String),
    /// Messages typed at a terminal, one per line.
    AtTerminal,
}

fn input(words: &[String]) -> Result<Input, CommandError> {
    let mut text = words.join(" ");
    if words.is_empty() {
        if io::stdin().is_terminal() {
            return Ok(Input::AtTerminal);
        }
        text = files::read_stdin(files::MAX_INPUT)?;
    }
    match text.trim() {
        "" => Err(CommandError::usage("missing message: valvehouse chat \"hello\"")),
        text if words.is_empty() => Ok(Input::Piped(text.to_owned())),
        text => Ok(Input::Once(text.to_owned())),
    }
}

struct Conversation<'a> {
    app: Arc<App>,
    out: &'a Console,
    model: String,
    user: Option<String>,
    stream: bool,
    /// The variables given on the command line.
    variables: Vec<(String, Json)>,
    /// `true` to show a trace after each turn.
    trace: bool,
    chat_id: String,
    messages: Vec<Json>,
    /// The id of the stored conversation, once there is one.
    kept: OnceLock<String>,
    /// The lines typed at the terminal.
    lines: StdinLines,
}

impl<'a> Conversation<'a> {
    fn new(
        app: Arc<App>,
        args: args::Chat,
        before: Option<&store::Conversation>,
        lines: StdinLines,
        out: &'a Console,
    ) -> Result<Self, CommandError> {
        let first = || app.host.snapshot().model_names().into_iter().next();
        let model = args.model.or_else(|| before.map(|before| before.agent.clone())).or_else(first);
        let model = model.ok_or_else(|| {
            CommandError::usage("missing model: the settings name none; pass --model PROVIDER/MODEL")
        })?;
        if before.is_some() && !app.host.snapshot().ready(&model, &[])?.memory {
            return Err(CommandError::usage(format!(
                "the model {model} does not store conversations: set `memory = true` in its [[models]] entry"
            )));
        }
        Ok(Self {
            app,
            out,
            model,
            user: args.user,
            stream: !args.no_stream,
            variables: args.variables,
            trace: args.trace,
            chat_id: before.map_or_else(|| uuid::Uuid::new_v4().to_string(), |before| before.id.clone()),
            messages: Vec::new(),
            kept: OnceLock::new(),
            lines,
        })
    }

    /// Runs a turn for each line until the input ends. Saved scripts are live from the next line on.
    async fn at_terminal(&mut self) -> Result<(), CommandError> {
        self.app.follow();
        self.out.note(&format!("chat with {}; Ctrl-D ends it", self.model));
        loop {
            self.out.ask("> ");
            let Some(line) = self.lines.next().await? else { return Ok(()) };
            if line.trim().is_empty() {
                continue;
            }
            if let Err(failure) = self.send(line.trim()).await {
                self.out.fail(&failure);
                // The failed message is removed from the conversation.
                self.messages.pop();
            }
        }
    }

    /// Runs one turn; its messages stay in the conversation.
    async fn send(&mut self, text: &str) -> Result<(), CommandError> {
        self.messages.push(message::user(text));
        let ready = self.app.host.snapshot().ready(&self.model, &[])?;
        let (events, open_questions) = questions::listening(Some(&self.app.questions), self.out);
        let recording = self.trace.then(|| self.app.traces.begin(self.request_facts(), true));
        let trace = recording.as_ref().map(|recording| recording.trace().clone());
        let facts = TurnFacts { trace, ..self.facts(&ready) };
        let context = context(&facts);
        let turn = Turn::new(facts, context, events);
        let (kept, is_json, run) = (&self.kept, self.out.is_json(), OnceLock::new());
        let begun = |begun: &store::Run| {
            // A turn starts one run, and all runs belong to one conversation.
            let _ = run.set(begun.id.clone());
            let _ = kept.set(begun.conversation.clone());
        };
        let request = ChatRequest::new(self.body(&ready))?;
        let answer = self.app.run(&ready, request, RunOptions::new(turn).streamed(self.stream), begun);
        let complete = |answer: &Json| {
            if is_json && let (Some(run), Some(chat_id)) = (run.get(), kept.get()) {
                // The answer is not read-only.
                answer.edit("run_id", run.as_str());
                answer.edit("chat_id", chat_id.as_str());
            }
        };
        let answer =
            reply::print(answer, complete, open_questions, &self.app, &mut self.lines, self.out).await;
        if let Some(recording) = recording {
            show_steps(recording, answer.as_ref().err(), self.out);
        }
        let answer = answer?;
        reply::note_how_to_resume(&answer, self.out);
        self.messages.push(response::message_of(&answer).deep_clone());
        Ok(())
    }

    /// Shows the last messages of a continued conversation, and the pending action of its last run.
    async fn show_last(&self, before: &store::Conversation) -> Result<(), CommandError> {
        let store = self.app.runs.store();
        let from = before.length.saturating_sub(SHOWN);
        self.out.note(&format!("continuing {} with {} messages so far", before.id, before.length));
        for message in store.messages(&before.id, from, before.length).await? {
            self.out.note(&message_text(&message, self.out.talk()));
        }
        if let Some(run) = store.runs(Some(&before.id), Some(store::RunStatus::Paused), 1).await?.first() {
            let waits = reply::waits_in_words(&run.pending);
            self.out.note(&format!(
                "run {} {waits}; a new message cancels the run, `valvehouse resume {}` resumes it",
                run.id, run.id
            ));
        }
        Ok(())
    }

    /// Shows how to continue a stored conversation.
    fn note_how_to_continue(&self) {
        if let Some(id) = self.kept.get() {
            self.out.note(&format!("to continue: valvehouse chat --continue={id}"));
        }
    }

    fn body(&self, ready: &Ready) -> Json {
        // A model with memory is sent only the new messages.
        let new = if ready.memory { self.messages.len().saturating_sub(1) } else { 0 };
        let messages: Vec<Json> = self.messages.iter().skip(new).map(Json::deep_clone).collect();
        let body = Json::from([
            ("model", self.model.as_str().into()),
            ("messages", messages.into()),
            ("stream", self.stream.into()),
            ("chat_id", self.chat_id.as_str().into()),
        ]);
        if self.stream {
            // A response without streaming includes the usage by default.
            body.edit("stream_options", Json::from([("include_usage", true.into())]));
        }
        if let Some(user) = &self.user {
            body.edit("user", user.as_str());
        }
        body
    }

    fn request_facts(&self) -> RequestFacts {
        RequestFacts {
            endpoint: "cli",
            model: self.model.clone(),
            stream: self.stream,
            user: self.user.clone().unwrap_or_default(),
            chat_id: self.chat_id.clone(),
            generation: self.app.host.snapshot().generation,
        }
    }

    fn facts(&self, ready: &Ready) -> TurnFacts {
        let own = self.variables.iter().map(|(name, value)| (name.as_str().into(), value.deep_clone()));
        TurnFacts {
            variables: ready.facts.field("variables"),
            client: own.collect::<Object>().into(),
            model: ready.facts.clone(),
            models: ready.models.clone(),
            chat_id: self.chat_id.clone(),
            message_id: uuid::Uuid::new_v4().to_string(),
            ..self.app.host.snapshot().facts_of_command("chat", self.user.as_deref())
        }
    }
}

/// Returns the variables of a turn: those of the command line, overridden by those of the configuration.
fn context(facts: &TurnFacts) -> Context {
    let context = Context::default();
    for variables in [&facts.client, &facts.variables] {
        for (name, value) in variables.entries() {
            context.set(&name, value.deep_clone());
        }
    }
    context
}

/// Shows the steps of a turn on stderr, as text or JSON; stdout is for the answer.
fn show_steps(recording: TraceGuard, failure: Option<&CommandError>, out: &Console) {
    let detail = recording.ended_with(failure.map(|failure| &failure.message as _));
    out.event(|| trace_view::shown(&detail, out.talk()), || Json::from([("trace", detail.clone())]));
}
