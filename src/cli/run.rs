//! From the words of a command line to its exit code.

use super::args::{Command, Line};
use super::exit::{Exit, Failure};
use super::output::Output;
use super::{chat, check, confirm_removal, explain, grant, invoke, list, resume, runs, serve, trace, valves};
use crate::config::Config;
use clap::Parser;
use std::ffi::OsString;

/// Does what a command line says, its program's name first.
pub async fn run(words: Vec<OsString>) -> Exit {
    let line = match Line::try_parse_from(words) {
        Ok(line) => line,
        Err(told) => {
            // Help and version come this way too; a closed pipe is nobody's fault.
            let _ = told.print();
            return if told.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let out = Output::new(&line.global);
    trace::start(&line.global, &out);
    match obey(line, &out).await {
        Ok(exit) => exit,
        Err(failure) => {
            out.fail(&failure);
            failure.exit
        }
    }
}

async fn obey(line: Line, out: &Output) -> Result<Exit, Failure> {
    let mut overrides = line.global.set;
    if let Command::Serve(serve) = &line.command {
        overrides.extend(serve.listen.iter().map(|listen| ("server.listen".to_owned(), listen.clone())));
    }
    let config = Config::load(&line.global.project, &overrides)?;
    match line.command {
        Command::Serve(asked) => serve::run(asked, config, out).await,
        Command::Chat(asked) => chat::run(asked, config, out).await,
        Command::Runs(asked) => runs::run(asked, &config, out).await,
        Command::Resume(asked) => resume::run(asked, config, out).await,
        Command::Invoke(asked) => invoke::run(asked, config, out).await,
        Command::List(asked) => list::run(&asked, &config, out).await,
        Command::Check(asked) => check::run(&asked, &config, out).await,
        Command::Valves(asked) => valves::run(asked, &config, out).await,
        Command::Grant(asked) => grant::run(&asked, &config, out).await,
        Command::Explain(asked) => explain::run(&asked, &config, out).await,
        Command::ConfirmRemoval(asked) => confirm_removal::run(&asked, &config, out).await,
    }
}
