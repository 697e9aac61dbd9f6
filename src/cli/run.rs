//! The dispatch of a command line to its command, and the exit status.

use super::args::{self, Command, Line};
use super::listener::{self, Port};
#[cfg(feature = "mcp")]
use super::mcp;
use super::settings::Reading;
use super::{
    apply, chat, check, config, confirm, definitions, explain, grant, health, history, invoke, key, list,
    log, migrate, nodes, problem_codes, pull, release, resume, rollback, runs, serve, services, store, trace,
    usage, user, valves,
};
#[cfg(feature = "workbench")]
use super::{completions, port};
use clap::Parser;
use std::ffi::OsString;
use std::pin::Pin;
use valvehouse_terminal::{CommandError, Console, Exit};
#[cfg(feature = "workbench")]
use valvehouse_workbench::{dry_run, fmt, lsp, new, repl, test};

/// The shipped scripts of `filters/`, `tools/` and `actions/`, for `valvehouse new --from`.
#[cfg(feature = "workbench")]
const SHIPPED: new::ShippedFiles = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Runs a command line, whose first word is the name of the program.
///
/// The future is boxed, so that all commands are compiled with the library and not again with the binary.
pub fn run(words: Vec<OsString>) -> Pin<Box<dyn Future<Output = Exit> + Send>> {
    Box::pin(dispatch(words))
}

async fn dispatch(words: Vec<OsString>) -> Exit {
    let line = match Line::try_parse_from(words) {
        Ok(line) => line,
        Err(error) => {
            // Help and version are printed here as well; a closed pipe is not an error.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let mut out = Console::new(line.global.format.into(), line.global.quiet);
    if matches!(line.command, Command::Serve(_)) {
        out = out.as_log();
    }
    log::start(&line, &out);
    match execute(line, &out).await {
        Ok(exit) => exit,
        Err(failure) => {
            out.fail(&failure);
            failure.exit
        }
    }
}

async fn execute(line: Line, out: &Console) -> Result<Exit, CommandError> {
    if out.is_sarif() && !matches!(line.command, Command::Check(_)) {
        return Err(CommandError::usage(
            "--format sarif works only with valvehouse check; use human or json",
        ));
    }
    let passed = match line.command {
        Command::Serve(_) => listener::passed()?,
        _ => None,
    };
    let reading = reading(&line, passed.as_ref())?;
    // Some commands work without a valid project.
    let config = || reading.load();
    match line.command {
        Command::Serve(_) => serve::run(config()?, passed, &reading, out).await,
        #[cfg(feature = "workbench")]
        Command::Dev(args) => serve::dev(args, config()?, &reading, out).await,
        Command::Config(args::Config { reference: true, .. }) => config::reference(out),
        #[cfg(feature = "workbench")]
        Command::Config(args::Config { schema: true, .. }) => config::schema(out),
        Command::Config(args) => config::run(&args, &config()?, out),
        Command::Chat(args) => chat::run(args, config()?, out).await,
        Command::Runs(args) => runs::run(args, &config()?, out).await,
        Command::Resume(args) => resume::run(args, config()?, out).await,
        Command::Trace(args) => trace::run(args, &config()?, out).await,
        Command::Invoke(args) => invoke::run(args, config()?, out).await,
        #[cfg(feature = "workbench")]
        Command::New(args) => match new::without_project(&args, SHIPPED, out) {
            Some(done) => done,
            None => new::run(&args, SHIPPED, &config()?, out).await,
        },
        #[cfg(feature = "workbench")]
        Command::Port(args) => port::run(&args, &line.global),
        #[cfg(feature = "workbench")]
        Command::Run(args) => dry_run::run(args, config()?, out).await,
        #[cfg(feature = "workbench")]
        Command::Repl(args) => repl::run(args, config()?, out).await,
        Command::List(args) => list::run(&args, &config()?, out).await,
        Command::Check(args) => check::run(&args, &config()?, out).await,
        #[cfg(feature = "workbench")]
        Command::Test(args) => test::run(args, &config()?, out).await,
        Command::Valves(args) => valves::run(args, &config()?, out).await,
        Command::Grant(args) => grant::run(&args, &config()?, out).await,
        #[cfg(feature = "workbench")]
        Command::Fmt(args) => fmt::run(&args, &config()?, out),
        Command::Explain(args::Explain { code, codes, .. }) if codes || code.is_some() => {
            problem_codes::run(code.as_deref(), out)
        }
        Command::Explain(args::Explain { service: Some(name), .. }) => services::run(&name, out),
        Command::Explain(args) => explain::run(&args, &config()?, out).await,
        Command::Health(args) => health::run(&args, &config()?, out).await,
        Command::History(args) => history::run(&args, &config()?, out).await,
        Command::Apply(args) => apply::run(&args, &config()?, out).await,
        Command::Pull(args) => pull::run(&args, &config()?, out).await,
        Command::Diff(args) => pull::diff(&args, &config()?, out).await,
        Command::Rollback(args) => rollback::run(&args, &config()?, out).await,
        Command::Confirm(args) => confirm::run(&args, &config()?, out).await,
        Command::Audit(args) => confirm::audit(&args, &config()?, out).await,
        Command::Adopt(args) => confirm::adopt(&args, &config()?, out).await,
        Command::Nodes(_) => nodes::run(&config()?, out).await,
        Command::Migrate(args) => migrate::run(&args, &config()?, out).await,
        Command::Release(args) => release::run(&args, &config()?, out),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::run(&args, config()?, &reading, out).await,
        Command::Store(args) => store::run(&args, &config()?, out).await,
        Command::User(args) => user::run(&args, &config()?, out).await,
        Command::Usage(args) => usage::run(&args, &config()?, out).await,
        Command::Key(args::Key { action: Some(action), .. }) => key::run(action, &config()?, out).await,
        Command::Key(args::Key { action: None, hash }) => key::generate(hash, out),
        #[cfg(feature = "workbench")]
        Command::Completions(args) => completions::run(&args, out),
        #[cfg(feature = "workbench")]
        Command::Manual => completions::manual(out),
        // Each file has its own project, which is searched when the file is opened.
        #[cfg(feature = "workbench")]
        Command::Lsp(_) => lsp::run(reading.overrides).await,
        Command::Definitions(args) => definitions::run(&args, &reading.project, out),
    }
}

/// Returns the way to the settings: the project and what the command line sets in place of them. A passed socket has its
/// address.
fn reading(line: &Line, passed: Option<&Port>) -> Result<Reading, CommandError> {
    let mut overrides = line.global.set.clone();
    let address = passed.map(|passed| passed.socket.local_addr()).transpose();
    let address = address.map_err(|error| CommandError::new(Exit::Unavailable, error.to_string()))?;
    let (listen, port) = match &line.command {
        _ if address.is_some() => (address.map(|address| address.to_string()), None),
        Command::Serve(serve) => (serve.listen.clone(), serve.port),
        #[cfg(feature = "workbench")]
        Command::Dev(dev) => (dev.listen.clone(), dev.port),
        _ => (None, None),
    };
    overrides.extend(listen.map(|listen| ("server.listen".to_owned(), listen)));
    if matches!(&line.command, Command::Serve(serve) if serve.strict) {
        overrides.push(("folders.strict".to_owned(), "true".to_owned()));
    }
    Ok(Reading::new(line.global.project.clone(), overrides, port))
}
