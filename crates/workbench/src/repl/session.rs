//! A session: the current plugins of the project, an optional script, and the variables of earlier lines; and
//! the options.

use super::commands::{Command, HELP};
use super::input::{Input, TypedLine};
use super::render;
use crate::dry_run::{self, DryRunTarget, DryRunTurn, body};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use std::sync::Arc;
use tokio::sync::broadcast::Receiver;
use valvehouse_config::{Capability, Config};
use valvehouse_core::chat::message;
use valvehouse_core::context::{Context, EndOfTurn, States, Turn, TurnFacts};
use valvehouse_core::filter::Hook;
use valvehouse_core::trace::{RequestFacts, Traces};
use valvehouse_executor::{self as executor, Workload};
use valvehouse_host::app::App;
use valvehouse_host::{Change, Report, Snapshot};
use valvehouse_json::Json;
use valvehouse_script::{Code, Diagnostic, Kind, Repl, SandboxScript, Script, SourceFile, UserValves};
use valvehouse_terminal::{CommandError, Console, Exit, files, questions, report, table};

/// The id of the empty script that is used if none is loaded.
const ID: &str = "repl";

/// Evaluates lines as if they were in a script, until the input ends.
///
/// # Errors
///
/// Returns the reason why the session is not possible.
pub async fn run(options: ReplOptions, config: Config, out: &Console) -> Result<Exit, CommandError> {
    let history = config.project.join(".valvehouse").join("repl_history");
    let app = App::open(config).await?;
    let done = talk(&app, options, history, out).await;
    app.close().await;
    done
}

async fn talk(
    app: &Arc<App>,
    options: ReplOptions,
    history: std::path::PathBuf,
    out: &Console,
) -> Result<Exit, CommandError> {
    let mut input = Input::open(history)?;
    let mut session = Session::open(app.clone(), options, input.is_terminal(), out).await?;
    if input.is_terminal() {
        register_interrupts().await;
        out.note(&format!("{}; :help lists the commands, Ctrl-D quits", session.heading()));
    }
    let mut failed = false;
    while let Some(typed) = input.next().await? {
        let TypedLine::Line(line) = typed else { continue };
        session.look().await;
        let line = line.trim();
        match line.strip_prefix(':').map(Command::read) {
            _ if line.is_empty() => {}
            Some(Ok(Command::Quit)) => break,
            Some(Ok(command)) => {
                if let Err(failure) = session.run_command(command).await {
                    failed = true;
                    out.fail(&failure);
                }
            }
            Some(Err(wrong)) => {
                failed = true;
                out.fail(&CommandError::usage(wrong));
            }
            None => failed |= !session.evaluate(line).await?,
        }
    }
    let counts = failed && !input.is_terminal();
    Ok(if counts { Exit::Findings } else { Exit::Done })
}

/// Registers the handler of Ctrl-C, which from then on ends the running line instead of the process.
async fn register_interrupts() {
    tokio::select! {
        biased;
        // The handler is registered when the future is first polled.
        _ = tokio::signal::ctrl_c() => {}
        () = std::future::ready(()) => {}
    }
}

struct Session<'a> {
    app: Arc<App>,
    out: &'a Console,
    live: bool,
    user: Option<String>,
    /// `true` if the session reads from a terminal, where Ctrl-C ends the running line.
    is_terminal: bool,
    /// The name by which the script was loaded; `None` without a script.
    named: Option<String>,
    repl: Option<Repl>,
    script: Arc<Script>,
    users: Arc<UserValves>,
    /// The states that hooks share in a turn; here they last for the session.
    states: States,
    context: Context,
    reports: Receiver<Arc<Report>>,
}

impl<'a> Session<'a> {
    async fn open(
        app: Arc<App>,
        options: ReplOptions,
        is_terminal: bool,
        out: &'a Console,
    ) -> Result<Self, CommandError> {
        let sandbox = dry_run::sandbox(options.live);
        let (script, users) = match &options.plugin {
            Some(named) => dry_run::find(named, &app.host.snapshot(), &app.config, &sandbox)?,
            None => (sandbox.enter(scratch(&app, options.live).await?), Arc::default()),
        };
        let script = Arc::new(script);
        let mut session = Self {
            reports: app.host.reports(),
            repl: None,
            script: script.clone(),
            users,
            live: options.live,
            user: options.user,
            is_terminal,
            named: options.plugin,
            states: States::default(),
            context: Context::default(),
            app,
            out,
        };
        session.begin(script, &conversation(&session.model()))?;
        Ok(session)
    }

    /// Evaluates lines in this script from now on. Variables of earlier lines remain.
    fn begin(&mut self, script: Arc<Script>, body: &Json) -> Result<(), CommandError> {
        let new = Repl::new(script.clone()).map_err(|problem| CommandError::data(problem.to_string()))?;
        let mut repl = match self.repl.take() {
            Some(older) => new.in_place_of(older),
            None => new,
        };
        self.script = script;
        repl.set_the_scene(&self.turn(), &self.users, body);
        self.repl = Some(repl);
        Ok(())
    }

    fn heading(&self) -> String {
        let what = match &self.named {
            Some(named) => format!("in the place of {named}"),
            None => "with the functions of scripts".to_owned(),
        };
        let how = if self.live { "live" } else { "dry run: nothing outside is reached, and kv is a copy" };
        format!("{what}; {how}")
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.app.host.snapshot()
    }

    fn model(&self) -> String {
        self.snapshot().model_names().into_iter().next().unwrap_or_default()
    }

    fn body(&self) -> Json {
        self.repl.as_ref().and_then(|repl| repl.variable("body")).into()
    }

    fn turn(&self) -> Turn {
        Turn::new(self.facts(), self.context.clone(), questions::listening(None, self.out).0)
    }

    fn facts(&self) -> TurnFacts {
        let snapshot = self.snapshot();
        let model = Json::from(snapshot.ready(&self.model(), &[]).map(|ready| ready.facts).ok());
        TurnFacts {
            model,
            chat_id: "repl".to_owned(),
            message_id: "repl".to_owned(),
            states: Some(self.states.clone()),
            ..snapshot.facts_of_command("repl", self.user.as_deref())
        }
    }

    /// Applies the changes of the project since the last line, and shows them.
    async fn look(&mut self) {
        self.app.host.reload().await;
        let mut changed = false;
        while let Ok(report) = self.reports.try_recv() {
            for change in &report.changes {
                changed |= change.id().is_some() && change.id() == Some(self.script.id());
                let what = change.id().unwrap_or("a file");
                self.out.note(&self.out.talk().dim(&format!("{what}: {}", change.as_str())));
                if let Change::Stale(_, problems) | Change::Broken(_, problems) = change {
                    problems
                        .iter()
                        .for_each(|problem| self.out.note(&report::shown(problem, self.out.talk())));
                }
            }
        }
        // The host does not report changes of a file outside its folders.
        let file = &self.script.file;
        changed |= self.named.is_some()
            && files::read_text(&file.path, files::MAX_INPUT).is_ok_and(|text| *text != *file.text)
            && !self.snapshot().plugins.contains_key(&file.id);
        if let Some(named) = self.named.clone().filter(|_| changed)
            && let Ok((script, users)) =
                dry_run::find(&named, &self.snapshot(), &self.app.config, &dry_run::sandbox(self.live))
        {
            let body = self.body();
            self.users = users;
            // The script loaded before, so an error is unexpected.
            let _ = self.begin(Arc::new(script), &body);
        }
    }

    /// Evaluates a line. Returns `true` on success.
    async fn evaluate(&mut self, line: &str) -> Result<bool, CommandError> {
        let Some(mut repl) = self.repl.take() else { return Ok(false) };
        let (turn, line) = (self.turn(), line.to_owned());
        let over = turn.until_dropped();
        let work = executor::run(Workload::Blocking, move || {
            let came = repl.evaluate(&line, &turn);
            (repl, came)
        });
        let came = match self.unless_ended(work, over).await {
            Ok((repl, came)) => {
                self.repl = Some(repl);
                came
            }
            Err(error) => {
                let body = conversation(&self.model());
                self.begin(self.script.clone(), &body)?;
                let why = format!("{error}; the declarations of earlier lines are lost");
                Err(Diagnostic::new(Code::Broke, ID, std::path::Path::new("line"), why))
            }
        };
        match &came {
            Ok(came) => render::came(came, self.out)?,
            Err(problem) => render::problem(problem, self.out)?,
        }
        Ok(came.is_ok())
    }

    /// Runs work that Ctrl-C can end if the session reads from a terminal.
    async fn unless_ended<T>(&self, work: impl Future<Output = T>, over: EndOfTurn) -> T {
        let mut over = Some(over);
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = tokio::signal::ctrl_c(), if self.is_terminal && over.is_some() => drop(over.take()),
            }
        }
    }

    async fn run_command(&mut self, command: Command) -> Result<(), CommandError> {
        let out = self.out;
        match command {
            Command::Help => out.line(HELP)?,
            Command::Load(named) => self.load(named)?,
            Command::Body(None) => out.line(&self.body().pretty(2))?,
            Command::Body(Some(word)) => {
                let is_text = !word.starts_with(['{', '[']) && !std::path::Path::new(&word).is_file();
                let given = if is_text { body::Body::Text(word) } else { body::read(&word)? };
                let body = body::conversation_of(given)?;
                if let Some(repl) = &mut self.repl {
                    repl.set_body(&body);
                }
            }
            Command::Hook(name) => self.hook(&name).await?,
            Command::Valves => {
                let valves = self.script.manifest.valves.mask(&self.script.valves);
                out.line(&valves.pretty(2))?;
            }
            Command::Variables => {
                let all = self.repl.iter().flat_map(Repl::variables);
                let rows: Vec<Vec<String>> = all.map(|(name, kind)| vec![name, kind]).collect();
                out.line(&table(&rows))?;
            }
            Command::Plugins => {
                let snapshot = self.snapshot();
                let rows = snapshot.plugins.values().map(|plugin| {
                    vec![
                        plugin.id.to_string(),
                        plugin.kind.as_str().to_owned(),
                        plugin.state_name().to_owned(),
                    ]
                });
                out.line(&table(&rows.collect::<Vec<_>>()))?;
            }
            Command::Functions(text) => render::functions(&text, out)?,
            Command::Doc(name) => render::doc(&name, out)?,
            Command::Quit => {}
        }
        Ok(())
    }

    fn load(&mut self, named: String) -> Result<(), CommandError> {
        let (script, users) =
            dry_run::find(&named, &self.snapshot(), &self.app.config, &dry_run::sandbox(self.live))?;
        let body = self.body();
        self.users = users;
        self.begin(Arc::new(script), &body)?;
        self.named = Some(named);
        self.out.note(&self.heading());
        Ok(())
    }

    /// Runs a hook of the script on `body`, which becomes the hook's result.
    async fn hook(&mut self, name: &str) -> Result<(), CommandError> {
        let hook = Hook::ALL.into_iter().find(|hook| hook.name() == name);
        let own: Vec<&str> = self.script.hooks().map(Hook::name).collect();
        let Some(hook) = hook.filter(|_| own.contains(&name)) else {
            let has = if own.is_empty() { "no hooks".to_owned() } else { own.join(", ") };
            let hint = if self.named.is_none() { "; :load one that has" } else { "" };
            return Err(CommandError::usage(format!("the script has no `{name}`; it has {has}{hint}")));
        };
        if matches!(hook, Hook::Stream | Hook::StreamEnd) {
            return Err(CommandError::usage(
                "`stream` needs events, not a body: valvehouse run stream ID --text TEXT",
            ));
        }
        let request_facts = RequestFacts { endpoint: "cli", model: self.model(), ..RequestFacts::default() };
        let recording = Traces::new(1).begin(request_facts, true);
        let facts = TurnFacts { trace: Some(recording.trace().clone()), ..self.facts() };
        let turn = Turn::new(facts, self.context.clone(), questions::listening(None, self.out).0);
        let target =
            DryRunTarget::of(SandboxScript::new(self.script.clone(), self.users.clone()), self.snapshot());
        let tried = DryRunTurn { turn, recording };
        let value =
            dry_run::once(&target, hook, body::Body::Value(self.body().deep_clone()), tried, self.out)
                .await?;
        if let (Some(repl), Some(value)) = (&mut self.repl, value.filter(|_| !hook.has_ctx())) {
            repl.set_body(&value);
        }
        Ok(())
    }
}

/// Returns the empty script that is used if none is loaded.
async fn scratch(app: &App, live: bool) -> Result<Script, CommandError> {
    let path = app.config.folders.filters.join(format!("{ID}.rhai"));
    let text = |declared: &[&str]| {
        format!("/*\nrequirements: {}\n*/\nfn inlet(body) {{ body }}\n", declared.join(", "))
    };
    let file = |declared: &[&str]| SourceFile::new(Kind::Filter, ID, &path, text(declared));
    let mut declared = Vec::new();
    for capability in Capability::ALL.map(Capability::name) {
        // It has the grants of the id `repl`; in a dry run, only those without outside effects.
        let is_inside = ["kv", "llm", "tools", "vectors"].contains(&capability);
        if is_inside || (live && app.host.compile(&file(&[capability])).await.is_ok()) {
            declared.push(capability);
        }
    }
    app.host.compile(&file(&declared)).await.map_err(|problems| {
        let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
        CommandError::new(Exit::Internal, messages.join("\n"))
    })
}

/// Returns a short conversation as the initial body.
fn conversation(model: &str) -> Json {
    let messages = [
        message::user("hello"),
        message::assistant("Hi! How can I help?"),
        message::user("What is a valve?"),
    ];
    Json::from([("model", model.into()), ("messages", messages.to_vec().into())])
}

/// The options of `valvehouse repl`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Examples:
  valvehouse repl                             evaluate functions of the host
  valvehouse repl --plugin redact             with the functions, valves and state of a script
  valvehouse repl --live --plugin weather     with real requests to hosts and models, and real kv writes
  echo 'text::words(\"a b c\").len()' | valvehouse repl

Each line runs like a script; its declarations stay. `body` is a small conversation. An incomplete line
continues on the next. Changed files are reloaded. Lines that begin with a colon are commands:
  :help                    list these commands
  :load FILE|ID            load the functions, valves and state of a script
  :body FILE|JSON|TEXT     set the body; without an argument, show it
  :hook inlet              run a hook of the script on `body` and show its changes
  :valves                  show the script's valves and their sources
  :variables               list the variables
  :plugins                 list the plugins of the project
  :functions TEXT          list functions with this text in their names
  :doc regex::find         explain a function
  :quit                    quit, like Ctrl-D; Ctrl-C clears the line or stops the running one

Without --live, scripts access no other host, file, program or model, and kv writes are discarded.
Exit code 1: the input is not a terminal, and a line failed.")]
pub struct ReplOptions {
    /// Load this script: the id of a plugin, or a file
    #[arg(long, value_name = "ID")]
    pub plugin: Option<String>,
    /// Set the id of the user
    #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub user: Option<String>,
    /// Use the script's grants, and store its writes
    #[arg(long)]
    pub live: bool,
}
