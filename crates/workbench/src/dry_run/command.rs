//! The command: selects the kind of dry run.

use super::options::DryRunOptions;
use super::target::DryRunTarget;
use super::{action, body, hooks, pipes, scheduled, streams, turns};
use valvehouse_config::Config;
use valvehouse_core::filter::Hook;
use valvehouse_script::ScheduledCall;
use valvehouse_terminal::{CommandError, Console, Exit};

/// The name that selects the run of a pipe instead of a hook.
const PIPE: &str = "pipe";

/// Runs one hook of a script on a body, or a whole turn, and shows the changes.
///
/// # Errors
///
/// Returns the reason why the run is not possible.
pub async fn run(options: DryRunOptions, config: Config, out: &Console) -> Result<Exit, CommandError> {
    if let Some(what) = ScheduledCall::from_name(&options.hook) {
        let named = options.script.as_deref().ok_or_else(|| {
            CommandError::usage(format!("missing script: valvehouse run {} FILE", what.as_str()))
        })?;
        let target = DryRunTarget::open(named, &options, config).await?;
        let has = target.script().scheduled().iter().any(|(own, _)| *own == what);
        let done = match has {
            true => scheduled::run(&target, what, &options, out).await,
            false => Err(CommandError::usage(format!(
                "`{named}` has no scheduled {}; {}",
                what.as_str(),
                if what == ScheduledCall::Tick {
                    "write `const every = \"1h\";` and `fn tick()`"
                } else {
                    "write `const ttl = \"10m\";`"
                }
            ))),
        };
        target.close().await;
        return done;
    }
    if options.body.is_none() && options.text.is_none() {
        return Err(CommandError::usage(format!(
            "missing input for {}: pass --body FILE or --text TEXT",
            options.hook
        )));
    }
    if options.hook == action::ACTION {
        let named = options.script.as_deref().ok_or_else(|| {
            CommandError::usage("missing script: valvehouse run action word_count --text \"an answer\"")
        })?;
        let body = body::body(&options)?;
        let target = DryRunTarget::open(named, &options, config).await?;
        let done = action::run(&target, body, &options, out).await;
        target.close().await;
        return done;
    }
    if options.hook == PIPE {
        let named = options
            .script
            .as_deref()
            .ok_or_else(|| CommandError::usage("missing script: valvehouse run pipe FILE --text hello"))?;
        let body = body::body(&options)?;
        let target = DryRunTarget::open(named, &options, config).await?;
        let done = pipes::run(&target, body, &options, out).await;
        target.close().await;
        return done;
    }
    let Some(hook) = Hook::ALL.into_iter().find(|hook| hook.name() == options.hook) else {
        return match options.hook.as_str() {
            "turn" => turns::run(&options, config, out).await,
            _ => Err(CommandError::usage("to call a tool, run: valvehouse invoke TOOL KEY=VALUE")),
        };
    };
    let named = options.script.as_deref().ok_or_else(|| {
        CommandError::usage(format!(
            "missing script of {hook}: valvehouse run {hook} turn_limit --text hello"
        ))
    })?;
    let body = body::body(&options)?;
    let target = DryRunTarget::open(named, &options, config).await?;
    if !target.script().hooks().any(|own| own == hook) {
        let own: Vec<&str> = target.script().hooks().map(Hook::name).collect();
        let has = if own.is_empty() { "no hooks".to_owned() } else { own.join(", ") };
        target.close().await;
        return Err(CommandError::usage(format!("`{named}` has no {hook}; it has {has}")));
    }
    let done = match hook {
        Hook::Stream | Hook::StreamEnd => streams::run(&target, hook, body, &options, out).await,
        _ => hooks::run(&target, hook, body, &options, out).await,
    };
    target.close().await;
    done
}
