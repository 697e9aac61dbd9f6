//! `valvehouse resume`: resumes a run in this process.

use super::{args, reply};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use valvehouse_agent::{Decision, Runs};
use valvehouse_config::Config;
use valvehouse_core::context::{Context, Turn, TurnFacts};
use valvehouse_core::kernel::RunOptions;
use valvehouse_host::app::{self, App};
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, StdinLines, plugin_problems, questions, report};

pub(super) async fn run(args: args::Resume, config: Config, out: &Console) -> Result<Exit, CommandError> {
    let decision = decision(&args)?;
    let app = App::open(config).await?;
    #[cfg(feature = "mcp")]
    let _mounts = super::mcp_servers::mounted(&app).await;
    for problem in plugin_problems(&app.host.snapshot()) {
        out.note(&report::shown(&problem, out.talk()));
    }
    let done = resume(&app, &args, &decision, out).await;
    app.close().await;
    done.map(|()| Exit::Done)
}

async fn resume(
    app: &Arc<App>,
    args: &args::Resume,
    decision: &Decision,
    out: &Console,
) -> Result<(), CommandError> {
    let id = &args.run;
    if *decision == Decision::GoOn {
        note_pending_decision(app, id, out).await?;
    }
    // Without a terminal, further questions pause the run again.
    let is_terminal = io::stdin().is_terminal();
    let (events, questions) = questions::listening(is_terminal.then_some(&app.questions), out);
    let mut lines = if is_terminal { StdinLines::of_stdin() } else { StdinLines::none() };
    let turn = Turn::new(TurnFacts::default(), Context::default(), events);
    let options = RunOptions::new(turn).streamed(!args.no_stream);
    let answer = app.resume(id.clone(), decision.clone(), None, options);
    let answer = reply::print(answer, |_| {}, questions, app, &mut lines, out).await?;
    reply::note_how_to_resume(&answer, out);
    Ok(())
}

/// Shows the choices for a tool that may have run; a step cannot ask about it again.
async fn note_pending_decision(app: &App, id: &str, out: &Console) -> Result<(), CommandError> {
    let run = app.runs.run(id).await?;
    let saved = app.runs.last_saved(&run).await?;
    let setup = saved.as_ref().and_then(|saved| app::setup_of(&app.host.snapshot(), saved).ok());
    let pending = Runs::pending_action(&run, saved.as_ref(), setup.as_ref());
    if pending.text("type").as_deref() == Some("unfinished_tool") {
        out.note(&reply::ways_on(id, &pending));
    }
    Ok(())
}

fn decision(args: &args::Resume) -> Result<Decision, CommandError> {
    if let Some(reason) = &args.reject {
        let reason = Some(reason.trim()).filter(|reason| !reason.is_empty());
        return Ok(Decision::Reject { reason: reason.map(str::to_owned) });
    }
    if let Some(answer) = &args.answer {
        return Ok(Decision::Answer(answer.as_str().into()));
    }
    if args.retry {
        return Ok(Decision::Retry);
    }
    if !args.approve {
        return Ok(Decision::GoOn);
    }
    let arguments = args.arguments.as_deref().map(|text| match Json::parse(text.as_bytes()) {
        Ok(object @ Json::Object(_)) => Ok(object),
        Ok(other) => {
            Err(CommandError::usage(format!("--arguments must be a JSON object, not {}", other.kind())))
        }
        Err(error) => Err(CommandError::usage(format!("--arguments is not valid JSON: {error}"))),
    });
    Ok(Decision::Approve { arguments: arguments.transpose()? })
}
