//! The command: selects the kind of dry run.

use super::body::{self, Body};
use super::options::DryRunOptions;
use super::target::DryRunTarget;
use super::{action, hooks, pipes, scheduled, streams, turns};
use valvehouse_config::Config;
use valvehouse_core::filter::Hook;
use valvehouse_script::ScheduledCall;
use valvehouse_terminal::{CommandError, Console, Exit};

/// Runs one hook of a script on a body, or a whole turn, and shows the changes.
///
/// # Errors
///
/// Returns the reason why the run is not possible.
pub async fn run(options: DryRunOptions, config: Config, out: &Console) -> Result<Exit, CommandError> {
    let name = options.hook.as_str();
    let is_scheduled = ScheduledCall::from_name(name).is_some();
    if !is_scheduled && options.body.is_none() && options.text.is_none() {
        return Err(CommandError::usage(format!(
            "missing input for {name}: pass --body FILE or --text TEXT"
        )));
    }
    match name {
        "turn" => return turns::run(&options, config, out).await,
        "tool" => {
            return Err(CommandError::usage("to call a tool, run: valvehouse invoke TOOL KEY=VALUE"));
        }
        _ => {}
    }
    let named = options.script.as_deref().ok_or_else(|| {
        CommandError::usage(match name {
            "action" => "missing script: valvehouse run action word_count --text \"an answer\"".to_owned(),
            "pipe" => "missing script: valvehouse run pipe FILE --text hello".to_owned(),
            _ if is_scheduled => format!("missing script: valvehouse run {name} FILE"),
            _ => format!("missing script of {name}: valvehouse run {name} turn_limit --text hello"),
        })
    })?;
    // The text of a scheduled call is not used.
    let body = if is_scheduled { Body::Text(String::new()) } else { body::body(&options)? };
    let target = DryRunTarget::open(named, &options, config).await?;
    let done = call(&target, named, body, &options, out).await;
    target.close().await;
    done
}

async fn call(
    target: &DryRunTarget,
    named: &str,
    body: Body,
    options: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let Some(hook) = Hook::from_name(&options.hook) else {
        return match ScheduledCall::from_name(&options.hook) {
            Some(what) => scheduled::run(target, named, what, options, out).await,
            None if options.hook == "action" => action::run(target, body, options, out).await,
            None => pipes::run(target, body, options, out).await,
        };
    };
    if !target.script().hooks().any(|own| own == hook) {
        let own: Vec<&str> = target.script().hooks().map(Hook::name).collect();
        let has = if own.is_empty() { "no hooks".to_owned() } else { own.join(", ") };
        return Err(CommandError::usage(format!("`{named}` has no {hook}; it has {has}")));
    }
    match hook {
        Hook::Stream | Hook::StreamEnd => streams::run(target, hook, body, options, out).await,
        _ => hooks::run(target, hook, body, options, out).await,
    }
}
