//! The dispatch of a command line to its command, and the exit status.

use super::args::{self, Command, Line};
#[cfg(feature = "mcp")]
use super::mcp;
use super::settings::Reading;
use super::{
    apply, chat, check, config, confirm, definitions, explain, grant, health, history, invoke, key, list,
    log, migrate, nodes, problem_codes, pull, release, resume, rollback, runs, serve, store, trace, user,
    valves,
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
        Err(told) => {
            // Help and version are printed here as well; a closed pipe is not an error.
            let _ = told.print();
            return if told.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let out = Console::new(line.global.format.into(), line.global.quiet);
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
    if let Command::Key(asked) = &line.command {
        // The command works without a valid project.
        return key::run(asked, out);
    }
    if let Command::Explain(args::Explain { code, codes, .. }) = &line.command
        && (code.is_some() || *codes)
    {
        return problem_codes::run(code.as_deref(), out);
    }
    if let Command::Config(args::Config { reference: true, .. }) = &line.command {
        return config::reference(out);
    }
    #[cfg(feature = "workbench")]
    if let Command::Config(args::Config { schema: true, .. }) = &line.command {
        return config::schema(out);
    }
    #[cfg(feature = "workbench")]
    if let Command::Completions(asked) = &line.command {
        return completions::run(asked, out);
    }
    #[cfg(feature = "workbench")]
    if let Command::Manual = &line.command {
        return completions::manual(out);
    }
    #[cfg(feature = "workbench")]
    if let Command::New(asked) = &line.command
        && let Some(done) = new::without_project(&asked.clone().into(), SHIPPED, out)
    {
        return done;
    }
    if let Command::Definitions(asked) = &line.command {
        return definitions::run(asked, &line.global.project, out);
    }
    #[cfg(feature = "workbench")]
    if let Command::Lsp(_) = &line.command {
        // Each file has its own project, which is searched when the file is opened.
        return lsp::run(line.global.set).await;
    }
    let mut overrides = line.global.set;
    let (listen, port) = match &line.command {
        Command::Serve(serve) => (serve.listen.clone(), serve.port),
        #[cfg(feature = "workbench")]
        Command::Dev(dev) => (dev.listen.clone(), dev.port),
        _ => (None, None),
    };
    overrides.extend(listen.map(|listen| ("server.listen".to_owned(), listen)));
    let reading = Reading::new(line.global.project, overrides, port);
    let config = reading.load()?;
    match line.command {
        Command::Serve(_) => serve::run(config, &reading, out).await,
        #[cfg(feature = "workbench")]
        Command::Dev(asked) => serve::dev(asked, config, &reading, out).await,
        Command::Config(asked) => config::run(&asked, &config, out),
        Command::Chat(asked) => chat::run(asked, config, out).await,
        Command::Runs(asked) => runs::run(asked, &config, out).await,
        Command::Resume(asked) => resume::run(asked, config, out).await,
        Command::Trace(asked) => trace::run(asked, &config, out).await,
        Command::Invoke(asked) => invoke::run(asked, config, out).await,
        #[cfg(feature = "workbench")]
        Command::New(asked) => new::run(&asked.into(), SHIPPED, &config, out).await,
        #[cfg(feature = "workbench")]
        Command::Port(asked) => port::run(&asked, &config, out),
        #[cfg(feature = "workbench")]
        Command::Run(asked) => dry_run::run(asked.into(), config, out).await,
        #[cfg(feature = "workbench")]
        Command::Repl(asked) => repl::run(asked.into(), config, out).await,
        Command::List(asked) => list::run(&asked, &config, out).await,
        Command::Check(asked) => check::run(&asked, &config, out).await,
        #[cfg(feature = "workbench")]
        Command::Test(asked) => test::run(asked.into(), &config, out).await,
        Command::Valves(asked) => valves::run(asked, &config, out).await,
        Command::Grant(asked) => grant::run(&asked, &config, out).await,
        #[cfg(feature = "workbench")]
        Command::Fmt(asked) => fmt::run(&asked.into(), &config, out),
        Command::Explain(asked) => explain::run(&asked, &config, out).await,
        Command::Health(asked) => health::run(&asked, &config, out).await,
        Command::History(asked) => history::run(&asked, &config, out).await,
        Command::Apply(asked) => apply::run(&asked, &config, out).await,
        Command::Pull(asked) => pull::run(&asked, &config, out).await,
        Command::Diff(asked) => pull::diff(&asked, &config, out).await,
        Command::Rollback(asked) => rollback::run(&asked, &config, out).await,
        Command::Confirm(asked) => confirm::run(&asked, &config, out).await,
        Command::Adopt(asked) => confirm::adopt(&asked, &config, out).await,
        Command::Nodes(_) => nodes::run(&config, out).await,
        Command::Migrate(asked) => migrate::run(&asked, &config, out).await,
        Command::Release(asked) => release::run(&asked, &config, out),
        #[cfg(feature = "mcp")]
        Command::Mcp(asked) => mcp::run(&asked, config, &reading, out).await,
        Command::Store(asked) => store::run(&asked, &config, out).await,
        Command::User(asked) => user::run(&asked, &config, out).await,
        Command::Key(asked) => key::run(&asked, out),
        #[cfg(feature = "workbench")]
        Command::Completions(asked) => completions::run(&asked, out),
        #[cfg(feature = "workbench")]
        Command::Manual => completions::manual(out),
        #[cfg(feature = "workbench")]
        Command::Lsp(_) => lsp::run(reading.overrides).await,
        Command::Definitions(asked) => definitions::run(&asked, &reading.project, out),
    }
}
